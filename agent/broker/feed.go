package broker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/fairlead/fairlead/agent/broker/wire"
)

// Answer is what came of one question to a lane.
type Answer struct {
	Lane     *Lane
	Messages []*Message // in the lane's order; possibly fewer than asked for
	// Pending is how many messages the lane had left behind the last that arrived, when that was sent. Messages that were
	// returned are not counted.
	Pending uint64
	// Short is true when the lane said that it has nothing more to give now.
	Short bool
	// Held is how many messages arrived and went straight back, before their time or running here already, or were removed,
	// because they had expired.
	Held int
	// HeldUntil is the latest time before which one of them may not be delivered; zero if there is none.
	HeldUntil time.Time
	// Err says why the lane could not be asked. Messages may hold what came before that.
	Err error
}

// ErrLaneLost says that a lane's consumer went away while it was asked. Asking again makes it anew.
var ErrLaneLost = errors.New("broker: lane consumer is gone")

// answerLimit is how long a question may stay without an answer before it is given up. Answers take well under a
// millisecond; only a dying server gives none.
const answerLimit = 2 * time.Second

// Feed asks lanes for messages on behalf of one capsule. All its questions share one inbox. A lane has at most one
// question open at a time.
type Feed struct {
	c      *Client
	prefix string
	sub    *nats.Subscription
	// sink gets every answer, from the feed's own goroutine or from Ask; stray gets messages that came for a question that
	// was given up. Neither may block or call back into the feed.
	sink  func(Answer)
	stray func(*Message)
	deaf  func() // ends what it hears of the connection

	mu     sync.Mutex
	serial uint64
	lanes  map[consumer]*laneState
	open   map[uint64]*question // by id
	timer  *time.Timer
	closed bool
	// answered is closed when no question is open; nil unless Close waits for it.
	answered chan struct{}
}

// consumer names a lane's consumer. Lanes of two queues of one shape have the same name, in different streams.
type consumer struct{ stream, name string }

func (l *Lane) consumer() consumer { return consumer{l.stream, l.name} }

type laneState struct {
	lane *Lane
	made bool // its consumer existed when last heard of
	// stale says that its consumer may count a message as delivered that never arrived, and would give out nothing before its
	// acknowledgement wait is over. The lane of a tenure is this agent's alone: such a consumer is thrown away.
	stale bool
	open  *question // nil, or the question that has no answer yet
	fresh fresh
}

type question struct {
	lane     *Lane
	id       uint64
	left     int // messages that may still come
	patience time.Duration
	answer   Answer
	sent     time.Time // zero while its lane is being made, which has a limit of its own
	remakes  int
}

// NewFeed opens a feed.
func (c *Client) NewFeed(sink func(Answer), stray func(*Message)) (*Feed, error) {
	f := &Feed{c: c, prefix: c.wire.NC.NewInbox() + ".", sink: sink, stray: stray, lanes: map[consumer]*laneState{}, open: map[uint64]*question{}}
	sub, err := c.wire.NC.Subscribe(f.prefix+"*", f.receive)
	if err != nil {
		return nil, fmt.Errorf("broker: %w", err)
	}
	_ = sub.SetPendingLimits(-1, -1) // bounded by what was asked for
	f.sub = sub
	f.deaf = c.listen(f.connection)
	return f, nil
}

// Lane returns the lane at an address of a layout.
func (f *Feed) Lane(layout Layout, a Address) *Lane { return newLane(f.c.names, layout, a) }

