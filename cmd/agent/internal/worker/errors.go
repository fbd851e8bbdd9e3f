package worker

import "errors"

var (
	// ErrCommand is returned by New when the command cannot be found or may not be executed.
	ErrCommand = errors.New("worker: the command cannot be run")

	// errVariable is the reason of a nack for a message whose metadata no environment can carry.
	errVariable = errors.New("its metadata has a NUL byte, which no environment variable can hold")

	errRevoked = errors.New("the delivery was revoked")
)
