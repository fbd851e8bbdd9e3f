package bench

import "errors"

// ErrCount is returned when a row did not see every message exactly once, or could not confirm one. There is no figure then.
var ErrCount = errors.New("bench: not every message was delivered and finished once")
