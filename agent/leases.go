package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/fairlead/fairlead/agent/broker"
	"github.com/fairlead/fairlead/agent/dispatch"
	"github.com/fairlead/fairlead/config"
	"github.com/fairlead/fairlead/leases"
	"github.com/fairlead/fairlead/leases/kvstore"
)

// contenders are this agent's candidates for the leases of queues with a single active consumer: one for each capsule that
// reads such a queue.
type contenders struct {
	a *Agent

	mu      sync.Mutex
	list    map[roleKey]*contender
	order   []roleKey        // of list, so that they are told in the same order always
	wanted  map[roleKey]bool // what the capsules said last; it holds for a candidate that is yet to be made, too
	retired []*contender     // whose queues need no lease any more, while something of their tenures is in an app's hands
	made    int              // candidates, so that no two are taken for one
	stopped bool
	ending  chan struct{}  // closed by stop
	retire  sync.WaitGroup // those that wait for the end of a retired one
}

// contender is one capsule's candidate for one queue's lease.
type contender struct {
	a       *Agent
	queue   string
	capsule *dispatch.Capsule
	log     hclog.Logger
	runner  *leases.Runner

	mu     sync.Mutex
	aside  bool           // retired: what becomes of the lease does not concern the capsule any more
	tenure *broker.Tenure // the present one, or the last
}

func newContenders(a *Agent) *contenders {
	c := &contenders{a: a, list: map[roleKey]*contender{}, wanted: map[roleKey]bool{}, ending: make(chan struct{})}
	a.client.Notify(func(up bool) {
		for _, one := range slices.Concat(c.all(), c.allRetired()) {
			if up {
				one.runner.Connected()
			} else {
				one.runner.Disconnected()
			}
		}
	})
	return c
}

// candidateID names a capsule among all candidates.
func candidateID(agent, capsule string) string { return agent + "/" + capsule }

// define sees to it that a capsule stands for a queue's lease if the queue has one, and only then. It must be called before
// the capsule gets the definition.
func (c *contenders) define(def config.Queue, capsule string) error {
	key := roleKey{capsule, def.Name}
	c.mu.Lock()
	have := c.list[key]
	switch {
	case c.stopped, def.SingleActiveConsumer == (have != nil):
		c.mu.Unlock()
		return nil
	case have != nil:
		delete(c.list, key)
		c.order = slices.DeleteFunc(c.order, func(k roleKey) bool { return k == key })
		c.setAsideLocked(have)
		c.mu.Unlock()
		return nil
	}
	defer c.mu.Unlock()
	c.made++
	one, err := c.a.newContender(def.Name, capsule, c.made)
	if err != nil {
		return err
	}
	c.list[key] = one
	c.order = append(c.order, key)
	if !c.a.client.Connected() {
		one.runner.Disconnected()
	}
	one.runner.Start()
	c.tellPeersLocked(key)
	if c.wanted[key] {
		one.runner.Want()
	}
	return nil
}

func (a *Agent) newContender(queue, capsule string, number int) (*contender, error) {
	cfg := a.settings()
	one := &contender{a: a, queue: queue, capsule: a.capsules[capsule], log: a.log.Named("lease").With("queue", queue, "capsule", capsule)}
	store := kvstore.New(a.client.JetStream(), cfg.Coordination.Bucket, "lease."+queue)
	var err error
	one.runner, err = leases.NewRunner(store, leases.Config{
		ID: candidateID(cfg.Agent.ID, capsule), Boot: fmt.Sprintf("%s-%s-%d", a.client.Boot(), capsule, number), TTL: cfg.Coordination.LeaseTTL,
	}, one)
	return one, err
}

func (c *contenders) all() (list []*contender) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range c.order {
		list = append(list, c.list[key])
	}
	return list
}

func (c *contenders) find(capsule, queue string) *contender {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.list[roleKey{capsule, queue}]
}

// want says whether a capsule wants a queue's lease.
func (c *contenders) want(capsule, queue string, want bool) {
	key := roleKey{capsule, queue}
	c.mu.Lock()
	c.wanted[key] = want
	one := c.list[key]
	c.mu.Unlock()
	switch {
	case one == nil: // the queue needs no lease any more, or not yet
	case want:
		one.runner.Want()
	default:
		one.runner.Unwant()
	}
}

// idle says that nothing of a queue is out, and that nothing will be taken.
func (c *contenders) idle(capsule, queue string) {
	if one := c.find(capsule, queue); one != nil {
		one.runner.Idle()
	}
}

// peersChanged tells all candidates who else there is.
func (c *contenders) peersChanged() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range c.order {
		c.tellPeersLocked(key)
	}
}

// tellPeersLocked tells one candidate who else serves its queue with an app.
func (c *contenders) tellPeersLocked(key roleKey) {
	cfg := c.a.settings()
	var own int
	var others []leases.Peer
	for _, cc := range cfg.Capsules {
		switch {
		case cc.Name == key.capsule:
			own = cc.ConsumerPriority
		case slices.Contains(cc.Queues, key.queue) && c.a.roles.hasDemand(cc.Name):
			others = append(others, leases.Peer{ID: candidateID(cfg.Agent.ID, cc.Name), Priority: cc.ConsumerPriority})
		}
	}
	for _, p := range c.a.group.Peers() {
		if p.Demand && slices.Contains(p.Queues, key.queue) {
			others = append(others, leases.Peer{ID: candidateID(p.Agent, p.Capsule), Priority: p.ConsumerPriority})
		}
	}
	c.list[key].runner.Peers(own, others)
}

// stop releases all leases. Nothing is handed out any more, and nothing is in flight.
func (c *contenders) stop(ctx context.Context) error {
	c.mu.Lock()
	if !c.stopped {
		c.stopped = true
		close(c.ending)
	}
	c.mu.Unlock()
	c.retire.Wait()
	all := c.all()
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, one := range all {
		wg.Go(func() { errs[i] = one.runner.Stop(ctx) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Acquired implements leases.Owner.
func (c *contender) Acquired(fence uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.aside {
		return
	}
	c.log.Info("this capsule is the queue's single active consumer now", "fence", fence)
	c.tenure = broker.NewTenure(fence, c.runner)
	c.capsule.SetTenure(c.queue, c.tenure)
}

// Lost implements leases.Owner.
func (c *contender) Lost(fence uint64, why leases.Reason) {
	if !c.tell(func() { c.capsule.SetTenure(c.queue, nil) }) && why == leases.Released {
		return // its time was over, and nothing of it was left
	}
	revoked := c.a.book.Revoke()
	switch why {
	case leases.Released, leases.HandedOver:
		c.log.Info("this capsule is not the queue's single active consumer any more", "fence", fence, "reason", why.String())
	default:
		c.log.Warn("the queue's lease is lost: nothing more is handed out, and what apps have of it cannot be settled", "fence", fence, "reason", why.String(), "revoked", revoked)
	}
}

// HandOver implements leases.Owner.
func (c *contender) HandOver() {
	c.tell(func() {
		c.log.Info("handing over to a candidate with a higher consumer priority, as soon as nothing is in flight")
		c.capsule.SetHandOver(c.queue, true)
	})
}

// Keep implements leases.Owner.
func (c *contender) Keep() {
	c.tell(func() {
		c.log.Info("not handing over after all: the candidate with a higher consumer priority has gone")
		c.capsule.SetHandOver(c.queue, false)
	})
}
