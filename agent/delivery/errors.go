package delivery

import "errors"

var (
	// ErrSessionEnded is returned by Hand when the session's connection has ended. The messages are being given back, not
	// counted as an attempt.
	ErrSessionEnded = errors.New("delivery: the session has ended")

	// ErrClosed is returned by Hand after Close. The messages were not given back: JetStream redelivers them when their
	// AckWait is over.
	ErrClosed = errors.New("delivery: the book is closed")
)