// Ask asks a lane for up to n messages. Exactly one answer follows. The lane must have no question open.
//
// A lane is asked for what it has now. JetStream gives no answer at all while a serial lane has a message out, or one that
// is backing off: whoever asks in spite of that says how long the question may stay open, so that it ends by itself. An
// empty lane then answers only after this time; 0 is for all other questions.
func (f *Feed) Ask(lane *Lane, n int, patience time.Duration) {
	f.c.metrics.LanePulls.Add(lane.Layout.Queue)
	f.mu.Lock()
	f.serial++
	q := &question{lane: lane, id: f.serial, left: n, patience: patience, answer: Answer{Lane: lane}}
	state := f.lanes[lane.consumer()]
	if state == nil {
		state = &laneState{lane: lane}
		f.lanes[lane.consumer()] = state
	}
	closed, made := f.closed, state.made
	if made {
		q.sent = time.Now()
	}
	if !closed {
		state.open = q
		f.open[q.id] = q
		if f.timer == nil {
			f.timer = time.AfterFunc(answerLimit, f.expire)
		}
	}
	f.mu.Unlock()
	switch {
	case closed:
		q.answer.Err = ErrClosed
		f.sink(q.answer)
	case made:
		f.send(q)
	default:
		go f.make(q)
	}
}

// send puts the question to the server.
func (f *Feed) send(q *question) {
	body := make([]byte, 0, 64)
	body = append(body, `{"batch":`...)
	body = strconv.AppendInt(body, int64(q.left), 10)
	body = append(body, `,"no_wait":true`...)
	if q.patience > 0 {
		body = append(body, `,"expires":`...)
		body = strconv.AppendInt(body, int64(q.patience), 10)
	}
	body = append(body, '}')
	if err := f.c.wire.NC.PublishRequest(q.lane.next, f.prefix+strconv.FormatUint(q.id, 36), body); err != nil {
		f.finish(q, func(a *Answer) { a.Err = wire.Translate(err) })
	}
}

// finish closes q, if it is still open, and reports its answer.
func (f *Feed) finish(q *question, how func(*Answer)) {
	f.mu.Lock()
	if f.open[q.id] != q {
		f.mu.Unlock()
		return
	}
	delete(f.open, q.id)
	if state := f.lanes[q.lane.consumer()]; state != nil && state.open == q {
		state.open = nil
	}
	how(&q.answer)
	a, last := q.answer, f.answered
	if len(f.open) > 0 {
		last = nil
	}
	f.mu.Unlock()
	if len(a.Messages) == 0 && a.Err == nil {
		f.c.metrics.EmptyPulls.Add(q.lane.Layout.Queue)
	}
	f.sink(a)
	if last != nil {
		close(last)
	}
}

// make makes the lane's consumer and then asks.
func (f *Feed) make(q *question) {
	f.c.create <- struct{}{}
	ctx, cancel := context.WithTimeout(context.Background(), laneLimit)
	err := f.renew(ctx, q.lane)
	if err == nil {
		err = f.c.ensureLane(ctx, q.lane)
	}
	cancel()
	<-f.c.create
	if err != nil {
		f.finish(q, func(a *Answer) { a.Err = err })
		return
	}
	f.mu.Lock()
	if state := f.lanes[q.lane.consumer()]; state != nil {
		state.made = true
		state.fresh.begin(time.Now(), f.c.replicated(q.lane.Queue()))
	}
	q.sent = time.Now()
	current := f.open[q.id] == q
	f.mu.Unlock()
	if current {
		f.send(q)
	}
}

// renew removes a lane's consumer that may hold back a message which never arrived. Nothing of the lane is in anybody's
// hands: it is asked.
func (f *Feed) renew(ctx context.Context, lane *Lane) error {
	f.mu.Lock()
	state := f.lanes[lane.consumer()]
	stale := state != nil && state.stale
	f.mu.Unlock()
	if !stale {
		return nil
	}
	if err := f.c.removeLane(ctx, lane.stream, lane.name); err != nil {
		return fmt.Errorf("broker: lane %s: %w", lane.name, wire.Translate(err))
	}
	f.mu.Lock()
	state.stale = false
	f.mu.Unlock()
	return nil
}

// doubtLocked notes that a question which the server had got no answer.
func (f *Feed) doubtLocked(q *question) {
	state := f.lanes[q.lane.consumer()]
	if state != nil && q.lane.Layout.Tenure != nil && !q.sent.IsZero() && q.answer.Held == 0 && len(q.answer.Messages) == 0 {
		state.stale = true
	}
}

