package agent

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/broker"
	"github.com/fairlead/fairlead/agent/controls"
	"github.com/fairlead/fairlead/agent/dashboard"
	"github.com/fairlead/fairlead/agent/delivery"
	"github.com/fairlead/fairlead/agent/dispatch"
	"github.com/fairlead/fairlead/agent/group"
	"github.com/fairlead/fairlead/agent/metrics"
	"github.com/fairlead/fairlead/agent/overview"
	"github.com/fairlead/fairlead/agent/socket"
	"github.com/fairlead/fairlead/agent/tcp"
	"github.com/fairlead/fairlead/agent/tracing"
	"github.com/fairlead/fairlead/config"
)

// startPatience is how long Start waits for NATS before it opens the sockets without it.
const startPatience = 2 * time.Second

// Options are what an agent needs besides its file.
type Options struct {
	Logger  hclog.Logger // nil is none
	Version string
	// NoSetup is for an agent whose identity may not create streams: they were made before, by Setup.
	NoSetup bool
	// Tracer gets the spans of messages; nil is none. It is stopped by whoever made it, after the agent.
	Tracer *tracing.Tracer
}

// Agent is one running sidecar. Its methods are safe for several goroutines.
type Agent struct {
	o       Options
	log     hclog.Logger
	started time.Time
	metrics broker.Metrics

	client   *broker.Client
	book     *delivery.Book
	group    *group.Group
	controls *controls.Store
	capsules map[string]*dispatch.Capsule // by name; does not change after Start
	order    []string                     // of capsules, as in the file
	app      *socket.Server
	admin    *socket.Server
	defs     *definer
	roles    *roles
	leases   *contenders
	sources  *sources
	delays   *delays

	appListener   *socket.Listener
	adminListener *socket.Listener
	probes        *tcp.Server // nil without an address for it
	probesTaken   string      // why there is none although the file asks for the default one; set by Start
	numbers       *metrics.Metrics

	ledger            overview.Ledger
	overviews         *overview.Watcher
	dashboardListener net.Listener      // nil without an address for it
	dashboard         *dashboard.Server // nil until serve
	dashboardTaken    string            // why there is none although the file asks for the default one; set by Start

	serving    chan struct{} // closed when the sockets answer
	applied    sync.Map      // queue name -> config.Queue that the capsules follow
	drainBegan chan struct{} // closed when nothing more is taken
	drained    chan struct{} // closed when the drain is over
	drain      sync.Once
	stop       sync.Once
	stopped    chan struct{} // closed when Stop is over
	fatal      chan struct{} // closed when the agent cannot go on
	fail       sync.Once

	mu   sync.Mutex
	cfg  *config.Config
	err  error  // why fatal was closed
	warn string // what keeps it from being set up
}

// New makes an agent from a valid file.
func New(cfg *config.Config, o Options) (*Agent, error) {
	if o.Logger == nil {
		o.Logger = hclog.NewNullLogger()
	}
	a := &Agent{
		o: o, log: o.Logger, cfg: cfg, capsules: map[string]*dispatch.Capsule{},
		serving: make(chan struct{}), drainBegan: make(chan struct{}), drained: make(chan struct{}), stopped: make(chan struct{}), fatal: make(chan struct{}),
	}
	a.numbers = newNumbers(a)
	a.overviews = overview.NewWatcher(sights{a}, &a.ledger, a.log.Named("overview"))
	return a, nil
}

// Start connects, makes or finds streams and bucket, and opens the sockets. It returns when the sockets answer, which they
// do within a few seconds also when NATS is away. Errors are of this machine: a socket that another agent answers on
// ([socket.ErrAlreadyRunning]), credentials that cannot be read, a store in use, an address that somebody has ([tcp.ErrInUse]). Call it once; after Stop it returns
// [ErrStopped].
func (a *Agent) Start(ctx context.Context) error {
	select {
	case <-a.stopped: // nobody could stop what would be started now
		return ErrStopped
	default:
	}
	a.started = time.Now()
	if err := a.start(ctx); err != nil {
		stopCtx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = a.Stop(stopCtx)
		return err
	}
	return nil
}

