package dispatch

import (
	"time"

	"github.com/fairlead/fairlead/agent/broker"
)

const (
	// failingSpan is how far apart two losses are, at least, for the app to count as failing.
	failingSpan = 2 * time.Second
	// oneLoss is what counts as one loss: an app that dies loses all it has at once.
	oneLoss = 100 * time.Millisecond
	// suspension is for how long a failing app comes behind others. It doubles each time, up to maxSuspensions times.
	suspension     = 30 * time.Second
	maxSuspensions = 5
)

// failing watches an app that dies with what it gets, again and again, beside an agent that is well. While it finishes
// nothing in between, it must not hold a lease, or hold others back: it counts as absent for a time, unless nobody else is
// there. A message that kills every app is not the app's fault, but others do no worse with it.
type failing struct {
	losses int       // since the app last settled something
	first  time.Time // of them
	last   time.Time
	until  time.Time // suspended; zero is not
	times  int       // suspensions since the app last settled something
}

// note takes in how a message left the app's hands.
func (f *failing) note(how broker.Ending, now time.Time) {
	switch how {
	case broker.Settled:
		*f = failing{}
	case broker.Lost:
		if f.suspended(now) || f.losses > 0 && now.Sub(f.last) < oneLoss {
			return
		}
		if f.losses == 0 {
			f.first = now
		}
		f.losses++
		f.last = now
		if f.losses > 1 && now.Sub(f.first) >= failingSpan {
			f.until = now.Add(suspension << f.times)
			f.times = min(f.times+1, maxSuspensions)
			f.losses = 0
		}
	}
}

func (f *failing) suspended(now time.Time) bool { return now.Before(f.until) }

// next is when the suspension ends; the zero time without one.
func (f *failing) next(now time.Time) time.Time {
	if !f.suspended(now) {
		return time.Time{}
	}
	return f.until.Add(time.Millisecond)
}
