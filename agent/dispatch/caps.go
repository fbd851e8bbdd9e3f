package dispatch

import (
	"slices"
	"time"

	"github.com/fairlead/fairlead/agent/broker"
	"github.com/fairlead/fairlead/agent/permit"
)

// A queue with a cap per key is taken from under permits: one for each message of a key that is in flight, over all agents
// and levels. The permits of a round's turns are wanted first, all at once, and the lanes are asked when they are there. A
// key that has no more is skipped at all its levels, as if it had no work, until a permit comes free; nothing waits for it.

// permitLinger is how long a permit that was freed is kept for the next message of its key, should the app be about to ask: an
// app that settles and then pulls would find its key full otherwise, as long as the release of its own permit takes, and a
// tenant would lose turns by that.
const permitLinger = 2 * time.Millisecond

// capped is what belongs to a queue with a cap per key.
type capped struct {
	queue  string
	ledger *permit.Ledger
	freed  []string // keys whose permits came free in this turn of the loop
}

// message names a message in flight.
type message struct {
	queue string
	seq   uint64
}

// grantee is a permit under which a message is in flight.
type grantee struct {
	of     *capped
	permit permit.Permit
	taken  *broker.Message
}

// group is the turns of one key in a round that need permits.
type group struct {
	queue *queue
	key   string
	room  int   // permits that may be wanted
	turns []int // of the round, in order
	open  bool  // the answer is due
}

// capOf returns the permits of a queue, which outlive its definitions: what is in flight stays in flight.
func (c *core) capOf(layout *broker.Layout) *capped {
	if layout.Cap == 0 {
		return nil
	}
	for _, k := range c.caps {
		if k.queue == layout.Queue {
			k.ledger.Wait = layout.AckWait
			k.ledger.SetCap(layout.Cap)
			return k
		}
	}
	k := &capped{queue: layout.Queue, ledger: permit.New(permit.Config{Holder: c.holder, Cap: layout.Cap, Wait: layout.AckWait, Linger: permitLinger})}
	c.caps = append(c.caps, k)
	return k
}

// admits tells whether the slot's key may have another message in flight, as far as is known.
func (s *slot) admits() bool {
	return s.queue.caps == nil || s.queue.caps.ledger.Room(s.key) > 0
}

// count adds the turn that was picked last to the permits that the round wants. When the key's permits are spoken for, it is
// asleep at all its levels for the rest of the round.
func (c *core) count(r *round, s *slot) {
	q := s.queue
	if q.caps == nil {
		return
	}
	g := r.group(q, s.key)
	g.turns = append(g.turns, len(r.turns)-1)
	r.turns[len(r.turns)-1].group = g
	if len(g.turns) < g.room {
		return
	}
	for _, other := range q.keys[s.key] {
		if !other.parked {
			other.parked = true
			r.parked = append(r.parked, other)
		}
		q.sched.Sleep(other.level, other.key)
	}
}

func (r *round) group(q *queue, key string) *group {
	for _, g := range r.groups {
		if g.queue == q && g.key == key {
			return g
		}
	}
	g := &group{queue: q, key: key, room: q.caps.ledger.Room(key)}
	r.groups = append(r.groups, g)
	return g
}

// bound tells whether the settlements that came with a pull may be what a key of the queue waits for: then they come first.
func (c *core) bound(q *queue) bool {
	if q.caps == nil || !c.settling() {
		return false
	}
	for _, list := range c.grantees { // one is enough
		if g := list[0]; g.of == q.caps && q.caps.ledger.Room(g.permit.Key) == 0 && slices.ContainsFunc(q.keys[g.permit.Key], (*slot).ready) {
			return true
		}
	}
	return false
}

// wantPermits asks for the permits of a round, all at once.
func (c *core) wantPermits(r *round, now time.Time) {
	for _, g := range r.groups {
		if n := min(len(g.turns), g.room); n > 0 {
			g.open = true
			r.open++
			g.queue.caps.ledger.Want(g.key, n, now)
		}
	}
	if len(r.groups) > 0 {
		c.attend(now)
	}
}

// attend does what the ledgers ask for, and takes in what they tell.
func (c *core) attend(now time.Time) {
	for _, k := range c.caps {
		for again := true; again; {
			again = false
			for _, a := range k.ledger.Actions() {
				c.eff.carryOut(k.queue, a)
				again = true
			}
			for _, a := range k.ledger.Answers() {
				c.permitted(k, a, now)
				again = true
			}
		}
		q := c.queueNamed(k.queue)
		if q == nil || q.caps != k {
			k.ledger.Changed()
			continue
		}
		for _, key := range k.ledger.Changed() {
			for _, s := range q.keys[key] {
				c.refresh(s)
			}
		}
	}
}

