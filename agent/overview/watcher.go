package overview

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/config"
)

const (
	// Interval is the shortest time between two overviews.
	Interval = 500 * time.Millisecond
	// Linger is for how long overviews are taken after somebody asked for one.
	Linger = 10 * time.Second

	// costShare is how much longer the pause is than what the last overview took: a tenth of the time at most,
	costShare = 10
	// but for overviews that take long, which are told in time all the same: a third of it.
	patience  = 3 * time.Second
	longShare = 2

	queueLimit = 3 * time.Second // for one queue
)

// ErrStopped says that the watcher was stopped. There will be no more overviews.
var ErrStopped = errors.New("overview: stopped")

// Source is the agent that is shown. Its methods are safe for several goroutines.
type Source interface {
	// Status answers without asking a server.
	Status(ctx context.Context) (*api.AgentStatus, error)
	// Definitions are those in force.
	Definitions() []config.Queue
	// Queue asks what a queue holds, with at most keys tenants.
	Queue(ctx context.Context, name string, keys int) (*api.QueueStatus, error)
	// Weight is what is set for a tenant, and whether anything is.
	Weight(def config.Queue, key string) (weight float64, set bool)
	// Oldest asks for the ages of the oldest messages of some tenants.
	Oldest(ctx context.Context, queue string, keys []string) (map[string]time.Duration, error)
	// Latest asks for the dead letters that died last, the last one first, at most most of them.
	Latest(ctx context.Context, queue string, most int) ([]api.DeadLetter, error)
}

// Shot is one overview. It does not change.
type Shot struct {
	Number   uint64 // 1 for the first one; a later one has a higher number
	Overview *api.Overview
	JSON     []byte // Overview, encoded on one line
}

// Watcher takes overviews while somebody looks. It is safe for several goroutines.
type Watcher struct {
	source Source
	ledger *Ledger
	log    hclog.Logger
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup
	film   film // owned by the goroutine that runs, of which there is one at most

	mu      sync.Mutex
	viewers int
	until   time.Time     // somebody asked for one, and may ask again
	running bool          // run is, or is about to
	last    *Shot         // nil is none
	next    chan struct{} // closed and replaced when last changes
	stopped bool
}

// NewWatcher returns one that nobody looks through. The ledger's notes are for it alone.
func NewWatcher(source Source, ledger *Ledger, log hclog.Logger) *Watcher {
	if log == nil {
		log = hclog.NewNullLogger()
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &Watcher{source: source, ledger: ledger, log: log, ctx: ctx, cancel: cancel, next: make(chan struct{})}
}

// Watch says that somebody looks, until leave is called. leave can be called several times.
func (w *Watcher) Watch() (leave func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.viewers++
	w.runLocked()
	return sync.OnceFunc(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.viewers--
	})
}

// After returns the last overview if its number is higher than number, else it blocks until there is one, or until ctx ends.
// After a pause in which nobody looked, the one from before it is not returned. Errors are those of ctx, or [ErrStopped].
func (w *Watcher) After(ctx context.Context, number uint64) (*Shot, error) {
	for {
		w.mu.Lock()
		w.until = time.Now().Add(Linger)
		w.runLocked()
		last, next := w.last, w.next
		w.mu.Unlock()
		if last != nil && last.Number > number {
			return last, nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-w.ctx.Done():
			return nil, ErrStopped
		}
	}
}

// Stop ends it and waits. It can be called twice.
func (w *Watcher) Stop() {
	w.mu.Lock()
	w.stopped = true
	w.mu.Unlock()
	w.cancel()
	w.work.Wait()
}

func (w *Watcher) runLocked() {
	if w.running || w.stopped {
		return
	}
	w.running, w.last = true, nil
	w.work.Go(w.run)
}

// run takes overviews until nobody looks any more.
func (w *Watcher) run() {
	w.ledger.note(true)
	w.film.begin()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-w.ctx.Done():
			w.ledger.note(false)
			return
		}
		if w.idle() {
			return
		}
		began := time.Now()
		w.shoot(began)
		timer.Reset(pause(time.Since(began)))
	}
}

// pause is how long to wait after an overview that took some time.
func pause(took time.Duration) time.Duration {
	return max(Interval-took, min(costShare*took, max(patience, longShare*took)))
}

// idle ends the run if nobody looks.
func (w *Watcher) idle() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.viewers > 0 || time.Now().Before(w.until) {
		return false
	}
	w.ledger.note(false) // under the lock: the next run begins its notes after it
	w.running = false
	return true
}

func (w *Watcher) shoot(now time.Time) {
	o, err := w.film.take(w.ctx, w.source, w.ledger, now)
	var text []byte
	if err == nil {
		text, err = json.Marshal(o)
	}
	if err != nil {
		if w.ctx.Err() == nil {
			w.log.Warn("no overview can be taken", "error", err)
		}
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.film.number++
	w.last = &Shot{Number: w.film.number, Overview: o, JSON: text}
	close(w.next)
	w.next = make(chan struct{})
}

// problem words why a queue could not be looked at.
func problem(queue string, err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Sprintf("queue %s: JetStream did not answer in time", queue)
	}
	return fmt.Sprintf("queue %s: %v", queue, err)
}
