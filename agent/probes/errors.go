package probes

import "errors"

// ErrInUse says that somebody else listens on the address. Nothing was opened.
var ErrInUse = errors.New("probes: the address is in use")
