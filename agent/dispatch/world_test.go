package dispatch

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/broker"
	"github.com/fairlead/fairlead/agent/broker/names"
	"github.com/fairlead/fairlead/config"
	"github.com/fairlead/fairlead/fairshare"
)

// world simulates JetStream, its network and any number of agents, on a clock of its own. Everything that happens is an
// event at a time; runs with one seed are the same.
type world struct {
	t      testing.TB
	rng    *rand.Rand
	now    time.Time
	events eventHeap
	n      int

	faults faults
	// The lane that begins with this message has nothing to give until this time, as JetStream for a moment after it has stored
	// one.
	hidden      uint64
	hiddenUntil time.Time
	// defaultLevel is where messages go that are published with level -1.
	defaultLevel int
	stored       map[string]map[broker.Address]*waiting // queue, then lane
	seq          uint64
	agents       []*simAgent
	taken        []delivered // in the order in which apps got them
	pulls        int         // questions to lanes
	sweeps       int
	empty        int
	heads        int  // look-ups of where a lane begins
	late         int  // messages that went back because they expired on their way
	expired      int  // messages that were removed when they were taken
	emptyTo      int  // pulls of apps that got nothing although something was waiting
	unkeyed      bool // queues do not share fairly: one lane a level
	merged       bool // one lane reads the default level and what has no priority
	// out is what serial lanes have given out and neither got back nor lost, together the most that were out in one queue.
	out      map[simLane]*broker.Message
	lost     []*broker.Message // on their way, and not given out again yet
	held     map[string]int
	together int
	// forbidden names what must not be asked now; nil: nothing.
	forbidden func(*broker.Lane) bool
	slots     simSlots
	claims    int
}

// faults are what goes wrong, as probabilities.
type faults struct {
	latency    time.Duration // of one way
	jitter     time.Duration
	loseWake   float64
	wrongEmpty float64 // a lane says "nothing" although it has something
	hang       float64 // a question gets its answer only after two seconds
	err        float64
	lose       float64       // what a lane gives out never arrives; it is given out again after its acknowledgement wait
	sweep      error         // of every sweep
	took       time.Duration // by every sweep, of the server's time
	slowSweep  string        // the queue whose sweeps take a second longer
}

// simLane is a serial lane: each tenure has its own.
type simLane struct {
	layout  broker.Layout
	address broker.Address
}

func laneOf(l *broker.Lane) simLane { return simLane{l.Layout, l.Address} }

type waiting struct{ messages []*broker.Message }

type delivered struct {
	agent *simAgent
	m     *broker.Message
	at    time.Time
}

type simEvent struct {
	at time.Time
	n  int
	f  func()
}

type eventHeap []simEvent

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	if !h[i].at.Equal(h[j].at) {
		return h[i].at.Before(h[j].at)
	}
	return h[i].n < h[j].n
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *eventHeap) Push(x any)   { *h = append(*h, x.(simEvent)) }
func (h *eventHeap) Pop() any {
	e := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return e
}

func newWorld(t testing.TB, seed uint64) *world {
	return &world{
		t: t, rng: rand.New(rand.NewPCG(seed, seed)), now: time.Unix(1_000_000_000, 0),
		faults: faults{latency: 50 * time.Microsecond},
		stored: map[string]map[broker.Address]*waiting{}, out: map[simLane]*broker.Message{}, held: map[string]int{}, slots: simSlots{},
	}
}

func (w *world) after(d time.Duration, f func()) {
	w.n++
	heap.Push(&w.events, simEvent{w.now.Add(d), w.n, f})
}

func (w *world) delay() time.Duration {
	d := w.faults.latency
	if w.faults.jitter > 0 {
		d += time.Duration(w.rng.Int64N(int64(w.faults.jitter)))
	}
	return d
}

// run lets time pass until done, at most limit of it.
func (w *world) run(limit time.Duration, done func() bool) {
	end := w.now.Add(limit)
	for !done() {
		if len(w.events) == 0 || w.events[0].at.After(end) {
			w.now = end
			return
		}
		e := heap.Pop(&w.events).(simEvent)
		w.now = e.at
		e.f()
	}
}

