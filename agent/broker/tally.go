package broker

import (
	"sort"
	"time"

	"github.com/fairlead/fairlead/agent/broker/names"
)

// tally adds up a queue's messages.
type tally struct {
	layout  Layout
	levels  []LevelStats
	keys    map[string]*Depth
	classes map[string]bool // that hold messages
	odd     uint64
}

func newTally(layout Layout) *tally {
	t := &tally{layout: layout, levels: make([]LevelStats, layout.Levels), keys: map[string]*Depth{}, classes: map[string]bool{}}
	for i := range t.levels {
		t.levels[i].Level = i
	}
	return t
}

// stored counts n messages on a subject, given without the queue's prefix.
func (t *tally) stored(rest string, n uint64) {
	classToken, keyToken, ok := names.Split(rest)
	var a Address
	if ok {
		a, ok = t.layout.Address(classToken, keyToken)
	}
	if !ok {
		t.odd += n
		return
	}
	t.classes[classToken] = true
	t.levels[a.Level].Stored += n
	key, _ := names.DecodeKey(keyToken) // unusable: served as unkeyed
	depth := t.keys[key]
	if depth == nil {
		depth = new(Depth)
		t.keys[key] = depth
	}
	depth.Stored += n
}

// returns sums up the records of returned messages of one lane, as far as the consumer that exists now knows of them.
type returns struct {
	off   uint64 // backing off
	once  uint64 // their time has come; returned when they had been delivered once
	again uint64 // their time has come; delivered more often
	twice uint64 // delivered more than once when they were returned, backing off or not
	last  uint64 // the lane's last delivery of one in again
}

func (s *returns) add(r attempt, off bool) {
	if r.Delivered > 1 {
		s.twice++
	}
	switch {
	case off:
		s.off++
	case r.Delivered > 1:
		s.again++
		s.last = max(s.last, r.Sequence)
	default:
		s.once++
	}
}

// home is how many of a lane's returned messages have not gone out again. JetStream counts them as pending all the same,
// and does not say which they are. But it counts how many were delivered more than once, which tells of those that were
// returned for the first time; and it delivers returned messages before others, so that of the rest at most as many went
// out as were delivered since.
func (s *returns) home(l laneCount) uint64 {
	out := min(s.once, l.again-min(l.again, s.twice))
	return s.off + s.once - out + s.again - min(s.again, l.delivered-s.last)
}

// held works out what is backing off, and what of each lane is in flight.
func (t *tally) held(lanes []laneCount, records []attempt, now time.Time) {
	sums := make(map[Address]*returns, len(lanes))
	counts := make(map[Address]laneCount, len(lanes))
	for _, l := range lanes {
		sums[l.address] = new(returns)
		counts[l.address] = l
	}
	for _, r := range records {
		classToken, keyToken, ok := names.Split(r.Address)
		if !ok {
			continue
		}
		a, ok := t.layout.Address(classToken, keyToken)
		if !ok {
			continue
		}
		off := r.notBefore().After(now)
		if off {
			t.levels[a.Level].BackingOff++
			key, _ := names.DecodeKey(keyToken)
			if depth := t.keys[key]; depth != nil {
				depth.BackingOff++
			}
		}
		// What was returned to a consumer that is gone is not pending in the present one.
		if sum := sums[a]; sum != nil && r.Fence == counts[a].fence && r.Sequence <= counts[a].delivered {
			sum.add(r, off)
		}
	}
	for _, l := range lanes {
		inFlight := l.pending - min(l.pending, sums[l.address].home(l))
		t.levels[l.address.Level].InFlight += inFlight
		if depth := t.keys[l.address.Key]; t.layout.Keyed && depth != nil {
			depth.InFlight += inFlight
		}
	}
}

// stats makes the answer. What was read at different moments is cut to what is stored.
func (t *tally) stats(keys int) Stats {
	s := Stats{Queue: t.layout.Queue, Levels: t.levels, Odd: t.odd, KeysTotal: len(t.keys)}
	for i := range s.Levels {
		d := &s.Levels[i].Depth
		d.settle()
		s.Stored += d.Stored
		s.Waiting += d.Waiting
		s.InFlight += d.InFlight
		s.BackingOff += d.BackingOff
	}
	s.Keys = make([]KeyStats, 0, len(t.keys))
	for key, d := range t.keys {
		d.settle()
		s.Keys = append(s.Keys, KeyStats{key, *d})
	}
	sort.Slice(s.Keys, func(i, j int) bool {
		if s.Keys[i].Stored != s.Keys[j].Stored {
			return s.Keys[i].Stored > s.Keys[j].Stored
		}
		return s.Keys[i].Key < s.Keys[j].Key
	})
	s.Keys = s.Keys[:min(len(s.Keys), max(keys, 0))]
	return s
}

func (d *Depth) settle() {
	d.BackingOff = min(d.BackingOff, d.Stored)
	d.InFlight = min(d.InFlight, d.Stored-d.BackingOff)
	d.Waiting = d.Stored - d.BackingOff - d.InFlight
}
