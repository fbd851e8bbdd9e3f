package permit

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// sim is a stream of records, its network, and holders with applications, on a clock of its own. Runs with one seed are the
// same.
type sim struct {
	rng     *rand.Rand
	now     time.Time
	events  eventHeap
	n       int
	cap     int
	wait    time.Duration
	seq     uint64
	records map[string]map[int]stored
	beats   map[string]uint64
	holders []*holder
	keyOf   func(key string) string // what a record's key counts for
	over    int                     // how often more of a key were in flight than the cap
	grants  int
	unknown float64 // share of requests whose answer is lost
	lost    float64 // share of notices that are lost
	refused int
	calm    bool // no more faults
}

type stored struct {
	holder string
	seq    uint64
}

type holder struct {
	w       *sim
	l       *Ledger
	down    bool      // crashed
	until   time.Time // paused until then
	cut     bool
	running map[string][]Permit
	keys    []string
	armed   time.Time
	got     map[string]int
}

type event struct {
	at time.Time
	n  int
	f  func()
}
type eventHeap []event

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	return h[i].at.Before(h[j].at) || h[i].at.Equal(h[j].at) && h[i].n < h[j].n
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *eventHeap) Push(x any)   { *h = append(*h, x.(event)) }
func (h *eventHeap) Pop() any {
	e := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return e
}

func newSim(seed uint64, limit int) *sim {
	return &sim{
		rng: rand.New(rand.NewPCG(seed, 7)), now: time.Unix(1_000_000_000, 0), cap: limit, wait: 2 * time.Second,
		records: map[string]map[int]stored{}, beats: map[string]uint64{}, keyOf: func(k string) string { return k },
	}
}

func (w *sim) after(d time.Duration, f func()) {
	w.n++
	heap.Push(&w.events, event{w.now.Add(d), w.n, f})
}

func (w *sim) run(d time.Duration) {
	end := w.now.Add(d)
	for len(w.events) > 0 && !w.events[0].at.After(end) {
		e := heap.Pop(&w.events).(event)
		w.now = e.at
		e.f()
	}
	w.now = end
}

func (w *sim) delay() time.Duration { return time.Duration(w.rng.Int64N(int64(3 * time.Millisecond))) }

func (w *sim) start(keys ...string) *holder {
	h := &holder{w: w, running: map[string][]Permit{}, keys: keys, got: map[string]int{}}
	h.l = New(Config{Holder: fmt.Sprintf("h%d", len(w.holders)), Cap: w.cap, Wait: w.wait, Linger: 2 * time.Millisecond})
	w.holders = append(w.holders, h)
	h.step()
	return h
}

// enter runs f as the holder, when it is not paused.
func (h *holder) enter(f func()) {
	switch {
	case h.down:
	case h.w.now.Before(h.until):
		h.w.after(h.until.Sub(h.w.now), func() { h.enter(f) })
	default:
		f()
		h.step()
	}
}

// step does what the ledger asks for, lets the application take what there is, and sets the timer.
func (h *holder) step() {
	w := h.w
	for again := true; again; {
		again = false
		for _, a := range h.l.Actions() {
			h.carryOut(a)
			again = true
		}
		for _, a := range h.l.Answers() {
			h.answered(a)
			again = true
		}
		for _, k := range h.keys {
			if n := h.l.Room(k); n > 0 && w.rng.IntN(3) > 0 {
				h.l.Want(k, 1+w.rng.IntN(n), w.now)
				again = true
			}
		}
	}
	h.l.Changed()
	if at := h.l.Next(); !at.IsZero() && (h.armed.IsZero() || at.Before(h.armed) || !h.armed.After(w.now)) {
		h.armed = at
		w.after(max(at.Sub(w.now), 0), func() { h.enter(func() { h.armed = time.Time{}; h.l.Tick(w.now) }) })
	}
}

func (h *holder) answered(a Answer) {
	w := h.w
	if a.Full {
		w.refused++
	}
	for _, p := range a.Permits {
		if !h.l.Trusted(p, w.now) {
			h.l.Free(p, w.now)
			continue
		}
		w.grants++
		h.got[p.Key]++
		h.running[p.Key] = append(h.running[p.Key], p)
		w.judge(w.keyOf(p.Key))
		d := time.Duration(w.rng.Int64N(int64(20 * time.Millisecond)))
		if w.rng.IntN(30) == 0 {
			d = time.Duration(w.rng.Int64N(int64(3 * w.wait)))
		}
		w.after(d, func() { h.enter(func() { h.finished(p) }) })
	}
}

func (h *holder) finished(p Permit) {
	for i, q := range h.running[p.Key] {
		if q == p {
			h.running[p.Key] = append(h.running[p.Key][:i:i], h.running[p.Key][i+1:]...)
		}
	}
	h.l.Free(p, h.w.now)
	if h.w.rng.IntN(2) == 0 {
		h.l.Trim(p.Key)
	}
}

