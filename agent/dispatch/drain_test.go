package dispatch

import (
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/broker"
)

// After a drain has begun nothing more is taken, whatever waits and is known of, and a pull that would wait for long is
// answered within a second.
func TestADrainTakesNothingMore(t *testing.T) {
	w := newWorld(t, 90)
	q := def("q", 1, 0, true, nil)
	a := w.agent(4, q)
	for range 100 {
		w.publish("q", 0, "k", 0)
	}
	a.serve(1, time.Millisecond)
	w.run(time.Second, func() bool { return len(w.taken) == 10 })
	a.core.drain(w.now)
	a.step()
	w.run(2*time.Millisecond, func() bool { return false }) // what was on its way is handed over
	had := len(w.taken)
	w.forbidden = func(*broker.Lane) bool { return true }
	w.publish("q", 0, "k", 0)
	w.run(3*time.Second, func() bool { return false })
	if n := len(w.taken) - had; n > 0 || had > 11 {
		t.Errorf("%d were handed over after the drain had begun, and %d later", had-10, n)
	}
}

// A pull that waits when a drain begins is answered with nothing, a second later at the latest.
func TestADrainEndsPullsThatWait(t *testing.T) {
	w := newWorld(t, 91)
	a := w.agent(4, def("q", 1, 0, true, nil))
	answered := 0
	a.pull(1, time.Minute, func([]*broker.Message) { answered++ })
	w.run(time.Second, func() bool { return false })
	began := w.now
	a.core.drain(w.now)
	a.step()
	a.pull(1, time.Minute, func([]*broker.Message) { answered++ })
	w.run(2*time.Second, func() bool { return answered == 2 })
	if after := w.now.Sub(began); answered != 2 || after > drainAnswer+10*time.Millisecond {
		t.Errorf("%d of 2 pulls were answered within %v", answered, after)
	}
}
