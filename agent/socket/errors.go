package socket

import "errors"

var (
	// ErrAlreadyRunning is returned by Listen when another process owns the socket. Nothing was changed.
	ErrAlreadyRunning = errors.New("socket: already running: another process answers on this path or holds its lock; stop it, or use another path")

	// ErrNotASocket is returned by Listen when the path exists and is no socket. Nothing was changed.
	ErrNotASocket = errors.New("socket: the path exists and is not a socket; remove it, or use another path")

	// ErrPathTooLong is returned by Listen for a path that the kernel cannot bind.
	ErrPathTooLong = errors.New("socket: the path has more than 107 bytes; use a shorter one")
)