// permitted gives permits to the turns that wait for them, in order, and asks their lanes. Turns that get none bring nothing.
func (c *core) permitted(k *capped, a permit.Answer, now time.Time) {
	r := c.round
	var g *group
	if r != nil {
		for _, other := range r.groups {
			if other.open && other.queue.caps == k && other.key == a.Key {
				g = other
			}
		}
	}
	if g == nil { // the round went on without them
		for _, p := range a.Permits {
			k.ledger.Free(p, now)
			k.freed = append(k.freed, a.Key)
		}
		return
	}
	g.open = false
	r.open--
	for i, n := range g.turns {
		t := &r.turns[n]
		if i < len(a.Permits) {
			t.permit, t.granted = a.Permits[i], true
			continue
		}
		t.lane.plan--
	}
	for _, n := range g.turns {
		c.askLane(r, r.turns[n].lane, now)
	}
}

// askLane asks a lane for as many messages as it has turns, unless it was asked already.
func (c *core) askLane(r *round, l *lane, now time.Time) {
	n := l.plan - len(l.hand)
	if n <= 0 || l.asked > 0 {
		return
	}
	l.asked, l.wakes, l.late, l.head, l.used, l.tried = n, 0, false, 0, now, true
	r.open++
	c.asked++
	c.lanePulls++
	l.queue.asked++
	c.src.Ask(l.ref, n, l.patience())
}

// permitEvent tells a queue's ledger of something.
func (c *core) permitEvent(queue string, f func(*permit.Ledger, time.Time), now time.Time) {
	for _, k := range c.caps {
		if k.queue == queue {
			f(k.ledger, now)
		}
	}
	c.attend(now)
	c.endEmptyRound(now)
	c.pump(now)
}

// endEmptyRound ends a round in which nothing is under way any more.
func (c *core) endEmptyRound(now time.Time) {
	if c.round != nil && c.round.open == 0 && !c.round.starting {
		c.finishRound(now)
	}
}

// give hands a message of a turn over under its permit. It reports false, and the message goes back, when the permit is not
// to be relied on any more.
func (c *core) give(t *turn, m *broker.Message, now time.Time) bool {
	if t.group == nil {
		return true
	}
	k := t.queue.caps
	if !k.ledger.Trusted(t.permit, now) {
		c.dropPermit(t, now)
		c.giveBack(m)
		return false
	}
	id := message{m.Queue, m.Seq}
	c.grantees[id] = append(c.grantees[id], grantee{k, t.permit, m})
	t.granted = false
	return true
}

// dropPermit frees the permit of a turn that brought nothing.
func (c *core) dropPermit(t *turn, now time.Time) {
	if t.granted {
		t.granted = false
		k := t.queue.caps
		k.ledger.Free(t.permit, now)
		k.freed = append(k.freed, t.permit.Key)
	}
}

// freed frees the permit of a message that has left the app's hands. Its handle may be a newer one than the one it was taken
// with. A message can be taken again before it is known here that it went back; then it is in flight twice, under permits of
// one key, and it does not matter which is freed first.
func (c *core) freed(m *broker.Message, now time.Time) {
	list := c.grantees[message{m.Queue, m.Seq}]
	if i := slices.IndexFunc(list, func(g grantee) bool { return g.taken == m }); i >= 0 {
		c.freeAt(m, i, now)
	} else if len(list) > 0 {
		c.freeAt(m, 0, now)
	}
}

// backInLane says that a message that nobody wanted is in its lane again.
func (c *core) backInLane(m *broker.Message, now time.Time) {
	list := c.grantees[message{m.Queue, m.Seq}]
	if i := slices.IndexFunc(list, func(g grantee) bool { return g.taken == m }); i >= 0 {
		c.freeAt(m, i, now)
		c.attend(now)
	}
}

func (c *core) freeAt(m *broker.Message, i int, now time.Time) {
	id := message{m.Queue, m.Seq}
	g := c.grantees[id][i]
	if list := slices.Delete(c.grantees[id], i, i+1); len(list) > 0 {
		c.grantees[id] = list
	} else {
		delete(c.grantees, id)
	}
	g.of.ledger.Free(g.permit, now)
	g.of.freed = append(g.of.freed, g.permit.Key)
}

// trimPermits releases what came free and cannot be used here soon.
func (c *core) trimPermits() {
	for _, k := range c.caps {
		for _, key := range k.freed {
			if q := c.queueNamed(k.queue); c.draining || q == nil || !q.hasMore(key) {
				k.ledger.Trim(key)
			}
		}
		k.freed = k.freed[:0]
	}
}

// hasMore tells whether a key has messages that can be taken.
func (q *queue) hasMore(key string) bool {
	return q.caps != nil && slices.ContainsFunc(q.keys[key], (*slot).ready)
}

// ready tells whether one of the slot's lanes can be asked.
func (s *slot) ready() bool {
	return !s.blocked() && !s.paused && slices.ContainsFunc(s.lanes, (*lane).ready)
}

// dropSlot forgets a slot of its key.
func (q *queue) dropSlot(s *slot) {
	left := slices.DeleteFunc(q.keys[s.key], func(other *slot) bool { return other == s })
	if len(left) == 0 {
		delete(q.keys, s.key)
	} else {
		q.keys[s.key] = left
	}
}
