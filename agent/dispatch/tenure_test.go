package dispatch

import (
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/broker"
)

// What is on its way to the capsule, or back from it, is finished before the lease goes: a holder that let go of it earlier
// could not put on record that no app ever had the message, and the next holder would count it as an attempt.
func TestLeaseIsWantedUntilAllIsBack(t *testing.T) {
	for name, begin := range map[string]func(a *simAgent){
		"drain":    func(a *simAgent) { a.core.drain(a.w.now) },
		"app gone": func(a *simAgent) { a.core.cancel(a.core.pulls[0], a.w.now) },
		"hand-over": func(a *simAgent) {
			a.core.setHandOver("q", true, a.w.now)
			a.core.cancel(a.core.pulls[0], a.w.now)
		},
	} {
		w := newWorld(t, 60)
		q := single(def("q", 1, 0, false, nil))
		a := w.agent(4, q)
		a.hold(q, 3)
		got := 0
		a.pull(1, time.Minute, func(m []*broker.Message) { got += len(m); a.release(m); a.step() })
		w.run(time.Second, func() bool { return w.empty > 0 }) // it has looked
		m := w.publish("q", 0, "", 0)
		asked := w.pulls
		w.run(time.Second, func() bool { return w.pulls > asked && len(w.lane("q", broker.Address{Class: "p0"}).messages) == 0 })
		begin(a)
		a.step()
		wants := func() bool {
			return a.core.wantsLease(a.core.queueNamed("q"), len(a.core.pulls) > 0 && name != "app gone")
		}
		for i := 0; got == 0 && len(w.lane("q", broker.Address{Class: "p0"}).messages) == 0; i++ {
			if !wants() || a.idleTold["q"] {
				t.Fatalf("%s: the lease is let go (idle told: %t) while message %d is on its way", name, a.idleTold["q"], m.Seq)
			}
			steps := 0
			w.run(time.Second, func() bool { steps++; return steps > 1 })
		}
		w.run(5*time.Second, func() bool { return false })
		if name != "hand-over" && wants() || name == "hand-over" && !a.idleTold["q"] {
			t.Errorf("%s: the lease is kept for ever", name)
		}
		if len(a.core.back)+len(a.core.out) > 0 {
			t.Errorf("%s: %v are on their way back and %v out in the end", name, a.core.back, a.core.out)
		}
	}
}

// An app that dies again and again leaves the lease to others, if there are any for that queue: somebody is to hold it.
func TestSuspendedAppKeepsTheLeaseThatNobodyElseWants(t *testing.T) {
	w := newWorld(t, 61)
	ordered, plain := single(def("ordered", 1, 0, false, nil)), def("plain", 1, 0, false, nil)
	a := w.agent(4, ordered, plain)
	told := map[string]bool{}
	demand := false
	c := &Capsule{core: a.core, wants: map[string]bool{}, o: Options{
		Want: func(queue string, want bool) { told[queue] = want }, Demand: func(on bool) { demand = on },
	}}
	a.pull(1, time.Hour, func([]*broker.Message) {})
	for i, step := range []struct {
		rivals       map[string]Rivals
		dies         bool
		wants, wider bool
	}{
		{wants: true, wider: true},
		{rivals: map[string]Rivals{"plain": {1, 1}}, wants: true, wider: true},
		{rivals: map[string]Rivals{"plain": {1, 1}}, dies: true, wants: true, wider: false},
		{rivals: map[string]Rivals{"plain": {1, 1}, "ordered": {2, 1}}, dies: true, wants: false, wider: false},
		{rivals: map[string]Rivals{"plain": {1, 0}, "ordered": {2, 0}}, dies: true, wants: true, wider: true}, // all are as badly off
		{rivals: nil, dies: true, wants: true, wider: true},
	} {
		a.core.setRivals(step.rivals)
		for range 2 {
			if w.now = w.now.Add(failingSpan); step.dies {
				c.failing.note(broker.Lost, w.now)
			}
		}
		c.tellDemand(w.now)
		if told["ordered"] != step.wants || demand != step.wider {
			t.Errorf("step %d: wants the lease: %t, counts for others: %t; want %t and %t", i, told["ordered"], demand, step.wants, step.wider)
		}
		if told["plain"] {
			t.Error("the lease of a queue without one is wanted")
		}
	}
}

