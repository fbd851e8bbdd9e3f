package agent

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/fairlead/fairlead/agent/dispatch"
	"github.com/fairlead/fairlead/agent/group"
	"github.com/fairlead/fairlead/config"
)

// definer puts definitions into effect: bucket, group, then for each queue its stream and the capsules that read it. It
// tries again until NATS does what the definitions say. One goroutine, so that a newer definition never loses to an older.
type definer struct {
	a     *Agent
	ready chan struct{} // closed when every queue was put into effect once
	wake  chan struct{} // written by changed, read by run
	again chan struct{} // written when NATS is there (again), read by until
	done  chan struct{}
	ctx   context.Context
	end   context.CancelFunc

	mu    sync.Mutex
	dirty map[string]bool
}

func newDefiner(a *Agent) *definer {
	d := &definer{a: a, ready: make(chan struct{}), wake: make(chan struct{}, 1), again: make(chan struct{}, 1), done: make(chan struct{}), dirty: map[string]bool{}}
	d.ctx, d.end = context.WithCancel(context.Background())
	return d
}

func (d *definer) start() {
	d.a.client.Notify(func(up bool) {
		if up {
			poke(d.again)
		}
	})
	go d.run()
}

// poke leaves a note for the goroutine that reads c, unless there is one already.
func poke(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (d *definer) stop() {
	d.end()
	<-d.done
}

// changed says that other definitions are in force.
func (d *definer) changed(queues []string) {
	d.mu.Lock()
	for _, q := range queues {
		d.dirty[q] = true
	}
	d.mu.Unlock()
	poke(d.wake)
}

func (d *definer) run() {
	defer close(d.done)
	if !d.until("coordination bucket", d.join) {
		return
	}
	var all []string
	for _, q := range d.a.group.Definitions() {
		all = append(all, q.Name)
	}
	d.changed(all)
	first := true
	again := time.NewTicker(sparedAgain)
	defer again.Stop()
	for {
		select {
		case <-d.wake:
		case <-again.C:
			d.tighten()
			continue
		case <-d.ctx.Done():
			return
		}
		if !d.until("queues", d.define) {
			return
		}
		if first {
			first = false
			close(d.ready)
		}
	}
}

// sparedAgain is how often a limit per key is tried again that would have dropped messages.
const sparedAgain = 10 * time.Second

// tighten tries again to put limits in force that tenants were over. If that fails, the next time.
func (d *definer) tighten() {
	spared := d.a.client.Spared()
	if len(spared) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(d.ctx, 10*time.Second)
	defer cancel()
	for _, def := range d.a.group.Definitions() {
		if !slices.Contains(spared, def.Name) {
			continue
		}
		if err := d.a.client.EnsureStream(ctx, def); err != nil && d.ctx.Err() == nil {
			d.a.log.Debug("a limit cannot be put in force yet", "queue", def.Name, "error", err)
		}
	}
}

// until tries a step until it succeeds, at growing intervals and as soon as NATS is back; false when the agent stops.
func (d *definer) until(what string, step func(context.Context) error) bool {
	const least, most = 250 * time.Millisecond, 5 * time.Second
	pause := least
	for try := 0; ; try++ {
		ctx, cancel := context.WithTimeout(d.ctx, 10*time.Second)
		err := step(ctx)
		cancel()
		if err == nil {
			if try > 0 {
				d.a.log.Info("set up at last", "what", what)
			}
			d.a.setWarning("")
			return true
		}
		if d.ctx.Err() != nil {
			return false
		}
		if errors.Is(err, group.ErrDuplicateAgent) {
			d.a.die(err)
			return false
		}
		d.a.setWarning(what + ": " + err.Error())
		if try < 3 || try%20 == 0 {
			d.a.log.Warn("cannot be set up yet; trying again", "what", what, "error", err)
		}
		select {
		case <-time.After(pause):
			pause = min(2*pause, most)
		case <-d.again:
			pause = least
		case <-d.ctx.Done():
			return false
		}
	}
}

// join makes or finds the bucket and joins the group. A bucket that cannot be used is no reason not to work: definitions
// are then this agent's own, and attempts of returned messages are not kept.
func (d *definer) join(ctx context.Context) error {
	a := d.a
	if !a.o.NoSetup {
		warning, err := a.client.Bucket().Ensure(ctx, a.settings().Coordination.Replicas)
		if err != nil {
			return err
		}
		if warning != "" {
			a.log.Warn(warning)
		}
	}
	a.client.Bucket().Start()
	wait, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err := a.group.Start(wait)
	if errors.Is(err, group.ErrUndecided) && a.client.Connected() {
		a.log.Warn("the definitions in force are not known; following this agent's own file until they are", "error", err)
		a.controls.Known() // what comes is to be told
		return nil
	}
	if err == nil {
		a.controls.Known()
	}
	return err
}

// define puts changed definitions into effect. What fails stays to be done.
func (d *definer) define(ctx context.Context) error {
	d.mu.Lock()
	dirty := d.dirty
	d.dirty = map[string]bool{}
	d.mu.Unlock()
	var errs []error
	var defs, leaving []config.Queue
	for _, def := range d.a.group.Definitions() {
		if !dirty[def.Name] {
			continue
		}
		if !d.a.o.NoSetup {
			if err := d.a.client.EnsureStream(ctx, def); err != nil {
				errs = append(errs, err)
				d.changed([]string{def.Name})
				continue
			}
		}
		defs = append(defs, def)
		if d.newLayout(def) {
			leaving = append(leaving, def)
		}
	}
	d.leave(ctx, leaving)
	for _, def := range defs {
		if err := d.follow(def); err != nil {
			errs = append(errs, err)
			d.changed([]string{def.Name})
		}
	}
	d.a.roles.review() // a queue may have got a lease, or have none any more
	return errors.Join(errs...)
}

// newLayout tells whether a queue that agents work on gets other lanes.
func (d *definer) newLayout(def config.Queue) bool {
	before, followed := d.a.applied.Load(def.Name)
	if followed {
		return before.(config.Queue).Layout() != def.Layout()
	}
	return d.a.group.Relaid(def.Name)
}

// leaveWait is how long an agent waits for what is in flight before it takes a queue's messages through other lanes. Pulls
// that ask for one round wait through it; they would be told after two seconds that there is nothing.
const leaveWait = 1500 * time.Millisecond

// leave waits until nothing of these queues is in flight in their former lanes. New lanes begin with the oldest unfinished
// message, also with one that somebody has in hand; all agents stop taking at the same news, so that what is short is over
// soon. What takes longer than leaveWait may come again.
func (d *definer) leave(ctx context.Context, queues []config.Queue) {
	if len(queues) == 0 {
		return
	}
	for _, def := range queues {
		for _, c := range d.a.readers(def.Name) {
			c.Leave(def.Name)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, leaveWait)
	defer cancel()
	for _, def := range queues {
		if err := d.a.client.AwaitFormerLanes(ctx, def); err != nil {
			d.a.log.Warn("the queue's lanes change while messages are in flight; those may come again", "queue", def.Name, "cause", err)
		}
	}
}

// follow has the capsules follow a definition.
func (d *definer) follow(def config.Queue) error {
	var errs []error
	for name, c := range d.a.readers(def.Name) {
		if err := d.a.leases.define(def, name); err != nil {
			errs = append(errs, err)
		}
		c.Define(def)
	}
	d.a.applied.Store(def.Name, def)
	return errors.Join(errs...)
}

// readers are this agent's capsules that read a queue, by name, in the order of the file.
func (a *Agent) readers(queue string) iter.Seq2[string, *dispatch.Capsule] {
	return func(yield func(string, *dispatch.Capsule) bool) {
		for _, cc := range a.settings().Capsules {
			if slices.Contains(cc.Queues, queue) && !yield(cc.Name, a.capsules[cc.Name]) {
				return
			}
		}
	}
}