func (a *Agent) start(ctx context.Context) error {
	// The sockets come first: an agent that is running already must not be disturbed by a second one's heartbeats.
	if err := a.listen(); err != nil {
		return err
	}
	patience, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	var err error
	a.client, err = broker.Connect(patience, broker.Options{
		NATS: a.cfg.NATS, Bucket: a.cfg.Coordination.Bucket, Agent: a.cfg.Agent.ID, Logger: a.log, Metrics: &a.metrics,
		MaxPayload: maxPayload(a.cfg), Queues: a.cfg.Queues,
	})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrBroker, err)
	}
	a.book = delivery.New(a.client, delivery.Backoff{Setting: a.retry})
	a.book.Observe(a.observer())
	a.client.Live, a.client.Definition, a.client.Followed = a.book.Refresh, a.definition, a.followed
	a.group = group.New(a.client.Bucket(), group.Config{
		Agent: a.cfg.Agent.ID, Boot: a.client.Boot(),
		Interval: a.cfg.Coordination.HeartbeatInterval, StaleAfter: a.cfg.Coordination.StaleAfter,
		Capsules: groupCapsules(a.cfg), Definitions: a.cfg.Queues, Logger: a.log.Named("group"),
	})
	a.roles = newRoles(a)
	a.leases = newContenders(a)
	if err := a.makeCapsules(); err != nil {
		return err
	}
	a.client.OnAvailable(a.available)
	a.controls = controls.New(a.client.Bucket(), a.cfg.Agent.ID, a.log.Named("controls"), a.controlled)
	a.group.Notify(a.groupChanged)
	a.defs = newDefiner(a)
	a.defs.start()
	a.sources = newSources(a)
	a.sources.start()
	a.delays = startDelays(a)
	select {
	case <-a.defs.ready:
	case <-a.fatal:
		return a.Err()
	case <-patience.Done():
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if c := a.client.Connection(); c.Connected {
			missing := "this agent makes it as soon as it can"
			if a.o.NoSetup {
				missing = "run setup with an identity that may make streams: this agent does not (--no-setup)"
			}
			a.log.Warn("starting before everything is set up in NATS: pulls wait until it is", "missing", missing)
		} else {
			a.log.Warn("starting without NATS: publishes are refused and pulls wait until it is there", "error", c.LastError)
		}
	}
	go a.watchConflict()
	return a.serve()
}

func (a *Agent) makeCapsules() error {
	for _, cc := range a.cfg.Capsules {
		name := cc.Name
		c, err := dispatch.New(dispatch.Options{
			Name: name, Queues: cc.Queues, Concurrency: cc.Concurrency, PollInterval: a.cfg.Agent.PollInterval, Seed: seed(a.client.Boot(), name),
			Broker: a.client, Logger: a.log.Named("capsule").With("capsule", name),
			Demand:  func(on bool) { a.roles.setDemand(name, on) },
			Failing: func(on bool) { a.group.SetFailing(name, on) },
			Want:    func(queue string, want bool) { a.leases.want(name, queue, want) },
			Idle:    func(queue string) { a.leases.idle(name, queue) },
		})
		if err != nil {
			return err
		}
		a.capsules[name] = c
		a.order = append(a.order, name)
	}
	return nil
}

func maxPayload(cfg *config.Config) (most int64) {
	for _, q := range cfg.Queues {
		most = max(most, q.Limits.MaxPayload)
	}
	return most
}

// seed makes ties break differently in every agent.
func seed(boot, capsule string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(boot + "/" + capsule))
	return h.Sum64()
}

func groupCapsules(cfg *config.Config) []group.Capsule {
	var list []group.Capsule
	for _, c := range cfg.Capsules {
		list = append(list, group.Capsule{Name: c.Name, Queues: c.Queues, ConsumerPriority: c.ConsumerPriority})
	}
	return list
}

// retry is the book's view of the definitions in force.
func (a *Agent) retry(queue string) config.Retry {
	def, _ := a.definition(queue)
	return def.Retry
}

// definition is the one in force.
func (a *Agent) definition(queue string) (config.Queue, bool) {
	if a.group == nil {
		return config.Queue{}, false
	}
	return a.group.Definition(queue)
}

// followed is the definition that the capsules follow: the one in force, a moment later. It is what publishers and readers
// go by: a message of a level that the capsules do not know yet would be served as the lowest one.
func (a *Agent) followed(queue string) (config.Queue, bool) {
	if applied, ok := a.applied.Load(queue); ok {
		def, ok := applied.(config.Queue)
		return def, ok
	}
	return a.definition(queue)
}

// available passes on that a message which somebody returned can be taken from a time on.
func (a *Agent) available(queue, class, key string, at time.Time) {
	def, ok := a.definition(queue)
	if !ok {
		return
	}
	address, ok := broker.NewLayout(def).Address(class, key)
	if !ok {
		return
	}
	for _, cc := range a.settings().Capsules {
		for _, q := range cc.Queues {
			if q == queue {
				a.capsules[cc.Name].Available(queue, address, at)
			}
		}
	}
}

func (a *Agent) settings() *config.Config {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.cfg
}

// groupChanged is called from the group's goroutine.
func (a *Agent) groupChanged(change group.Change) {
	if change.Peers {
		for _, cc := range a.settings().Capsules {
			rivals := make(map[string]dispatch.Rivals, len(cc.Queues))
			for _, q := range cc.Queues {
				rivals[q] = dispatch.Rivals(a.group.Rivals(q, cc.Name))
			}
			a.capsules[cc.Name].SetRivals(rivals)
		}
		a.roles.review()
		a.leases.peersChanged()
	}
	if len(change.Queues) > 0 {
		a.defs.changed(change.Queues)
	}
}

