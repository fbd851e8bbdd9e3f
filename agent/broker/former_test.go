package broker

import (
	"context"
	"errors"
	"testing"
	"time"
)

// Whoever changes a queue's layout waits until nothing is in flight in the lanes that it had before, and does not wait for
// those that it has now.
func TestFormerLanes(t *testing.T) {
	r := newRig(t, nil)
	if err := r.AwaitFormerLanes(within(t), r.q); err != nil {
		t.Errorf("a queue without lanes: %v", err)
	}
	a := r.asker()
	r.publish(0, "a", "one")
	m := a.take(a.at(0, "a"), 1)[0]
	if err := r.AwaitFormerLanes(within(t), r.q); err != nil {
		t.Errorf("in flight in the present layout: %v", err)
	}
	next := r.q
	next.Levels = 5
	short, cancel := context.WithTimeout(within(t), 200*time.Millisecond)
	defer cancel()
	if err := r.AwaitFormerLanes(short, next); !errors.Is(err, ErrFormerLanes) {
		t.Errorf("in flight in a former layout: %v", err)
	}
	waited := make(chan error, 1)
	go func() { waited <- r.AwaitFormerLanes(within(t), next) }()
	select {
	case err := <-waited:
		t.Fatalf("did not wait for what is in flight: %v", err)
	case <-time.After(3 * formerPause):
	}
	r.finished(m)
	if err := wait(t, waited, "the end of what is in flight"); err != nil {
		t.Error(err)
	}
}

// Somebody who has not heard of the new layout yet has nothing in flight between two messages.
func TestFormerLanesThatAreStillWorkedOn(t *testing.T) {
	r := newRig(t, nil)
	a := r.asker()
	r.backlog(20_000, "p0.a")
	lane := a.at(0, "a")
	r.finished(a.take(lane, 1)[0])
	next := r.q
	next.Levels = 5
	// A machine that stands still stops the work too. Then the wait may end, and the next one is tried.
	for end := time.Now().Add(patience); ; {
		waited := make(chan error, 1)
		go func() { waited <- r.AwaitFormerLanes(within(t), next) }()
		pause, ended := a.workedOn(lane, 10*formerPause, waited)
		if !ended {
			if err := wait(t, waited, "the end of the work on the lane"); err != nil {
				t.Error(err)
			}
			return
		}
		if pause < formerPause {
			t.Fatalf("the wait has ended while the lane was worked on, with pauses of at most %v", pause)
		}
		if time.Now().After(end) {
			t.Fatal("this machine is too slow to work on a lane without pauses")
		}
	}
}

// workedOn takes and finishes what a lane has, one by one, for some time or until somebody has waited long enough. It returns
// for how long, at most, the lane can have given out nothing.
func (a *asker) workedOn(lane *Lane, length time.Duration, waited <-chan error) (pause time.Duration, ended bool) {
	a.r.t.Helper()
	begin := time.Now()
	for asked := begin; time.Since(begin) < length; {
		before := asked // the last one was given out after this, and the next one before it is here
		asked = time.Now()
		m := a.take(lane, 1)[0]
		pause = max(pause, time.Since(before))
		a.r.finished(m)
		select {
		case err := <-waited:
			if err != nil {
				a.r.t.Error(err)
			}
			return max(pause, time.Since(asked)), true
		default:
		}
	}
	return pause, false
}
