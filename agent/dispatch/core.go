package dispatch

import (
	"math/rand/v2"
	"time"

	"github.com/fairlead/fairlead/agent/broker"
	"github.com/fairlead/fairlead/agent/broker/names"
	"github.com/fairlead/fairlead/agent/due"
	"github.com/fairlead/fairlead/agent/permit"
	"github.com/fairlead/fairlead/fairshare"
)

// source answers questions to lanes: a broker.Feed, or the simulated one of the tests.
type source interface {
	// Lane describes the lane at an address.
	Lane(layout broker.Layout, a broker.Address) *broker.Lane
	// Ask asks for up to n messages. Exactly one core.answered follows, later; see broker.Feed.Ask.
	Ask(lane *broker.Lane, n int, patience time.Duration)
	// Head looks up the sequence of a lane's first message at or after a sequence. Exactly one report follows, later; see
	// broker.Feed.Head.
	Head(lane *broker.Lane, from uint64, done func(seq uint64))
	// Forget drops what is kept about a lane without an open question.
	Forget(lane *broker.Lane)
}

// effects are what core wants done besides asking. None may block or call back before it returns.
type effects interface {
	// sweep starts a sweep of a queue. Exactly one core.swept follows.
	sweep(q *queue)
	// repair moves messages on odd subjects to where they belong.
	repair(q *queue, odd []string)
	// headFound passes on to core.headFound what source.Head reported.
	headFound(lane *broker.Lane, seq uint64)
	// giveBack returns a message that nobody wants any more. Exactly one core.cameBack follows.
	giveBack(m *broker.Message)
	// carryOut does what the ledger of a queue's permits asks for. Each action but one is answered by one event of the ledger,
	// later.
	carryOut(queue string, a permit.Action)
	// idle says that nothing of a queue is out, and nothing will be taken: its lease can be handed over.
	idle(queue string)
}

const (
	// roundLimit is how long a round waits for its answers. A question that has none by then goes on without the round. Lanes
	// answer within a millisecond; making one anew on a busy server takes longer, and going on without it would be unfair.
	roundLimit = 500 * time.Millisecond
	// overslept is how late a round's end is seen when this process, or its machine, has stood still. The answers may have
	// come meanwhile and not be read yet: the round waits for them, once, for as long as rereading says.
	overslept = 10 * time.Millisecond
	rereading = 100 * time.Millisecond
	// recheckAfter is when a lane that was just woken and had nothing is asked once more: JetStream can say "no messages"
	// for a moment after it has stored one.
	recheckAfter = 2 * time.Millisecond
	// justWoken is how long after a wake-up "no messages" is doubted.
	justWoken = 20 * time.Millisecond
	// insistence is how long such a lane's second question may stay open when nobody else can have taken the message.
	// One that was kept open in vain is the last of its queue for insistenceShare times as long.
	insistence      = 50 * time.Millisecond
	insistenceShare = 100
	// firstRetry is when a lane that had nothing, although the sweep lists messages, is asked again. It doubles each time.
	firstRetry = 250 * time.Millisecond
	// retryShare spreads such questions: with n such lanes each is asked every n × retryShare at the most often, at least
	// every retryFloor once it has backed off, and at the least often every acknowledgement wait.
	retryShare = 10 * time.Millisecond
	retryFloor = 500 * time.Millisecond
	// laneMemory is how long an empty lane is remembered.
	laneMemory = time.Minute
	// rivalDelay is how much each other live agent adds to the random delay before an idle agent asks a lane that was woken:
	// all of them hear of the message, one can have it.
	rivalDelay = 400 * time.Microsecond
	// oneRoundLimit is how long a pull that does not wait may take all the same: a sweep, and what it found.
	oneRoundLimit = 2 * time.Second
	// fillRounds is how many rounds a pull with messages may go through to get more.
	fillRounds = 8
	// handLimit is how long a message that arrived outside of a round is kept for a turn. JetStream hears of nothing
	// meanwhile, and gives it to someone else after its acknowledgement wait.
	handLimit = time.Second
	// drainAnswer is how long a pull waits, at most, while the capsule drains.
	drainAnswer = time.Second
)

// core makes a capsule's decisions. It is a value: no goroutine, lock or clock. Every method takes the time of the event
// and ends by taking what can be taken.
type core struct {
	coreOptions
	src source
	eff effects
	rng *rand.Rand // seeded; for jitter only

	queues    []*queue // that are defined, in strict order
	byRef     map[*broker.Lane]*lane
	pulls     []*pull        // in the order in which they came
	inFlight  int            // assigned to a pull, and not released
	out       map[string]int // the same, by queue
	back      map[string]int // by queue: messages that were never in the app's hands and are on their way back
	round     *round
	timers    due.Queue[timer]
	connected bool
	draining  bool
	caps      []*capped             // of queues with a cap per key, in the order in which they came
	grantees  map[message][]grantee // in flight under permits
	backsOff  map[string]bool       // by queue: a peer of higher consumer priority serves it
	handOver  map[string]bool       // by queue: its lease is to be handed over, as soon as nothing of it is out
	rivalsOf  map[string]Rivals     // by queue
	rivals    int                   // the most of them
	well      int                   // the most of those whose app is not failing
	controls  map[string]*controls  // by queue
	left      map[string]bool       // queues whose layout is about to change
	held      []*lane               // lanes with messages that arrived outside of a round
	delayed   []*lane               // lanes whose wake-ups wait for their random delays
	asked     int                   // questions without an answer
	doubts    int                   // lanes that are about to be asked once more
	pending   []Definition          // put off until no round is under way

	delivered, lanePulls, emptyPulls uint64
}