// judge counts what is in flight of a key under permits that their holders may trust: also those of holders that crashed or
// are paused a moment ago.
func (w *sim) judge(key string) {
	n := 0
	for _, h := range w.holders {
		for k, list := range h.running {
			for _, p := range list {
				if w.keyOf(k) == key && h.l.Trusted(p, w.now) {
					n++
				}
			}
		}
	}
	if n > w.cap {
		w.over++
	}
}

// carryOut sends a request; it takes effect later, in the order of sending, and is answered later still, or never.
func (h *holder) carryOut(a Action) {
	w := h.w
	answer := func(f func(bool)) {
		w.after(w.delay(), func() { h.enter(func() { f(true) }) })
	}
	if h.cut || w.rng.Float64() < w.unknown/2 { // it does not arrive
		w.after(w.wait/2, func() { h.enter(func() { h.failed(a) }) })
		return
	}
	lostAnswer := w.rng.Float64() < w.unknown/2
	w.after(time.Millisecond, func() {
		reply := w.apply(h, a)
		if lostAnswer || h.cut {
			w.after(w.wait/2, func() { h.enter(func() { h.failed(a) }) })
			return
		}
		answer(func(bool) { reply() })
	})
}

// failed reports that a request was not answered.
func (h *holder) failed(a Action) {
	now := h.w.now
	switch a.Kind {
	case Beat:
		h.l.Beaten(a.At, false, now)
	case Claim:
		h.l.Claimed(a.Key, a.Number, Unknown, 0, now)
	case Release:
		h.l.Released(a.Key, a.Number, false, now)
	case List:
		h.l.Listed(a.Key, nil, false, now)
	case Survey:
		h.l.Surveyed(nil, 0, false, now)
	case Confirm:
		h.l.Confirmed(a.Holder, 0, 0, false, now)
	case Reap:
	}
}

// apply is the server: it does what is asked and returns what tells the holder.
func (w *sim) apply(h *holder, a Action) (reply func()) {
	l, me := h.l, h.l.Holder
	switch a.Kind {
	case Beat:
		w.seq++
		seq := w.seq
		w.beats[me] = seq
		w.tell(h, func(o *holder) { o.l.Heard(me, seq, w.now) })
		return func() { l.Beaten(a.At, true, w.now) }
	case Claim:
		if _, taken := w.records[a.Key][a.Number]; taken {
			return func() { l.Claimed(a.Key, a.Number, Refused, 0, w.now) }
		}
		w.seq++
		seq := w.seq
		if w.records[a.Key] == nil {
			w.records[a.Key] = map[int]stored{}
		}
		w.records[a.Key][a.Number] = stored{me, seq}
		return func() { l.Claimed(a.Key, a.Number, Stored, seq, w.now) }
	case Release:
		if r, ok := w.records[a.Key][a.Number]; ok && (r.seq == a.Seq || a.Seq == 0 && r.holder == me) {
			delete(w.records[a.Key], a.Number)
			w.tell(h, func(o *holder) { o.l.Freed(a.Key) })
		}
		return func() { l.Released(a.Key, a.Number, true, w.now) }
	case List:
		var list []Taken
		for n := range 100 {
			if r, ok := w.records[a.Key][n]; ok {
				list = append(list, Taken{n, r.holder})
			}
		}
		return func() { l.Listed(a.Key, list, true, w.now) }
	case Survey:
		var names []string
		highest := -1
		for _, o := range w.holders {
			if w.beats[o.l.Holder] > 0 {
				names = append(names, o.l.Holder)
			}
		}
		for _, numbers := range w.records {
			for n := range numbers {
				highest = max(highest, n)
			}
		}
		return func() { l.Surveyed(names, highest, true, w.now) }
	case Confirm:
		seq, last := w.beats[a.Holder], w.seq
		return func() { l.Confirmed(a.Holder, seq, last, true, w.now) }
	default:
		for _, numbers := range w.records {
			for n, r := range numbers {
				if r.holder == a.Holder && r.seq <= a.Seq {
					delete(numbers, n)
				}
			}
		}
		if w.beats[a.Holder] <= a.Seq {
			delete(w.beats, a.Holder)
		}
		w.tell(nil, func(o *holder) { o.l.FreedAll() })
		return func() {}
	}
}

// tell sends a notice to the other holders; any may be lost.
func (w *sim) tell(from *holder, f func(*holder)) {
	for _, o := range w.holders {
		if o == from || o.cut || w.rng.Float64() < w.lost {
			continue
		}
		w.after(w.delay(), func() { o.enter(func() { f(o) }) })
	}
}

