package dispatch

import (
	"time"

	"github.com/fairlead/fairlead/agent/broker"
	"github.com/fairlead/fairlead/agent/permit"
	"github.com/fairlead/fairlead/fairshare"
	"github.com/fairlead/fairlead/priority"
)

// round is a set of turns whose questions are under way.
type round struct {
	started time.Time
	limit   time.Time // when it goes on without the answers that it lacks
	putOff  bool      // the limit was
	turns   []turn    // in the order in which they were picked
	lanes   []*lane   // that have turns, in the order of their first
	parked  []*slot
	holding []*slot
	groups  []*group // turns that need permits, by key
	open    int      // lanes that have not answered, and groups
	// starting is true until all has been asked that can be asked at once.
	starting bool
}

type turn struct {
	queue *queue
	right priority.Turn
	lane  *lane

	group   *group // nil where there is no cap
	permit  permit.Permit
	granted bool // it has one
}

// over reports whether the round goes on without the answers that it lacks. Who asks late stood still, and puts the limit off.
func (r *round) over(now time.Time) bool {
	if late := now.Sub(r.limit); late >= overslept && !r.putOff {
		r.putOff, r.limit = true, now.Add(rereading)
	}
	return !now.Before(r.limit)
}

// startRound picks a turn for each credit and asks the lanes. It reports whether anything was picked and the round is
// already over, so that there may be more to pick.
func (c *core) startRound(now time.Time) (again bool) {
	if !c.connected || c.draining {
		return false
	}
	credit := c.credit()
	if credit == 0 {
		return false
	}
	r := &round{started: now, limit: now.Add(roundLimit)}
	for len(r.turns) < credit && c.pick(r) {
	}
	if len(r.turns) == 0 {
		c.unpark(r)
		return false
	}
	c.round, r.starting = r, true
	for _, l := range r.lanes {
		if l.queue.caps == nil {
			c.askLane(r, l, now)
		}
	}
	c.wantPermits(r, now)
	r.starting = false
	if r.open > 0 {
		return false
	}
	c.finishRound(now)
	return true
}

// pick adds the next turn to the round. It reports false when there is none, or none that may be picked before the round's
// answers are known.
func (c *core) pick(r *round) bool {
	for _, q := range c.queues {
		if !q.open() || c.standsBy(q) {
			continue
		}
		if q.layout.Single && !c.mayPick(q, r.started) {
			if c.busy(q) && c.settling() && q.sched.HasWork() {
				return false // its slot is about to be free
			}
			continue
		}
		if len(r.turns) == 0 && c.bound(q) {
			return false
		}
		if q.unseen {
			return false // what it has comes before what the queues behind it have
		}
		right, outcome := q.sched.Pick()
		switch outcome {
		case priority.Blocked:
			return false
		case priority.Idle:
			continue
		}
		s := q.slots[slotKey{right.Level, right.Key}]
		l, sure := s.withRoom()
		if !sure {
			// Held slots are not picked; this one should be.
			q.sched.Refund(right)
			c.lookAhead(s)
			return false
		}
		if l == nil {
			// Believed to have work, and no lane to ask: cannot be, but must not spin.
			q.sched.Refund(right)
			q.sched.Sleep(right.Level, right.Key)
			continue
		}
		if l.plan == 0 {
			r.lanes = append(r.lanes, l)
		}
		l.plan++
		q.allowance = max(q.allowance-1, 0)
		q.planned = true
		r.turns = append(r.turns, turn{queue: q, right: right, lane: l})
		c.limit(q, s, r)
		c.count(r, s)
		return true
	}
	return false
}

// limit keeps a slot from getting turns that cannot be meant for it: those beyond what it is believed to have, and those
// whose price is not known yet.
func (c *core) limit(q *queue, s *slot, r *round) {
	l, sure := s.withRoom()
	switch {
	case !s.known || !sure:
		// What its messages weigh is learned from the first one, and where the lanes of a slot meet, from what was taken. Until
		// then nothing is picked that comes after its next turn.
		s.inRound = true
		c.hold(s)
		r.holding = append(r.holding, s)
	case l == nil:
		s.parked = true
		q.sched.Sleep(s.level, s.key)
		r.parked = append(r.parked, s)
	}
}

