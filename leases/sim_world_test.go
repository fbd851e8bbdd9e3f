package leases

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"time"
)

// world is a simulation: agents, their machines, the store, and everything that goes wrong, all from one seed.
type world struct {
	rnd     *rand.Rand
	at      int64 // nanoseconds
	serial  int64
	events  eventHeap
	now     weather
	store   *simStore
	agents  []*simAgent
	stale   int64 // after which a dead peer is not counted any more
	excused int64 // until when the exception holds
	calm    int64 // when pauses and cuts are over
	history []string
	keep    bool // the history
	failure string

	fence     uint64 // the highest of a tenure that has begun
	sink      uint64 // the highest of a delivery
	nobody    int64  // since when nobody holds although somebody wants; 0: somebody does
	demanding int64  // when somebody holding is required to be checked, from then on
	allowed   int64  // for how long nobody may hold
	worst     int64
	begun     int // tenures
	ends      map[Reason]int
}

type occurrence struct {
	at, serial int64
	do         func()
}

type eventHeap []occurrence

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].serial < h[j].serial
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *eventHeap) Push(x any)   { *h = append(*h, x.(occurrence)) }
func (h *eventHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = occurrence{}
	*h = old[:len(old)-1]
	return e
}

func newWorld(seed uint64, ttls ...time.Duration) *world {
	w := &world{rnd: rand.New(rand.NewPCG(seed, 7)), stale: 10e9, ends: map[Reason]int{}, at: 1}
	w.store = newSimStore(w)
	for i, ttl := range ttls {
		w.agents = append(w.agents, newSimAgent(w, i, ttl))
	}
	return w
}

func (w *world) after(d int64, do func()) {
	w.serial++
	heap.Push(&w.events, occurrence{w.at + d, w.serial, do})
}

// run runs the world up to a moment, or until a promise is broken.
func (w *world) run(until time.Duration) {
	for w.failure == "" && len(w.events) > 0 && w.events[0].at <= int64(until) {
		e := heap.Pop(&w.events).(occurrence)
		if e.at > w.at {
			w.at = e.at
		}
		e.do()
		w.watchNobody()
	}
	w.at = max(w.at, int64(until))
	w.watchNobody()
}

func (w *world) roll(perMille int) bool { return perMille > 0 && w.rnd.IntN(1000) < perMille }

func (w *world) fail(format string, args ...any) {
	if w.failure == "" {
		w.failure = fmt.Sprintf("at %s: ", time.Duration(w.at)) + fmt.Sprintf(format, args...)
	}
}

func (w *world) note(format string, args ...any) {
	if w.keep {
		w.history = append(w.history, fmt.Sprintf("%-14s ", time.Duration(w.at))+fmt.Sprintf(format, args...))
	}
}

// chances lets things happen to agents and to the bucket, twice a second, while the weather is bad.
func (w *world) chances() {
	for _, a := range w.agents {
		switch {
		case w.roll(w.now.cut):
			w.cut(a)
		case w.roll(w.now.pause):
			a.pausedUntil = min(w.at+int64(w.rnd.IntN(25_000))*1e6, w.calm)
			w.note("%s is paused until %s", a.id, time.Duration(a.pausedUntil))
		case w.roll(w.now.kill):
			w.kill(a, int64(w.rnd.IntN(20_000))*1e6)
		case w.roll(w.now.demand):
			a.want(!a.wanted)
		case w.roll(w.now.silence):
			a.silent = true
			w.note("%s's watch falls silent", a.id)
		}
		if w.roll(50) {
			a.clock.wall = time.Duration(w.rnd.IntN(400)-200) * time.Minute
		}
	}
	if w.roll(w.now.bucket) {
		w.note("the bucket is lost")
		w.store.drop()
		w.after(int64(w.rnd.IntN(15_000))*1e6, w.store.recreate)
	}
	if w.roll(w.now.remove) {
		w.note("the record is deleted")
		w.store.remove()
	}
	w.after(500e6, w.chances)
}

func (w *world) isCut(a *simAgent) bool { return w.at < a.cutUntil }

// cut cuts an agent off: it learns of it at once, late, or never.
func (w *world) cut(a *simAgent) {
	d := max(0, min(int64(w.rnd.IntN(20_000))*1e6, w.calm-w.at))
	a.cutUntil = w.at + d
	w.note("%s is cut off until %s", a.id, time.Duration(a.cutUntil))
	life := a.life
	w.after(d, func() {
		if a.life == life && !w.isCut(a) {
			w.show(a, w.store.current())
		}
	})
	if w.rnd.IntN(3) > 0 {
		w.after(min(int64(w.rnd.IntN(2000))*1e6, d), func() { w.link(a, a.life == life, false) })
	}
	w.after(d+w.latency(), func() { w.link(a, a.life == life && !w.isCut(a), true) })
}

// link lets an agent know whether it is connected, if that is so.
func (w *world) link(a *simAgent, so, up bool) {
	if !so || a.up == up {
		return
	}
	a.up = up
	if !up {
		a.line++
	}
	w.tell(a, 0, func(now time.Time) {
		if a.up {
			a.m.Connected(now)
		} else {
			a.m.Disconnected(now)
		}
	})
}

// watchNobody watches that the lease does not lie about, once that is asked for.
func (w *world) watchNobody() {
	wanted := false
	for _, a := range w.agents {
		if a.fence != 0 && a.until > w.at && !a.dead {
			w.settleNobody()
			return
		}
		wanted = wanted || a.wanted && !a.dead && a.pausedUntil <= w.at
	}
	if !wanted {
		w.settleNobody()
		return
	}
	if w.nobody == 0 {
		w.nobody = w.at
	}
	if since := max(w.nobody, w.demanding); w.demanding > 0 && w.at-since > w.allowed {
		w.fail("L4: nobody has held the lease since %s", time.Duration(since))
	}
}

func (w *world) settleNobody() {
	if w.nobody != 0 && w.demanding > 0 {
		w.worst = max(w.worst, w.at-max(w.nobody, w.demanding))
	}
	w.nobody = 0
}

// demand lets nobody-holds count from now on, for longer than allowed.
func (w *world) demand(allowed time.Duration) {
	w.demanding, w.allowed, w.worst = w.at, int64(allowed), 0
}

// landed is told of every write that was carried out.
func (w *world) landed(a *simAgent, act Action) {
	w.note("%s's write %d is carried out: %+v", a.id, act.Request, w.store.current())
	if act.Record.Holder != "" {
		a.stored = max(a.stored, a.sent[act.Request])
	}
}