type coreOptions struct {
	order       []string // of the queues
	holder      string   // names the capsule in the records of permits
	seed        uint64
	concurrency int
	poll        time.Duration
}

func newCore(src source, eff effects, o coreOptions) *core {
	return &core{coreOptions: o, src: src, eff: eff, rng: rand.New(rand.NewPCG(o.seed, 1)), byRef: map[*broker.Lane]*lane{},
		out: map[string]int{}, back: map[string]int{}, grantees: map[message][]grantee{}, backsOff: map[string]bool{}, handOver: map[string]bool{}, left: map[string]bool{}, controls: map[string]*controls{}}
}

// ask adds a pull.
func (c *core) ask(p *pull, now time.Time) {
	p.arrived = now
	if c.draining {
		p.deadline = minTime(p.deadline, now.Add(drainAnswer))
	}
	c.pulls = append(c.pulls, p)
	c.pump(now)
}

// settled says that the settlements that came with a pull are done.
func (c *core) settled(p *pull, now time.Time) {
	p.settled = true
	c.pump(now)
}

// cancel ends a pull whose app is gone. What it got goes back.
func (c *core) cancel(p *pull, now time.Time) {
	if p.ended {
		return
	}
	got := p.got
	p.got = nil
	c.end(p, nil)
	for _, m := range got {
		c.leaves(m)
		c.giveBack(m)
	}
	c.pump(now)
}

// released says that the slot of a message is free again.
func (c *core) released(m *broker.Message, now time.Time) {
	c.leaves(m)
	c.freed(m, now)
	c.attend(now)
	c.pump(now)
}

// leaves takes a message out of the app's hands.
func (c *core) leaves(m *broker.Message) {
	c.inFlight--
	if c.out[m.Queue]--; c.out[m.Queue] == 0 {
		delete(c.out, m.Queue)
	}
}

// returned says that a message is available again from a time on. It may have been taken under a former layout.
func (c *core) returned(queueName string, a broker.Address, at, now time.Time) {
	q := c.queueNamed(queueName)
	if q == nil {
		return
	}
	if a, ok := q.home(a); ok {
		l := c.lane(q, a)
		l.maybeOut = true
		if at.After(now) {
			c.putOff(l, at)
		} else {
			l.blocked = false
			c.revive(l, returned, 1, now)
			c.pump(now)
		}
	}
}

// connection says whether NATS can be reached.
func (c *core) connection(up bool, now time.Time) {
	c.connected = up
	if up {
		for _, k := range c.caps {
			k.ledger.Reconnected()
		}
		for _, q := range c.queues {
			q.nextSweep = now
			c.unblockAll(q, now)
		}
	}
	c.pump(now)
}

// drain stops taking. It cannot be undone.
func (c *core) drain(now time.Time) {
	c.draining = true
	for _, p := range c.pulls {
		p.deadline = minTime(p.deadline, now.Add(drainAnswer))
	}
	c.pump(now)
}

func (c *core) setRivals(by map[string]Rivals) {
	c.rivalsOf, c.rivals, c.well = by, 0, 0
	for _, r := range by { // the most do not depend on the order
		c.rivals, c.well = max(c.rivals, r.All), max(c.well, r.Well)
	}
}

// tick does what is due.
func (c *core) tick(now time.Time) {
	if c.round != nil && c.round.over(now) {
		c.giveUpRound(now)
	}
	for _, k := range c.caps {
		k.ledger.Tick(now)
	}
	c.attend(now)
	c.endEmptyRound(now)
	for {
		t, ok := c.timers.Take(now)
		if !ok {
			break
		}
		if t.why == doubted {
			c.doubts--
		}
		if t.why == woken && !c.undelay(t.lane) { // that was over before
			continue
		}
		if c.byRef[t.lane.ref] != t.lane { // forgotten meanwhile
			continue
		}
		if t.why == returned && !t.lane.unblock(now) {
			continue
		}
		n := max(t.lane.wakes, 1)
		if t.why == failed {
			if n = t.lane.missed; t.lane.believed || t.lane.asked > 0 || now.Before(t.lane.notUntil) {
				continue // it was asked meanwhile, and has failed again: that has set a timer of its own
			}
		}
		c.revive(t.lane, t.why, n, now)
	}
	c.pump(now)
}

