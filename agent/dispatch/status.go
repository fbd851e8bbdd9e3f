package dispatch

import (
	"time"
)

// Status is a capsule as it is now.
type Status struct {
	Concurrency int
	Pulls       int // open
	Credit      int
	InFlight    int
	Delivered   uint64
	LanePulls   uint64 // questions to lanes
	EmptyPulls  uint64 // that brought nothing
	Demand      bool
	// SuspendedUntil is until when the app comes behind others, because it died with what it got again and again; zero if it
	// did not.
	SuspendedUntil time.Time
	Queues         []QueueStatus // in list order
}

// QueueStatus is one queue of a capsule.
type QueueStatus struct {
	Name   string
	Lanes  int // believed to have work
	Paused bool
	// PausedKeys is how many tenants are paused, where tenants are told apart.
	PausedKeys int
}

// Status reports the capsule as it is now. It blocks until the capsule's goroutine has answered; a capsule that has
// stopped is all zero.
func (c *Capsule) Status() Status {
	answer := make(chan Status, 1)
	told := c.box.put(func(k *core, now time.Time) {
		s := Status{
			Concurrency: k.concurrency, Pulls: len(k.pulls), Credit: k.credit(), InFlight: k.inFlight, Delivered: k.delivered,
			LanePulls: k.lanePulls, EmptyPulls: k.emptyPulls, Demand: c.demand,
		}
		if c.failing.suspended(now) {
			s.SuspendedUntil = c.failing.until
		}
		for _, q := range k.queues {
			n := 0
			for level := range q.layout.Levels {
				n += q.sched.Active(level)
			}
			status := QueueStatus{Name: q.layout.Queue, Lanes: n, Paused: q.controls.paused}
			if q.layout.Keyed {
				status.PausedKeys = len(q.controls.keys)
			}
			s.Queues = append(s.Queues, status)
		}
		answer <- s
	})
	if !told {
		return Status{}
	}
	select {
	case s := <-answer:
		return s
	case <-c.done:
		return Status{}
	}
}
