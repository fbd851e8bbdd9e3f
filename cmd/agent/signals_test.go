package main

import (
	"testing"
	"time"
)

// What timeout(1) says twice is one request; a second one is what comes later.
func TestEchoesOfSignals(t *testing.T) {
	began := time.Now()
	var e echoes
	for i, step := range []struct {
		at   time.Duration
		echo bool
	}{{0, false}, {time.Millisecond, true}, {echo - 1, true}, {echo, false}, {echo + 1, true}, {10 * time.Second, false}} {
		if got := e.is(began.Add(step.at)); got != step.echo {
			t.Errorf("step %d after %v: an echo: %t", i, step.at, got)
		}
	}
}
