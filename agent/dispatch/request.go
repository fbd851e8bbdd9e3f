package dispatch

import "time"

// Request is one pull of an app.
type Request struct {
	// Max is the credit: the most messages the answer may hold. At least 1.
	Max int
	// Wait is how long to wait for the first message. 0 is one full round.
	Wait time.Duration
	// After, unless nil, is closed when the settlements that came with the pull are done. Only a take that lacks a slot
	// waits for it.
	After <-chan struct{}
}
