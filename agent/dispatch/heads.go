package dispatch

import (
	"time"

	"github.com/fairlead/fairlead/agent/broker"
)

// At the default level a tenant has two lanes: one of the messages with that priority, one of those without any. They are of
// one level, so the older message goes first. Where only one of the two has work, as in most queues, nothing is to be told.
// Where both have, the sequence at the head of each decides; it is known from the wake-up that filled the lane, or is looked
// up, once per message that is taken while both have work.

// withRoom is the lane of the slot that has its next message: one of a former level if there is any; of those of its own
// level, the one whose next message is the oldest. sure is false when that cannot be told.
func (s *slot) withRoom() (next *lane, sure bool) {
	if s.blocked() {
		return nil, true
	}
	for _, l := range s.lanes {
		switch {
		case !l.room():
		case !l.current:
			return l, true
		case next == nil:
			next = l
		case next.nextSeq() == 0 || l.nextSeq() == 0:
			return nil, false
		case l.nextSeq() < next.nextSeq():
			next = l
		}
	}
	return next, true
}

// nextSeq is the sequence of the next message that a turn would get; 0 is unknown.
func (l *lane) nextSeq() uint64 {
	switch {
	case l.plan < len(l.hand):
		return l.hand[l.plan].Seq
	case l.plan == len(l.hand):
		return l.head
	}
	return 0
}

// lookAhead sees to it that it can be told which of the slot's lanes has its next message, and holds the slot until then.
// Only a slot with two lanes that have work needs it.
func (c *core) lookAhead(s *slot) {
	s.unsure = false
	if _, sure := s.withRoom(); !sure && c.round == nil {
		s.unsure = true
		for _, l := range s.lanes {
			if l.current && !l.looking && l.room() && l.nextSeq() == 0 {
				l.looking = true
				ref := l.ref
				c.src.Head(ref, l.taken+1, func(seq uint64) { c.eff.headFound(ref, seq) })
			}
		}
	}
	c.hold(s)
}

// headFound takes in where a lane begins.
func (c *core) headFound(ref *broker.Lane, seq uint64, now time.Time) {
	l := c.byRef[ref]
	if l == nil {
		return // of a layout that is no longer in force
	}
	l.looking = false
	if l.head == 0 {
		l.head = seq
	}
	c.refresh(l.slot)
	c.pump(now)
}

// hold tells the scheduler whether the slot may be picked.
func (c *core) hold(s *slot) {
	if s.inRound || s.unsure {
		s.queue.sched.Hold(s.level, s.key)
	} else {
		s.queue.sched.Unhold(s.level, s.key)
	}
}