// answered takes in the answer to a question.
func (c *core) answered(a broker.Answer, now time.Time) {
	l := c.byRef[a.Lane]
	if l == nil { // of a layout that is no longer in force
		for _, m := range a.Messages {
			c.giveBack(m)
		}
		if a.Err == nil { // else something may come for it yet, and has to be told from a stranger's
			c.src.Forget(a.Lane)
		}
		return
	}
	l.used = now
	if c.askAgain(l, a, now) {
		return
	}
	if l.insisting && len(a.Messages) == 0 && a.Held == 0 && a.Err == nil {
		l.queue.removes = now.Add(insistenceShare * insistence)
	}
	late := l.late
	l.asked, l.late, l.insisting = 0, false, false
	c.asked--
	l.queue.asked--
	c.noteSerial(l, a, now)
	if len(a.Messages) == 0 {
		c.emptyPulls++
	}
	if late && l.queue.caps != nil { // the permits for them are gone
		for _, m := range a.Messages {
			c.giveBack(m)
		}
	} else {
		l.put(now, a.Messages...)
	}
	for _, m := range a.Messages {
		l.taken = max(l.taken, m.Seq)
	}
	c.believe(l, a, now)
	if late || c.round == nil {
		if len(l.hand) > 0 {
			c.held = append(c.held, l)
		}
		c.refresh(l.slot)
		c.pump(now)
		return
	}
	c.round.open--
	if c.round.open == 0 {
		c.finishRound(now)
		c.pump(now)
	}
}

// askAgain repeats, inside the round, a question that was answered with nothing although the lane was just woken: JetStream
// tells its consumers of a message a moment after it has stored it, and what is less important must not be handed out for
// that. Once per wake-up; where others were faster it costs this round one more trip to the server. Where there are no
// others the message must be there, and the question stays open until JetStream has it.
func (c *core) askAgain(l *lane, a broker.Answer, now time.Time) bool {
	if c.round == nil || l.late || a.Err != nil || len(a.Messages) > 0 || a.Held > 0 || l.askedAgain || l.slot.stopped() {
		return false
	}
	patience := l.patience()
	switch {
	case c.expects(l, now):
		l.insisting = true
		patience = max(patience, insistence)
	case now.Sub(l.woken) >= justWoken:
		return false
	}
	l.askedAgain = true
	l.wakes = 0
	c.emptyPulls++
	c.lanePulls++
	c.src.Ask(l.ref, l.asked, patience)
	return true
}

// expects tells whether a message of the lane that was heard of can only be waiting: it was not taken here, and nobody else
// takes from the queue. It can still have been removed, as a purge does: a queue in which that has happened is not insisted
// on for a while.
func (c *core) expects(l *lane, now time.Time) bool {
	return l.heard > l.taken && now.After(l.queue.removes) && (l.queue.layout.Single || c.rivalsOf[l.queue.layout.Queue].All == 0)
}

// put adds messages to those in hand.
func (l *lane) put(now time.Time, messages ...*broker.Message) {
	if len(l.hand) == 0 {
		l.since = now
	}
	l.hand = append(l.hand, messages...)
}

// believe draws conclusions from an answer about what the lane still has.
func (c *core) believe(l *lane, a broker.Answer, now time.Time) {
	got := len(a.Messages)
	doubt := !l.doubted && now.Sub(l.woken) < justWoken
	before := l.count
	l.believed, l.count, l.head = false, 0, 0
	switch {
	case a.Err != nil:
		// It could not be asked: what it has is as before.
		c.backOff(l, now)
		l.missed = max(before, l.wakes, 1)
		c.timers.Add(now.Add(l.retry), timer{l, failed})
	case got > 0:
		c.calm(l)
		// What was stored since it was asked may be counted twice: rather asked in vain than overlooked.
		l.count = l.wakes
		if !a.Short {
			l.count += int(min(a.Pending, 1<<30))
		}
	case l.wakes > 0: // something was stored while it was asked
		l.count = l.wakes
	case a.Held > 0 && !a.Short: // what came was not for now; there may be more behind it
		l.count = max(1, int(min(a.Pending, 1<<30)))
	case doubt:
		c.doubts++
		c.timers.Add(now.Add(recheckAfter), timer{l, doubted})
	default:
		c.backOff(l, now)
	}
	l.believed = l.count > 0
}

