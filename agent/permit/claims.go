package permit

import (
	"hash/fnv"
	"time"
)

// maxLists is how many listings one Want may need. Others were faster then, again and again.
const maxLists = 3

// Want asks for n permits of a key. There must be Room for them, and no other Want of the key open.
func (l *Ledger) Want(name string, n int, now time.Time) {
	k := l.key(name)
	k.open, k.missing, k.granted, k.lists, k.failed = true, n, nil, 0, false
	for _, n := range k.numbers() {
		switch s := k.slots[n]; {
		case s.state != idle:
		case !l.reusable(s, now):
			l.release(s)
		case k.missing > 0:
			l.grant(k, s)
		}
	}
	if k.missing > 0 {
		if !now.Before(l.trust.due) || !l.trusted(now) {
			l.beat(now)
		}
		if l.careful {
			l.list(k, now)
		} else {
			l.claim(k, k.missing, now)
		}
	}
	l.advance(k, now)
}

func (l *Ledger) grant(k *keyState, s *slot) {
	s.state = granted
	k.granted = append(k.granted, s.Permit)
	k.missing--
}

// claim claims up to n numbers that are not known to be taken.
func (l *Ledger) claim(k *keyState, n int, now time.Time) {
	for ; n > 0; n-- {
		number, ok := l.candidate(k)
		if !ok {
			return
		}
		k.slots[number] = &slot{Permit: Permit{Key: k.name, Number: number, at: now}, state: claiming, since: now}
		l.slots++
		k.claiming++
		l.do(Action{Kind: Claim, Key: k.name, Number: number})
	}
}

// candidate is the number to claim next: one that worked before, else the first free one from a place that differs from
// holder to holder, so that they seldom meet.
func (l *Ledger) candidate(k *keyState) (int, bool) {
	free := func(n int) bool { return n < l.Cap && k.slots[n] == nil && !k.taken[n] }
	for len(k.next) > 0 {
		n := k.next[len(k.next)-1]
		k.next = k.next[:len(k.next)-1]
		if free(n) {
			return n, true
		}
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(l.Holder))
	_, _ = h.Write([]byte(k.name))
	start := int(h.Sum32()>>1) % l.Cap
	for i := range l.Cap {
		if n := (start + i) % l.Cap; free(n) {
			return n, true
		}
	}
	return 0, false
}

// Claimed takes in what came of a claim. seq is that of the record that was stored.
func (l *Ledger) Claimed(name string, number int, o Outcome, seq uint64, now time.Time) {
	k := l.keys[name]
	if k == nil || k.slots[number] == nil || k.slots[number].state != claiming {
		return
	}
	s := k.slots[number]
	k.claiming--
	switch o {
	case Stored:
		s.seq = seq
		if k.missing > 0 && number < l.Cap {
			l.grant(k, s)
		} else {
			l.release(s)
		}
	case Refused:
		l.drop(k, s)
		k.taken[number] = true
	case Failed:
		l.drop(k, s)
		k.failed = true
	case Unknown:
		s.state, k.failed = doubtful, true
		l.timers.Add(now.Add(doubtAfter), timer{timerDoubt, name})
	}
	l.advance(k, now)
}

// list asks for the records of a key.
func (l *Ledger) list(k *keyState, now time.Time) {
	if k.listing {
		return
	}
	k.listing, k.listedAt = true, now
	k.lists++
	l.do(Action{Kind: List, Key: k.name})
}

// Taken is one record of a key.
type Taken struct {
	Number int
	Holder string
}

// Listed takes in the records of a key.
func (l *Ledger) Listed(name string, records []Taken, ok bool, now time.Time) {
	k := l.keys[name]
	if k == nil || !k.listing {
		return
	}
	k.listing = false
	if !ok {
		k.failed = true
		l.advance(k, now)
		return
	}
	clear(k.taken)
	for _, r := range records {
		if r.Holder != l.Holder {
			k.taken[r.Number] = true
			l.met(r.Holder)
			continue
		}
		if k.slots[r.Number] == nil { // left over from a claim that was given up
			s := &slot{Permit: Permit{Key: name, Number: r.Number}, since: now}
			k.slots[r.Number] = s
			l.slots++
			l.release(s)
		}
	}
	if k.open && k.missing > 0 && k.claiming == 0 && !k.full {
		if free := l.Cap - len(k.taken) - len(k.slots); free > 0 {
			l.claim(k, min(k.missing, free), now)
		}
		if k.claiming == 0 {
			l.fill(k, now)
		}
	}
	l.advance(k, now)
}

// advance goes on with the open Want when nothing of it is under way: where claims met others' records, what is free is
// looked up, unless it is clear that nothing is.
func (l *Ledger) advance(k *keyState, now time.Time) {
	if k.open && k.missing > 0 && k.claiming == 0 && !k.listing && !k.full {
		switch {
		case k.failed || l.Cap == 1 || k.lists >= maxLists:
			l.fill(k, now)
			if now.Sub(k.listedAt) >= max(l.Wait/8, firstRetry) && !k.failed {
				l.list(k, now) // who has it? The holder may be gone
			}
		default:
			l.list(k, now)
		}
	}
	l.finish(k, now)
}

// finish answers the open Want when nothing of it is under way.
func (l *Ledger) finish(k *keyState, now time.Time) {
	if !k.open {
		l.forget(k)
		return
	}
	if k.claiming > 0 || k.missing > 0 && !k.full {
		return
	}
	if len(k.granted) > 0 && l.trust.open && !l.trusted(now) {
		return // the beat that went before the claims is on its way
	}
	permits := make([]Permit, 0, len(k.granted))
	for _, p := range k.granted {
		s := k.slots[p.Number]
		if !l.Trusted(p, now) {
			l.release(s)
			k.missing++
			continue
		}
		s.state = used
		permits = append(permits, p)
	}
	if k.missing == 0 {
		k.retry = 0
		l.empty(k)
	} else if !k.full {
		l.fill(k, now)
	}
	l.answers = append(l.answers, Answer{Key: k.name, Permits: permits, Full: k.missing > 0})
	k.open, k.granted, k.missing = false, nil, 0
	l.change(k)
	l.forget(k)
}
