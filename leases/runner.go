package leases

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// Owner is told what becomes of the lease. The calls come in order, from one goroutine of the [Runner]; they must not
// block. When they come, the grant has changed already.
type Owner interface {
	// Acquired says that a tenure has begun.
	Acquired(fence uint64)
	// Lost says that a tenure has ended, and why. Nothing of it may be settled any more.
	Lost(fence uint64, why Reason)
	// HandOver asks to call [Runner.Idle] as soon as nothing is in flight. Nothing more may be handed out meanwhile.
	HandOver()
	// Keep takes HandOver back.
	Keep()
}

// Runner runs one candidate for one lease: a goroutine that owns a [Machine], a timer, and calls to a [Store]. All its
// methods can be called from several goroutines.
type Runner struct {
	store Store
	cfg   Config
	owner Owner

	grant  atomic.Pointer[Grant]
	status atomic.Pointer[Status]

	wake    chan struct{}      // written by whoever posts, read by the loop
	rewatch chan struct{}      // written by the loop, read by the watch
	quit    chan struct{}      // closed by Stop, read by the loop
	done    chan struct{}      // closed by the loop when all is over
	ctx     context.Context    // of all calls to the store
	cancel  context.CancelFunc // ends them
	calls   sync.WaitGroup

	mu      sync.Mutex
	inbox   []event
	started bool
	stopped bool
	stopCtx context.Context // bounds the release; set by the first Stop
	stopErr error           // set before done is closed
}

// event is something that a machine is told.
type event func(m *Machine, now time.Time)

// NewRunner makes a runner that does nothing before Start. It returns an error that wraps [ErrInvalid].
func NewRunner(store Store, cfg Config, owner Owner) (*Runner, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	r := &Runner{
		store: store, cfg: cfg, owner: owner,
		wake: make(chan struct{}, 1), rewatch: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}),
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.grant.Store(&Grant{})
	r.status.Store(&Status{Connected: true})
	return r, nil
}

// Start begins to watch the lease. It does not wait, and can be called again.
func (r *Runner) Start() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.started || r.stopped {
		return
	}
	r.started = true
	r.calls.Go(r.watch)
	go r.run()
}

// Stop ends a tenure, releases the lease and waits until everything is over, or ctx is: then it returns an error that
// wraps [ErrNotReleased], if there was something to release. Nothing may be in flight. It can be called again, with the
// same answer, and without Start.
func (r *Runner) Stop(ctx context.Context) error {
	r.mu.Lock()
	if !r.stopped {
		r.stopped, r.stopCtx = true, ctx
		close(r.quit)
		if !r.started {
			r.cancel()
			close(r.done)
		}
	}
	r.mu.Unlock()
	<-r.done
	return r.stopErr
}

// Trusted returns the fence and whether something may be handed out at now, which is time.Now() for all but tests. It
// takes no lock and is to be asked as late as possible before the hand-over.
func (r *Runner) Trusted(now time.Time) (fence uint64, ok bool) {
	g := r.grant.Load()
	return g.Fence, g.Trusted(now)
}

// Held returns the fence and whether its tenure lasts at now: what was handed out in it may be settled, also while
// nothing more may be handed out.
func (r *Runner) Held(now time.Time) (fence uint64, ok bool) {
	g := r.grant.Load()
	return g.Fence, g.Held(now)
}

// ValidUntil returns when trust ends unless a renewal is confirmed before; zero without a tenure.
func (r *Runner) ValidUntil() time.Time { return r.grant.Load().Until }

// Status returns what is known, to be shown.
func (r *Runner) Status() Status { return *r.status.Load() }

// Want says that there is demand here.
func (r *Runner) Want() { r.post((*Machine).Want) }

// Unwant says that there is none any more: nothing is in flight, and nothing will be handed out before the next Acquired.
func (r *Runner) Unwant() { r.post((*Machine).Unwant) }

// Idle answers HandOver: nothing is in flight, and nothing will be handed out before the next Keep or Acquired.
func (r *Runner) Idle() { r.post((*Machine).Idle) }

// Disconnected says that the connection to the store is lost.
func (r *Runner) Disconnected() { r.post((*Machine).Disconnected) }

// Connected says that it is back.
func (r *Runner) Connected() { r.post((*Machine).Connected) }

// Peers says which other candidates live and want the lease, and this one's own priority. The slice is not kept.
func (r *Runner) Peers(priority int, others []Peer) {
	others = append([]Peer(nil), others...)
	r.post(func(m *Machine, now time.Time) { m.Peers(now, priority, others) })
}

func (r *Runner) post(e event) {
	r.mu.Lock()
	r.inbox = append(r.inbox, e)
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// run is the goroutine that owns the machine.
func (r *Runner) run() {
	m := New(r.cfg, rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())))
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	quit, expired := r.quit, (<-chan struct{})(nil)
	for {
		select {
		case <-r.wake:
			for _, e := range r.take() {
				e(m, time.Now())
				r.after(m)
			}
		case <-timer.C:
			m.Tick(time.Now())
			r.after(m)
		case <-quit:
			quit, expired = nil, r.stopCtx.Done()
			m.Unwant(time.Now())
			r.after(m)
		case <-expired:
			r.finish(m)
			return
		}
		if quit == nil && m.Quiet() {
			r.finish(m)
			return
		}
		next := time.Hour
		if at := m.Deadline(); !at.IsZero() {
			next = max(0, time.Until(at))
		}
		timer.Reset(next)
	}
}

func (r *Runner) take() []event {
	r.mu.Lock()
	defer r.mu.Unlock()
	events := r.inbox
	r.inbox = nil
	return events
}

func (r *Runner) finish(m *Machine) {
	if !m.Quiet() {
		r.stopErr = ErrNotReleased
	}
	r.cancel()
	r.calls.Wait()
	close(r.done)
}

// after makes what the machine says come true, in the order that [Machine] asks for.
func (r *Runner) after(m *Machine) {
	if g := m.Grant(); g != *r.grant.Load() {
		r.grant.Store(&g)
	}
	if s := m.Status(); s != *r.status.Load() {
		r.status.Store(&s)
	}
	for _, a := range m.Actions() {
		switch a.Kind {
		case Begin:
			r.owner.Acquired(a.Fence)
		case End:
			r.owner.Lost(a.Fence, a.Reason)
		case HandOver:
			r.owner.HandOver()
		case Keep:
			r.owner.Keep()
		case Read:
			r.calls.Go(func() { r.read(a.Request) })
		case Write:
			r.calls.Go(func() { r.write(a) })
		case Rewatch:
			select {
			case r.rewatch <- struct{}{}:
			default:
			}
		}
	}
}

// outcome says what is known after an error of the store.
func outcome(err error) Outcome {
	switch {
	case errors.Is(err, ErrConflict):
		return Conflict
	case errors.Is(err, ErrUnavailable):
		return Refused
	case errors.Is(err, ErrGone):
		return BucketGone
	}
	return Unknown
}
