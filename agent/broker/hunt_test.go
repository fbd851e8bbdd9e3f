package broker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/broker/names"
	"github.com/fairlead/fairlead/agent/broker/wire"
)

// state is what a message of the model is doing.
type state string

const (
	unseen   state = "waits, never handed out"
	cameBack state = "waits, was returned"
	inHand   state = "in somebody's hands"
	backOff  state = "backs off"
	orphan   state = "its holder died"
)

// prey is a message of the model.
type prey struct {
	spot
	key   string
	state state
	since time.Time // of its state
	until time.Time // backOff
}

func (p *prey) waits() bool { return p.state == unseen || p.state == cameBack }

// woods is the model that hunts are tried in: a queue with its lanes, as JetStream keeps them.
type woods struct {
	t      *testing.T
	layout Layout
	now    time.Time
	seq    uint64
	all    []*prey            // in order
	come   map[Address]uint64 // how far each lane has come
	found  map[int]time.Time  // when something of a level had to go last
	marks  *marks
}

func (w *woods) look(_ context.Context, queries []query) ([]spot, error) {
	spots := make([]spot, len(queries))
	for i, q := range queries {
		for _, p := range w.all {
			if p.class == q.class && p.seq >= q.from && (q.key == "*" || q.key == p.key) {
				spots[i] = p.spot
				break
			}
		}
	}
	return spots, nil
}

func (w *woods) take(_ context.Context, s spot) (*Message, uint64, error) {
	if p := w.gives(s.address); p != nil {
		w.set(p, inHand)
		w.come[s.address] = max(w.come[s.address], p.seq)
		return &Message{Seq: p.seq, Level: p.address.Level, Lane: &Lane{Address: p.address}}, p.seq - 1, nil
	}
	return nil, w.come[s.address], nil
}

// gives is what a lane gives next: what came back first.
func (w *woods) gives(a Address) (next *prey) {
	for _, p := range w.all {
		if !p.known || p.address != a {
			continue
		}
		if p.state == cameBack || p.state == orphan {
			return p
		}
		if p.state == unseen && next == nil {
			next = p
		}
	}
	return next
}

func (w *woods) passed(_ context.Context, s spot) (uint64, bool, error) {
	for _, p := range w.all {
		if p.known && p.address == s.address && p.state == unseen {
			return w.come[s.address], true, nil
		}
	}
	return w.come[s.address], false, nil
}

func (w *woods) busy(seq uint64) (time.Time, bool) {
	p := w.find(seq)
	return p.until, p.state == backOff
}

func (w *woods) back(seq uint64) bool { return w.find(seq).state == cameBack }

func (w *woods) find(seq uint64) *prey {
	for _, p := range w.all {
		if p.seq == seq {
			return p
		}
	}
	w.t.Fatalf("there is no message %d", seq)
	return nil
}

func (w *woods) set(p *prey, s state) { p.state, p.since = s, w.now }

// give returns a message, and the marks hear of it.
func (w *woods) give(p *prey, until time.Time) {
	w.set(p, cameBack)
	if until.After(w.now) {
		w.set(p, backOff)
		p.until = until
	}
	w.marks.returned(p.class, p.address, p.seq, until)
}

func (w *woods) remove(seq uint64) {
	for i, p := range w.all {
		if p.seq == seq {
			w.all = append(w.all[:i:i], w.all[i+1:]...)
			return
		}
	}
	w.t.Fatalf("%d is gone already", seq)
}

// live has something happen that is not an eviction.
func (w *woods) live(rng *rand.Rand) {
	for _, p := range w.all {
		if p.state == backOff && !w.now.Before(p.until) {
			w.set(p, cameBack)
		}
	}
	switch op := rng.IntN(10); {
	case op < 4:
		level := rng.IntN(w.layout.Levels+2) - 1 // one that has none, and one that the queue does not have
		class, key := names.NoPriority, fmt.Sprint("t", rng.IntN(3))
		if level >= 0 {
			class = names.Class(level)
		}
		w.seq += 1 + uint64(rng.IntN(2))
		p := &prey{spot: spot{seq: w.seq, class: class}, key: key, state: unseen}
		p.address, p.known = w.layout.Address(class, key)
		if rng.IntN(20) == 0 {
			p.known = false // nobody can read it
		}
		w.all = append(w.all, p)
	case op < 7 && len(w.all) > 0: // a worker takes
		if p := w.gives(w.all[rng.IntN(len(w.all))].address); p != nil {
			w.set(p, inHand)
			w.come[p.address] = max(w.come[p.address], p.seq)
		}
	case len(w.all) > 0:
		p := w.all[rng.IntN(len(w.all))]
		if p.state != inHand {
			return
		}
		switch rng.IntN(6) {
		case 0:
			w.give(p, time.Time{})
		case 1:
			w.give(p, w.now.Add(time.Duration(rng.IntN(1500))*time.Millisecond))
		case 2:
			w.set(p, orphan)
		default:
			w.remove(p.seq)
		}
	}
}

