package bench

import "errors"

// ErrCount is returned when a row did not see every message exactly once, or could not confirm one. There is no figure then.
var ErrCount = errors.New("bench: not every message was delivered and finished once")

// ErrReport is returned for a file that is no report of this command, or one of another format. Nothing was measured.
var ErrReport = errors.New("bench: that is no report of bench --json")