// def makes a definition.
func def(name string, levels, guard int, fair bool, weights map[string]config.Weight) config.Queue {
	return config.Queue{
		Name: name, Levels: levels, DefaultPriority: (levels - 1) / 2, StarvationGuard: guard, AckWait: 30 * time.Second,
		FairShare: config.FairShare{Enabled: fair, Weights: weights},
	}
}

func definition(q config.Queue) Definition {
	return Definition{Layout: broker.NewLayout(q), Guard: q.StarvationGuard, Weights: weights(q)}
}

// publish stores a message and tells the agents.
func (w *world) publish(queue string, level int, key string, weight fairshare.Weight) *broker.Message {
	w.seq++
	a := broker.Address{Class: names.Class(level), Level: level, Key: key}
	if level < 0 {
		level = w.defaultLevel
		a = broker.Address{Class: names.NoPriority, Level: level, Key: key}
		if w.merged {
			a.Class = names.Class(level)
		}
	}
	if w.unkeyed {
		a = broker.Address{Class: names.Class(level), Level: level}
	}
	m := &broker.Message{Queue: queue, Seq: w.seq, Level: level, Key: key, Weight: weight, EnqueuedAt: w.now}
	w.lane(queue, a).messages = append(w.lane(queue, a).messages, m)
	for _, agent := range w.agents {
		if w.faults.loseWake > 0 && w.rng.Float64() < w.faults.loseWake {
			continue
		}
		w.after(w.delay(), func() {
			if q := agent.core.queueNamed(queue); q != nil {
				agent.core.wake(q, a, wakeNote{weight: weight, seq: m.Seq, last: m.Seq, n: 1}, w.now)
				agent.core.tick(w.now) // as the capsule does at the end of each turn
				agent.step()
			}
		})
	}
	return m
}

func (w *world) lane(queue string, a broker.Address) *waiting {
	if w.stored[queue] == nil {
		w.stored[queue] = map[broker.Address]*waiting{}
	}
	if w.stored[queue][a] == nil {
		w.stored[queue][a] = &waiting{}
	}
	return w.stored[queue][a]
}

func (w *world) backlog() int {
	n := 0
	for _, lanes := range w.stored {
		for _, l := range lanes {
			n += len(l.messages)
		}
	}
	return n
}

// simAgent is one agent with one capsule: the source and the effects of its core.
type simAgent struct {
	w        *world
	name     string
	core     *core
	armed    time.Time
	open     map[*broker.Lane]bool
	idleTold map[string]bool
	dead     bool
}

func (w *world) agent(concurrency int, defs ...config.Queue) *simAgent {
	a := &simAgent{w: w, name: fmt.Sprintf("agent%d", len(w.agents)), open: map[*broker.Lane]bool{}, idleTold: map[string]bool{}}
	var order []string
	for _, d := range defs {
		order = append(order, d.Name)
	}
	a.core = newCore(a, a, coreOptions{order: order, holder: a.name, seed: uint64(len(w.agents))*977 + 5, concurrency: concurrency, poll: 250 * time.Millisecond})
	w.agents = append(w.agents, a)
	a.core.connection(true, w.now)
	for _, d := range defs {
		a.core.define(definition(d), w.now)
	}
	a.step()
	return a
}

// step arms the core's timer.
func (a *simAgent) step() {
	at := a.core.next()
	if at.IsZero() || !a.armed.IsZero() && !at.Before(a.armed) && a.armed.After(a.w.now) {
		return
	}
	a.armed = at
	a.w.after(max(at.Sub(a.w.now), 0), func() {
		if a.armed.Equal(at) {
			a.armed = time.Time{}
		}
		a.core.tick(a.w.now)
		a.step()
	})
}

func (a *simAgent) Lane(layout broker.Layout, addr broker.Address) *broker.Lane {
	return &broker.Lane{Address: addr, Layout: layout}
}

func (a *simAgent) Forget(lane *broker.Lane) {
	if a.open[lane] {
		a.w.t.Fatalf("%s forgets a lane with an open question", a.name)
	}
}

