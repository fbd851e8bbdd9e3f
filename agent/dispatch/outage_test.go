package dispatch

import (
	"errors"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/broker"
)

// A message that arrives while NATS is away is not kept for later: when NATS is back, somebody else may have done it.
func TestNothingIsKeptThroughAnOutage(t *testing.T) {
	w := newWorld(t, 40)
	w.faults.hang = 1
	a := w.agent(4, def("q", 1, 0, true, nil))
	w.publish("q", 0, "k", 0)
	a.pull(1, time.Minute, func([]*broker.Message) {})
	w.run(time.Second, func() bool { return false })
	if w.backlog() != 0 || len(w.taken) != 0 {
		t.Fatal("the message is not on its way")
	}
	a.core.connection(false, w.now)
	w.run(5*time.Second, func() bool { return false })
	if w.backlog() != 1 {
		t.Error("the message is kept in hand while NATS is away")
	}
	w.faults.hang = 0
	a.core.connection(true, w.now)
	a.step()
	w.run(10*time.Second, func() bool { return len(w.taken) == 1 })
	if len(w.taken) != 1 {
		t.Error("the message did not come after the outage")
	}
}

// The same for one that others come before, again and again: JetStream hears of nothing while it is in hand.
func TestNothingIsKeptWhileOthersComeFirst(t *testing.T) {
	w := newWorld(t, 41)
	a := w.agent(64, def("q", 2, 0, true, nil))
	w.faults.hang = 1
	low := w.publish("q", 1, "low", 0)
	a.pull(1, 3*time.Second, func([]*broker.Message) {})
	w.run(100*time.Millisecond, func() bool { return false })
	w.faults.hang = 0
	for range 100_000 {
		w.publish("q", 0, "high", 0)
	}
	w.faults.latency = 2 * time.Millisecond
	for i := range 8 { // out of step, so that there is credit always
		w.after(time.Duration(i)*7*time.Microsecond, func() { a.worker(2, time.Second, time.Duration(i)*time.Microsecond) })
	}
	w.run(2*time.Second, func() bool { return false })
	if low.Lane.InHand.Load() == 0 {
		t.Fatal("the low message has not arrived: this test shows nothing")
	}
	w.run(1200*time.Millisecond, func() bool { return low.Lane.InHand.Load() == 0 })
	if low.Lane.InHand.Load() != 0 {
		t.Errorf("the low message is in hand still")
	}
}

// What fails is tried again, more and more rarely: a stream that was deleted costs next to nothing.
func TestFailuresAreBackedOff(t *testing.T) {
	w := newWorld(t, 42)
	for range 10 {
		w.publish("q", 0, "k", 0)
	}
	a := w.agent(4, def("q", 1, 0, true, nil))
	w.faults.err = 1
	a.pull(4, time.Hour, func([]*broker.Message) {})
	w.run(5*time.Minute, func() bool { return false })
	if w.pulls > 5*60*2+20 {
		t.Errorf("a lane that fails was asked %d times in 300 s", w.pulls)
	}
	w.sweeps = 0
	w.faults.sweep = errors.New("no stream")
	w.run(5*time.Minute, func() bool { return false })
	if w.sweeps > 300/4+10 {
		t.Errorf("a queue that cannot be looked over was tried %d times in 300 s", w.sweeps)
	}
	w.faults.err, w.faults.sweep = 0, nil
	w.run(6*time.Second, func() bool { return len(w.taken) == 4 })
	if len(w.taken) != 4 {
		t.Errorf("%d came when all was well again", len(w.taken))
	}
}

// A flood of messages on odd subjects brings sweeps forward, and does not make them cost more than their share.
func TestOddMessagesDoNotMakeSweepsCostMore(t *testing.T) {
	w := newWorld(t, 43)
	w.faults.latency = 0
	a := w.agent(4, def("q", 1, 0, true, nil))
	a.pull(4, time.Hour, func([]*broker.Message) {})
	w.run(time.Second, func() bool { return false })
	w.sweeps = 0
	for range 1000 { // every 10 ms
		w.run(10*time.Millisecond, func() bool { return false })
		a.core.sweepSoon("q", w.now)
		a.step()
	}
	if w.sweeps < 200 {
		t.Errorf("only %d sweeps in 10 s", w.sweeps)
	}
	w.faults.took = 2 * time.Millisecond
	w.sweeps = 0
	for range 1000 {
		w.run(10*time.Millisecond, func() bool { return false })
		a.core.sweepSoon("q", w.now)
		a.step()
	}
	if w.sweeps > 60 {
		t.Errorf("%d sweeps of 2 ms in 10 s", w.sweeps)
	}
}

func TestTroubleIsToldRarely(t *testing.T) {
	now := time.Unix(1, 0)
	key := troubleKey{"a queue cannot be looked over", "q"}
	one, other := errors.New("one"), errors.New("other")
	said := troubles{}
	for i, step := range []struct {
		after time.Duration
		err   error
		want  bool
	}{
		{0, nil, false}, {0, one, true}, {time.Second, one, false}, {sayNext, one, false}, {0, other, true}, {time.Second, one, false},
		{sayNext, one, true}, {sayAgain, one, true}, {time.Second, nil, false}, {time.Second, one, false}, {sayNext, one, true},
	} {
		now = now.Add(step.after)
		if got := said.due(key, step.err, now); got != step.want {
			t.Errorf("step %d: told %t", i, got)
		}
	}
	if !said.due(troubleKey{key.what, "another"}, one, now) {
		t.Error("another queue's trouble was not told")
	}
}
