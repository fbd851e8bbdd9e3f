package permit

import (
	"container/heap"
	"time"
)

type timerKind int

const (
	timerBeat   timerKind = iota // a beat may be due
	timerRetry                   // a full key may be tried again
	timerIdle                    // a freed permit was kept long enough
	timerDoubt                   // a record may have to be removed
	timerPeer                    // a holder may be gone
	timerSurvey                  // records above the cap may be gone
	timerForget                  // a key that was full may have been given up
)

type timer struct {
	at   time.Time
	kind timerKind
	name string // of the key or the holder
	n    uint64 // order of arrival, so that ties break the same way always
}

type timers struct {
	items []timer
	n     uint64
}

func (t *timers) add(at time.Time, kind timerKind, name string) {
	t.n++
	heap.Push(t, timer{at, kind, name, t.n})
}

func (t *timers) Len() int { return len(t.items) }
func (t *timers) Less(i, j int) bool {
	if !t.items[i].at.Equal(t.items[j].at) {
		return t.items[i].at.Before(t.items[j].at)
	}
	return t.items[i].n < t.items[j].n
}
func (t *timers) Swap(i, j int) { t.items[i], t.items[j] = t.items[j], t.items[i] }
func (t *timers) Push(x any)    { t.items = append(t.items, x.(timer)) }
func (t *timers) Pop() any {
	last := len(t.items) - 1
	x := t.items[last]
	t.items[last] = timer{}
	t.items = t.items[:last]
	return x
}

// Next is when Tick has something to do; the zero time is never.
func (l *Ledger) Next() time.Time {
	if len(l.timers.items) == 0 {
		return time.Time{}
	}
	return l.timers.items[0].at
}

// Tick does what is due.
func (l *Ledger) Tick(now time.Time) {
	for len(l.timers.items) > 0 && !l.timers.items[0].at.After(now) {
		t := heap.Pop(&l.timers).(timer)
		switch t.kind {
		case timerBeat:
			l.beatDue(now)
		case timerPeer:
			l.suspect(t.name, now)
		case timerSurvey:
			l.survey()
		default:
			if k := l.keys[t.name]; k != nil {
				l.keyDue(k, t.kind, now)
			}
		}
	}
}

// keyDue does what is due of one key.
func (l *Ledger) keyDue(k *keyState, kind timerKind, now time.Time) {
	switch kind {
	case timerRetry:
		if k.full && !k.open && !now.Before(k.retryAt) {
			clear(k.taken)
			l.empty(k)
			l.change(k)
			l.timers.add(now.Add(keyMemory), timerForget, k.name)
		}
	case timerForget:
		l.forget(k)
	case timerIdle, timerDoubt:
		for _, n := range k.numbers() {
			s := k.slots[n]
			if s.state == idle && !now.Before(s.since.Add(l.Linger)) || s.state == doubtful {
				l.release(s)
			}
		}
	}
}
