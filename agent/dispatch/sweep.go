package dispatch

import (
	"slices"
	"time"

	"github.com/fairlead/fairlead/agent/broker"
	"github.com/fairlead/fairlead/priority"
)

const (
	// sweepShare bounds what sweeps cost: the pause after one is at least this many times as long as it kept the server busy.
	sweepShare = 100
	// sweepBase and sweepPerLane are what a sweep costs a slow server at the most. What it took longer was waiting, on a
	// busy machine, and no reason to look for work more rarely there.
	sweepBase    = 2 * time.Millisecond
	sweepPerLane = 5 * time.Microsecond
)

// maxSweepPause is the longest pause after sweeps that fail: the queue's stream may be gone for good.
const maxSweepPause = 5 * time.Second

// maxHearsay is how many lanes may become known from wake-ups alone before a sweep looks which of them are there still.
const maxHearsay = 1000

// backOffFactor is how much rarer a capsule looks that backs off for a peer.
const backOffFactor = 3

// setBackOff says whether a live peer of higher consumer priority serves a queue.
func (c *core) setBackOff(name string, on bool, now time.Time) {
	if c.backsOff[name] == on {
		return
	}
	c.backsOff[name] = on
	if q := c.queueNamed(name); q != nil {
		c.applyBackOff(q, now)
		c.pump(now)
	}
}

func (c *core) applyBackOff(q *queue, now time.Time) {
	q.backsOff, q.allowance = c.backsOff[q.layout.Queue], 0
	q.nextSweep = now // whatever was stored meanwhile
	if q.backsOff {
		q.nextSweep = now.Add(backOffFactor * c.poll)
	}
}

// sweepIfDue looks for work that no wake-up told of.
func (c *core) sweepIfDue(now time.Time) {
	for _, q := range c.queues {
		if c.sweepWanted(q) && !now.Before(q.nextSweep) {
			c.startSweep(q, now)
		}
	}
}

// sweepWanted tells whether there is a reason to look over a queue: credit, or many lanes of which only wake-ups told. Others
// may have emptied those long ago, and without a look at the queue they would be remembered for ever by an agent that has no
// app, or one whose app is busy.
func (c *core) sweepWanted(q *queue) bool {
	if !c.connected || c.draining || q.sweeping || q.controls.paused || c.standsBy(q) {
		return false
	}
	return q.hearsay >= maxHearsay || len(c.pulls) > 0 && c.free() > 0
}

func (c *core) startSweep(q *queue, now time.Time) {
	if q.sweeping {
		return
	}
	q.sweeping, q.sweepBegan, q.hearsay = true, now, 0
	q.sweeps++
	c.eff.sweep(q)
}

// swept takes in what a sweep found.
func (c *core) swept(q *queue, s broker.Sweep, err error, now time.Time) {
	q.sweeping = false
	cost := min(s.Took, sweepBase+time.Duration(len(s.Lanes)+len(s.Odd))*sweepPerLane)
	q.notSooner = now.Add(sweepShare * cost)
	pause := max(c.poll, sweepShare*cost)
	if q.failures++; err == nil {
		q.failures = 0
	} else {
		pause = max(pause, min(c.poll<<min(q.failures, 10), maxSweepPause))
	}
	if q.backsOff {
		pause = max(backOffFactor*c.poll, pause)
		q.allowance = c.credit()
	}
	// A tenth either way, so that agents do not sweep in step.
	q.nextSweep = now.Add(pause*9/10 + time.Duration(c.rng.Int64N(int64(pause)/5+1)))
	if c.queueNamed(q.layout.Queue) != q {
		return // of a definition that is no longer in force
	}
	if err == nil {
		hearsay := q.hearsay
		for _, f := range s.Lanes {
			c.found(q, f, now)
		}
		q.hearsay = hearsay
		if len(s.Odd) > 0 {
			c.eff.repair(q, s.Odd)
		}
		c.forgetLanes(q, now)
	}
	if q.sweepBegan.Before(q.resumed) {
		q.nextSweep = now // it may have missed what was stored before
	} else {
		q.unseen = false
	}
	c.pump(now)
}

// found takes note of a lane that a sweep lists.
func (c *core) found(q *queue, f broker.Found, now time.Time) {
	l := c.lane(q, f.Address)
	l.sweep, l.used = q.sweeps, now
	n := int(min(f.Messages, 1<<30)) - int(l.ref.InHand.Load())
	if q.unseen && l.believed {
		l.count = max(l.count, n) // wake-ups told of the newest only
	}
	if l.believed || l.asked > 0 || l.delayed || now.Before(l.notUntil) {
		return
	}
	if n <= 0 {
		return // all of them are being worked on here
	}
	c.revive(l, listed, n, now)
}