// receive gets everything that comes in on the feed's inbox: messages, whose subject is the stream's, and the server's
// remarks about a question, whose subject is the inbox.
func (f *Feed) receive(m *nats.Msg) {
	if len(m.Subject) > len(f.prefix) && m.Subject[:len(f.prefix)] == f.prefix {
		f.remark(m)
		return
	}
	meta, err := m.Metadata()
	if err != nil {
		f.c.log.Warn("something that is no JetStream message arrived on the agent's inbox", "subject", m.Subject, "error", err)
		return
	}
	f.mu.Lock()
	state := f.lanes[consumer{meta.Stream, meta.Consumer}]
	var q *question
	if state != nil {
		q = state.open
		if state.fresh.doubts(meta.Sequence.Consumer, meta.NumDelivered > 1, time.Now(), func() bool { return f.c.replicated(state.lane.Queue()) }) {
			look := state.fresh.wait()
			f.mu.Unlock()
			f.look(state, look, m, meta, q)
			return
		}
	}
	f.mu.Unlock()
	f.arrived(state, q, m, meta)
}

// arrived takes in a message that came for a question; nil is one that was given up.
func (f *Feed) arrived(state *laneState, q *question, m *nats.Msg, meta *nats.MsgMetadata) {
	if q == nil {
		f.unasked(state, m, meta)
		return
	}
	msg := f.c.decode(q.lane, m, meta)
	taken := f.c.admit(msg)

	f.mu.Lock()
	if f.open[q.id] != q { // given up meanwhile
		f.mu.Unlock()
		if taken {
			f.stray(msg)
		}
		return
	}
	if q.answer.Messages == nil && taken {
		q.answer.Messages = make([]*Message, 0, min(uint64(q.left), meta.NumPending+1))
	}
	q.left--
	msg.Asked = q.sent
	q.answer.Pending = meta.NumPending
	if taken {
		q.answer.Messages = append(q.answer.Messages, msg)
	} else {
		q.answer.Held++
		if msg.heldUntil.After(q.answer.HeldUntil) {
			q.answer.HeldUntil = msg.heldUntil
		}
	}
	done := q.left <= 0
	f.mu.Unlock()
	if done {
		f.finish(q, func(*Answer) {})
	}
}

// unasked handles a message for a question that was given up.
func (f *Feed) unasked(state *laneState, m *nats.Msg, meta *nats.MsgMetadata) {
	if state == nil {
		// Without a lane there is no telling what it is. Nobody works on it, so it goes back at once.
		f.c.log.Warn("a message arrived from a lane that this agent does not know; it will be delivered again", "consumer", meta.Consumer)
		_ = f.c.wire.NC.Publish(m.Reply, negative) // should that be lost, JetStream delivers it after its acknowledgement wait
		return
	}
	msg := f.c.decode(state.lane, m, meta)
	if f.c.admit(msg) {
		f.stray(msg)
	}
}

// remark handles the server's word about a question: there is nothing more, or the lane is gone.
func (f *Feed) remark(m *nats.Msg) {
	id, err := strconv.ParseUint(m.Subject[len(f.prefix):], 36, 64)
	if err != nil {
		return
	}
	f.mu.Lock()
	q := f.open[id]
	if q == nil {
		f.mu.Unlock()
		return // given up before
	}
	if state := f.lanes[q.lane.consumer()]; state != nil && state.fresh.behind(func() { f.remarked(q, m) }) {
		f.mu.Unlock()
		return
	}
	f.mu.Unlock()
	f.remarked(q, m)
}

