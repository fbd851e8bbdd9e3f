package dispatch

import (
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/broker"
	"github.com/fairlead/fairlead/config"
)

// A tenant whose message cannot be handed over because its permit is not to be relied on any more has not been served, and
// does not pay: the turn that it was given is its next one. At a tenth of the weight each turn that was not taken back would
// cost it ten of the other's.
func TestATurnUnderAPermitOfThePastIsNotPaidFor(t *testing.T) {
	w := newWorld(t, 82)
	w.faults.latency = 100 * time.Millisecond // permits take twice that, and so does the lane after them
	q := def("q", 1, 0, true, map[string]config.Weight{"light": 100})
	q.ConcurrencyPerKey = 1
	q.AckWait = 400 * time.Millisecond // of which three quarters are trusted
	a := w.agent(10, q)
	for range 50 {
		w.publish("q", 0, "light", 0)
		w.publish("q", 0, "steady", 0)
	}
	p := a.pull(2, time.Minute, func([]*broker.Message) {}) // a turn for each
	w.run(10*time.Second, func() bool { return len(w.taken) > 0 })
	if len(w.taken) > 0 {
		t.Fatal("something was handed over: nothing was tried")
	}
	if w.pulls < 4 {
		t.Fatalf("only %d questions were asked: nothing was tried", w.pulls)
	}
	a.core.cancel(p, w.now)
	a.step()
	w.faults.latency = 50 * time.Microsecond
	w.run(5*time.Second, func() bool { return false })
	a.serve(1, time.Millisecond)
	w.run(10*time.Second, func() bool { return len(w.taken) >= 24 })
	got := shares(w.taken)
	if got["light"] < 2 || got["light"] > 4 {
		t.Errorf("of 24 deliveries %d were of the light tenant, which has a turn in eleven: %v", got["light"], w.order())
	}
	if first := shares(w.taken[:2]); first["light"] != 1 {
		t.Errorf("the first two are not one of each: %v", w.order()[:2])
	}
}
