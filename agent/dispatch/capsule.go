package dispatch

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/fairlead/fairlead/agent/broker"
	"github.com/fairlead/fairlead/agent/permit"
	"github.com/fairlead/fairlead/config"
	"github.com/fairlead/fairlead/fairshare"
)

// ErrStopped says that the capsule was stopped. Nothing was taken.
var ErrStopped = errors.New("dispatch: the capsule has stopped")

// demandMemory is how long an app counts as being there after its last pull.
const demandMemory = 5 * time.Second

// Options are what a capsule needs.
type Options struct {
	Name         string
	Queues       []string      // in strict order; each is served from its first Define on
	Concurrency  int           // slots: the most messages in the app's hands; at least 1
	PollInterval time.Duration // between sweeps
	Seed         uint64        // of ties and jitter; different in every agent
	Broker       Broker
	Logger       hclog.Logger
	// Demand is told when an app comes (an open pull, or messages in its hands) or has gone. It must not block. It may be
	// nil.
	Demand func(bool)
	// Failing is told when the app begins to count as failing, because it dies again and again with what it gets, and when it does
	// so no more. It must not block. It may be nil.
	Failing func(bool)
	// Want is told whether the capsule wants the lease of a queue with a single active consumer: while it has demand and
	// does not drain, and as long as a message of the queue is out, or on its way here or back. Idle is told, once or more
	// often, after SetHandOver, that nothing of a queue is, and that nothing will be taken. Neither may block; both may be
	// nil.
	Want func(queue string, want bool)
	Idle func(queue string)
}

// Broker is what a capsule needs of JetStream: a [broker.Client].
type Broker interface {
	NewFeed(sink func(broker.Answer), stray func(*broker.Message)) (*broker.Feed, error)
	Watch(layout broker.Layout, f func(broker.Wake)) (stop func(), err error)
	Sweep(ctx context.Context, layout broker.Layout) (broker.Sweep, error)
	Repair(ctx context.Context, q config.Queue, odd []string) (moved int, err error)
	Return(m *broker.Message, r broker.Return, done func(error))
	Notify(f func(up bool))
	Connected() bool
	NewPermits(queue, holder string, tell func(func(*permit.Ledger, time.Time))) (*broker.Permits, error)
}

// Capsule serves the pulls of one capsule. Its methods are safe for several goroutines; all but Pull and Status return at
// once.
type Capsule struct {
	o    Options
	box  *mailbox
	core *core // owned by run
	feed *broker.Feed
	done chan struct{} // closed when run has ended

	// owned by run
	watches  map[string]func()
	permits  map[string]*broker.Permits // of queues with a cap per key
	lastPull time.Time
	there    bool // an app uses the capsule
	demand   bool // what Demand was told last
	failed   bool // what Failing was told last
	failing  failing
	wants    map[string]bool // by queue: what Want was told last
	troubles troubles

	stop    sync.Once
	repairs sync.WaitGroup
	returns count           // messages that are on their way back
	ctx     context.Context // ends with Stop
	cancel  context.CancelFunc
	layouts sync.Map // queue name -> *broker.Layout in force

	defMu   sync.Mutex              // serialises Define and SetTenure
	defs    map[string]config.Queue // in force
	tenures map[string]*broker.Tenure
}

