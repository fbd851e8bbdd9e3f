package dispatch

import (
	"time"

	"github.com/fairlead/fairlead/agent/permit"
)

// simSlots are the records of permits, by queue, key and number.
type simSlots map[string]map[int]simRecord

type simRecord struct {
	holder string
	seq    uint64
}

// carryOut does what a ledger asks for after half a round trip, and tells it after the other half.
func (a *simAgent) carryOut(queue string, act permit.Action) {
	w := a.w
	back := func(f func(*permit.Ledger, time.Time)) {
		w.after(w.faults.latency, func() {
			if !a.dead {
				a.core.permitEvent(queue, f, w.now)
				a.step()
			}
		})
	}
	w.after(w.faults.latency, func() {
		if !a.dead {
			w.permits(a, queue, act, back)
		}
	})
}

func (w *world) permits(a *simAgent, queue string, act permit.Action, back func(func(*permit.Ledger, time.Time))) {
	id := queue + "/" + act.Key
	switch w.seq++; act.Kind {
	case permit.Beat:
		seq := w.seq
		for _, other := range w.agents {
			w.after(w.delay(), func() {
				if other != a && !other.dead {
					other.core.permitEvent(queue, func(l *permit.Ledger, now time.Time) { l.Heard(a.name, seq, now) }, w.now)
					other.step()
				}
			})
		}
		back(func(l *permit.Ledger, now time.Time) { l.Beaten(act.At, true, now) })
	case permit.Claim:
		outcome, seq := permit.Refused, w.seq
		if w.slots[id] == nil {
			w.slots[id] = map[int]simRecord{}
		}
		if _, taken := w.slots[id][act.Number]; !taken {
			outcome = permit.Stored
			w.slots[id][act.Number] = simRecord{a.name, seq}
		}
		w.claims++
		back(func(l *permit.Ledger, now time.Time) { l.Claimed(act.Key, act.Number, outcome, seq, now) })
	case permit.Release:
		if w.slots[id][act.Number].seq == act.Seq {
			delete(w.slots[id], act.Number)
		}
		w.tellFreed(a, queue, func(l *permit.Ledger, _ time.Time) { l.Freed(act.Key) })
		back(func(l *permit.Ledger, now time.Time) { l.Released(act.Key, act.Number, true, now) })
	case permit.List:
		var taken []permit.Taken
		for n, r := range w.slots[id] {
			taken = append(taken, permit.Taken{Number: n, Holder: r.holder})
		}
		back(func(l *permit.Ledger, now time.Time) { l.Listed(act.Key, taken, true, now) })
	case permit.Survey:
		back(func(l *permit.Ledger, now time.Time) { l.Surveyed(nil, -1, true, now) })
	case permit.Confirm:
		seq := w.seq
		back(func(l *permit.Ledger, now time.Time) { l.Confirmed(act.Holder, 0, seq, true, now) })
	case permit.Reap:
		for _, numbers := range w.slots {
			for n, r := range numbers {
				if r.holder == act.Holder && r.seq <= act.Seq {
					delete(numbers, n)
				}
			}
		}
		w.tellFreed(nil, queue, func(l *permit.Ledger, _ time.Time) { l.FreedAll() })
	}
}

func (w *world) tellFreed(from *simAgent, queue string, f func(*permit.Ledger, time.Time)) {
	for _, other := range w.agents {
		if other == from || other.dead || w.faults.loseWake > 0 && w.rng.Float64() < w.faults.loseWake {
			continue
		}
		w.after(w.delay(), func() { other.core.permitEvent(queue, f, w.now); other.step() })
	}
}
