package dispatch

import (
	"fmt"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/broker"
	"github.com/fairlead/fairlead/config"
)

// capDef is a queue with a cap per key.
func capDef(levels, limit int) config.Queue {
	q := def("q", levels, 0, true, nil)
	q.ConcurrencyPerKey = limit
	return q
}

// crew are apps that work on what they get for a random time and count what is in flight of each key.
type crew struct {
	w        *world
	inFlight map[string]int
	most     map[string]int
	done     int
}

func newCrew(w *world) *crew {
	return &crew{w: w, inFlight: map[string]int{}, most: map[string]int{}}
}

func (c *crew) work(a *simAgent, credit int, d time.Duration) {
	w := c.w
	a.pull(credit, time.Second, func(got []*broker.Message) {
		for _, m := range got {
			c.inFlight[m.Key]++
			c.most[m.Key] = max(c.most[m.Key], c.inFlight[m.Key])
		}
		for _, m := range got {
			w.after(time.Duration(w.rng.Int64N(int64(d)))+time.Microsecond, func() {
				c.inFlight[m.Key]--
				c.done++
				m.Lane.InHand.Add(-1)
				a.core.released(m, w.now)
				a.step()
			})
		}
		w.after(0, func() { c.work(a, credit, d) })
	})
}

// Two agents, two levels: never more than the cap of a key, the others go on, and the permits there are get used.
func TestNeverMoreOfAKeyInFlightThanTheCap(t *testing.T) {
	for seed := range uint64(30) {
		for _, limit := range []int{1, 2, 3, 7} {
			w := newWorld(t, seed)
			w.faults.jitter = 300 * time.Microsecond
			w.faults.loseWake = 0.05
			w.faults.wrongEmpty = 0.05
			w.faults.err = 0.01
			for range 2 {
				w.agent(10, capDef(2, limit))
			}
			n := 0
			for range 60 {
				w.publish("q", w.rng.IntN(2), "busy", 0)
				w.publish("q", w.rng.IntN(2), "other", 0)
				n += 2
			}
			c := newCrew(w)
			for _, a := range w.agents {
				c.work(a, 1+w.rng.IntN(8), 20*time.Millisecond)
			}
			w.run(time.Minute, func() bool { return c.done == n })
			if c.done < n {
				t.Fatalf("seed %d, cap %d: %d of %d messages were worked on in a minute", seed, limit, c.done, n)
			}
			for _, key := range []string{"busy", "other"} {
				if c.most[key] > limit {
					t.Fatalf("seed %d, cap %d: %d of %s in flight", seed, limit, c.most[key], key)
				}
				if limit <= 3 && c.most[key] < limit {
					t.Errorf("seed %d, cap %d: at most %d of %s were in flight", seed, limit, c.most[key], key)
				}
			}
		}
	}
}

// The check above fails when each lane has a cap of its own: that is what max_ack_pending of its consumer would be.
func TestACapPerLaneIsNoCapPerKey(t *testing.T) {
	w := newWorld(t, 1)
	q := capDef(2, 2)
	a := w.agent(10, q)
	for range 20 {
		w.publish("q", 0, "busy", 0)
		w.publish("q", 1, "busy", 0)
	}
	c := newCrew(w)
	for _, k := range a.core.caps {
		k.ledger.Cap = 4 // as two lanes with 2 each
	}
	c.work(a, 8, 20*time.Millisecond)
	w.run(time.Second, func() bool { return c.done == 40 })
	if c.most["busy"] <= 2 {
		t.Errorf("at most %d in flight: the check cannot fail", c.most["busy"])
	}
}

// A capped key is skipped, not waited for: its important messages do not hold up less important ones of others.
func TestACappedKeyIsSkipped(t *testing.T) {
	w := newWorld(t, 1)
	a := w.agent(10, capDef(3, 1))
	for range 3 {
		w.publish("q", 0, "a", 0)
	}
	w.publish("q", 2, "a", 0)
	w.publish("q", 1, "b", 0)
	w.publish("q", 2, "c", 0)
	var got []*broker.Message
	a.pull(6, 0, func(m []*broker.Message) { got = append(got, m...) })
	w.run(5*time.Second, func() bool { return len(got) > 0 })
	if s := fmt.Sprint(w.order()); s != "[0/a#1 1/b#5 2/c#6]" {
		t.Errorf("took %s", s)
	}
	// And goes on as soon as one of it is done, highest level first.
	got = nil
	began := w.now
	a.pull(6, time.Second, func(m []*broker.Message) { got = append(got, m...) })
	w.run(time.Millisecond, func() bool { return false })
	a.release(w.messages()[:1])
	a.step()
	w.run(5*time.Second, func() bool { return len(got) > 0 })
	if len(got) != 1 || got[0].Level != 0 || w.now.Sub(began) > 10*time.Millisecond {
		t.Errorf("then took %d messages after %v", len(got), w.now.Sub(began))
	}
}