// New makes a capsule that serves no queue yet: see Define.
func New(o Options) (*Capsule, error) {
	c := &Capsule{o: o, box: newMailbox(), done: make(chan struct{}), watches: map[string]func(){}, permits: map[string]*broker.Permits{}, troubles: troubles{},
		wants: map[string]bool{}, defs: map[string]config.Queue{}, tenures: map[string]*broker.Tenure{}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	feed, err := o.Broker.NewFeed(
		func(a broker.Answer) { c.answered(a) },
		func(m *broker.Message) { c.strayed(m) },
	)
	if err != nil {
		c.cancel()
		return nil, fmt.Errorf("dispatch: capsule %s: %w", o.Name, err)
	}
	c.feed = feed
	c.core = newCore(feed, c, coreOptions{order: o.Queues, holder: strings.ToLower(rand.Text()), seed: o.Seed, concurrency: o.Concurrency, poll: o.PollInterval})
	o.Broker.Notify(func(up bool) { c.box.put(func(k *core, now time.Time) { k.connection(up, now) }) })
	c.box.put(func(k *core, now time.Time) { k.connection(o.Broker.Connected(), now) })
	go c.run()
	return c, nil
}

// answered and strayed give messages back themselves when there is nobody left to tell.
func (c *Capsule) answered(a broker.Answer) {
	told := c.box.put(func(k *core, now time.Time) {
		k.answered(a, now)
		c.trouble("messages cannot be taken; trying again", a.Lane.Queue(), a.Err, now)
	})
	if !told {
		for _, m := range a.Messages {
			c.giveBack(m)
		}
	}
}

func (c *Capsule) strayed(m *broker.Message) {
	if !c.box.put(func(k *core, now time.Time) { k.stray(m, m.Lane, now) }) {
		c.giveBack(m)
	}
}

// run owns core.
func (c *Capsule) run() {
	defer close(c.done)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	spare := batch{wakes: map[wakeKey]wakeNote{}}
	for {
		select {
		case <-c.box.ready:
		case <-timer.C:
		case <-c.ctx.Done():
			c.shutDown()
			return
		}
		full := c.box.take(&spare)
		now := time.Now()
		// Wake-ups first: whatever is picked below should know of them.
		for _, key := range full.order {
			if q := c.core.current(key.layout); q != nil {
				note := full.wakes[key]
				c.core.wake(q, key.address, note, now)
			}
		}
		for _, e := range full.events {
			e(c.core, now)
		}
		c.core.tick(now)
		c.tellDemand(now)
		full.reset()
		spare = full
		if at := c.wakeAt(); !at.IsZero() {
			timer.Reset(max(time.Until(at), 0))
		} else {
			timer.Reset(time.Hour)
		}
	}
}

// wakeAt is when run has something to do by itself.
func (c *Capsule) wakeAt() time.Time {
	at := c.core.next()
	if c.there {
		at = earlier(at, c.lastPull.Add(demandMemory+time.Millisecond))
	}
	at = earlier(at, c.failing.next(time.Now()))
	return at
}

func (c *Capsule) tellDemand(now time.Time) {
	k := c.core
	if len(k.pulls) > 0 || k.inFlight > 0 {
		c.lastPull = now
	}
	c.there = !c.lastPull.IsZero() && now.Sub(c.lastPull) <= demandMemory
	suspended := c.failing.suspended(now)
	if suspended != c.failed { // before the demand, so that others hear of both at once
		c.failed = suspended
		if c.o.Failing != nil {
			c.o.Failing(suspended)
		}
	}
	demand := c.there && !(suspended && k.well > 0) // others first, unless they are as badly off
	if demand != c.demand {
		c.demand = demand
		if c.o.Demand != nil {
			c.o.Demand(demand)
		}
	}
	c.tellWants(suspended)
}

// tellWants says which leases the capsule wants. One that nobody else would take is kept, however badly the app does.
func (c *Capsule) tellWants(suspended bool) {
	if c.o.Want == nil {
		return
	}
	for _, q := range c.core.queues {
		name := q.layout.Queue
		want := c.core.wantsLease(q, c.there && !(suspended && c.core.rivalsOf[name].Well > 0))
		if want != c.wants[name] {
			c.wants[name] = want
			c.o.Want(name, want)
		}
	}
}

// shutDown ends what is under way.
func (c *Capsule) shutDown() {
	left := c.box.close()
	now := time.Now()
	c.core.draining = true
	for _, e := range left {
		e(c.core, now)
	}
	for len(c.core.pulls) > 0 {
		c.core.end(c.core.pulls[0], ErrStopped)
	}
	for _, q := range c.core.queues {
		c.core.abandon(q)
	}
	for _, stop := range c.watches {
		stop()
	}
}

// Stop ends the capsule: open pulls are answered, nothing more is taken, and what was on its way to an app has gone back
// when it returns, unless NATS is away. What is in the app's hands stays there. It can be called twice.
func (c *Capsule) Stop() {
	c.stop.Do(c.cancel)
	<-c.done
	c.feed.Close()
	c.repairs.Wait()
	c.returns.wait()
	c.closePermits()
}

// Define sets or replaces the definition of a queue, which must be one of the capsule's.
func (c *Capsule) Define(def config.Queue) {
	c.defMu.Lock()
	defer c.defMu.Unlock()
	c.defs[def.Name] = def
	c.box.put(func(k *core, _ time.Time) { k.arrive(def.Name) })
	c.applyLocked(def)
}

// Leave stops taking from a queue whose layout is about to change, until [Capsule.Define] says what it is from then on, also when
// a tenure of it begins before that. Pulls wait meanwhile.
func (c *Capsule) Leave(queue string) {
	c.box.put(func(k *core, _ time.Time) { k.leave(queue) })
}

// SetTenure begins the capsule's tenure of a queue with a single active consumer; nil ends it. A hand-over that was asked
// for is over with it.
func (c *Capsule) SetTenure(queue string, t *broker.Tenure) {
	c.defMu.Lock()
	defer c.defMu.Unlock()
	c.tenures[queue] = t
	c.box.put(func(k *core, now time.Time) { delete(k.handOver, queue) })
	if def, ok := c.defs[queue]; ok {
		c.applyLocked(def)
	}
}

// SetHandOver asks to take nothing more of a queue and to say, by Options.Idle, when nothing of it is out; or takes that back.
func (c *Capsule) SetHandOver(queue string, on bool) {
	c.box.put(func(k *core, now time.Time) { k.setHandOver(queue, on, now) })
}

// applyLocked puts a definition into effect, in the present tenure.
func (c *Capsule) applyLocked(def config.Queue) {
	d := Definition{Layout: broker.NewLayout(def), Guard: def.StarvationGuard, Weights: weights(def)}
	if d.Layout.Single {
		d.Layout = d.Layout.In(c.tenures[def.Name])
	}
	c.layouts.Store(def.Name, &d.Layout)
	c.box.put(func(k *core, now time.Time) {
		c.listen(&d.Layout)
		k.define(d, now)
	})
}

// listen hears the wake-ups of a layout from now on. The new watch opens before the old one closes.
func (c *Capsule) listen(l *broker.Layout) {
	old := c.watches[l.Queue]
	delete(c.watches, l.Queue)
	if old != nil {
		defer old()
	}
	if l.Single && l.Tenure == nil {
		return // nothing is taken from it here
	}
	stop, err := c.o.Broker.Watch(*l, func(w broker.Wake) {
		if w.Known {
			c.box.wake(wakeKey{l, w.Address}, w.Weight, w.Seq)
			return
		}
		c.box.put(func(k *core, now time.Time) { k.sweepSoon(l.Queue, now) })
	})
	if err != nil {
		c.o.Logger.Error("wake-ups cannot be heard; the sweep finds the work", "queue", l.Queue, "error", err)
		return
	}
	c.watches[l.Queue] = stop
}

// Stored says that this agent has stored a message: its wake-up is on its way, and whoever was told that the message is
// stored may ask for it before that. It does nothing for queues of other capsules.
func (c *Capsule) Stored(queue string, level int, key string, weight fairshare.Weight, seq uint64) {
	if l, ok := c.layouts.Load(queue); ok {
		layout := l.(*broker.Layout)
		c.box.stored(wakeKey{layout, layout.AddressOf(level, key)}, weight, seq)
	}
}

// Pull serves one pull. It returns when there is at least one message and nothing else is about to arrive, with nothing
// when the request's wait is over or the capsule drains, and with an error when NATS cannot be reached
// ([broker.ErrUnavailable]), ctx ended, or the capsule stopped. Messages that are returned are the caller's.
func (c *Capsule) Pull(ctx context.Context, r Request) ([]*broker.Message, error) {
	type outcome struct {
		messages []*broker.Message
		err      error
	}
	answer := make(chan outcome, 1)
	p := &pull{
		max: max(r.Max, 1), deadline: time.Now().Add(r.Wait), oneRound: r.Wait <= 0, settled: r.After == nil,
		answer: func(m []*broker.Message, err error) { answer <- outcome{m, err} },
	}
	if !c.box.put(func(k *core, now time.Time) {
		p.first = p.oneRound && !c.there
		c.lastPull = now // it can be over at once, and is a pull all the same
		k.ask(p, now)
	}) {
		return nil, ErrStopped
	}
	after := r.After
	for {
		select {
		case o := <-answer:
			return o.messages, o.err
		case <-after:
			after = nil
			c.box.put(func(k *core, now time.Time) { k.settled(p, now) })
		case <-ctx.Done():
			c.box.put(func(k *core, now time.Time) { k.cancel(p, now) })
			// The answer may have been given before the end was noticed.
			select {
			case o := <-answer:
				if len(o.messages) > 0 {
					return o.messages, nil
				}
			case <-c.done:
				select { // both can have happened
				case o := <-answer:
					if len(o.messages) > 0 {
						return o.messages, nil
					}
				default:
				}
			}
			return nil, ctx.Err()
		}
	}
}

// Released says that the slot of a message is free again, and how the message left the app's hands.
func (c *Capsule) Released(m *broker.Message, how broker.Ending) {
	c.box.put(func(k *core, now time.Time) {
		c.failing.note(how, now)
		k.released(m, now)
	})
}

// Returned says that a message waits in its lane again, from a time on; the zero time is now.
func (c *Capsule) Returned(m *broker.Message, at time.Time) {
	c.Available(m.Queue, broker.Address{Class: m.Lane.Class, Key: m.Key}, at)
}

// Available says that a message waits from a time on: at an address of any layout of the queue, also a former one.
func (c *Capsule) Available(queue string, a broker.Address, at time.Time) {
	c.box.put(func(k *core, now time.Time) { k.returned(queue, a, at, now) })
}

// Drain stops taking. Open pulls are answered with nothing within a second.
func (c *Capsule) Drain() { c.box.put(func(k *core, now time.Time) { k.drain(now) }) }

// Rivals are the other live capsules with demand that serve a queue, of any agent.
type Rivals struct {
	All  int
	Well int // of them, those whose app is not failing
}

// SetRivals says which rivals there are, by queue. The map is the capsule's from now on.
func (c *Capsule) SetRivals(by map[string]Rivals) {
	c.box.put(func(k *core, _ time.Time) { k.setRivals(by) })
}

// SetBackOff says whether a live peer of higher consumer priority serves a queue. While one does, wake-ups of the queue are
// ignored, and it is looked over only every third poll interval, each time with at most the free credit.
func (c *Capsule) SetBackOff(queue string, on bool) {
	c.box.put(func(k *core, now time.Time) { k.setBackOff(queue, on, now) })
}

// SetConcurrency changes the number of slots. Slots in use stay in use.
func (c *Capsule) SetConcurrency(n int) {
	c.box.put(func(k *core, now time.Time) { k.concurrency = n; k.pump(now) })
}
