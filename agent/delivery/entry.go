package delivery

import (
	"time"

	"github.com/fairlead/fairlead/agent/broker"
)

// state is where a delivery stands; see the picture in the package comment.
type state int

const (
	live      state = iota // in the app's hands
	finishing              // acked; JetStream has not confirmed the delete yet
	returning              // nacked or rejected; not given back yet
	gone                   // settled, expired, or never written
)

// entry is one delivery. All fields but id, owner and since are guarded by the book's lock.
type entry struct {
	id    uint64
	owner Owner
	since instant // when it was handed out

	m       *broker.Message // replaced by Refresh
	session *Session        // nil: the lease alone decides
	state   state
	// settling is when its app said last what became of it; 0: it has not.
	settling instant
	writing  bool // the answer with it is being written: nobody knows yet whether its app got it
	written  bool // from here on, losing it counts as an attempt
	// doomed is why it was given up in a burial whose outcome is unknown. It may be among the dead letters: however the app
	// loses it, or gives it back, it is buried again.
	doomed   broker.DeadReason
	lost     bool // its session ended, or the agent drained, while it was being settled
	lease    time.Duration
	deadline instant

	settler waiter   // who waits for finishing or returning
	others  []waiter // who settled it again meanwhile

	place      int       // in deadlines
	interval   *interval // in progress
	prev, next *entry
	due        instant
}

// address is what identifies a message: its queue's stream never reuses a sequence.
type address struct {
	queue string
	seq   uint64
}

func (e *entry) address() address { return address{e.m.Queue, e.m.Seq} }

// counts tells whether losing the delivery is an attempt.
func (e *entry) counts() broker.Counting {
	if e.written {
		return broker.AnAttempt
	}
	return broker.NotAnAttempt
}

// orphaned tells of a live delivery that its session ended while the answer was being written.
func (e *entry) orphaned() bool { return e.session != nil && e.session.ended }

// linkLocked puts e where live deliveries are found.
func (b *Book) linkLocked(e *entry, now instant) {
	e.state = live
	b.byMessage[e.address()] = e
	b.deadlines.add(e)
	b.progress.add(e, now)
	if e.session != nil {
		e.session.held[e.id] = e
	}
}

// unlinkLocked takes e out of everything but byToken.
func (b *Book) unlinkLocked(e *entry) {
	// While e was being given back, its message may have been handed out again: that entry stays.
	if b.byMessage[e.address()] == e {
		delete(b.byMessage, e.address())
	}
	b.deadlines.remove(e)
	b.progress.remove(e)
	if e.session != nil {
		delete(e.session.held, e.id)
	}
}

// closeLocked ends e: its token is only remembered from now on.
func (b *Book) closeLocked(e *entry, f fate, now instant) {
	b.unlinkLocked(e)
	delete(b.byToken, e.id)
	b.memory.over(e.id, f, now)
	// Entries of one Hand share memory: a message must not live as long as its slowest sibling.
	e.state, e.m, e.session = gone, nil, nil
}

// armLocked wakes the loops for what became due before they would look.
func (b *Book) armLocked() {
	if e := b.deadlines.first(); e != nil && e.deadline < b.expiryArmed {
		b.expiryArmed = e.deadline
		wake(b.wakeExpiry)
	}
	if next := b.progress.next(); next < b.progressArmed {
		b.progressArmed = next
		wake(b.wakeProgress)
	}
}
