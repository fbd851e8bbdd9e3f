package dispatch

import (
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/broker"
	"github.com/fairlead/fairlead/config"
)

// An app that goes away at whatever moment of its pull leaves nothing behind: what was on its way is the next one's, in its
// order, and neither the cap of its key nor the turn of its lane is used up by it.
func TestAPullThatEndsLeavesNothingBehind(t *testing.T) {
	kinds := map[string]func(*config.Queue){
		"plain":         func(*config.Queue) {},
		"cap of one":    func(q *config.Queue) { q.ConcurrencyPerKey = 1 },
		"cap of two":    func(q *config.Queue) { q.ConcurrencyPerKey = 2 },
		"ordered keys":  func(q *config.Queue) { q.OrderedKeys = true },
		"single active": func(q *config.Queue) { q.SingleActiveConsumer = true },
	}
	for name, kind := range kinds {
		for at := time.Duration(0); at < 1500*time.Microsecond; at += 20 * time.Microsecond {
			w := newWorld(t, 80)
			w.merged = name == "ordered keys"
			q := def("q", 1, 0, true, nil)
			kind(&q)
			a := w.agent(10, q)
			if q.SingleActiveConsumer {
				a.hold(q, 7)
			}
			const n = 4
			for range n {
				w.publish("q", 0, "k", 0)
			}
			p := a.pull(2, time.Second, func(got []*broker.Message) { // the answer may be faster than the end
				for _, m := range got {
					m.Lane.InHand.Add(-1)
					w.held[m.Queue]--
					w.finish(m)
					a.core.leaves(m)
					a.core.freed(m, w.now)
					a.giveBack(m)
					a.core.back[m.Queue]++
				}
				w.taken = nil
			})
			w.run(at, func() bool { return false })
			a.core.cancel(p, w.now)
			a.step()
			w.run(10*time.Millisecond, func() bool { return false })
			a.serve(1, time.Millisecond)
			w.run(10*time.Second, func() bool { return len(w.taken) == n })
			if len(w.taken) != n {
				t.Fatalf("%s, ended after %v: %d of %d were handed over", name, at, len(w.taken), n)
			}
			for i, d := range w.taken {
				if d.m.Seq != w.taken[0].m.Seq+uint64(i) && name != "cap of one" && name != "cap of two" { // permits have sequences too
					t.Fatalf("%s, ended after %v: %v", name, at, w.order())
				}
			}
			if len(a.core.grantees) > 1 || len(a.core.back) > 0 {
				t.Fatalf("%s, ended after %v: %d permits in use, %v on their way back", name, at, len(a.core.grantees), a.core.back)
			}
		}
	}
}

// A message that arrives when its permit cannot be relied on any more is not handed over under it, and not lost.
func TestNothingIsHandedOverUnderAPermitOfThePast(t *testing.T) {
	w := newWorld(t, 81)
	w.faults.latency = 100 * time.Millisecond // permits take twice that, and so does the lane after them
	q := capDef(1, 1)
	q.AckWait = 400 * time.Millisecond // of which three quarters are trusted
	a := w.agent(10, q)
	w.publish("q", 0, "k", 0)
	a.pull(1, time.Minute, func([]*broker.Message) {})
	w.run(10*time.Second, func() bool { return len(w.taken) > 0 })
	if len(w.taken) > 0 {
		t.Fatal("it was handed over under a permit that others may have by then")
	}
	w.faults.latency = time.Millisecond
	w.run(10*time.Second, func() bool { return len(w.taken) > 0 })
	if len(w.taken) != 1 {
		t.Error("it is not handed over when permits can be relied on again")
	}
}
