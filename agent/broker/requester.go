package broker

import (
	"cmp"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// requester sends requests and matches answers on one inbox, many at a time, without a goroutine each. At most limit are
// in flight; the others wait in order. JetStream's API requests share few workers and one bounded queue in the server,
// which is why the number in flight is kept small.
type requester struct {
	nc     *nats.Conn
	prefix string // inbox, with a trailing dot
	sub    *nats.Subscription
	limit  int
	wait   time.Duration

	mu      sync.Mutex
	serial  uint64
	flight  map[uint64]*call
	queue   []*call // not sent yet, in order
	sweeper *time.Timer
	closed  bool
}

type call struct {
	msg      *nats.Msg
	deadline time.Time
	refused  error       // why there will be no answer, if there is none until the deadline
	still    func() bool // nil, or whether it may still be sent when its turn has come
	// done gets the answer, or the reason why there is none: ErrUnavailable when nothing was sent or nobody was there,
	// ErrOutcomeUnknown when it was sent and not answered. It must not block.
	done func(answer *nats.Msg, err error)
}

func newRequester(nc *nats.Conn, limit int, wait time.Duration) (*requester, error) {
	r := &requester{nc: nc, prefix: nc.NewInbox() + ".", limit: limit, wait: wait, flight: map[uint64]*call{}}
	sub, err := nc.Subscribe(r.prefix+"*", r.answered)
	if err != nil {
		return nil, err
	}
	_ = sub.SetPendingLimits(-1, -1) // bounded by limit
	r.sub = sub
	return r, nil
}

// do sends m, or queues it. done is called exactly once, from another goroutine or from this one.
func (r *requester) do(m *nats.Msg, done func(*nats.Msg, error)) { r.doWhile(nil, m, done) }

// doWhile is do, for what may only be sent as long as still says so: what waits for its turn can wait for long. It must be
// fast, and not call the requester.
func (r *requester) doWhile(still func() bool, m *nats.Msg, done func(*nats.Msg, error)) {
	c := &call{msg: m, still: still, done: done}
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		done(nil, ErrClosed)
		return
	}
	if len(r.flight) >= r.limit {
		r.queue = append(r.queue, c)
		r.mu.Unlock()
		return
	}
	failed := r.sendLocked(c)
	r.mu.Unlock()
	fail(failed)
}

// sendLocked puts c in flight. It returns c when it could not be sent, or may not be any more. (Publishing into nats.go's buffer does not wait for
// the network; it is the one call made under the lock.)
func (r *requester) sendLocked(c *call) *call {
	if c.still != nil && !c.still() {
		return c
	}
	r.serial++
	id := r.serial
	c.msg.Reply = r.prefix + strconv.FormatUint(id, 36)
	c.deadline = time.Now().Add(r.wait)
	if err := r.nc.PublishMsg(c.msg); err != nil {
		return c
	}
	r.flight[id] = c
	if r.sweeper == nil {
		r.sweeper = time.AfterFunc(r.wait, r.expire)
	}
	return nil
}

func fail(calls ...*call) {
	for _, c := range calls {
		if c != nil {
			c.done(nil, ErrUnavailable)
		}
	}
}

func (r *requester) answered(m *nats.Msg) {
	id, err := strconv.ParseUint(m.Subject[len(r.prefix):], 36, 64)
	if err != nil {
		return
	}
	r.mu.Lock()
	c := r.flight[id]
	delete(r.flight, id)
	failed := r.refillLocked()
	r.mu.Unlock()
	fail(failed...)
	if c == nil {
		return // answered after it was given up
	}
	if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
		c.done(nil, ErrNobody)
		return
	}
	c.done(m, nil)
}

// refillLocked sends what waits while there is room, and returns what could not be sent.
func (r *requester) refillLocked() (failed []*call) {
	for len(r.queue) > 0 && len(r.flight) < r.limit {
		c := r.queue[0]
		r.queue[0] = nil
		r.queue = r.queue[1:]
		if f := r.sendLocked(c); f != nil {
			failed = append(failed, f)
		}
	}
	if len(r.queue) == 0 {
		r.queue = nil
	}
	return failed
}

// expire gives up calls that were not answered in time.
func (r *requester) expire() {
	now := time.Now()
	var late []*call
	r.mu.Lock()
	next := time.Duration(0)
	for id, c := range r.flight {
		if left := c.deadline.Sub(now); left <= 0 {
			late = append(late, c)
			delete(r.flight, id)
		} else if next == 0 || left < next {
			next = left
		}
	}
	failed := r.refillLocked()
	if len(r.flight) > 0 && !r.closed {
		r.sweeper.Reset(max(next, 10*time.Millisecond))
	} else {
		r.sweeper = nil
	}
	r.mu.Unlock()
	for _, c := range late {
		c.done(nil, cmp.Or(c.refused, ErrOutcomeUnknown))
	}
	fail(failed...)
}

// refused gives up, in a moment, the calls that this identity may not make: nothing comes of them.
func (r *requester) refused(e *NotPermittedError) {
	soon := time.Now().Add(denialGrace)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.flight { // each by itself
		if c.msg.Subject == e.Subject && c.deadline.After(soon) {
			c.deadline, c.refused = soon, e
		}
	}
	if r.sweeper != nil && !r.closed {
		r.sweeper.Reset(denialGrace)
	}
}

// disconnected gives up everything in flight: whether it was carried out is unknown.
func (r *requester) disconnected() {
	r.mu.Lock()
	flight, queued := r.flight, r.queue
	r.flight, r.queue = map[uint64]*call{}, nil
	r.mu.Unlock()
	for _, c := range flight {
		c.done(nil, ErrOutcomeUnknown)
	}
	fail(queued...)
}

// close gives everything up and refuses what comes later.
func (r *requester) close() {
	r.mu.Lock()
	r.closed = true
	if r.sweeper != nil {
		r.sweeper.Stop()
	}
	r.mu.Unlock()
	_ = r.sub.Unsubscribe()
	r.disconnected()
}
