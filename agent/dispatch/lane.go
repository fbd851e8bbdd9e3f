package dispatch

import (
	"time"

	"github.com/fairlead/fairlead/agent/broker"
	"github.com/fairlead/fairlead/agent/broker/names"
	"github.com/fairlead/fairlead/fairshare"
	"github.com/fairlead/fairlead/priority"
)

// Definition is what a capsule needs to know of a queue.
type Definition struct {
	Layout  broker.Layout
	Guard   int                         // starvation guard; 0 is strict
	Weights map[string]fairshare.Weight // of keys; they win over what messages say
}

// queue is one queue of the capsule: its scheduler, and what is believed of its lanes.
type queue struct {
	layout   broker.Layout
	guard    int
	weights  map[string]fairshare.Weight // of the definition
	controls *controls
	sched    *priority.Queue
	slots    map[slotKey]*slot
	keys     map[string][]*slot // the slots of each key
	caps     *capped            // nil without a cap per key
	lanes    map[broker.Address]*lane

	// backsOff is true while a live peer of higher consumer priority serves the queue: wake-ups are ignored, and each of the
	// rarer sweeps allows a look: as many turns as there was credit then.
	backsOff  bool
	allowance int

	leaving bool // its layout is about to change: nothing more is taken through this one
	planned bool // a turn of the round under way is its
	asked   int  // of its lanes, how many have a question open

	// unseen is true until the first sweep has ended: what waited before this agent listened is not known, and is not to be
	// overtaken by what wake-ups tell of. A sweep that fails ends it too: wake-ups are better than nothing.
	unseen     bool
	resumed    time.Time // a sweep that began before it ends no unseen
	sweeping   bool
	sweepBegan time.Time
	nextSweep  time.Time
	notSooner  time.Time // what sweeps may cost allows no other before
	failures   int       // sweeps that failed in a row
	removes    time.Time // until then, messages that were heard of may have been removed, and are not insisted on
	sweeps     uint64
	hearsay    int // lanes of which no sweep told that began since
	repairing  bool
	waiting    int // lanes that had nothing although the sweep lists messages
}

type slotKey struct {
	level int
	key   string
}

// slot is one (level, key): what the scheduler gives turns to. It has one lane; at the default level, a second one with the
// messages that have no priority; at the lowest level, one more for each level that the queue no longer has.
type slot struct {
	queue  *queue
	level  int
	key    string
	lanes  []*lane          // those of former levels first: their messages are older
	weight fairshare.Weight // what its next message is expected to weigh
	known  bool             // weight was learned, or is given
	// inRound holds the slot because its next turn cannot be told before the round is over, unsure because it cannot be told
	// before the head of one of its lanes is known.
	inRound, unsure bool
	parked          bool // asleep for the rest of the round: all it is believed to have is spoken for
	paused          bool // asleep until it is resumed, whatever it is believed to have
}

// lane is what is believed of one lane.
type lane struct {
	queue *queue
	slot  *slot
	ref   *broker.Lane

	believed   bool
	count      int // messages it is believed to have, at most; 0 unless believed
	asked      int // open question, for how many
	late       bool
	current    bool   // of a level that the queue has: merged by sequence with the slot's other one
	head       uint64 // the sequence of its next message, if that is known
	taken      uint64 // the highest sequence that was taken from it
	heard      uint64 // the highest sequence that a wake-up told of
	looking    bool   // its head is being looked up
	plan       int    // turns of the round under way
	hand       []*broker.Message
	since      time.Time // when the oldest of hand came
	woken      time.Time
	wakes      int  // since it was asked
	askedAgain bool // at once, after a wake-up
	insisting  bool // the open question waits for a message that must be there
	doubted    bool // and once more, a moment later
	delayed    bool // a wake-up waits for its random delay
	retry      time.Duration
	missed     int       // messages it was believed to have when it could not be asked
	notUntil   time.Time // a sweep does not revive it before
	used       time.Time
	sweep      uint64 // the last one that listed it
	tried      bool   // was asked: its consumer may exist
	// blocked says that the message at the head of a serial lane may not be delivered before a time; nothing overtakes it.
	blocked      bool
	blockedUntil time.Time
	maybeOut     bool // JetStream may hold one of its messages to be out: see broker.Feed.Ask
}

// lane returns the lane at an address, which it makes up if it is new.
func (c *core) lane(q *queue, a broker.Address) *lane {
	if l := q.lanes[a]; l != nil {
		return l
	}
	key := slotKey{a.Level, a.Key}
	s := q.slots[key]
	if s == nil {
		s = &slot{queue: q, level: a.Level, key: a.Key, weight: fairshare.One}
		if w, ok := q.given(a.Key); ok {
			s.weight, s.known = w, true
		}
		s.known = s.known || !q.layout.Fair
		s.paused = q.pauses(a.Key)
		q.slots[key] = s
		q.keys[a.Key] = append(q.keys[a.Key], s)
	}
	l := &lane{queue: q, slot: s, ref: c.src.Lane(q.layout, a)}
	if l.current = a.Class == names.Class(a.Level) || a.Level == q.layout.Default && !isLevel(a.Class); l.current {
		s.lanes = append(s.lanes, l)
	} else {
		s.lanes = append([]*lane{l}, s.lanes...)
	}
	q.lanes[a] = l
	q.hearsay++
	c.byRef[l.ref] = l
	return l
}

// ready tells whether the lane can be asked, or has something in hand.
func (l *lane) ready() bool {
	return len(l.hand) > 0 || l.believed && l.asked == 0
}