// A message that could not be given back while NATS was away was put off until JetStream gives it out by itself. A server
// that was started anew does that at once, and the lane is asked as soon as the connection is back.
func TestLaneIsAskedAfterAnOutage(t *testing.T) {
	w := newWorld(t, 62)
	q := single(def("q", 1, 0, false, nil))
	a := w.agent(4, q)
	a.hold(q, 3)
	m := w.publish("q", 0, "", 0)
	a.pull(1, time.Minute, func([]*broker.Message) {})
	w.run(time.Second, func() bool { return len(w.taken) == 1 })
	// The app is gone while NATS is away: the return fails.
	a.core.connection(false, w.now)
	m.Lane.InHand.Add(-1)
	w.held["q"]--
	a.core.returned("q", m.Lane.Address, w.now.Add(30*time.Second), w.now)
	a.core.released(m, w.now)
	w.putBack(m)
	a.pull(1, time.Minute, func([]*broker.Message) {})
	w.run(time.Second, func() bool { return len(w.taken) > 1 })
	if len(w.taken) > 1 {
		t.Fatal("taken while NATS was away")
	}
	a.core.connection(true, w.now)
	a.step()
	w.run(100*time.Millisecond, func() bool { return len(w.taken) > 1 })
	if len(w.taken) != 2 {
		t.Error("the message is not taken after the outage")
	}
	// A head that backs off is not overtaken for that.
	w.publish("q", 0, "", 0)
	a.nack(m, 10*time.Second)
	nacked := w.now
	a.pull(1, time.Minute, func([]*broker.Message) {})
	a.core.connection(false, w.now)
	a.core.connection(true, w.now)
	w.run(time.Minute, func() bool { return len(w.taken) == 3 })
	if len(w.taken) != 3 || w.taken[2].m != m {
		t.Fatalf("%d taken; the last should be the one that was backing off", len(w.taken))
	}
	if waited := w.taken[2].at.Sub(nacked); waited < 10*time.Second {
		t.Errorf("taken %v after it was put off by 10 s", waited)
	}
}

// A pull that does not wait, and comes after nobody asked for long, waits for the lease that is claimed because of it: an app
// that looks in now and then would find it free each time. It does so for a moment only, and only the first one.
func TestFirstPullThatDoesNotWaitAwaitsTheLease(t *testing.T) {
	for name, c := range map[string]struct {
		first, paused bool
		claimed       time.Duration // after the pull; 0 is never
		got           int
		most          time.Duration
	}{
		"claimed":                  {first: true, claimed: 20 * time.Millisecond, got: 1, most: 200 * time.Millisecond},
		"somebody else's":          {first: true, most: claimPatience + 10*time.Millisecond},
		"not the first":            {claimed: 20 * time.Millisecond, most: time.Millisecond},
		"the queue is paused":      {first: true, paused: true, most: time.Millisecond},
		"the claim takes too long": {first: true, claimed: 2 * claimPatience, most: claimPatience + 10*time.Millisecond},
	} {
		w := newWorld(t, 62)
		q := single(def("q", 1, 0, false, nil))
		a := w.agent(4, q)
		w.publish("q", 0, "", 0)
		if c.paused {
			a.core.pause("q", true, w.now)
		}
		w.run(time.Second, func() bool { return false })
		began, ended, got := w.now, time.Time{}, 0
		p := &pull{max: 1, deadline: w.now, oneRound: true, settled: true, first: c.first}
		if c.claimed > 0 {
			w.after(c.claimed, func() { a.hold(q, 9) })
		}
		a.ask(p, func(m []*broker.Message) { got, ended = len(m), w.now })
		w.run(5*time.Second, func() bool { return !ended.IsZero() })
		if took := ended.Sub(began); ended.IsZero() || got != c.got || took > c.most {
			t.Errorf("%s: %d messages after %v, want %d within %v", name, got, took, c.got, c.most)
		}
	}
}
