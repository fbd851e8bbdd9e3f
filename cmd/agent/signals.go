package main

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// subscribe returns the signals that ask to end, and SIGHUP.
func subscribe() (<-chan os.Signal, func()) {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	return signals, func() { signal.Stop(signals) }
}

// echo is how soon after a request to end another one is taken for the same. timeout(1), and whoever else signals a process and
// then its group, says everything twice.
const echo = 50 * time.Millisecond

// echoes tells requests to end from their echoes.
type echoes struct {
	last time.Time // the last request
}

// is tells whether a request is the echo of the last one.
func (e *echoes) is(now time.Time) bool {
	again := !e.last.IsZero() && now.Sub(e.last) < echo
	if !again {
		e.last = now
	}
	return again
}
