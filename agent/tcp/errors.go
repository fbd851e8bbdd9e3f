package tcp

import "errors"

// ErrInUse says that somebody else listens on the address. Nothing was opened.
var ErrInUse = errors.New("tcp: the address is in use")
