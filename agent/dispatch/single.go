package dispatch

import (
	"time"

	"github.com/fairlead/fairlead/agent/broker"
)

// A queue with a single active consumer is taken from in a tenure only, one message at a time. Outside of a tenure the
// capsule stands by: it skips the queue, and does not listen to it. A new tenure is a new layout of the queue: it starts with
// lanes of its own, and a sweep.

// serialPatience is how long a question to a serial lane may stay open when JetStream may hold one of its messages to be out.
const serialPatience = 100 * time.Millisecond

// orderedPatience is the same for the lanes of ordered keys, which agents share: what is out, or backs off, may be so with
// another. An empty lane answers only after it, so it is short.
const orderedPatience = 5 * time.Millisecond

// claimPatience is how long a pull that does not wait stays open for a lease that is being claimed.
const claimPatience = 500 * time.Millisecond

// claiming tells whether the queue's lease may be about to come. It is wanted only while an app is there, so an app that
// looks in now and then, and does not wait, would never find it held: the pull that brings the app back waits for the claim.
// One that comes soon after another does not: by then it is known who holds the lease.
func (c *core) claiming(q *queue, p *pull, now time.Time) bool {
	return p.first && q.layout.Single && q.layout.Tenure == nil && now.Before(p.arrived.Add(claimPatience))
}

// standsBy tells whether the queue is not to be taken from because another has its lease, or is about to get it.
func (c *core) standsBy(q *queue) bool {
	return q.layout.Single && (q.layout.Tenure == nil || c.handOver[q.layout.Queue])
}

// busy tells whether a message of a queue with a single active consumer is out, or may be on its way.
func (c *core) busy(q *queue) bool {
	return q.layout.Single && (c.out[q.layout.Queue] > 0 || q.asked > 0 || q.planned)
}

// mayPick tells whether the next message of such a queue may be taken.
func (c *core) mayPick(q *queue, now time.Time) bool {
	return !c.standsBy(q) && !c.busy(q) && q.layout.Tenure.Trusted(now)
}

// settling tells whether settlements that came with a pull are being carried out.
func (c *core) settling() bool {
	for _, p := range c.pulls {
		if !p.settled {
			return true
		}
	}
	return false
}

// setHandOver asks to let go of a queue as soon as nothing of it is out, or takes that back.
func (c *core) setHandOver(name string, on bool, now time.Time) {
	if on {
		c.handOver[name] = true
	} else {
		delete(c.handOver, name)
		if q := c.queueNamed(name); q != nil {
			q.nextSweep = now // whatever was stored meanwhile
		}
	}
	c.pump(now)
}

// unfinished tells whether something of the queue's tenure is under way yet: a message that is out, on its way here, or on
// its way back. A tenure that ended now would leave it behind like a crash: it could not be put on record any more that
// the app never had it, and the next holder would count it as an attempt.
func (c *core) unfinished(q *queue) bool {
	return c.busy(q) || c.back[q.layout.Queue] > 0 || c.holds(q)
}

// wantsLease tells whether the capsule wants a queue's lease: while it has demand and does not drain, and as long as
// something is under way.
func (c *core) wantsLease(q *queue, demand bool) bool {
	return q.layout.Single && (demand && !c.draining || q.layout.Tenure != nil && c.unfinished(q) || c.out[q.layout.Queue] > 0)
}

// tellIdle says so once nothing is out of a queue that is handed over.
func (c *core) tellIdle() {
	if len(c.handOver) == 0 {
		return
	}
	for _, q := range c.queues {
		if q.layout.Tenure != nil && c.handOver[q.layout.Queue] && !c.unfinished(q) {
			c.eff.idle(q.layout.Queue)
		}
	}
}

// holds tells whether messages of the queue are in hand.
func (c *core) holds(q *queue) bool {
	for _, l := range c.held {
		if l.queue == q && len(l.hand) > 0 {
			return true
		}
	}
	return false
}

// giveBack returns a message that nobody wants any more. A serial lane is asked again only when it is back.
func (c *core) giveBack(m *broker.Message) {
	if l := c.byRef[m.Lane]; l != nil && l.queue.layout.Serial() {
		l.blocked, l.maybeOut, l.blockedUntil = true, true, time.Unix(1<<40, 0)
		c.refresh(l.slot)
	}
	c.back[m.Queue]++
	c.eff.giveBack(m)
}

// cameBack says that a message of giveBack waits in its lane again, from a time on.
func (c *core) cameBack(m *broker.Message, at, now time.Time) {
	if c.back[m.Queue]--; c.back[m.Queue] == 0 {
		delete(c.back, m.Queue)
	}
	c.backInLane(m, now)
	c.returned(m.Queue, broker.Address{Class: m.Lane.Class, Key: m.Key}, at, now)
	c.pump(now)
}

// putOff remembers when the lane's returned message is available. In a serial lane nothing overtakes it until then.
func (c *core) putOff(l *lane, at time.Time) {
	if l.queue.layout.Serial() {
		l.blocked, l.blockedUntil = true, at
		c.refresh(l.slot)
	}
	c.timers.Add(at.Add(time.Millisecond), timer{l, returned})
}

// unblock ends what putOff began. It reports false when there is longer to wait.
func (l *lane) unblock(now time.Time) bool {
	if l.blocked && now.Before(l.blockedUntil) {
		return false
	}
	l.blocked = false
	return true
}

// unblockAll has the lanes of a tenure asked again after the connection was away. What could not be returned meanwhile
// was put off until JetStream has waited for it, and a server that was started anew has nothing to wait for. A lane whose
// head backs off gives out nothing before its time, or says so.
func (c *core) unblockAll(q *queue, now time.Time) {
	if !q.layout.Single {
		return
	}
	for _, l := range q.lanes { // each by itself
		if l.blocked && c.back[q.layout.Queue] == 0 && len(l.slot.lanes) == 1 { // the others of a slot could overtake
			l.blocked, l.maybeOut = false, true
			c.revive(l, returned, 1, now)
		}
	}
}

// blocked tells whether a message of the slot may not be delivered yet, in a queue where nothing overtakes it.
func (s *slot) blocked() bool {
	for _, l := range s.lanes {
		if l.blocked {
			return true
		}
	}
	return false
}

// noteSerial takes note of what an answer says about the head of a serial lane.
func (c *core) noteSerial(l *lane, a broker.Answer, now time.Time) {
	if !l.queue.layout.Serial() {
		return
	}
	switch {
	case len(a.Messages) > 0:
		l.blocked, l.maybeOut = false, false
	case a.HeldUntil.After(now):
		l.maybeOut = true
		c.putOff(l, a.HeldUntil)
	case a.Err != nil:
		l.maybeOut = true // a message may have been sent that did not arrive
	}
}

// patience is how long the next question to the lane may stay open; 0 is until it is answered.
func (l *lane) patience() time.Duration {
	switch {
	case l.queue.layout.Ordered:
		return orderedPatience
	case l.maybeOut && l.queue.layout.Serial():
		return serialPatience
	}
	return 0
}
