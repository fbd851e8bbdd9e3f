package dispatch

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/broker"
	"github.com/fairlead/fairlead/config"
)

// grant is a tenure's, as a test wants it.
type grant struct {
	fence    uint64
	distrust bool
}

func (g *grant) Trusted(time.Time) (uint64, bool) { return g.fence, !g.distrust }
func (g *grant) Held(time.Time) (uint64, bool)    { return g.fence, true }
func (g *grant) ValidUntil() time.Time            { return time.Now().Add(time.Hour) }

func single(q config.Queue) config.Queue {
	q.SingleActiveConsumer = true
	return q
}

// hold begins a tenure of an agent; fence 0 ends it.
func (a *simAgent) hold(q config.Queue, fence uint64) *grant {
	d := definition(q)
	var g *grant
	if fence > 0 {
		g = &grant{fence: fence}
		for _, m := range slices.Clone(a.w.lost) { // its lanes begin with the oldest message that is not finished
			a.w.find(m)
		}
		d.Layout = d.Layout.In(broker.NewTenure(fence, g))
	}
	delete(a.core.handOver, q.Name)
	a.core.define(d, a.w.now)
	a.step()
	return g
}

// nack gives a message back by its app's word.
func (a *simAgent) nack(m *broker.Message, delay time.Duration) {
	w := a.w
	m.Lane.InHand.Add(-1)
	w.held[m.Queue]--
	at := w.now.Add(delay)
	w.after(delay, func() { w.putBack(m) })
	a.core.returned(m.Queue, m.Lane.Address, at, w.now)
	a.core.released(m, w.now)
	a.step()
}

// What a single active consumer gets one by one is what the only worker of a plain queue gets: levels strict, tenants fair,
// the starvation guard at work. And it is one at a time, however many it asks for.
func TestSingleTakesInThePlainOrderOneAtATime(t *testing.T) {
	fill := func(w *world) {
		for i := range 240 {
			w.publish("q", []int{2, 0, 1, 2, 2, -1}[i%6], fmt.Sprint("k", i%5), 0)
		}
	}
	for _, fair := range []bool{false, true} {
		q := def("q", 3, 4, fair, map[string]config.Weight{"k1": 3000})
		plain := newWorld(t, 40)
		plain.defaultLevel = 1
		if !fair {
			plain.unkeyed = true
		}
		fill(plain)
		plain.agent(1, q).worker(1, time.Second, time.Millisecond)
		plain.run(10*time.Second, func() bool { return len(plain.taken) == 240 })

		w := newWorld(t, 40)
		w.defaultLevel, w.unkeyed = 1, !fair
		fill(w)
		a := w.agent(10, single(q))
		a.hold(single(q), 7)
		a.worker(5, time.Second, time.Millisecond)
		w.run(10*time.Second, func() bool { return len(w.taken) == 240 })
		if got, want := w.order(), plain.order(); !slices.Equal(got, want) {
			t.Errorf("fair %t: %d taken, want %d in this order:\n%s\ngot\n%s", fair, len(got), len(want), strings.Join(want, " "), strings.Join(got, " "))
		}
		if w.together > 1 {
			t.Errorf("fair %t: %d were out at a time", fair, w.together)
		}
	}
}

// The control: a queue that is not single gives out as many as are asked for.
func TestAPlainQueueGivesOutSeveral(t *testing.T) {
	w := newWorld(t, 41)
	for range 20 {
		w.publish("q", 0, "", 0)
	}
	w.agent(10, def("q", 1, 0, false, nil)).worker(5, time.Second, time.Millisecond)
	w.run(time.Second, func() bool { return len(w.taken) == 20 })
	if w.together != 5 {
		t.Errorf("%d were out at a time, want 5", w.together)
	}
}

func TestStandbySkipsTheQueueAndWorksOnTheOthers(t *testing.T) {
	w := newWorld(t, 42)
	ordered, plain := single(def("ordered", 1, 0, false, nil)), def("plain", 1, 0, false, nil)
	holder, standby := w.agent(4, ordered), w.agent(4, ordered, plain)
	holder.hold(ordered, 5)
	holder.serve(1, 3*time.Millisecond)
	standby.serve(1, 3*time.Millisecond)
	for range 50 {
		w.publish("ordered", 0, "", 0)
		w.publish("plain", 0, "", 0)
	}
	w.run(2*time.Second, func() bool { return len(w.taken) == 100 })
	for _, d := range w.taken {
		if want := map[string]*simAgent{"ordered": holder, "plain": standby}[d.m.Queue]; d.agent != want {
			t.Fatalf("%s took a message of %s", d.agent.name, d.m.Queue)
		}
	}
	if len(w.taken) != 100 {
		t.Fatalf("%d taken, want 100", len(w.taken))
	}

	// The tenure ends: the standby takes over where the holder stopped.
	holder.hold(ordered, 0)
	for range 50 {
		w.publish("ordered", 0, "", 0)
	}
	w.run(time.Second, func() bool { return false })
	if len(w.taken) != 100 {
		t.Fatalf("%d were taken while nobody held the lease", len(w.taken)-100)
	}
	standby.hold(ordered, 6)
	w.run(2*time.Second, func() bool { return len(w.taken) == 150 })
	for i, d := range w.taken[100:] {
		if d.agent != standby || i > 0 && d.m.Seq < w.taken[100+i-1].m.Seq || d.m.Fence() != 6 {
			t.Fatalf("%s took %d with fence %d", d.agent.name, d.m.Seq, d.m.Fence())
		}
	}
	if len(w.taken) != 150 {
		t.Errorf("%d taken, want 150", len(w.taken))
	}
}

