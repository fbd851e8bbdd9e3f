package dispatch

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fairlead/fairlead/agent/broker"
	"github.com/fairlead/fairlead/agent/permit"
	"github.com/fairlead/fairlead/config"
	"github.com/fairlead/fairlead/fairshare"
)

// sweepLimit is how long a sweep may take.
const sweepLimit = 5 * time.Second

// sweep implements effects.
func (c *Capsule) sweep(q *queue) {
	layout := q.layout
	c.repairs.Add(1)
	go func() {
		defer c.repairs.Done()
		ctx, cancel := context.WithTimeout(c.ctx, sweepLimit)
		defer cancel()
		s, err := c.o.Broker.Sweep(ctx, layout)
		c.box.put(func(k *core, now time.Time) {
			k.swept(q, s, err, now)
			c.trouble("a queue cannot be looked over; trying again", layout.Queue, err, now)
		})
	}()
}

// repair implements effects.
func (c *Capsule) repair(q *queue, odd []string) {
	c.defMu.Lock()
	def, ok := c.defs[q.layout.Queue]
	c.defMu.Unlock()
	if !ok || q.repairing {
		return
	}
	q.repairing = true
	c.repairs.Add(1)
	go func() {
		defer c.repairs.Done()
		ctx, cancel := context.WithTimeout(c.ctx, sweepLimit)
		defer cancel()
		moved, err := c.o.Broker.Repair(ctx, def, odd)
		if moved > 0 {
			c.o.Logger.Info("messages on subjects that are not canonical were moved to their lanes", "queue", q.layout.Queue, "messages", moved)
		}
		c.box.put(func(_ *core, now time.Time) {
			q.repairing = false
			c.trouble("messages on subjects that are not canonical cannot be moved now", q.layout.Queue, err, now)
		})
	}()
}

// headFound implements effects.
func (c *Capsule) headFound(lane *broker.Lane, seq uint64) {
	c.box.put(func(k *core, now time.Time) { k.headFound(lane, seq, now) })
}

// idle implements effects.
func (c *Capsule) idle(queue string) {
	if c.o.Idle != nil {
		c.o.Idle(queue)
	}
}

// carryOut implements effects.
func (c *Capsule) carryOut(queue string, a permit.Action) {
	p := c.permits[queue]
	if p == nil {
		var err error
		p, err = c.o.Broker.NewPermits(queue, c.core.holder, func(f func(*permit.Ledger, time.Time)) {
			c.box.put(func(k *core, now time.Time) { k.permitEvent(queue, f, now) })
		})
		if err != nil {
			c.o.Logger.Error("the permits of a queue with a cap per key cannot be had; nothing of it is taken", "queue", queue, "error", err)
			return
		}
		c.permits[queue] = p
	}
	p.Do(a)
}

// closePermits gives back what permits there are. The capsule's goroutine has ended.
func (c *Capsule) closePermits() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if !c.o.Broker.Connected() {
		cancel()
	}
	for _, p := range c.permits { // each by itself
		p.Close(ctx)
	}
}

// giveBack implements effects: nobody worked on the message, so it is no attempt.
func (c *Capsule) giveBack(m *broker.Message) {
	c.returns.add(1)
	c.o.Broker.Return(m, broker.Return{}, func(err error) {
		at := time.Time{}
		if err != nil && !errors.Is(err, broker.ErrTenureOver) { // JetStream gives it to somebody by itself, when it has not heard of it for long enough
			at = time.Now().Add(m.AckWait)
		}
		c.box.put(func(k *core, now time.Time) { k.cameBack(m, at, now) })
		c.returns.add(-1)
	})
}

// sweepSoon looks over a queue at the next chance.
func (c *core) sweepSoon(name string, now time.Time) {
	q := c.queueNamed(name)
	if q == nil {
		return
	}
	at := now.Add(c.poll / 10)
	if at.Before(q.notSooner) {
		at = q.notSooner
	}
	if at.Before(q.nextSweep) {
		q.nextSweep = at
	}
}

// weights translates a definition's weights.
func weights(def config.Queue) map[string]fairshare.Weight {
	w := make(map[string]fairshare.Weight, len(def.FairShare.Weights))
	for key, weight := range def.FairShare.Weights {
		w[key] = fairshare.Weight(weight)
	}
	return w
}

// count is what is under way. Unlike a WaitGroup's, it may rise from zero while somebody waits.
type count struct {
	mu   sync.Mutex
	n    int
	zero chan struct{} // closed when n is 0; nil unless somebody waits
}

func (c *count) add(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n += n; c.n == 0 && c.zero != nil {
		close(c.zero)
		c.zero = nil
	}
}

// wait returns when nothing was under way for a moment.
func (c *count) wait() {
	c.mu.Lock()
	if c.n == 0 {
		c.mu.Unlock()
		return
	}
	if c.zero == nil {
		c.zero = make(chan struct{})
	}
	zero := c.zero
	c.mu.Unlock()
	<-zero
}
