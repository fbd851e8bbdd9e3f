package broker

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/fairlead/fairlead/agent/broker/bucket"
	"github.com/fairlead/fairlead/agent/broker/wire"
	"github.com/fairlead/fairlead/config"
)

// newcomer is a message to be stored, and who is told.
type newcomer struct {
	queue config.Queue
	level int // as it is served
	msg   *nats.Msg
	done  func(wire.PubAck, error)
}

// storeOrMakeRoom stores a message, and in a queue with overflow: ring makes room for it when the queue is full.
func (c *Client) storeOrMakeRoom(n newcomer, done func(wire.PubAck, error)) {
	if !evicts(n.queue) {
		c.store(n.msg, done)
		return
	}
	n.done = done
	c.rings.of(n.queue.Name).publish(n)
}

// evicts tells whether a full queue makes room. Where only one message of a lane may be out at a time, nobody but who has it
// could take another, and in a queue with a single active consumer the lanes are its holder's: such queues refuse.
func evicts(q config.Queue) bool {
	return q.Limits.Overflow == config.OverflowRing && !q.SingleActiveConsumer && !q.OrderedKeys && q.ConcurrencyPerKey == 0
}

// refused counts a publish that a limit has refused. A store that is full concerns all queues, and the log says so.
func (c *Client) refused(queue string, err error) {
	var full *FullError
	if errors.As(err, &full) {
		c.metrics.Refused.Add(queue, full.Reason)
		return
	}
	if errors.Is(err, ErrStoreFull) {
		c.metrics.Refused.Add(queue, StoreFull)
		c.seldom.Warn("JetStream has no room left: publishes are refused until work is done, or its limit is raised", "queue", queue, "error", err)
	}
}

// rings are the queues of this agent that make room. Safe for several goroutines.
type rings struct {
	c      *Client
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	byQueue map[string]*ring
}

func (r *rings) start(c *Client) {
	r.c, r.byQueue = c, map[string]*ring{}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	c.bucket.Subscribe(turnPrefix, func(e bucket.Entry) {
		if ring := r.find(strings.TrimPrefix(e.Key, turnPrefix)); ring != nil {
			ring.turn.wake()
		}
	})
	c.bucket.Subscribe(attemptsPrefix, func(e bucket.Entry) {
		if key, ok := parseAttemptKey(e.Key); ok && !e.Deleted {
			if ring := r.find(key.queue); ring != nil {
				ring.returned(key.seq, e.Value)
			}
		}
	})
}

func (r *rings) find(queue string) *ring {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byQueue[queue]
}

func (r *rings) of(queue string) *ring {
	r.mu.Lock()
	defer r.mu.Unlock()
	g := r.byQueue[queue]
	if g == nil {
		g = &ring{
			rings: r, queue: queue, stream: r.c.names.Stream(queue),
			turn: newTurn(r.c.bucket, queue, r.c.boot), marks: newMarks(),
			scout: &scout{c: r.c, queue: queue, lanes: map[Address]*Lane{}}, more: make(chan struct{}, 1), burst: 1,
		}
		r.byQueue[queue] = g
	}
	return g
}

// close ends all that is under way. What waits is told that the client was closed.
func (r *rings) close() {
	if r.cancel == nil {
		return
	}
	r.mu.Lock()
	first := !r.closed
	r.closed = true
	all := make([]*ring, 0, len(r.byQueue))
	for _, g := range r.byQueue {
		all = append(all, g)
	}
	r.mu.Unlock()
	if !first {
		return
	}
	r.cancel()
	r.work.Wait()
	for _, g := range all {
		g.scout.close()
	}
}