func (w *world) messages() (all []*broker.Message) {
	for _, d := range w.taken {
		all = append(all, d.m)
	}
	return all
}

// Another agent that waits for a permit hears at once that one is free.
func TestAFreedPermitIsHeardOfByOthers(t *testing.T) {
	w := newWorld(t, 1)
	a, b := w.agent(10, capDef(1, 1)), w.agent(10, capDef(1, 1))
	w.publish("q", 0, "k", 0)
	w.publish("q", 0, "k", 0)
	a.pull(1, time.Second, func([]*broker.Message) {})
	w.run(time.Second, func() bool { return len(w.taken) == 1 })
	b.pull(1, 10*time.Second, func([]*broker.Message) {})
	w.run(time.Second, func() bool { return false })
	if len(w.taken) != 1 {
		t.Fatalf("%d in flight", len(w.taken))
	}
	freed := w.now
	a.release(w.messages())
	a.step()
	w.run(time.Second, func() bool { return len(w.taken) == 2 })
	if took := w.now.Sub(freed); took > 5*time.Millisecond {
		t.Errorf("the next one was taken after %v", took)
	}
}

// What an agent had when it died can be taken again after the acknowledgement wait, and not before.
func TestThePermitsOfADeadAgentComeBack(t *testing.T) {
	w := newWorld(t, 1)
	q := capDef(2, 2)
	q.AckWait = 2 * time.Second
	a, b := w.agent(10, q), w.agent(10, q)
	for i := range 4 {
		w.publish("q", i%2, "k", 0)
	}
	a.pull(2, time.Second, func([]*broker.Message) {})
	w.run(time.Second, func() bool { return len(w.taken) == 2 })
	a.dead = true
	died := w.now
	b.pull(1, time.Minute, func([]*broker.Message) {})
	w.run(time.Minute, func() bool { return len(w.taken) == 3 })
	if took := w.now.Sub(died); took < q.AckWait/2 || took > q.AckWait+500*time.Millisecond {
		t.Errorf("taken after %v", took)
	}
}

// A cap that never binds costs one more round trip, and a permit that is used again costs none.
func TestACapThatNeverBindsIsCheap(t *testing.T) {
	took := map[int]time.Duration{}
	for _, limit := range []int{0, 1000} {
		w := newWorld(t, 1)
		a := w.agent(64, capDef(1, limit))
		w.run(time.Second, func() bool { return false })
		for i := range 640 {
			w.publish("q", 0, fmt.Sprintf("k%d", i%20), 0)
		}
		w.run(10*time.Millisecond, func() bool { return false })
		began := w.now
		a.worker(64, 0, 0)
		w.run(time.Minute, func() bool { return len(w.taken) == 640 })
		took[limit] = w.now.Sub(began)
		if w.claims > 640 {
			t.Errorf("%d claims for 640 messages", w.claims)
		}
	}
	if most := took[0]*2 + time.Millisecond; took[1000] > most {
		t.Errorf("640 messages took %v without a cap, %v with one that never binds", took[0], took[1000])
	}
}

// A cap that is lowered or raised acts on what comes next.
func TestTheCapIsChangedLive(t *testing.T) {
	w := newWorld(t, 1)
	a := w.agent(20, capDef(1, 4))
	for range 400 {
		w.publish("q", 0, "k", 0)
	}
	c := newCrew(w)
	c.work(a, 20, 5*time.Millisecond)
	w.run(20*time.Millisecond, func() bool { return false })
	for _, limit := range []int{2, 6} {
		a.core.define(definition(capDef(1, limit)), w.now)
		a.step()
		w.run(10*time.Millisecond, func() bool { return false })
		clear(c.most)
		w.run(10*time.Millisecond, func() bool { return false })
		if c.most["k"] != limit {
			t.Errorf("cap %d: %d in flight", limit, c.most["k"])
		}
	}
}
