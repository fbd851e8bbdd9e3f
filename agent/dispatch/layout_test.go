package dispatch

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/broker"
	"github.com/fairlead/fairlead/agent/broker/names"
	"github.com/fairlead/fairlead/agent/permit"
	"github.com/fairlead/fairlead/config"
)

// What is on its way while a queue gets another layout speaks of lanes that the queue has no more. A lane made up from it
// would have the consumer of another lane, or a level that is not there.
func TestWhatIsOnItsWayWhenTheLayoutChanges(t *testing.T) {
	w := newWorld(t, 30)
	before, after := def("q", 3, 0, true, nil), def("q", 1, 0, false, nil)
	a := w.agent(4, before)
	old := broker.NewLayout(before)
	address, _ := old.Address("p2", "acme")
	if a.core.current(&old) == nil {
		t.Fatal("wake-ups of the layout in force are dropped")
	}
	a.core.define(definition(after), w.now)
	if a.core.current(&old) != nil {
		t.Error("wake-ups of the former layout are taken in")
	}
	a.core.returned("q", address, time.Time{}, w.now)
	a.core.returned("q", address, w.now.Add(time.Second), w.now)
	q := a.core.queueNamed("q")
	for have := range q.lanes {
		class, _ := q.layout.Address(have.Class, "_")
		if have != class {
			t.Errorf("there is a lane at %+v", have)
		}
	}
	if len(q.lanes) != 1 {
		t.Errorf("there are %d lanes, want that of the returned message", len(q.lanes))
	}
}

// What waits when an agent starts, or a queue gets another layout, is not overtaken by what is stored just then.
func TestNothingOvertakesWhatWaitedBefore(t *testing.T) {
	before := []config.Queue{def("first", 1, 0, false, nil), def("q", 4, 0, false, nil)}
	after := []config.Queue{def("first", 1, 0, false, nil), def("q", 3, 0, false, nil)}
	for _, middle := range []int{1, -1} { // with that priority, or with none
		for _, pull := range []int{1, 2, 8} {
			for _, change := range []string{"start", "layout"} {
				w := newWorld(t, 31)
				w.defaultLevel = 1
				var a *simAgent
				if change == "layout" {
					a = w.agent(100, before...)
				}
				w.publish("first", 0, "", 0)
				for range 5 {
					w.publish("q", 0, "", 0)
					w.publish("q", middle, "", 0)
				}
				w.run(time.Second, func() bool { return false })
				if change == "start" {
					a = w.agent(100, after...)
				} else {
					a.core.define(definition(after[1]), w.now)
				}
				for _, level := range []int{2, 0, 1} {
					m, address := w.publish("q", level, "", 0), broker.Address{Class: names.Class(level), Level: level}
					a.core.wake(a.core.queueNamed("q"), address, wakeNote{seq: m.Seq, n: 1}, w.now)
				}
				drain(t, w, a, pull)
				if got, want := levels(w), "HHHHHHHMMMMMML"; got != want {
					t.Errorf("%s, pulls of %d, %d: %s, want %s", change, pull, middle, got, want)
				}
			}
		}
	}
}

// A queue that cannot be swept is worked on all the same, by what wake-ups tell.
func TestAFailingSweepStopsNobody(t *testing.T) {
	w := newWorld(t, 33)
	w.faults.sweep = broker.ErrUnavailable
	a := w.agent(4, def("q", 1, 0, false, nil))
	w.publish("q", 0, "", 0)
	a.pull(1, time.Minute, func([]*broker.Message) {})
	w.run(100*time.Millisecond, func() bool { return len(w.taken) == 1 })
	if len(w.taken) != 1 {
		t.Error("the message was not handed over")
	}
}

// Nothing is taken from a queue whose layout is about to change, and pulls wait for the new one: none is told that there is
// nothing while something waits.
func TestNothingIsTakenWhileTheLayoutChanges(t *testing.T) {
	w := newWorld(t, 34)
	before, after := def("q", 3, 0, true, nil), def("q", 1, 0, true, nil)
	a := w.agent(4, before)
	w.run(time.Second, func() bool { return false })
	a.core.leave("q")
	for range 3 {
		w.publish("q", 0, "k", 0)
	}
	var got []*broker.Message
	answered := false
	a.pull(3, 0, func(ms []*broker.Message) { got, answered = ms, true })
	w.run(1500*time.Millisecond, func() bool { return answered })
	if answered || len(w.taken) > 0 {
		t.Fatalf("answered: %v, taken: %d while the layout changes", answered, len(w.taken))
	}
	a.core.arrive("q")
	a.core.define(definition(after), w.now)
	w.run(3*time.Second, func() bool { return answered })
	if len(got) != 3 {
		t.Errorf("%d messages came through the new layout, want 3", len(got))
	}

	// A change that turns out to be none ends it too.
	a.core.leave("q")
	a.core.arrive("q")
	a.core.define(definition(after), w.now)
	w.publish("q", 0, "k", 0)
	answered = false
	a.pull(1, 0, func([]*broker.Message) { answered = true })
	w.run(3*time.Second, func() bool { return answered })
	if !answered {
		t.Error("nothing is taken after a change that was none")
	}
}