// watchConflict ends the agent when another live one uses its id.
func (a *Agent) watchConflict() {
	select {
	case err := <-a.group.Conflict():
		a.die(err)
	case <-a.stopped:
	}
}

func (a *Agent) die(err error) {
	a.fail.Do(func() {
		a.mu.Lock()
		a.err = err
		a.mu.Unlock()
		close(a.fatal)
	})
}

// Done is closed when the agent cannot go on: another live agent has its id. Err says why. The caller stops it then.
func (a *Agent) Done() <-chan struct{} { return a.fatal }

// Err is why Done was closed.
func (a *Agent) Err() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}

// State is active or draining.
func (a *Agent) State() string {
	select {
	case <-a.drainBegan:
		return api.StateDraining
	default:
		return api.StateActive
	}
}

// Drain stops taking, lets apps settle what they have, at most for the file's drain_timeout or until ctx ends, and gives
// back the rest. The sockets stay open, for settlements and publishes. It can be called several times; all calls return
// when the drain is over, or when their ctx ends.
func (a *Agent) Drain(ctx context.Context) error {
	a.drain.Do(func() {
		a.log.Info("draining: nothing more is taken", "in_flight", a.inFlight())
		a.beginDrain()
		go a.finishDrain()
	})
	select {
	case <-a.drained:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// beginDrain stops taking.
func (a *Agent) beginDrain() {
	close(a.drainBegan)
	for _, name := range a.order {
		a.capsules[name].Drain()
	}
}

func (a *Agent) inFlight() int {
	if a.book == nil {
		return 0
	}
	return a.book.InFlight()
}

func (a *Agent) finishDrain() {
	defer close(a.drained)
	if a.book == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), a.settings().Agent.DrainTimeout)
	defer cancel()
	if err := a.waitSettled(ctx); err != nil {
		left := a.book.InFlight()
		a.book.ReturnAll()
		a.log.Warn("the drain timeout has passed; what apps still held was given back", "messages", left)
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = a.book.WaitIdle(ctx)
	}
}

// waitSettled waits until nothing is in an app's hands, or on its way there: what a capsule has given to a pull is in the
// book only a moment later.
func (a *Agent) waitSettled(ctx context.Context) error {
	const moment = 5 * time.Millisecond
	for {
		if err := a.book.WaitIdle(ctx); err != nil {
			return err
		}
		out := 0
		for _, name := range a.order {
			out += a.capsules[name].Status().InFlight
		}
		if out == 0 {
			return nil
		}
		select {
		case <-time.After(moment):
		case <-ctx.Done():
			return fmt.Errorf("agent: %d messages are on their way to apps: %w", out, ctx.Err())
		}
	}
}

// Stop ends the agent at once: what apps hold is given back, the sockets are closed and removed, the heartbeats deleted.
// Call Drain first for a clean end. It waits, at most until ctx ends for each step, and can be called several times.
func (a *Agent) Stop(ctx context.Context) error {
	var err error
	a.stop.Do(func() {
		a.drain.Do(func() { a.beginDrain(); close(a.drained) })
		err = a.shutDown(ctx)
		close(a.stopped)
	})
	<-a.stopped
	return err
}

func (a *Agent) shutDown(ctx context.Context) error {
	var errs []error
	a.numbers.Stop()
	if err := a.stopDashboard(ctx); err != nil { // it would ask parts that are about to end
		errs = append(errs, err)
	}
	if a.defs != nil {
		a.defs.stop()
	}
	if a.sources != nil {
		a.sources.stop()
	}
	if a.delays != nil {
		a.delays.stop()
	}
	if a.book != nil {
		a.book.ReturnAll()
		if err := a.book.WaitIdle(ctx); err != nil {
			errs = append(errs, err)
		}
	}
	errs = append(errs, a.closeSockets(ctx)...)
	for _, name := range a.order {
		a.capsules[name].Stop()
	}
	if a.book != nil {
		// Deliveries that were on their way when the first look was taken.
		a.book.ReturnAll()
		if err := a.book.WaitIdle(ctx); err != nil {
			errs = append(errs, err)
		}
		a.book.Close()
	}
	if a.leases != nil {
		if err := a.leases.stop(ctx); err != nil && a.client.Connected() {
			errs = append(errs, err)
		}
	}
	if a.group != nil {
		if err := a.group.Stop(ctx); err != nil && a.client.Connected() {
			errs = append(errs, err)
		}
	}
	if a.client != nil {
		a.client.Close()
	}
	// The last thing to go: until then the process is alive, and who asks should hear so.
	if err := a.stopProbes(ctx); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
