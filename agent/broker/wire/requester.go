package wire

import (
	"cmp"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// Requester sends requests and matches answers on one inbox, many at a time, without a goroutine each. At most limit are
// in flight; the others wait in order. JetStream's API requests share few workers and one bounded queue in the server,
// which is why the number in flight is kept small.
type Requester struct {
	nc     *nats.Conn
	prefix string // inbox, with a trailing dot
	sub    *nats.Subscription
	limit  int
	wait   time.Duration // for the answer to a small request

	mu      sync.Mutex
	serial  uint64
	flight  map[uint64]call
	queue   []Exchange // not sent yet, in order
	sweeper *time.Timer
	closed  bool
	scratch []byte // for bodies: sending copies them
}

// Exchange is a request and what becomes of it. Deletes, of which there is one for each message, are exchanges of their own
// kind, because they need less memory than a message and functions.
type Exchange interface {
	// Subject is where it is sent to.
	Subject() string
	// Still tells whether it may be sent, now that its turn has come. It must be fast, and not call the requester.
	Still() bool
	// Bytes is how large a payload it carries: what is large may take longer.
	Bytes() int
	// Send sends the request. It may use scratch for what is not needed afterwards, and returns it, grown or not.
	Send(nc *nats.Conn, reply string, scratch []byte) ([]byte, error)
	// Done gets the answer, or the reason why there is none: ErrUnavailable when nothing was sent or nobody was there,
	// ErrOutcomeUnknown when it was sent and not answered. It must not block.
	Done(answer *nats.Msg, err error)
}

// call is an exchange in flight.
type call struct {
	Exchange
	deadline time.Time
	refused  error // why there will be no answer, if there is none until the deadline
}

// request is the exchange of any message.
type request struct {
	msg    *nats.Msg
	may    func() bool // nil: it may
	report func(answer *nats.Msg, err error)
}

func (q *request) Subject() string { return q.msg.Subject }

func (q *request) Still() bool { return q.may == nil || q.may() }

func (q *request) Bytes() int { return len(q.msg.Data) }

func (q *request) Send(nc *nats.Conn, reply string, scratch []byte) ([]byte, error) {
	q.msg.Reply = reply
	return scratch, nc.PublishMsg(q.msg)
}

func (q *request) Done(answer *nats.Msg, err error) { q.report(answer, err) }

func newRequester(nc *nats.Conn, limit int, wait time.Duration) (*Requester, error) {
	r := &Requester{nc: nc, prefix: nc.NewInbox() + ".", limit: limit, wait: wait, flight: map[uint64]call{}}
	sub, err := nc.Subscribe(r.prefix+"*", r.answered)
	if err != nil {
		return nil, err
	}
	_ = sub.SetPendingLimits(-1, -1) // bounded by limit
	r.sub = sub
	return r, nil
}

// Do sends m, or queues it. done is called exactly once, from another goroutine or from this one.
func (r *Requester) Do(m *nats.Msg, done func(*nats.Msg, error)) { r.DoWhile(nil, m, done) }

// DoWhile is Do, for what may only be sent as long as still says so: what waits for its turn can wait for long. It must be
// fast, and not call the requester.
func (r *Requester) DoWhile(still func() bool, m *nats.Msg, done func(*nats.Msg, error)) {
	r.Start(&request{msg: m, may: still, report: done})
}

// Start sends x, or queues it.
func (r *Requester) Start(x Exchange) {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		x.Done(nil, ErrClosed)
		return
	}
	if len(r.flight) >= r.limit {
		r.queue = append(r.queue, x)
		r.mu.Unlock()
		return
	}
	sent := r.sendLocked(x)
	r.mu.Unlock()
	if !sent {
		x.Done(nil, ErrUnavailable)
	}
}

// sendLocked puts x in flight. It is false when x could not be sent, or may not be any more. (Publishing into nats.go's buffer
// does not wait for the network; it is the one call made under the lock.)
func (r *Requester) sendLocked(x Exchange) (sent bool) {
	if !x.Still() {
		return false
	}
	r.serial++
	id := r.serial
	deadline := time.Now().Add(r.wait + Wait(int64(x.Bytes())) - AnswerWait)
	r.scratch = append(r.scratch[:0], r.prefix...)
	reply := string(strconv.AppendUint(r.scratch, id, 36))
	var err error
	if r.scratch, err = x.Send(r.nc, reply, r.scratch[:0]); err != nil {
		return false
	}
	r.flight[id] = call{Exchange: x, deadline: deadline}
	if r.sweeper == nil {
		r.sweeper = time.AfterFunc(r.wait, r.expire)
	}
	return true
}

func fail(unsent []Exchange) {
	for _, x := range unsent {
		x.Done(nil, ErrUnavailable)
	}
}

func (r *Requester) answered(m *nats.Msg) {
	id, err := strconv.ParseUint(m.Subject[len(r.prefix):], 36, 64)
	if err != nil {
		return
	}
	r.mu.Lock()
	c, open := r.flight[id]
	delete(r.flight, id)
	failed := r.refillLocked()
	r.mu.Unlock()
	fail(failed)
	if !open {
		return // answered after it was given up
	}
	if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
		c.Done(nil, ErrNobody)
		return
	}
	c.Done(m, nil)
}

// refillLocked sends what waits while there is room, and returns what could not be sent.
func (r *Requester) refillLocked() (failed []Exchange) {
	for len(r.queue) > 0 && len(r.flight) < r.limit {
		x := r.queue[0]
		r.queue[0] = nil
		r.queue = r.queue[1:]
		if !r.sendLocked(x) {
			failed = append(failed, x)
		}
	}
	if len(r.queue) == 0 {
		r.queue = nil
	}
	return failed
}

// expire gives up calls that were not answered in time.
func (r *Requester) expire() {
	now := time.Now()
	var late []call
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
		c.Done(nil, cmp.Or(c.refused, ErrOutcomeUnknown))
	}
	fail(failed)
}

// Open is how many requests are in flight or wait for their turn.
func (r *Requester) Open() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.flight) + len(r.queue)
}

// refused gives up, in a moment, the calls that this identity may not make: nothing comes of them.
func (r *Requester) refused(e *NotPermittedError) {
	soon := time.Now().Add(denialGrace)
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, c := range r.flight { // each by itself
		if c.Subject() == e.Subject && c.deadline.After(soon) {
			c.deadline, c.refused = soon, e
			r.flight[id] = c
		}
	}
	if r.sweeper != nil && !r.closed {
		r.sweeper.Reset(denialGrace)
	}
}

// disconnected gives up everything in flight: whether it was carried out is unknown.
func (r *Requester) disconnected() {
	r.mu.Lock()
	flight, queued := r.flight, r.queue
	r.flight, r.queue = map[uint64]call{}, nil
	r.mu.Unlock()
	for _, c := range flight {
		c.Done(nil, ErrOutcomeUnknown)
	}
	fail(queued)
}

// close gives everything up and refuses what comes later.
func (r *Requester) close() {
	r.mu.Lock()
	r.closed = true
	if r.sweeper != nil {
		r.sweeper.Stop()
	}
	r.mu.Unlock()
	_ = r.sub.Unsubscribe()
	r.disconnected()
}
