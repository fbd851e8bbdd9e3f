package group

import (
	"context"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/fairlead/fairlead/agent/broker/bucket"
	"github.com/fairlead/fairlead/config"
)

const (
	// demandGap is the least time between two heartbeats of a capsule.
	demandGap = 100 * time.Millisecond
	// conflictGap is the pause after a lost compare-and-set: the winner's record is on its way.
	conflictGap = 50 * time.Millisecond
	// syncWait is how long the mirror may take to catch up.
	syncWait = 6 * time.Second
	// forgetAge is how long the record of a dead agent stays, and forgetJitter spreads who deletes it.
	forgetAge    = time.Hour
	forgetJitter = 10 * time.Minute
	// farewellTries is how often the deletion of a heartbeat is tried.
	farewellTries = 3
)

// owner is the one goroutine that has all the state and takes all decisions. Everything reaches it through the inbox, in
// the order in which it happened.
type owner struct {
	g     *Group
	rnd   *rand.Rand      // of timing only
	life  context.Context // ends when this agent leaves
	syncs sync.WaitGroup

	own     []config.Queue
	stamps  []stamp // of own
	beats   []*beat
	edition int    // of own and beats: raised by each reload
	stored  int    // the newest edition that a stored heartbeat carries
	born    uint64 // revision of the first stored heartbeat
	yielded bool   // to another agent with the same id

	peers roster
	force map[string]*force // by queue, also of queues that this agent does not have

	heardAt time.Time // when the bucket was last known to work for this agent
	deaf    bool      // that was too long ago, and it was said
	syncing bool      // a Sync is under way
	known   bool      // everything was seen at least once
	unsure  bool      // a decision waits for everything to be seen
	retry   time.Time // nothing is asked again before
	swaps   map[string]bool
	// undecided are this agent's queues of which it may put its own definition in force in a moment.
	undecided map[string]bool
	// stuck are queues without a record whose deleted one has left a mark on which compare-and-set fails.
	stuck   map[string]bool
	relaid  map[string]bool // see [Group.Relaid]
	dirty   bool            // decisions and picture are to be made anew
	settled bool            // decided is closed
	warned  map[string]bool
}

func newOwner(g *Group) *owner {
	h := fnv.New64a()
	_, _ = h.Write([]byte(g.cfg.Agent + "\x00" + g.cfg.Boot))
	o := &owner{
		g: g, rnd: rand.New(rand.NewPCG(h.Sum64(), 1)),
		force: map[string]*force{}, swaps: map[string]bool{}, undecided: map[string]bool{}, stuck: map[string]bool{}, relaid: map[string]bool{}, warned: map[string]bool{},
	}
	o.peers = roster{staleAfter: g.cfg.StaleAfter, forgetAge: forgetAge + time.Duration(o.rnd.Int64N(int64(forgetJitter)))}
	return o
}

func (o *owner) run() {
	defer close(o.g.done)
	var cancel context.CancelFunc
	o.life, cancel = context.WithCancel(context.Background())
	defer o.syncs.Wait()
	defer cancel()

	o.heardAt = time.Now()
	o.reload(o.g.cfg.Definitions, o.g.cfg.Capsules)
	o.g.bucket.Subscribe(heartbeatPrefix, o.heard)
	o.g.bucket.Subscribe(definitionPrefix, o.heard)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-o.g.wake:
		case <-timer.C:
		case <-o.g.quit:
			o.leave()
			return
		}
		for _, event := range o.g.take() {
			event(o)
		}
		timer.Reset(time.Until(o.step(time.Now())))
	}
}

// step does what is due and returns when something is due next.
func (o *owner) step(now time.Time) time.Time {
	next := now.Add(o.g.cfg.Interval)
	if !o.yielded {
		next = o.write(now, next)
	}
	if o.dirty {
		o.evaluate(false)
	}
	if o.yielded || o.syncing || o.stored == 0 {
		return next // what is seen before this agent is known to others is worth nothing
	}
	at := o.peers.next()
	if !o.known || o.unsure {
		at = now
	}
	switch {
	case at.IsZero():
		return next
	case at.Before(o.retry):
		at = o.retry
	}
	if at.After(now) {
		return earlier(next, at)
	}
	o.sync(now)
	return next
}

// sync makes sure that everything that was stored until now is seen.
func (o *owner) sync(now time.Time) {
	o.syncing = true
	o.syncs.Go(func() {
		ctx, cancel := context.WithTimeout(o.life, syncWait)
		defer cancel()
		err := o.g.bucket.Sync(ctx)
		o.g.post(func(o *owner) { o.synced(now, err) })
	})
}

// synced goes on once everything that was stored when it was asked for has been seen.
func (o *owner) synced(asked time.Time, err error) {
	o.syncing = false
	now := time.Now()
	if err != nil {
		o.failed(now, err)
		return
	}
	o.known, o.unsure = true, false
	o.worked(now)
	forgotten, _ := o.peers.judge(asked)
	for _, key := range forgotten {
		o.g.log.Info("deleting the heartbeat of an agent that is long gone", "key", key)
		o.g.bucket.Delete(key, func(uint64, error) {}) // tried again as long as the record is there
		o.retry = now.Add(o.backoff())
	}
	o.evaluate(true)
}

// heard takes a record from the bucket's goroutine.
func (o *owner) heard(e bucket.Entry) {
	o.g.post(func(o *owner) {
		switch {
		case strings.HasPrefix(e.Key, definitionPrefix):
			o.defined(e)
		case strings.HasPrefix(e.Key, agentPrefix(o.g.cfg.Agent)):
			o.twin(e, time.Now())
		default:
			o.dirty = o.peers.apply(e, time.Now()) || o.dirty
		}
	})
}

// failed notes that the bucket could not be used.
func (o *owner) failed(now time.Time, err error) {
	o.retry = now.Add(o.backoff())
	if !o.deaf && now.Sub(o.heardAt) > o.patience() {
		o.deaf = true
		o.g.log.Warn("the coordination bucket cannot be used; other agents count as they were last seen", "error", err)
	}
	o.g.setErr(err, o.deaf)
}

// worked notes that the bucket can be used. Time in which it could not does not count against others: they had no way to
// be heard either, or this agent was paused.
func (o *owner) worked(now time.Time) {
	if silence := now.Sub(o.heardAt); silence > o.patience() {
		o.peers.skip(silence, now)
	}
	o.heardAt = now
	o.g.setErr(nil, false)
	if o.deaf {
		o.deaf = false
		o.g.log.Info("the coordination bucket can be used again")
	}
}

// patience is how long nothing has to succeed until this agent does not trust its own hearing. One lost write is less.
func (o *owner) patience() time.Duration { return 2 * o.g.cfg.Interval }

// backoff is the pause after a failure.
func (o *owner) backoff() time.Duration {
	d := min(o.g.cfg.Interval, time.Second)
	return d/2 + time.Duration(o.rnd.Int64N(int64(d/2)+1))
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
