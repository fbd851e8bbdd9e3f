package broker

import (
	"sync"
	"time"

	"github.com/fairlead/fairlead/agent/due"
)

const (
	// marksAge is how long a mark holds. What a crashed agent had comes back without a word; it is seen again after that.
	marksAge = time.Second
	// sharedAge is how long a lane counts as one that others take from.
	sharedAge = 30 * time.Second
)

// marks remember which stored messages do not wait, so that each hunt does not find that out again: they are in somebody's
// hands, or back off. Whatever is returned by an agent undoes the marks that speak of it. They are hints: a wrong one costs
// a turn of age among messages of one level, for a second. Safe for several goroutines.
type marks struct {
	now func() time.Time

	mu      sync.Mutex
	classes map[string]mark       // nothing of a class waits before it
	lanes   map[Address]mark      // nothing of a lane waits up to it
	later   due.Queue[comeback]   // messages that back off
	others  map[Address]time.Time // lanes that others take from, until then
}

type mark struct {
	seq   uint64
	until time.Time
}

func newMarks() *marks {
	return &marks{now: time.Now, classes: map[string]mark{}, lanes: map[Address]mark{}, others: map[Address]time.Time{}}
}

// from is where to begin to look in a class.
func (k *marks) from(class string) uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.catchUpLocked()
	if m, ok := k.classes[class]; ok && now.Before(m.until) {
		return m.seq
	}
	delete(k.classes, class)
	return 1
}

// passed says that nothing of a class waits before seq, and that this is so until then; the zero time is no limit.
func (k *marks) passed(class string, seq uint64, until time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.now()
	m, ok := k.classes[class]
	switch {
	case !ok:
		m.until = now.Add(marksAge)
	case !now.Before(m.until):
		delete(k.classes, class) // what was passed over before has to be seen again
		return
	}
	if !until.IsZero() && until.Before(m.until) {
		m.until = until
	}
	m.seq = max(m.seq, seq)
	k.classes[class] = m
}

// upTo is the sequence up to which nothing of a lane waits.
func (k *marks) upTo(a Address) uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.catchUpLocked()
	if m, ok := k.lanes[a]; ok && now.Before(m.until) {
		return m.seq
	}
	delete(k.lanes, a)
	return 0
}

// lanesMost bounds the lanes that are remembered.
const lanesMost = 1 << 14

// noneUpTo says that nothing of a lane waits up to seq.
func (k *marks) noneUpTo(a Address, seq uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.lanes) >= lanesMost {
		clear(k.lanes)
	}
	k.lanes[a] = mark{seq, k.now().Add(marksAge)}
}

// share notes that others take from a lane.
func (k *marks) share(a Address) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.others) >= lanesMost {
		clear(k.others)
	}
	k.others[a] = k.now().Add(sharedAge)
}

// private tells that a lane was looked at lately, and that nobody else seems to take from it.
func (k *marks) private(a Address) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.now()
	if until, ok := k.others[a]; ok && now.Before(until) {
		return false
	}
	delete(k.others, a)
	m, ok := k.lanes[a]
	return ok && now.Before(m.until)
}

// returned says that a message waits again from a time on; the zero time is now.
func (k *marks) returned(class string, lane Address, seq uint64, at time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := comeback{class, lane, seq}
	if at.After(k.now()) && k.later.Len() < lanesMost {
		k.later.Add(at, c)
		return
	}
	k.undoLocked(c)
}

func (k *marks) undoLocked(c comeback) {
	if m, ok := k.classes[c.class]; ok && c.seq < m.seq {
		m.seq = c.seq
		k.classes[c.class] = m
	}
	if m, ok := k.lanes[c.lane]; ok && c.seq <= m.seq {
		m.seq = c.seq - 1
		k.lanes[c.lane] = m
	}
}

// catchUpLocked undoes the marks that speak of messages whose time has come.
func (k *marks) catchUpLocked() time.Time {
	now := k.now()
	for {
		c, ok := k.later.Take(now)
		if !ok {
			return now
		}
		k.undoLocked(c)
	}
}

// comeback is a message that backs off.
type comeback struct {
	class string
	lane  Address
	seq   uint64
}

// forget drops all marks: the queue's lanes have changed.
func (k *marks) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.classes)
	clear(k.lanes)
	clear(k.others)
	k.later = due.Queue[comeback]{}
}