// Ask answers after a round trip, with what the lane has when the question arrives.
// A serial lane that has a message out gives no answer before the question's patience is over.
func (a *simAgent) Ask(lane *broker.Lane, n int, patience time.Duration) {
	w := a.w
	if a.open[lane] {
		w.t.Fatalf("%s asks %v twice", a.name, lane.Address)
	}
	if w.forbidden != nil && w.forbidden(lane) {
		w.t.Fatalf("%s asks %v of %s, which is paused", a.name, lane.Address, lane.Queue())
	}
	a.open[lane] = true
	w.pulls++
	var came time.Time
	var arrive func()
	arrive = func() {
		answer := broker.Answer{Lane: lane}
		l := w.lane(lane.Queue(), lane.Address)
		back := w.delay()
		hidden := len(l.messages) > 0 && l.messages[0].Seq == w.hidden && w.now.Before(w.hiddenUntil)
		if waits := min(w.hiddenUntil.Sub(w.now), patience-w.now.Sub(came)); hidden && waits > 0 {
			w.after(waits, arrive)
			return
		}
		switch p := w.rng.Float64(); {
		case lane.Layout.Serial() && w.out[laneOf(lane)] != nil:
			answer.Short = true
			if back = patience; patience == 0 {
				w.t.Errorf("%s asks %v without patience while it has a message out", a.name, lane.Address)
			}
		case p < w.faults.err:
			answer.Err = broker.ErrLaneLost
		case hidden, p < w.faults.err+w.faults.wrongEmpty && patience == 0:
			answer.Short = true
		default:
			k := min(n, len(l.messages))
			for _, m := range l.messages[:k] {
				if m.Expired(w.now) {
					answer.Held++ // removed, as the broker does
					w.expired++
					continue
				}
				answer.Messages = append(answer.Messages, m)
			}
			l.messages = l.messages[k:]
			answer.Pending, answer.Short = uint64(len(l.messages)), k < n
			if k == 0 {
				back += patience
			}
			for _, m := range answer.Messages {
				m.Lane = lane
				lane.InHand.Add(1)
				if lane.Layout.Serial() {
					w.out[laneOf(lane)] = m
				}
			}
			if w.rng.Float64() < w.faults.hang {
				back = 2 * time.Second
			}
			if w.faults.lose > 0 && len(answer.Messages) > 0 && w.rng.Float64() < w.faults.lose {
				w.loseAll(&answer)
				back = 2 * time.Second
			}
		}
		if len(answer.Messages) == 0 {
			w.empty++
		}
		w.after(back, func() {
			a.open[lane] = false
			a.core.answered(answer, w.now)
			a.step()
		})
	}
	w.after(w.delay(), func() { came = w.now; arrive() })
}

// Head answers after a round trip.
func (a *simAgent) Head(lane *broker.Lane, from uint64, done func(uint64)) {
	w := a.w
	w.heads++
	w.after(w.delay(), func() {
		seq := uint64(broker.NoHead)
		for _, m := range w.lane(lane.Queue(), lane.Address).messages {
			if m.Seq >= from {
				seq = m.Seq
				break
			}
		}
		w.after(w.delay(), func() { done(seq); a.step() })
	})
}

func (a *simAgent) headFound(lane *broker.Lane, seq uint64) { a.core.headFound(lane, seq, a.w.now) }

func (a *simAgent) sweep(q *queue) {
	w := a.w
	w.after(w.delay(), func() {
		w.sweeps++
		if err := w.faults.sweep; err != nil {
			w.after(w.delay(), func() { a.core.swept(q, broker.Sweep{}, err, w.now); a.step() })
			return
		}
		s := broker.Sweep{Took: w.faults.took}
		for addr, l := range w.stored[q.layout.Queue] {
			n := uint64(len(l.messages))
			if n > 0 {
				s.Lanes = append(s.Lanes, broker.Found{Address: addr, Messages: n})
			}
		}
		sort.Slice(s.Lanes, func(i, j int) bool {
			return fmt.Sprint(s.Lanes[i].Address) < fmt.Sprint(s.Lanes[j].Address)
		})
		back := w.delay()
		if q.layout.Queue == w.faults.slowSweep {
			back += time.Second
		}
		w.after(back, func() { a.core.swept(q, s, nil, w.now); a.step() })
	})
}

