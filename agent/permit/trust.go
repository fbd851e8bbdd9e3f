package permit

import "time"

// trust is how long this holder may rely on its permits: others remove them only when they have seen no new beat for the
// whole wait.
type trust struct {
	open  bool      // a beat has no answer yet
	beat  time.Time // when it was sent
	until time.Time // three quarters of the wait after the last stored beat was sent
	since time.Time // when the first beat of this unbroken time was sent; permits claimed before are not trusted
	due   time.Time // when the next beat is due, if there is something to keep
}

// trusted tells whether permits can be relied on now.
func (l *Ledger) trusted(now time.Time) bool { return now.Before(l.trust.until) }

// Trusted tells whether everybody counts a permit now.
func (l *Ledger) Trusted(p Permit, now time.Time) bool {
	return l.trusted(now) && !p.at.Before(l.trust.since)
}

// beat stores a beat, unless one is on its way.
func (l *Ledger) beat(now time.Time) {
	if l.trust.open {
		return
	}
	l.trust.open, l.trust.beat = true, now
	l.do(Action{Kind: Beat, At: now})
}

// Beaten takes in whether the beat that was sent at a time was stored. An answer that comes after trust had ended does not
// bring it back for what was claimed before that beat: others may have removed it meanwhile.
func (l *Ledger) Beaten(sent time.Time, ok bool, now time.Time) {
	l.trust.open = false
	if ok {
		if !l.trusted(now) {
			l.trust.since = sent
		}
		l.trust.until = sent.Add(l.Wait * 3 / 4)
		l.trust.due = sent.Add(l.Wait / 4)
	} else {
		l.trust.due = now.Add(l.Wait / 16)
	}
	l.timers.Add(l.trust.due, timer{timerBeat, ""})
	for _, name := range l.names() {
		if k := l.keys[name]; k.open {
			l.finish(k, now)
		}
	}
}

// beatDue stores a beat if there is something to keep.
func (l *Ledger) beatDue(now time.Time) {
	if l.slots > 0 && !now.Before(l.trust.due) {
		l.beat(now)
	}
}