// A message that is backing off holds its lane, whatever else is stored or swept; other lanes go on.
func TestFailingMessageHoldsItsLane(t *testing.T) {
	w := newWorld(t, 43)
	q := single(def("q", 2, 0, false, nil))
	a := w.agent(4, q)
	a.hold(q, 9)
	for range 3 {
		w.publish("q", 0, "", 0)
	}
	fails := 2
	var order []string
	var next func()
	next = func() {
		a.pull(8, time.Minute, func(got []*broker.Message) {
			for _, m := range got {
				order = append(order, fmt.Sprint(m.Seq))
				if m.Seq == 1 && fails > 0 {
					fails--
					a.nack(m, 700*time.Millisecond)
				} else {
					a.release(got)
				}
			}
			next()
		})
	}
	next()
	// A lower level's message and one of the same lane come while the first backs off.
	w.after(100*time.Millisecond, func() { w.publish("q", 1, "", 0); w.publish("q", 0, "", 0) })
	w.run(5*time.Second, func() bool { return len(order) == 7 })
	if got := strings.Join(order, " "); got != "1 4 1 1 2 3 5" {
		t.Errorf("taken in the order %s, want 1, 4 of the other level meanwhile, 1 twice more, then 2 3 5", got)
	}
	if w.empty > 2 {
		t.Errorf("%d questions got nothing: a lane whose head backs off is not to be asked", w.empty)
	}
}

// Under every fault of the network never two are out, everything is taken, and each lane's first deliveries ascend.
func TestSingleUnderFaults(t *testing.T) {
	for seed := range uint64(60) {
		w := newWorld(t, 100+seed)
		w.faults = faults{latency: 50 * time.Microsecond, jitter: time.Millisecond, loseWake: 0.2, wrongEmpty: 0.1, hang: 0.01, err: 0.02, lose: 0.02}
		q := single(def("q", 2, 0, seed%2 == 0, nil))
		w.unkeyed = seed%2 == 1
		first, second := w.agent(4, q), w.agent(4, q)
		first.hold(q, 1)
		first.serve(2, 2*time.Millisecond)
		second.serve(2, 2*time.Millisecond)
		for i := range 60 {
			w.after(time.Duration(w.rng.Int64N(int64(300*time.Millisecond))), func() { w.publish("q", i%2, fmt.Sprint("k", i%3), 0) })
		}
		w.after(150*time.Millisecond, func() {
			first.core.setHandOver("q", true, w.now)
			first.step()
			w.until(func() bool { return first.idleTold["q"] }, func() {
				first.hold(q, 0)
				second.hold(q, 2)
			})
		})
		w.run(2*time.Minute, func() bool { return len(w.taken) >= 60 })
		if len(w.taken) != 60 || w.together > 1 {
			t.Fatalf("seed %d: %d of 60 taken, %d at a time", seed, len(w.taken), w.together)
		}
		last := map[broker.Address]uint64{}
		for _, d := range w.taken {
			if d.m.Seq < last[d.m.Lane.Address] {
				t.Fatalf("seed %d: %d was taken behind %d of its lane", seed, d.m.Seq, last[d.m.Lane.Address])
			}
			last[d.m.Lane.Address] = d.m.Seq
		}
	}
}