// next is when tick has something to do; the zero time means never.
func (c *core) next() time.Time {
	at := c.timers.Next()
	if c.round != nil {
		at = earlier(at, c.round.limit)
	} else {
		for _, p := range c.pulls {
			at = earlier(at, p.end(c.draining))
			if p.first {
				at = earlier(at, p.arrived.Add(claimPatience))
			}
		}
	}
	for _, q := range c.queues {
		if c.sweepWanted(q) {
			at = earlier(at, q.nextSweep)
		}
	}
	for _, k := range c.caps {
		at = earlier(at, k.ledger.Next())
	}
	return at
}

// pump takes what there is credit for, and answers the pulls that have nothing more to wait for.
func (c *core) pump(now time.Time) {
	c.sweepIfDue(now)
	c.returnUnwanted(now)
	c.undelayAll(now)
	for c.round == nil {
		c.applyChanges(now)
		if !c.startRound(now) {
			break
		}
	}
	if c.round != nil {
		return
	}
	c.returnUnwanted(now)
	c.answerPulls(now)
	c.tellIdle()
	c.trimPermits()
	c.attend(now)
}

// answerPulls ends the pulls that have messages, when nothing else is about to arrive, and those that waited long enough.
func (c *core) answerPulls(now time.Time) {
	for i := 0; i < len(c.pulls); {
		p := c.pulls[i]
		switch {
		case len(p.got) > 0:
			c.end(p, nil)
		case c.draining && !now.Before(p.deadline):
			c.end(p, nil)
		case p.oneRound && !c.draining:
			if !c.roundIsComplete(p, now) {
				p.first = p.first && now.Before(p.arrived.Add(claimPatience))
				i++
				continue
			}
			c.end(p, c.emptyReason())
		case !now.Before(p.deadline):
			c.end(p, c.emptyReason())
		default:
			i++
		}
	}
}

// emptyReason is why a pull gets nothing: there is nothing, or nobody to ask.
func (c *core) emptyReason() error {
	if !c.connected && !c.draining {
		return broker.ErrUnavailable
	}
	return nil
}

// roundIsComplete tells whether everything was tried for a pull that does not wait.
func (c *core) roundIsComplete(p *pull, now time.Time) bool {
	if !c.connected || now.Sub(p.arrived) >= oneRoundLimit {
		return true
	}
	if c.free() == 0 {
		return p.settled
	}
	if c.asked > 0 || c.doubts > 0 {
		return false
	}
	complete := true
	for _, q := range c.queues {
		if q.leaving {
			return false // what it has is not known before its new layout is
		}
		if q.backsOff || q.controls.paused {
			continue // it looks in its own time, or not at all
		}
		if c.claiming(q, p, now) {
			return false
		}
		if c.standsBy(q) {
			continue
		}
		if !p.settled && (c.busy(q) || c.bound(q)) {
			return false // the settlements that came with the pull may be what it waits for
		}
		if q.sweeping || q.sweepBegan.Before(p.arrived) {
			complete = false
			c.startSweep(q, now)
		}
	}
	return complete
}

// returnUnwanted gives back messages that arrived outside of a round: when nobody has credit for them, or others come
// before them for too long, or they are paused, or NATS is away, where they may have been given to someone else when it is
// back.
func (c *core) returnUnwanted(now time.Time) {
	if len(c.held) == 0 {
		return
	}
	all := c.draining || !c.connected || c.round == nil && c.credit() == 0
	for _, l := range c.held {
		if l.plan > 0 || !all && !l.slot.stopped() && !c.standsBy(l.queue) && now.Sub(l.since) < handLimit {
			continue
		}
		for _, m := range l.hand {
			c.giveBack(m)
		}
		l.hand = nil
		c.refresh(l.slot)
	}
	c.forgetEmptyHands()
}

func (c *core) queueNamed(name string) *queue {
	for _, q := range c.queues {
		if q.layout.Queue == name {
			return q
		}
	}
	return nil
}

// current is the queue with a layout, as long as that is the one in force. What was on its way under another is dropped:
// its addresses name lanes that the queue does not have. A new layout begins with a sweep.
func (c *core) current(layout *broker.Layout) *queue {
	if q := c.queueNamed(layout.Queue); q != nil && q.layout == *layout {
		return q
	}
	return nil
}

// home is where messages of an address of any layout wait under this one.
func (q *queue) home(a broker.Address) (broker.Address, bool) {
	token, err := names.EncodeKey(a.Key)
	if err != nil {
		return broker.Address{}, false
	}
	return q.layout.Address(a.Class, token)
}

func minTime(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// earlier is the earlier of two times, where zero is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// weightOf is what a message of a key is charged with.
func (q *queue) weightOf(key string, header fairshare.Weight) fairshare.Weight {
	if w, ok := q.given(key); ok {
		return w
	}
	if header > 0 && q.layout.Fair {
		return header
	}
	return fairshare.One
}