// judge checks one victim by looking at everything.
func (w *woods) judge(victim uint64, newcomer int) error {
	v := w.find(victim)
	if v.address.Level < newcomer {
		return fmt.Errorf("%d of level %d had to go for a newcomer of level %d", v.seq, v.address.Level, newcomer)
	}
	for _, p := range w.all { // in order
		if !p.known || !p.waits() {
			continue
		}
		switch {
		case p.address.Level > v.address.Level:
			return fmt.Errorf("%d of level %d had to go while %d of level %d waits (%s)", v.seq, v.address.Level, p.seq, p.address.Level, p.state)
		case p.address.Level == v.address.Level && p.seq < v.seq:
			return fmt.Errorf("%d had to go while %d, which is older, waits (%s)", v.seq, p.seq, p.state)
		}
	}
	return w.spared(v.address.Level + 1)
}

// spared checks that nothing from a level on down was overlooked that waits, or whose holder has been dead for longer than
// marks hold: they are made when the holder lived, or when something else of the level could go.
func (w *woods) spared(level int) error {
	for _, p := range w.all {
		if p.known && p.address.Level >= level && (p.waits() || p.state == orphan && w.now.Sub(p.since) > marksAge && w.now.Sub(w.found[p.address.Level]) > marksAge) {
			return fmt.Errorf("%d of level %d was overlooked (%s)", p.seq, p.address.Level, p.state)
		}
	}
	return nil
}

// hunt tries one hunt and checks it.
func (w *woods) hunt(rng *rand.Rand) error {
	before := map[uint64]state{}
	for _, p := range w.all {
		before[p.seq] = p.state
	}
	newcomer, need := rng.IntN(w.layout.Levels), 1+rng.IntN(3)
	h := newHunt(w, w.layout, w.marks, []string{names.Class(w.layout.Levels)})
	victims, err := h.choose(context.Background(), want{missing: missing{messages: int64(need)}, level: newcomer, size: func(*Message) int64 { return 0 }})
	taken := map[uint64]bool{}
	for _, m := range append(append([]*Message(nil), victims...), h.taken...) {
		if taken[m.Seq] {
			return fmt.Errorf("%d was taken twice", m.Seq)
		}
		taken[m.Seq] = true
		if s := before[m.Seq]; s == inHand || s == backOff {
			return fmt.Errorf("%d was taken: %s", m.Seq, s)
		}
		p := w.find(m.Seq) // for the judge it still waits
		p.state = before[m.Seq]
	}
	for _, p := range w.all {
		if p.state != before[p.seq] {
			return fmt.Errorf("%d was taken and is in nobody's hands", p.seq)
		}
	}
	var full *FullError
	switch {
	case err != nil && !errors.As(err, &full):
		return err
	case err != nil && len(victims) > 0:
		return fmt.Errorf("refused, and %d have to go", len(victims))
	case err == nil && len(victims) != need:
		return fmt.Errorf("%d have to go, for %d", len(victims), need)
	case err != nil:
		if err := w.refused(full.Reason, newcomer, need); err != nil {
			return err
		}
	}
	evict := rng.IntN(8) > 0
	for _, v := range victims {
		if err := w.judge(v.Seq, newcomer); err != nil {
			return err
		}
		if evict {
			w.remove(v.Seq)
		} else {
			w.find(v.Seq).state = inHand
		}
	}
	for _, v := range victims {
		w.found[v.Level] = w.now
	}
	for _, p := range w.all { // what is not needed goes back
		if taken[p.seq] {
			w.give(p, time.Time{})
		}
	}
	return nil
}

func (w *woods) refused(reason string, newcomer, need int) error {
	enough, above, orphans := 0, 0, 0
	for _, p := range w.all {
		if p.state == orphan {
			orphans++
		}
		if p.known && p.waits() && p.address.Level >= newcomer {
			enough++
		}
		if p.known && p.waits() && p.address.Level < newcomer {
			above++
		}
	}
	switch {
	case enough >= need:
		return fmt.Errorf("refused with %s, and %d could go for %d", reason, enough, need)
	case reason == wire.FullLower && above == 0:
		return errors.New("refused as lower than all, and nothing above waits")
	case reason != wire.FullLower && enough+orphans == 0 && above > 0 && len(w.all) < aboveMost:
		return fmt.Errorf("refused with %s, and all that waits ranks above", reason)
	case enough == 0:
		return w.spared(newcomer)
	}
	return nil
}

// In a queue where anything can happen between them, each hunt finds the oldest waiting message of the lowest level, takes
// nothing that runs, and loses nothing that it took.
func TestHuntAgainstModel(t *testing.T) {
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 7))
		w := &woods{t: t, now: time.Unix(1_000_000, 0), come: map[Address]uint64{}, found: map[int]time.Time{}, marks: newMarks()}
		w.layout = Layout{Queue: "orders", Levels: 1 + rng.IntN(3), Keyed: rng.IntN(2) == 0}
		w.layout.Default = rng.IntN(w.layout.Levels)
		w.marks.now = func() time.Time { return w.now }
		for step := range 150 {
			w.now = w.now.Add(time.Duration(rng.IntN(60)) * time.Millisecond)
			w.live(rng)
			if rng.IntN(4) > 0 {
				continue
			}
			if err := w.hunt(rng); err != nil {
				t.Fatalf("seed %d, step %d, keyed %t: %v", seed, step, w.layout.Keyed, err)
			}
		}
	}
}
