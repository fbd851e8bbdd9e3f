package dispatch

import (
	"fmt"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/broker"
)

// gone takes everything that waits out of a queue, as an agent that this world does not show would.
func (w *world) gone(queue string) { clear(w.stored[queue]) }

// Tenants come and go by the thousand, and others do their work: neither an agent without an app nor one whose app is busy
// keeps them in mind.
func TestTenantsThatComeAndGoElsewhereAreForgotten(t *testing.T) {
	for _, busy := range []bool{false, true} {
		t.Run(fmt.Sprintf("busy=%t", busy), func(t *testing.T) {
			w := newWorld(t, 31)
			a := w.agent(1, def("q", 3, 0, true, nil))
			if busy { // one message in hand, and a pull that waits for the slot
				w.publish("q", 0, "mine", 0)
				a.pull(1, time.Hour, func([]*broker.Message) {})
				w.run(time.Second, func() bool { return len(w.taken) == 1 })
				a.pull(1, time.Hour, func([]*broker.Message) {})
			}
			for i := range 20_000 {
				w.publish("q", i%3, fmt.Sprint("tenant", i), 0)
				w.run(time.Millisecond, func() bool { return false })
				w.gone("q")
			}
			if n := len(a.core.queueNamed("q").lanes); n > 3*maxHearsay {
				t.Errorf("%d lanes are remembered", n)
			}
			if n := w.pulls; n > 1 {
				t.Errorf("%d lanes were asked without credit", n)
			}
		})
	}
}

// An app that comes after a long time finds what is there, and does not ask thousands of lanes that others have emptied.
func TestBeliefsOfLongAgoAreCheckedFirst(t *testing.T) {
	w := newWorld(t, 32)
	a := w.agent(8, def("q", 3, 0, true, nil))
	for i := range maxHearsay - 1 {
		w.publish("q", 0, fmt.Sprint("tenant", i), 0)
	}
	w.run(time.Hour, func() bool { return false })
	w.gone("q")
	w.publish("q", 2, "real", 0)
	w.run(time.Second, func() bool { return false })
	began := w.now
	a.pull(8, time.Minute, func([]*broker.Message) {})
	w.run(time.Minute, func() bool { return len(w.taken) == 1 })
	if len(w.taken) != 1 || w.taken[0].m.Key != "real" {
		t.Fatal("the message was not found")
	}
	if took := w.taken[0].at.Sub(began); took > 20*time.Millisecond || w.pulls > 100 {
		t.Errorf("it took %v and %d questions", took, w.pulls)
	}
}

// What became known after a sweep began is believed, whatever the sweep lists.
func TestASweepDoesNotDenyWhatItCannotKnow(t *testing.T) {
	w := newWorld(t, 33)
	a := w.agent(1, def("q", 1, 0, true, nil))
	q := a.core.queueNamed("q")
	a.core.startSweep(q, w.now)
	w.publish("q", 0, "new", 0)
	w.run(time.Second, func() bool { return false })
	a.core.startSweep(q, w.now)
	address := broker.Address{Class: "p0", Key: "new"}
	a.core.wake(q, address, wakeNote{n: 1}, w.now.Add(time.Nanosecond))
	a.core.swept(q, broker.Sweep{}, nil, w.now.Add(time.Millisecond))
	if l := q.lanes[address]; l == nil || !l.believed {
		t.Error("a wake-up that came during the sweep was forgotten")
	}
	a.core.startSweep(q, w.now.Add(2*time.Millisecond))
	a.core.swept(q, broker.Sweep{}, nil, w.now.Add(3*time.Millisecond))
	if q.lanes[address] != nil || q.sched.HasWork() {
		t.Error("a lane that the next sweep did not list is still believed to have work")
	}
}