// room tells whether the lane may have more than the turns that are planned for it.
func (l *lane) room() bool {
	if !l.ready() {
		return false
	}
	if l.plan < len(l.hand) {
		return true
	}
	return l.believed && l.asked == 0 && l.plan-len(l.hand) < l.count
}

// refresh tells the scheduler whether the slot has work.
func (c *core) refresh(s *slot) {
	sched := s.queue.sched
	for _, l := range s.lanes {
		if l.ready() && !s.blocked() && !s.paused && s.admits() {
			if !s.parked && !sched.Contains(s.level, s.key) {
				sched.Wake(s.level, s.key, s.queue.expected(s))
			}
			c.lookAhead(s)
			return
		}
	}
	if sched.Contains(s.level, s.key) {
		sched.Sleep(s.level, s.key)
	}
}

// expected is the weight that the slot's next message is expected to have. One that is not known yet counts as the largest:
// until it is known, nothing may be picked that the slot's second turn could come before.
func (q *queue) expected(s *slot) fairshare.Weight {
	if !s.known {
		return fairshare.MaxWeight
	}
	if w, ok := q.given(s.key); ok {
		return w
	}
	return s.weight
}

// wake takes note of wake-ups of a lane.
func (c *core) wake(q *queue, a broker.Address, note wakeNote, now time.Time) {
	if q.backsOff || q.controls.paused || c.standsBy(q) || c.draining {
		return // a higher peer or the holder heard of it too, or it is looked over when it is resumed, or nothing more is taken
	}
	l := c.lane(q, a)
	s := l.slot
	if !l.believed && l.asked == 0 && !s.paused && !q.sched.Contains(s.level, s.key) {
		// It will be the first in line, so that its weight is the one that counts next.
		s.weight, s.known = q.weightOf(s.key, note.weight), true
	}
	l.wakes += note.n
	l.heard = max(l.heard, note.last)
	l.woken, l.used = now, now
	l.doubted, l.askedAgain = false, false
	if l.believed {
		l.count += note.n
		return
	}
	if l.asked == 0 && l.head == 0 {
		l.head = note.seq
	}
	if l.delayed {
		return
	}
	if c.rivals > 0 && !q.layout.Single && c.idle() {
		l.delayed = true
		c.delayed = append(c.delayed, l)
		spread := time.Duration(c.rivals) * rivalDelay
		c.timers.Add(now.Add(time.Duration(c.rng.Int64N(int64(spread)))), timer{l, woken})
		return
	}
	l.believed, l.count = true, note.n
	c.calm(l)
	c.refresh(l.slot)
}

// idle tells whether the capsule is waiting for work.
func (c *core) idle() bool {
	if c.round != nil {
		return false
	}
	for _, q := range c.queues {
		if q.open() && !c.standsBy(q) && q.sched.HasWork() {
			return false
		}
	}
	return true
}

// undelay ends the random delay of a lane's wake-up. It reports false when there is none any more.
func (c *core) undelay(l *lane) bool {
	was := l.delayed
	l.delayed = false
	for len(c.delayed) > 0 && !c.delayed[0].delayed {
		c.delayed = c.delayed[1:]
	}
	return was
}

// undelayAll ends all such delays once the capsule asks for messages anyway. They are for an agent that would ask for the
// woken message alone; what it knows of when it asks for another one must not be overtaken by that.
func (c *core) undelayAll(now time.Time) {
	if len(c.delayed) == 0 || c.idle() {
		return
	}
	delayed := c.delayed
	c.delayed = nil
	for _, l := range delayed {
		if l.delayed && c.byRef[l.ref] == l { // else it is over, or the lane forgotten
			l.delayed = false
			c.revive(l, woken, max(l.wakes, 1), now)
		}
	}
}

// open tells whether the queue may be picked from.
func (q *queue) open() bool {
	return !q.controls.paused && !q.leaving && (!q.backsOff || q.allowance > 0)
}

// revive makes the lane believed to have up to n messages, besides those it was believed to have. If it then has none, that
// is doubted only after good reason to expect some.
func (c *core) revive(l *lane, reason reason, n int, now time.Time) {
	if !l.believed {
		l.believed, l.count = true, 0
	}
	l.count += n
	l.used = now
	if reason == returned {
		l.head = 1 // it comes ahead of everything
	}
	l.doubted = reason == listed || reason == doubted || reason == failed
	if !l.doubted {
		l.woken, l.askedAgain = now, false
	}
	if reason != listed && reason != failed {
		c.calm(l)
	}
	c.refresh(l.slot)
}

// reason is why a lane is believed to have work.
type reason int

const (
	woken    reason = iota // a message was stored
	returned               // one of its messages was given back
	doubted                // it had nothing, a moment after it was woken
	failed                 // it could not be asked
	listed                 // a sweep lists messages, which somebody may have in hand
)

// timer is for a lane that will be believed to have work at a time to come.
type timer struct {
	lane *lane
	why  reason
}

// calm ends the lane's back-off.
func (c *core) calm(l *lane) {
	if l.retry > 0 {
		l.queue.waiting--
		l.retry = 0
	}
	l.notUntil = time.Time{}
}

// backOff puts off asking a lane that had nothing.
func (c *core) backOff(l *lane, now time.Time) {
	if l.retry == 0 {
		l.retry = firstRetry
		l.queue.waiting++
	} else {
		l.retry *= 2
	}
	most := max(retryFloor, time.Duration(l.queue.waiting)*retryShare)
	most = min(most, max(l.queue.layout.AckWait, firstRetry))
	l.retry = min(l.retry, most)
	l.notUntil = now.Add(l.retry * 9 / 10) // a sweep that is a little early counts
}

// isLevel tells a level's class from that of messages without a priority.
func isLevel(class string) bool { return class != names.NoPriority }
