package dispatch

import (
	"fmt"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/broker"
	"github.com/fairlead/fairlead/config"
)

func orderedDef(levels int) config.Queue {
	q := def("q", levels, 0, true, nil)
	q.OrderedKeys, q.AckWait = true, 2*time.Second
	return q
}

// strict are apps that fail now and then, and check the order of each key.
type strict struct {
	w        *world
	failures float64
	running  map[string]*broker.Message // by key: what an app has
	by       map[string]*simAgent       // whose it is
	open     map[string]uint64          // by key and level: a message that failed and is not done
	order    map[string][]uint64        // by key and level: in the order in which they were finished
	done     int
	wrong    []string
}

func newStrict(w *world, failures float64) *strict {
	return &strict{w: w, failures: failures, running: map[string]*broker.Message{}, by: map[string]*simAgent{}, open: map[string]uint64{}, order: map[string][]uint64{}}
}

func (s *strict) wrongf(format string, args ...any) {
	s.wrong = append(s.wrong, fmt.Sprintf(format, args...))
}

func (s *strict) begin(a *simAgent, m *broker.Message) {
	lane := fmt.Sprint(m.Key, " at ", m.Level)
	if other, ok := s.running[m.Key]; ok {
		s.wrongf("%d of %s is delivered while %d is worked on", m.Seq, m.Key, other.Seq)
	}
	if failed := s.open[lane]; failed != 0 && failed != m.Seq {
		s.wrongf("%d of %s overtakes %d, which failed", m.Seq, lane, failed)
	}
	s.running[m.Key], s.by[m.Key] = m, a
}

// lose is for a message of an agent that died: it is given out again after the acknowledgement wait.
func (s *strict) lose(m *broker.Message) { s.w.after(2*time.Second, func() { s.w.putBack(m) }) }

// kill ends an agent.
func (s *strict) kill(a *simAgent) {
	a.dead = true
	for key, m := range s.running {
		if s.by[key] == a {
			delete(s.running, key)
			s.open[fmt.Sprint(m.Key, " at ", m.Level)] = m.Seq
			s.lose(m)
		}
	}
}

func (s *strict) finish(a *simAgent, m *broker.Message) {
	lane := fmt.Sprint(m.Key, " at ", m.Level)
	delete(s.running, m.Key)
	if s.w.rng.Float64() < s.failures {
		s.open[lane] = m.Seq
		a.nack(m, time.Duration(s.w.rng.Int64N(int64(300*time.Millisecond))))
		return
	}
	if n := len(s.order[lane]); n > 0 && s.order[lane][n-1] > m.Seq {
		s.wrongf("%d of %s is done behind %d", m.Seq, lane, s.order[lane][n-1])
	}
	s.order[lane] = append(s.order[lane], m.Seq)
	delete(s.open, lane)
	s.done++
	m.Lane.InHand.Add(-1)
	a.release([]*broker.Message{m})
	a.step()
}

func (s *strict) work(a *simAgent, credit int) {
	a.pull(credit, time.Second, func(got []*broker.Message) {
		if a.dead {
			for _, m := range got {
				s.lose(m)
			}
			return
		}
		for _, m := range got {
			s.begin(a, m)
			s.w.after(time.Duration(s.w.rng.Int64N(int64(10*time.Millisecond)))+time.Microsecond, func() {
				if !a.dead {
					s.finish(a, m)
				}
			})
		}
		s.w.after(0, func() { s.work(a, credit) })
	})
}

// Several agents, levels and keys, a flawed network and failing apps: one message of a key at a time, in order inside each
// level, and nothing overtakes one that failed.
func TestOrderedKeysStayInOrder(t *testing.T) {
	for seed := range uint64(60) {
		w := newWorld(t, 300+seed)
		w.faults = faults{latency: 50 * time.Microsecond, jitter: 300 * time.Microsecond, loseWake: 0.1, wrongEmpty: 0.05, err: 0.01, lose: 0.003}
		w.merged, w.defaultLevel = true, 1
		for range 3 {
			w.agent(6, orderedDef(2))
		}
		s := newStrict(w, 0.15)
		const n = 90
		for i := range n {
			w.after(time.Duration(w.rng.Int64N(int64(200*time.Millisecond))), func() { w.publish("q", w.rng.IntN(3)-1, fmt.Sprint("k", i%4), 0) })
		}
		for _, a := range w.agents {
			s.work(a, 1+w.rng.IntN(4))
		}
		if seed%2 == 0 {
			w.after(100*time.Millisecond, func() { s.kill(w.agents[0]) })
		}
		w.run(3*time.Minute, func() bool { return s.done == n })
		if len(s.wrong) > 0 {
			t.Fatalf("seed %d: %v", seed, s.wrong)
		}
		if s.done != n {
			t.Fatalf("seed %d: %d of %d done", seed, s.done, n)
		}
	}
}

// The control: with a cap of one, and lanes that go on while a message backs off, something overtakes.
func TestACapOfOneIsNoOrder(t *testing.T) {
	for seed := range uint64(20) {
		w := newWorld(t, 300+seed)
		w.agent(6, capDef(1, 1))
		s := newStrict(w, 0.3)
		for range 40 {
			w.publish("q", 0, "k", 0)
		}
		s.work(w.agents[0], 2)
		w.run(time.Minute, func() bool { return s.done == 40 })
		if len(s.wrong) > 0 {
			return
		}
	}
	t.Error("nothing overtook a failed message: the check cannot fail")
}