func TestHandOverWaitsForWhatIsOut(t *testing.T) {
	w := newWorld(t, 44)
	q := single(def("q", 1, 0, false, nil))
	a := w.agent(4, q)
	a.hold(q, 3)
	w.publish("q", 0, "", 0)
	w.publish("q", 0, "", 0)
	a.serve(1, 40*time.Millisecond)
	w.run(10*time.Millisecond, func() bool { return len(w.taken) == 1 })
	a.core.setHandOver("q", true, w.now)
	if a.step(); a.idleTold["q"] {
		t.Fatal("idle is told while a message is out")
	}
	w.run(time.Second, func() bool { return a.idleTold["q"] })
	if !a.idleTold["q"] || len(w.taken) != 1 {
		t.Fatalf("idle told: %t, %d taken, want it told, and nothing more taken", a.idleTold["q"], len(w.taken))
	}
	a.core.setHandOver("q", false, w.now)
	a.step()
	w.run(time.Second, func() bool { return len(w.taken) == 2 })
	if len(w.taken) != 2 {
		t.Error("nothing was taken after the hand-over was called off")
	}
}

// A tenure that is not trusted for a while, as after a reconnect, goes on by itself when it is again.
func TestUntrustedTenureTakesNothing(t *testing.T) {
	w := newWorld(t, 45)
	q := single(def("q", 1, 0, false, nil))
	a := w.agent(4, q)
	g := a.hold(q, 3)
	g.distrust = true
	a.serve(1, time.Millisecond)
	w.publish("q", 0, "", 0)
	w.run(2*time.Second, func() bool { return len(w.taken) > 0 })
	if len(w.taken) > 0 {
		t.Fatal("taken without trust")
	}
	g.distrust = false
	w.run(500*time.Millisecond, func() bool { return len(w.taken) > 0 })
	if len(w.taken) != 1 {
		t.Error("not taken within two sweeps of being trusted again")
	}
}

// The settlement that came with a pull frees the slot of the single queue: what is in a queue behind it must not be taken
// meanwhile.
func TestSettlementOfThePullComesFirst(t *testing.T) {
	w := newWorld(t, 46)
	ordered, plain := single(def("ordered", 1, 0, false, nil)), def("plain", 1, 0, false, nil)
	a := w.agent(4, ordered, plain)
	a.hold(ordered, 3)
	for range 3 {
		w.publish("ordered", 0, "", 0)
		w.publish("plain", 0, "", 0)
	}
	var first *broker.Message
	a.pull(1, time.Second, func(got []*broker.Message) { first = got[0] })
	w.run(time.Second, func() bool { return first != nil })
	p := &pull{max: 1, deadline: w.now.Add(time.Second)}
	a.ask(p, func([]*broker.Message) {})
	w.after(5*time.Millisecond, func() {
		first.Lane.InHand.Add(-1)
		a.release([]*broker.Message{first})
		a.core.settled(p, w.now)
		a.step()
	})
	w.run(time.Second, func() bool { return len(w.taken) == 2 })
	if got := w.taken[1].m.Queue; got != "ordered" {
		t.Errorf("the pull that acked a message of the first queue got one of %s", got)
	}
}

func TestFailingApp(t *testing.T) {
	type step struct {
		after time.Duration
		how   broker.Ending
	}
	const ms = time.Millisecond
	for _, tt := range []struct {
		name      string
		steps     []step
		suspended bool
		left      time.Duration
	}{
		{name: "one loss", steps: []step{{0, broker.Lost}, {5 * time.Second, broker.Unused}}},
		{name: "one loss of many", steps: []step{{0, broker.Lost}, {50 * ms, broker.Lost}, {60 * ms, broker.Lost}}},
		{name: "two at once are too few", steps: []step{{0, broker.Lost}, {500 * ms, broker.Lost}}},
		{name: "again and again", steps: []step{{0, broker.Lost}, {700 * ms, broker.Lost}, {700 * ms, broker.Lost}, {700 * ms, broker.Lost}}, suspended: true, left: suspension},
		{name: "slowly", steps: []step{{0, broker.Lost}, {3 * time.Second, broker.Lost}}, suspended: true, left: suspension},
		{name: "it works in between", steps: []step{{0, broker.Lost}, {time.Second, broker.Settled}, {2 * time.Second, broker.Lost}, {1900 * ms, broker.Lost}}},
		{name: "it works afterwards", steps: []step{{0, broker.Lost}, {3 * time.Second, broker.Lost}, {time.Second, broker.Settled}}},
		{
			name:  "the second time it takes twice as long",
			steps: []step{{0, broker.Lost}, {3 * time.Second, broker.Lost}, {suspension, broker.Lost}, {3 * time.Second, broker.Lost}}, suspended: true, left: 2 * suspension,
		},
	} {
		var f failing
		now := time.Unix(1, 0)
		for _, s := range tt.steps {
			now = now.Add(s.after)
			f.note(s.how, now)
		}
		if got := f.suspended(now); got != tt.suspended || got && f.until.Sub(now) != tt.left {
			t.Errorf("%s: suspended %t for %v, want %t for %v", tt.name, got, f.until.Sub(now), tt.suspended, tt.left)
		}
	}
}
