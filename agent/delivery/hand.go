package delivery

import (
	"slices"
	"time"

	"github.com/fairlead/fairlead/agent/broker"
)

// Delivery is one message as it is handed to an app.
type Delivery struct {
	Token    string
	Message  *broker.Message // read-only
	Deadline time.Time       // when the lease ends, by the wall clock

	entry *entry
}

// Hand enters messages as live deliveries with this lease (MinLease to MaxLease; the caller has checked it). s may be
// nil: then the lease alone decides. The answer is in the order of msgs.
//
// A message that is live here already, because it arrived a second time before the book could say so, is not handed out
// twice: it is given back, and the answer is that much shorter. When it comes again, Refresh knows it.
//
// A message of a queue with a single active consumer is not handed out when its tenure is not trusted any more: it is given
// back, too. So is one that has expired since it was taken: whoever takes it next removes it.
//
// Every message's slot is released and its fate told to the owner exactly once, also when Hand fails, with ErrSessionEnded
// or ErrClosed.
func (b *Book) Hand(owner Owner, msgs []*broker.Message, lease time.Duration, s *Session) ([]Delivery, error) {
	if len(msgs) == 0 {
		return nil, nil
	}
	entries := make([]entry, len(msgs)) // one piece of memory, for speed
	ds := make([]Delivery, 0, len(msgs))
	wall := time.Now()
	deadline := wall.Add(lease).Round(0)

	b.outstanding.Add(int64(len(msgs)))
	b.mu.Lock()
	if b.closed || s != nil && s.ended {
		return nil, b.refuseAndUnlock(owner, msgs)
	}
	now := wall.Sub(b.start)
	var doubles, late, expired []giveBack
	for i, m := range msgs {
		if !m.Tenure().Trusted(wall) {
			late = append(late, giveBack{m: m, owner: owner, how: broker.Return{Reason: "the queue's lease was lost before delivery"}})
			continue
		}
		if m.Expired(wall) {
			expired = append(expired, giveBack{m: m, owner: owner, how: broker.Return{Reason: "expired before delivery"}})
			continue
		}
		if b.byMessage[address{m.Queue, m.Seq}] != nil {
			doubles = append(doubles, giveBack{m: m, owner: owner, how: broker.Return{Reason: "handed out already"}})
			continue
		}
		e := &entries[i]
		*e = entry{id: b.memory.issue(now), owner: owner, since: now, m: m, session: s, writing: true, lease: lease, deadline: now + lease, place: absent}
		b.byToken[e.id] = e
		b.linkLocked(e, now)
		ds = append(ds, Delivery{Message: m, Deadline: deadline, entry: e})
	}
	b.counts.Handed += uint64(len(ds))
	b.counts.Doubles += uint64(len(doubles))
	b.counts.Late += uint64(len(late))
	b.counts.TooLate += uint64(len(expired))
	b.giveBackLocked(append(append(doubles, late...), expired...))
	b.armLocked()
	b.mu.Unlock()
	b.nameAll(ds)
	if len(ds) > 0 {
		b.observer.Handed(ds)
	}
	return ds, nil
}

// refuseAndUnlock gives back messages that cannot be handed out.
func (b *Book) refuseAndUnlock(owner Owner, msgs []*broker.Message) error {
	if b.closed {
		b.mu.Unlock()
		for _, m := range msgs {
			owner.Released(m, broker.Unused)
		}
		b.told(len(msgs))
		return ErrClosed
	}
	backs := make([]giveBack, 0, len(msgs))
	for _, m := range msgs {
		backs = append(backs, giveBack{m: m, owner: owner, how: broker.Return{Reason: "session ended before delivery"}})
	}
	b.giveBackLocked(backs)
	b.mu.Unlock()
	return ErrSessionEnded
}

// nameAll writes the tokens of ds: into one string that they share, which saves an allocation for each.
func (b *Book) nameAll(ds []Delivery) {
	ends := make([]int, len(ds))
	buf := make([]byte, 0, len(ds)*(len(b.mint.prefix)+8))
	for i := range ds {
		buf = b.mint.append(buf, ds[i].entry.id)
		ends[i] = len(buf)
	}
	all, begin := string(buf), 0
	for i := range ds {
		ds[i].Token = all[begin:ends[i]]
		begin = ends[i]
	}
}

// Written tells that the answer with these deliveries was written: from now on, losing one counts as an attempt. After
// ReturnAll it does not: then it is this agent that goes away. What its session left behind meanwhile goes back at once.
//
// Each delivery is to be told of with Written or with Unwritten, as soon as it is known.
func (b *Book) Written(ds []Delivery) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var backs []giveBack
	for i := range ds {
		e := ds[i].entry
		e.writing, e.written = false, !b.leaving
		if e.state == live && e.orphaned() {
			backs = append(backs, b.loseLocked(e, fateExpired, SessionLost, sessionEnded))
		}
	}
	b.counts.SessionsLost += uint64(len(backs))
	b.giveBackLocked(backs)
}

// Unwritten tells that the answer could not be written. What is still live of it goes back at once, in ascending order;
// it does not count as an attempt.
func (b *Book) Unwritten(ds []Delivery) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var backs []giveBack
	for i := range ds {
		// An app that knows a token from a torn answer may have settled it: then that is the outcome.
		e := ds[i].entry
		e.writing = false
		if e.state == live {
			backs = append(backs, b.loseLocked(e, fateExpired, Unwritten, "the answer could not be written"))
		}
	}
	b.counts.Unwritten += uint64(len(backs))
	b.giveBackLocked(backs)
}

// Refresh replaces the handle of a live delivery by m, the same message from another lane consumer, and returns true: m
// is not to be handed out. When the message is not live here, nothing happens and it returns false: m is new work. A message that is being given
// back is not live.
func (b *Book) Refresh(m *broker.Message) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.byMessage[address{m.Queue, m.Seq}]
	if e == nil || !e.held() {
		return false
	}
	m.Replace(e.m)
	e.m = m
	b.counts.Refreshed++
	return true
}

// AppendIDs appends the numbers of deliveries to dst, for InHand: they take less memory than what they stand for.
func AppendIDs(dst []uint64, ds []Delivery) []uint64 {
	for i := range ds {
		dst = append(dst, ds[i].entry.id)
	}
	return dst
}

// InHand tells whether any of these deliveries is not settled yet.
func (b *Book) InHand(ids []uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.ContainsFunc(ids, func(id uint64) bool { return b.byToken[id] != nil })
}

// Holds tells whether a message is in an app's hands here.
func (b *Book) Holds(queue string, seq uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.byMessage[address{queue, seq}] != nil
}
