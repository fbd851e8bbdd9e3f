package dispatch

import (
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/broker"
	"github.com/fairlead/fairlead/config"
)

// The settlement that came with a pull frees the key of a capped queue, or of one with ordered keys: what is of less
// importance, of another key or in a queue behind it must not be taken meanwhile.
func TestSettlementOfAKeyComesFirst(t *testing.T) {
	for name, kind := range map[string]func(*config.Queue){
		"cap of one":   func(q *config.Queue) { q.ConcurrencyPerKey = 1 },
		"ordered keys": func(q *config.Queue) { q.OrderedKeys = true },
	} {
		w := newWorld(t, 47)
		first, behind := def("first", 2, 0, true, nil), def("behind", 1, 0, true, nil)
		kind(&first)
		a := w.agent(4, first, behind)
		for range 2 {
			w.publish("first", 0, "k", 0)
		}
		w.publish("first", 1, "other", 0)
		w.publish("behind", 0, "k", 0)
		var had []*broker.Message
		a.pull(1, time.Second, func(got []*broker.Message) { had = got })
		w.run(time.Second, func() bool { return len(had) == 1 })
		p := &pull{max: 1, deadline: w.now.Add(time.Second)}
		a.ask(p, func([]*broker.Message) {})
		w.after(5*time.Millisecond, func() {
			had[0].Lane.InHand.Add(-1)
			a.release(had)
			a.core.settled(p, w.now)
			a.step()
		})
		w.run(time.Second, func() bool { return len(w.taken) == 2 })
		if len(w.taken) != 2 || w.taken[1].m.Queue != "first" || w.taken[1].m.Level != 0 {
			t.Errorf("%s: the pull that acked the first one got %v", name, w.order())
		}
	}
}

// withheld is a broker whose lane was made again while its head backs off: it gives that out, and the feed holds it back.
type withheld struct {
	*simAgent
	until time.Time
	asked int
}

func (s *withheld) Ask(lane *broker.Lane, n int, patience time.Duration) {
	if !s.w.now.Before(s.until) {
		s.simAgent.Ask(lane, n, patience)
		return
	}
	s.asked++
	s.w.after(s.w.delay()+patience, func() {
		s.core.answered(broker.Answer{Lane: lane, Held: 1, HeldUntil: s.until}, s.w.now)
		s.step()
	})
}

// A message of a serial lane that is found to back off holds its lane until its time, whatever is stored behind it, and is
// asked for then.
func TestAHeadThatBacksOffElsewhereHoldsItsLane(t *testing.T) {
	ordered := def("q", 1, 0, true, nil)
	ordered.OrderedKeys = true
	for name, q := range map[string]config.Queue{"single active": single(def("q", 1, 0, false, nil)), "ordered keys": ordered} {
		w := newWorld(t, 48)
		w.merged, w.unkeyed = true, q.SingleActiveConsumer
		a := w.agent(4, q)
		src := &withheld{simAgent: a, until: w.now.Add(5 * time.Second)}
		a.core.src = src
		if q.SingleActiveConsumer {
			a.hold(q, 5)
		}
		w.publish("q", 0, "", 0)
		a.serve(1, time.Millisecond)
		for i := range 40 {
			w.after(time.Duration(i)*100*time.Millisecond, func() { w.publish("q", 0, "", 0) })
		}
		w.run(4900*time.Millisecond, func() bool { return false })
		if src.asked == 0 || src.asked > 2 {
			t.Errorf("%s: the lane was asked %d times while its head backed off", name, src.asked)
		}
		w.run(300*time.Millisecond, func() bool { return len(w.taken) > 0 })
		if len(w.taken) == 0 {
			t.Errorf("%s: its time has come, and it is not asked for", name)
		}
	}
}
