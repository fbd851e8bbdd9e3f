package main

import "errors"

var (
	errFormat = errors.New("say table or json")

	// errStopped ends an agent that a second signal stopped before it was drained: what was in flight is redelivered.
	errStopped = errors.New("stopped at once by a second signal, before everything was drained")

	// errNotDrained is returned by drain when messages are still in apps' hands. The agent goes on draining.
	errNotDrained = errors.New("still draining: apps hold messages that are not settled")
)