// forgetLanes drops lanes that have been empty for long, or that were never asked and are empty. What is believed of a lane
// from before a sweep that does not list it is over: somebody else was faster.
func (c *core) forgetLanes(q *queue, now time.Time) {
	for a, l := range q.lanes { // each is judged by itself
		if l.sweep == q.sweeps || !l.used.Before(q.sweepBegan) {
			continue
		}
		if l.believed && l.asked == 0 && l.plan == 0 {
			l.believed, l.count = false, 0
			c.refresh(l.slot)
		}
		if l.ready() || l.asked > 0 || l.delayed || l.ref.InHand.Load() > 0 || l.tried && now.Sub(l.used) < laneMemory {
			continue
		}
		c.calm(l)
		delete(q.lanes, a)
		delete(c.byRef, l.ref)
		c.src.Forget(l.ref)
		s := l.slot
		for i, other := range s.lanes {
			if other == l {
				s.lanes = append(s.lanes[:i], s.lanes[i+1:]...)
				break
			}
		}
		if len(s.lanes) == 0 {
			delete(q.slots, slotKey{s.level, s.key})
			q.dropSlot(s)
		}
	}
}

// leave stops taking from a queue until arrive. What is in hand is handed out yet. A tenure that begins meanwhile gives the
// queue lanes, but nothing is taken through them: other agents may be there already where this one is going.
func (c *core) leave(name string) {
	c.left[name] = true
	if q := c.queueNamed(name); q != nil {
		q.leaving = true
	}
}

// arrive says that the next definition of the queue is the one for which it was left.
func (c *core) arrive(name string) { delete(c.left, name) }

// define sets or replaces the definition of a queue.
func (c *core) define(def Definition, now time.Time) {
	c.pending = append(c.pending, def)
	c.pump(now)
}

// applyChanges takes over new definitions. No round is under way.
func (c *core) applyChanges(now time.Time) {
	for _, def := range c.pending {
		old := c.queueNamed(def.Layout.Queue)
		if old != nil && old.layout == def.Layout && (old.guard == def.Guard || old.sched.SetGuard(def.Guard)) {
			old.guard = def.Guard
			c.reweigh(old, def)
			old.leaving = c.left[def.Layout.Queue]
			continue
		}
		q := c.newQueue(def)
		q.leaving = c.left[def.Layout.Queue]
		c.applyBackOff(q, now)
		if old == nil {
			c.insert(q)
			continue
		}
		for i := range c.queues {
			if c.queues[i] == old {
				c.queues[i] = q
			}
		}
		c.abandon(old)
	}
	c.pending = nil
}

// insert puts a queue where the capsule's list has it.
func (c *core) insert(q *queue) {
	place := func(q *queue) int { return slices.Index(c.order, q.layout.Queue) }
	i := 0
	for i < len(c.queues) && place(c.queues[i]) < place(q) {
		i++
	}
	c.queues = slices.Insert(c.queues, i, q)
}

func (c *core) newQueue(def Definition) *queue {
	return &queue{
		caps: c.capOf(&def.Layout), keys: map[string][]*slot{},
		layout: def.Layout, guard: def.Guard, weights: def.Weights, controls: c.controlsOf(def.Layout.Queue),
		sched: priority.New(def.Layout.Levels, def.Guard, c.seed),
		slots: map[slotKey]*slot{}, lanes: map[broker.Address]*lane{}, unseen: true,
	}
}

// reweigh takes over weights alone: they act on what is waiting already.
func (c *core) reweigh(q *queue, def Definition) {
	before := q.weights
	q.weights = def.Weights
	for _, s := range q.slots { // each by itself
		_, had := before[s.key]
		c.weigh(s, had)
	}
}

// abandon lets go of a queue's former layout: its lanes, and what they hold.
func (c *core) abandon(q *queue) {
	for _, l := range q.lanes { // each by itself
		for _, m := range l.hand {
			c.giveBack(m)
		}
		l.hand = nil
		if l.asked > 0 {
			c.asked--
		} else {
			c.src.Forget(l.ref)
		}
		delete(c.byRef, l.ref)
	}
	c.forgetEmptyHands()
}