// Who stood by can get the lease in the moment in which the queue stops needing one, because the holder has followed the new
// definition already. Nothing is taken in that tenure: others take the same messages through the new lanes by then.
func TestNothingIsTakenInATenureThatBeginsWhileTheLayoutChanges(t *testing.T) {
	w := newWorld(t, 36)
	before, after := single(def("q", 1, 0, false, nil)), def("q", 1, 0, false, nil)
	a := w.agent(4, before)
	w.run(time.Second, func() bool { return false })
	a.core.leave("q")
	for range 3 {
		w.publish("q", 0, "", 0)
	}
	a.hold(before, 9)
	a.hold(before, 10)
	a.worker(4, time.Minute, time.Millisecond)
	w.run(1500*time.Millisecond, func() bool { return false })
	if len(w.taken) > 0 {
		t.Fatalf("%d messages were taken in a tenure that began while the layout changed", len(w.taken))
	}
	a.core.arrive("q")
	a.core.define(definition(after), w.now)
	w.run(3*time.Second, func() bool { return len(w.taken) == 3 })
	if len(w.taken) != 3 {
		t.Errorf("%d messages came through the new layout, want 3", len(w.taken))
	}
}

// Another starvation guard is no other layout: the lanes stay, with what is known of them, also in a tenure with a message out.
func TestAnotherGuardKeepsTheLanes(t *testing.T) {
	for _, one := range []bool{false, true} {
		q := def("q", 2, 0, true, nil)
		if one {
			q = single(q)
		}
		w := newWorld(t, 35)
		a := w.agent(4, q)
		if one {
			a.hold(q, 7)
		}
		for range 12 {
			w.publish("q", 0, "k", 0)
			w.publish("q", 1, "k", 0)
		}
		var order string
		take := func(n int) {
			t.Helper()
			for range n {
				var m *broker.Message
				a.pull(1, time.Minute, func(ms []*broker.Message) { m = ms[0] })
				w.run(10*time.Second, func() bool { return m != nil })
				if m == nil {
					t.Fatalf("single %v: nothing comes after %q", one, order)
				}
				order += []string{"H", "L"}[m.Lane.Level]
				a.release([]*broker.Message{m})
			}
		}
		take(4)
		lanes := a.core.queueNamed("q").lanes
		changed := definition(q)
		changed.Guard, changed.Layout = 2, a.core.queueNamed("q").layout
		a.core.define(changed, w.now)
		take(6)
		if order != "HHHHHHLHHL" {
			t.Errorf("single %v: %s", one, order)
		}
		if now := a.core.queueNamed("q").lanes; fmt.Sprintf("%p", now) != fmt.Sprintf("%p", lanes) {
			t.Errorf("single %v: the lanes were made anew", one)
		}
	}
}

// What waits in a queue of which nothing is known yet is not overtaken by what is known of the queues behind it.
func TestAQueueThatWasNotSeenHoldsUpThoseBehind(t *testing.T) {
	w := newWorld(t, 56)
	w.faults.slowSweep = "first"
	for range 3 {
		w.publish("first", 2, "", 0)
		w.publish("second", 0, "", 0)
	}
	a := w.agent(10, def("first", 3, 0, false, nil), def("second", 3, 0, false, nil))
	a.worker(1, 10*time.Second, 0)
	w.run(time.Minute, func() bool { return len(w.taken) == 6 })
	for i, d := range w.taken {
		if want := []string{"first", "second"}[i/3]; d.m.Queue != want {
			t.Fatalf("delivery %d is of %s", i, d.m.Queue)
		}
	}
	if len(w.taken) != 6 {
		t.Errorf("%d of 6 came", len(w.taken))
	}
}

// mute is a source that never answers, and the effects of a core that needs none.
type mute struct {
	asked, forgotten []*broker.Lane
}

func (m *mute) Lane(layout broker.Layout, a broker.Address) *broker.Lane {
	return &broker.Lane{Address: a, Layout: layout}
}
func (m *mute) Ask(lane *broker.Lane, _ int, _ time.Duration) { m.asked = append(m.asked, lane) }
func (m *mute) Head(*broker.Lane, uint64, func(uint64))       {}
func (m *mute) Forget(lane *broker.Lane)                      { m.forgotten = append(m.forgotten, lane) }
func (m *mute) sweep(*queue)                                  {}
func (m *mute) repair(*queue, []string)                       {}
func (m *mute) headFound(*broker.Lane, uint64)                {}
func (m *mute) giveBack(*broker.Message)                      {}
func (m *mute) carryOut(string, permit.Action)                {}
func (m *mute) idle(string)                                   {}

// A lane that was asked when its layout went is forgotten as soon as it has answered: nothing else would.
func TestLaneOfAFormerLayoutIsForgotten(t *testing.T) {
	m, now := &mute{}, time.Unix(1000, 0)
	c := newCore(m, m, coreOptions{order: []string{"q"}, concurrency: 1, poll: time.Second})
	c.connection(true, now)
	c.define(definition(def("q", 1, 0, false, nil)), now)
	c.swept(c.queues[0], broker.Sweep{Lanes: []broker.Found{{Address: broker.Address{Class: "p0"}, Messages: 1}}}, nil, now)
	c.ask(&pull{max: 1, deadline: now.Add(time.Hour), settled: true, answer: func([]*broker.Message, error) {}}, now)
	if len(m.asked) != 1 {
		t.Fatalf("asked: %v", m.asked)
	}
	now = now.Add(roundLimit)
	c.tick(now)
	c.define(definition(def("q", 2, 0, false, nil)), now)
	if len(m.forgotten) != 0 {
		t.Error("a lane with an open question is forgotten")
	}
	c.answered(broker.Answer{Lane: m.asked[0], Short: true}, now)
	if !slices.Contains(m.forgotten, m.asked[0]) {
		t.Error("it is remembered for ever")
	}
}