func (f *Feed) remarked(q *question, m *nats.Msg) {
	switch status := m.Header.Get("Status"); status {
	case "404", "408":
		f.finish(q, func(a *Answer) { a.Short = true })
	case "503":
		f.lost(q)
	case "409":
		description := m.Header.Get("Description")
		f.unmake(q.lane)
		f.finish(q, func(a *Answer) { a.Err = fmt.Errorf("%w: %s", ErrLaneLost, description) })
	case "100": // a heartbeat
	default:
		f.finish(q, func(a *Answer) {
			a.Err = fmt.Errorf("broker: lane %s answered %s %s", q.lane.name, status, m.Header.Get("Description"))
		})
	}
}

// lost makes a lane again whose consumer answers no more: it was idle for long, or its server died.
func (f *Feed) lost(q *question) {
	f.unmake(q.lane)
	f.c.metrics.LanesLost.Add(1)
	f.mu.Lock()
	q.remakes++
	q.sent = time.Time{}
	again := q.remakes <= 2
	f.mu.Unlock()
	if again {
		go f.make(q)
		return
	}
	f.finish(q, func(a *Answer) { a.Err = ErrLaneLost })
}

func (f *Feed) unmake(lane *Lane) {
	f.mu.Lock()
	if state := f.lanes[lane.consumer()]; state != nil {
		state.made = false
	}
	f.mu.Unlock()
}

// Forget drops what the feed knows of a lane that has no open question and is no longer used. The server drops the
// consumer by itself when nobody asks it.
func (f *Feed) Forget(lane *Lane) {
	f.mu.Lock()
	if state := f.lanes[lane.consumer()]; state != nil && state.open == nil {
		delete(f.lanes, lane.consumer())
	}
	f.mu.Unlock()
}

// expire gives up questions without an answer.
func (f *Feed) expire() {
	now := time.Now()
	var late []*question
	f.mu.Lock()
	for _, q := range f.open { // in any order: each is given up by itself
		if !q.sent.IsZero() && now.Sub(q.sent) >= answerLimit {
			late = append(late, q)
			f.doubtLocked(q)
		}
	}
	if len(f.open) > 0 && !f.closed {
		f.timer.Reset(answerLimit / 4)
	} else {
		f.timer = nil
	}
	f.mu.Unlock()
	for _, q := range late {
		f.unmake(q.lane)
		f.finish(q, func(a *Answer) { a.Err = ErrOutcomeUnknown })
	}
}

// connection gives up all questions when the connection is gone: their answers will not come.
func (f *Feed) connection(up bool) {
	if up {
		return
	}
	f.mu.Lock()
	open := make([]*question, 0, len(f.open))
	for _, q := range f.open {
		open = append(open, q)
		f.doubtLocked(q)
	}
	for _, state := range f.lanes {
		state.made = false // lanes live in the server's memory: it may have restarted
	}
	f.mu.Unlock()
	for _, q := range open {
		f.finish(q, func(a *Answer) { a.Err = ErrUnavailable })
	}
}

// closePatience is how long Close waits for the answers to questions that the server has.
const closePatience = time.Second

// Close ends all questions. It waits for the answers to those that were put to the server, for a second at most: a message
// that nobody listens for any more is given to somebody else only after its acknowledgement wait. It can be called twice.
func (f *Feed) Close() {
	f.mu.Lock()
	f.closed = true
	if f.timer != nil {
		f.timer.Stop()
	}
	var unsent []*question
	for _, q := range f.open { // in any order: each is given up by itself
		if q.sent.IsZero() {
			unsent = append(unsent, q)
		}
	}
	f.mu.Unlock()
	for _, q := range unsent {
		f.finish(q, func(a *Answer) { a.Err = ErrClosed })
	}
	f.mu.Lock()
	if len(f.open) > 0 && f.answered == nil {
		f.answered = make(chan struct{})
	}
	answered := f.answered
	f.mu.Unlock()
	if answered != nil && f.c.Connected() {
		select {
		case <-answered:
		case <-time.After(closePatience):
		}
	}
	_ = f.sub.Unsubscribe()
	f.deaf()
	f.connection(false)
}
