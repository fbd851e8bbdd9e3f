package permit

import "time"

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
	kind timerKind
	name string // of the key or the holder
}

// Next is when Tick has something to do; the zero time is never.
func (l *Ledger) Next() time.Time { return l.timers.Next() }

// Tick does what is due.
func (l *Ledger) Tick(now time.Time) {
	for {
		t, ok := l.timers.Take(now)
		if !ok {
			return
		}
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
			l.timers.Add(now.Add(keyMemory), timer{timerForget, k.name})
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