func (a *simAgent) repair(*queue, []string) {}

func (a *simAgent) idle(queue string) { a.idleTold[queue] = true }

// release says that the app is done with messages.
func (a *simAgent) release(got []*broker.Message) {
	for _, m := range got {
		a.w.held[m.Queue]--
		a.w.finish(m)
		a.core.released(m, a.w.now)
	}
}

// giveBack puts a message where it came from, ahead of what was never delivered.
func (a *simAgent) giveBack(m *broker.Message) {
	w := a.w
	if m.Expired(w.now) {
		w.late++
	}
	m.Lane.InHand.Add(-1)
	w.after(w.delay(), func() {
		w.putBack(m)
		w.after(w.delay(), func() {
			a.core.cameBack(m, time.Time{}, w.now)
			a.step()
		})
	})
}

// putBack makes a message wait again, ahead of what was never delivered.
func (w *world) putBack(m *broker.Message) {
	w.finish(m)
	l := w.lane(m.Queue, m.Lane.Address)
	i := 0
	for i < len(l.messages) && l.messages[i].Seq < m.Seq {
		i++
	}
	l.messages = append(l.messages[:i], append([]*broker.Message{m}, l.messages[i:]...)...)
}

// finish makes room for the next message of a serial lane.
func (w *world) finish(m *broker.Message) {
	if w.out[laneOf(m.Lane)] == m {
		delete(w.out, laneOf(m.Lane))
	}
}

// loseAll makes messages be given out again later.
func (w *world) loseAll(answer *broker.Answer) {
	for _, m := range answer.Messages {
		m.Lane.InHand.Add(-1)
		w.lost = append(w.lost, m)
		w.after(5*time.Second, func() { w.find(m) })
	}
	*answer = broker.Answer{Lane: answer.Lane, Err: broker.ErrOutcomeUnknown}
}

// find gives out a message again that was lost, unless that was done before.
func (w *world) find(m *broker.Message) {
	if i := slices.Index(w.lost, m); i >= 0 {
		w.lost = slices.Delete(w.lost, i, i+1)
		w.putBack(m)
	}
}

// handedOut counts what apps have.
func (w *world) handedOut(m *broker.Message) {
	w.held[m.Queue]++
	w.together = max(w.together, w.held[m.Queue])
}

// until does something once a condition holds.
func (w *world) until(cond func() bool, f func()) {
	if cond() {
		f()
		return
	}
	w.after(time.Millisecond, func() { w.until(cond, f) })
}

// pull asks on behalf of an app.
func (a *simAgent) pull(max int, wait time.Duration, answer func([]*broker.Message)) *pull {
	p := &pull{max: max, deadline: a.w.now.Add(wait), oneRound: wait == 0, settled: true}
	a.ask(p, answer)
	return p
}

func (a *simAgent) ask(p *pull, answer func([]*broker.Message)) {
	w := a.w
	p.answer = func(m []*broker.Message, _ error) {
		for _, m := range m {
			w.taken = append(w.taken, delivered{a, m, w.now})
			w.handedOut(m)
		}
		// The app hears of it later, as on a real socket.
		w.after(0, func() { answer(m) })
	}
	a.core.ask(p, w.now)
	a.step()
}

// worker pulls, works and pulls again, until it gets nothing.
func (a *simAgent) worker(max int, wait, work time.Duration) {
	a.pull(max, wait, func(got []*broker.Message) {
		if len(got) == 0 {
			if a.w.backlog() > 0 {
				a.w.emptyTo++
			}
			return
		}
		a.w.after(work, func() {
			for _, m := range got {
				m.Lane.InHand.Add(-1)
			}
			a.release(got)
			a.step()
			a.worker(max, wait, work)
		})
	})
}

// order is what apps got, as text: level, key and sequence.
func (w *world) order() []string {
	var s []string
	for _, d := range w.taken {
		s = append(s, fmt.Sprintf("%d/%s#%d", d.m.Level, d.m.Key, d.m.Seq))
	}
	return s
}
