package broker

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairlead/fairlead/agent/broker/names"
	"github.com/fairlead/fairlead/config"
)

const (
	// purgeLanes is how many lanes a purge empties at the same time, purgeBatch how many messages it takes from one at a
	// time. What apps acknowledge meanwhile stands behind at most that many deletes.
	purgeLanes = 4
	purgeBatch = 64
	// purgeDoubts is how often a lane that should have messages, and says that it has none, is asked again: JetStream can say
	// so for a moment after it has stored one.
	purgeDoubts = 2
	// purgeMargin is how far off the time of a message that backs off has to be for it to be removed where it is. What is due
	// sooner could be taken by somebody meanwhile, and is waited for.
	purgeMargin = 3 * time.Second
	// purgeRepairs is how many messages on unusable subjects are put right before a purge, in calls of Repair.
	purgeRepairs = 100
)

// Purge says which waiting messages to remove.
type Purge struct {
	Key *string // only this tenant's, in a queue that tells keys apart; "" is the unkeyed one; nil: all
	Max int     // at most so many; 0 is no bound
	// Until is the newest sequence to remove. 0 is the newest one that is stored at the time of the call, so that a purge ends
	// while others publish.
	Until uint64
}

// Purged is what came of a purge.
type Purged struct {
	Removed int
	Until   uint64 // as given or found out, for a call that goes on with it
	More    bool   // Max ended it: there may be more to remove
}

// Purge removes waiting messages, of all levels, those that back off included; their attempts are forgotten. It takes them
// from their lanes as a worker would and then deletes them, so that what is in an app's hands, anywhere, is left alone, and
// what it removes is not handed out. It goes by sequence and never by subject: a purge by subject makes JetStream lose
// older messages of the consumers that are at work.
//
// It blocks until it is done or ctx ends; then, and after an error, Removed says how far it came, and the rest is as it
// was. Errors wrap [names.ErrInvalidKey], [ErrStreamMissing], [ErrUnavailable] or [ErrOutcomeUnknown], which means that a message
// may have been removed that is not counted. It costs what taking and finishing the messages would cost.
//
// As with every take, a lane whose consumer was lost with its server hands out running work once more; such a message is
// removed, and the app's ack is answered with AlreadyFinished. The same goes for work that agents with another layout run.
//
// Where lanes hand out one message at a time, a lane whose message is out gives nothing more. There everything but what is out
// is deleted where it is, and the caller has to see to it that nothing is taken meanwhile: the queue has to be paused. In a
// cluster, a lane whose server is dead or cut off cannot say whether its oldest message is out: that one is left.
func (c *Client) Purge(ctx context.Context, q config.Queue, p Purge) (Purged, error) {
	w := &purger{c: c, queue: q, layout: NewLayout(q), key: p.Key, until: p.Until, answers: map[*Lane]chan Answer{}}
	w.budget.Store(int64(p.Max))
	if p.Max == 0 {
		w.budget.Store(1 << 62)
	}
	err := w.run(ctx)
	return Purged{Removed: int(w.removed.Load()), Until: w.until, More: w.more.Load()}, err
}

type purger struct {
	c       *Client
	queue   config.Queue
	layout  Layout
	key     *string
	until   uint64
	feed    *Feed
	budget  atomic.Int64 // that may still be removed
	removed atomic.Int64
	more    atomic.Bool // the budget was not enough, at least for a moment
	// left are the handles of delayed messages that are due. A copy of one can be in the queue: then its mover has died in
	// between, and the original would bring back what was purged.
	left map[string]bool

	mu      sync.Mutex
	answers map[*Lane]chan Answer // of lanes that are being asked
}

func (w *purger) run(ctx context.Context) (err error) {
	if w.key != nil {
		if _, err := names.EncodeKey(*w.key); err != nil {
			return err
		}
	}
	found, err := w.find(ctx)
	if err != nil {
		return err
	}
	if w.left, err = w.due(ctx); err != nil {
		return err
	}
	if w.layout.Serial() {
		return w.serial(ctx)
	}
	if w.feed, err = w.c.NewFeed(w.answered, w.stray); err != nil {
		return err
	}
	defer w.feed.Close()
	if err := w.backingOff(ctx); err != nil {
		return err
	}
	if err := w.lanes(ctx, found); err != nil {
		return err
	}
	return w.dueSoon(ctx)
}

// find lists the lanes to empty, after what lies on unusable subjects was put into lanes.
func (w *purger) find(ctx context.Context) ([]Found, error) {
	s, err := w.c.Sweep(ctx, w.layout)
	if err != nil {
		return nil, err
	}
	if w.until > 0 { // an earlier call has begun it
		return w.chosen(s.Lanes), nil
	}
	for range purgeRepairs {
		if len(s.Odd) == 0 {
			break
		}
		moved, err := w.c.Repair(ctx, w.queue, s.Odd)
		if moved == 0 || err != nil {
			break // the sweeps of agents go on with it
		}
		if s, err = w.c.Sweep(ctx, w.layout); err != nil {
			return nil, err
		}
	}
	info, err := w.c.streamInfo(ctx, w.layout.Queue, 0)
	if err != nil {
		return nil, err
	}
	w.until = info.State.LastSeq
	return w.chosen(s.Lanes), nil
}

// due returns the handles of the delayed messages that are due now.
func (w *purger) due(ctx context.Context) (map[string]bool, error) {
	all, _, err := w.c.delayedUnder(ctx, w.layout.Queue, names.DueToken+".>")
	if errors.Is(err, ErrStreamMissing) {
		return nil, nil
	}
	handles := make(map[string]bool, len(all))
	for _, d := range all {
		handles[d.Handle] = true
	}
	return handles, err
}

func (w *purger) chosen(lanes []Found) []Found {
	return slices.DeleteFunc(lanes, func(f Found) bool { return !w.wants(f.Address) })
}

func (w *purger) wants(a Address) bool { return w.key == nil || a.Key == *w.key }

// reserve takes up to n from what may still be removed.
func (w *purger) reserve(n int) int {
	for {
		have := w.budget.Load()
		n := min(int64(n), have)
		if n <= 0 {
			return 0
		}
		if w.budget.CompareAndSwap(have, have-n) {
			return int(n)
		}
	}
}

func (w *purger) count(result Finish) {
	if result == Finished {
		w.removed.Add(1)
	} else {
		w.budget.Add(1)
	}
}