// stray takes in a message that arrived for a question that was given up.
func (c *core) stray(m *broker.Message, ref *broker.Lane, now time.Time) {
	l := c.byRef[ref]
	if l == nil || c.draining || l.queue.caps != nil {
		c.giveBack(m)
		return
	}
	l.put(now, m)
	l.taken = max(l.taken, m.Seq)
	c.held = append(c.held, l)
	c.refresh(l.slot)
	c.pump(now)
}

// giveUpRound ends a round without the lanes that have not answered. Their messages, should they come, are used or
// returned.
func (c *core) giveUpRound(now time.Time) {
	for _, g := range c.round.groups {
		g.open = false
	}
	for _, l := range c.round.lanes {
		if l.asked > 0 {
			l.late, l.believed = true, false
			c.round.open--
		}
	}
	c.finishRound(now)
}

// finishRound turns answers into deliveries, in the order of the turns, and refunds the turns that brought nothing. Each
// slot goes to sleep right after the turn that emptied it, as it would have between two single takes: the starvation guard
// counts what ran while a lower level had work.
func (c *core) finishRound(now time.Time) {
	r := c.round
	c.round = nil
	c.unpark(r)
	messages := make([]*broker.Message, 0, len(r.turns))
	for i := range r.turns {
		t := &r.turns[i]
		l := t.lane
		c.returnExpired(l, now)
		if len(l.hand) == 0 || t.group != nil && !t.granted {
			c.dropPermit(t, now)
			t.queue.sched.Refund(t.right)
			c.refresh(l.slot)
			continue
		}
		m := l.hand[0]
		l.hand[0] = nil
		l.hand = l.hand[1:]
		if !c.give(t, m, now) {
			t.queue.sched.Refund(t.right)
			c.refresh(l.slot)
			continue
		}
		weight := t.queue.weightOf(l.slot.key, m.Weight)
		l.slot.learn(weight)
		t.queue.sched.Settle(t.right, weight)
		messages = append(messages, m)
		if len(l.hand) == 0 {
			c.refresh(l.slot)
		}
	}
	for _, l := range r.lanes {
		l.plan = 0
		if len(l.hand) == 0 {
			l.hand = nil
		} else {
			c.held = append(c.held, l)
		}
		c.refresh(l.slot)
	}
	c.forgetEmptyHands()
	for _, m := range c.assign(messages) {
		c.giveBack(m)
	}
	c.answerPatient(len(messages))
}

// returnExpired gives back messages whose time was over while they were in hand: whoever takes them next removes them.
func (c *core) returnExpired(l *lane, now time.Time) {
	for len(l.hand) > 0 && l.hand[0].Expired(now) {
		c.giveBack(l.hand[0])
		l.hand[0] = nil
		l.hand = l.hand[1:]
	}
}

// answerPatient ends pulls that have messages rather than to go on asking: when a round brought nothing, what is believed
// of the lanes is out of date (other agents were faster), and the messages in hand should not wait for it to be put right.
func (c *core) answerPatient(brought int) {
	for i := 0; i < len(c.pulls); {
		p := c.pulls[i]
		if len(p.got) > 0 {
			if p.rounds++; brought == 0 || p.rounds >= fillRounds {
				c.end(p, nil)
				continue
			}
		}
		i++
	}
}

// learn takes over what the slot's newest message weighed.
func (s *slot) learn(weight fairshare.Weight) {
	if s.weight != weight || !s.known {
		s.weight, s.known = weight, true
		if s.queue.sched.Contains(s.level, s.key) {
			s.queue.sched.Wake(s.level, s.key, weight)
		}
	}
}

// unpark ends what held for this round only.
func (c *core) unpark(r *round) {
	for _, t := range r.turns {
		t.queue.planned = false
	}
	for _, s := range r.parked {
		s.parked = false
	}
	for _, s := range r.parked {
		c.refresh(s)
	}
	for _, s := range r.holding {
		s.inRound = false
		c.hold(s)
	}
}

// forgetEmptyHands drops lanes from the list of those that hold messages.
func (c *core) forgetEmptyHands() {
	kept := c.held[:0]
	for _, l := range c.held {
		if len(l.hand) > 0 {
			kept = append(kept, l)
		}
	}
	c.held = kept
}