// faults crashes, pauses and cuts off holders, and starts others in their place.
func (w *sim) faults(keys []string) {
	if w.calm {
		return
	}
	h := w.holders[w.rng.IntN(len(w.holders))]
	switch w.rng.IntN(4) {
	case 0:
		if !h.down {
			h.down = true
			w.start(keys...)
		}
	case 1:
		h.until = w.now.Add(time.Duration(w.rng.Int64N(int64(2 * w.wait))))
	default:
		h.cut = true
		w.after(time.Duration(w.rng.Int64N(int64(2*w.wait))), func() { h.cut = false })
	}
	w.after(time.Duration(w.rng.Int64N(int64(w.wait))), func() { w.faults(keys) })
}

// play runs three holders on two keys through faults, and returns the simulation.
func play(seed uint64, limit int, change func(*sim)) *sim {
	w := newSim(seed, limit)
	w.unknown, w.lost = 0.01, 0.05
	if change != nil {
		change(w)
	}
	keys := []string{"a", "b"}
	for range 3 {
		w.start(keys...)
	}
	w.after(w.wait, func() { w.faults(keys) })
	w.run(15 * w.wait)
	w.calm, w.unknown, w.lost = true, 0, 0
	return w
}

const seeds = 10

func TestNeverMoreThanTheCapThroughFaults(t *testing.T) {
	grants, refused := 0, 0
	for seed := range uint64(seeds) {
		for _, limit := range []int{1, 2, 5} {
			w := play(seed, limit, nil)
			if w.over > 0 {
				t.Fatalf("seed %d, cap %d: more in flight than the cap, %d times", seed, limit, w.over)
			}
			grants += w.grants
			refused += w.refused
		}
	}
	if grants < seeds*1000 || refused == 0 {
		t.Errorf("%d permits granted, %d times full: the simulation tests little", grants, refused)
	}
}

// Each of these breaks one part of the construction, and must be caught.
func TestControls(t *testing.T) {
	controls := map[string]func(*sim){
		// Tokens in the memory of a consumer: a remade one knows nothing of what is held.
		"records forgotten at a restart": func(w *sim) {
			var forget func()
			forget = func() { clear(w.records); w.after(w.wait, forget) }
			w.after(w.wait, forget)
		},
		// max_ack_pending of lane consumers: each level counts by itself.
		"a cap per lane": func(w *sim) {
			w.keyOf = func(string) string { return "one key, two levels" }
		},
	}
	for name, change := range controls {
		over := 0
		for seed := range uint64(seeds) / 10 {
			over += play(seed, 2, change).over
		}
		if over == 0 {
			t.Errorf("%s: never more than the cap was seen in flight; the check cannot fail", name)
		}
	}
	over := 0
	for seed := range uint64(seeds) {
		w := newSim(seed, 1)
		w.unknown = 0.01
		for i := range 3 {
			h := w.start("a")
			if i == 0 { // trusts its permits for longer than others wait
				h.l.Wait *= 4
			}
		}
		w.after(w.wait, func() { w.faults([]string{"a"}) })
		w.run(15 * w.wait)
		over += w.over
	}
	if over == 0 {
		t.Error("trust beyond the wait: never more than the cap was seen in flight; the check cannot fail")
	}
}

// What dead holders had comes back within a wait of their last beat, and nothing is leaked on the way.
func TestPermitsOfTheDeadComeBack(t *testing.T) {
	for seed := range uint64(seeds) {
		w := play(seed, 3, nil)
		for _, h := range w.holders {
			h.down = true
		}
		w.run(w.wait) // what was on its way
		died := w.now
		h := w.start("a")
		for w.ofTheDead() > 0 {
			if w.run(10 * time.Millisecond); w.now.Sub(died) > w.wait+time.Second {
				t.Fatalf("seed %d: after %v the permits of the dead are not back", seed, w.now.Sub(died))
			}
		}
		w.run(w.wait)
		if h.got["a"] < 3 {
			t.Fatalf("seed %d: the new holder had %d permits", seed, h.got["a"])
		}
	}
}

func (w *sim) ofTheDead() (n int) {
	for _, h := range w.holders {
		for _, numbers := range w.records {
			for _, r := range numbers {
				if h.down && r.holder == h.l.Holder {
					n++
				}
			}
		}
	}
	return n
}

// With nobody working, no record is left, and nothing is remembered.
func TestIdleKeysCostNothing(t *testing.T) {
	for seed := range uint64(seeds) / 5 {
		w := play(seed, 2, nil)
		for _, h := range w.holders {
			h.keys = nil
		}
		w.run(20 * w.wait)
		w.run(2 * keyMemory)
		for name, numbers := range w.records {
			if len(numbers) > 0 {
				t.Fatalf("seed %d: key %s has records %v", seed, name, numbers)
			}
		}
		for _, h := range w.holders {
			if !h.down && (len(h.l.keys) > 0 || h.l.Held() > 0 || h.l.Full() > 0) {
				t.Fatalf("seed %d: %s remembers %d keys, holds %d, full %d", seed, h.l.Holder, len(h.l.keys), h.l.Held(), h.l.Full())
			}
		}
	}
}
