package broker

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fairlead/fairlead/agent/broker/names"
	"github.com/fairlead/fairlead/agent/broker/rights"
	"github.com/fairlead/fairlead/agent/broker/wire"
	"github.com/fairlead/fairlead/config"
)

const (
	// ringTries bounds how often a newcomer is tried whose place others were faster to use.
	ringTries = 64
	// ringLinger is how long an agent keeps its turn for the next newcomer.
	ringLinger = 2 * time.Millisecond
	// strangersAge is how long it is believed which levels that the queue does not have hold messages.
	strangersAge = 5 * time.Second
	// ringBurst bounds how many newcomers are tried at once.
	ringBurst = 256
	// ringLanes is how many lanes a ring remembers between newcomers.
	ringLanes = 1024
)

// ring makes room in one queue, for the newcomers of this agent one after the other.
type ring struct {
	*rings
	queue  string
	stream string
	turn   *turn
	marks  *marks
	scout  *scout
	more   chan struct{} // written by publish when the first newcomer comes, read by the goroutine

	// Of the goroutine.
	layout    Layout
	strange   []string
	strangeAt time.Time
	burst     int           // newcomers that are tried at once
	within    config.Limits // under which the queue was seen to hold no more than they allow

	mu      sync.Mutex
	waiting []newcomer
	pending int  // that wait, or are being worked on: what comes later stands behind them
	running bool // the goroutine
}

// publish stores a newcomer, if there is room at once, or has it wait for room to be made. Newcomers stand behind those that
// wait already, so that none takes the place that was made for another.
func (g *ring) publish(n newcomer) {
	g.mu.Lock()
	stand := g.pending > 0
	g.mu.Unlock()
	if stand {
		g.enqueue(n)
		return
	}
	g.c.store(n.msg, func(ack wire.PubAck, err error) {
		if errors.Is(err, ErrQueueFull) {
			g.enqueue(n)
			return
		}
		n.done(ack, err)
	})
}

func (g *ring) enqueue(n newcomer) {
	g.rings.mu.Lock()
	closed := g.closed
	g.mu.Lock()
	if !closed {
		g.waiting = append(g.waiting, n)
		g.pending++
		if !g.running {
			g.running = true
			g.work.Go(g.run)
		}
	}
	g.mu.Unlock()
	g.rings.mu.Unlock()
	if closed {
		n.done(wire.PubAck{}, ErrClosed)
		return
	}
	select {
	case g.more <- struct{}{}:
	default:
	}
}

// run works on newcomers until there are none.
func (g *ring) run() {
	idle := time.NewTimer(ringLinger)
	defer idle.Stop()
	for {
		if batch := g.pop(g.burst); batch != nil {
			g.takeTurn()
			if g.ctx.Err() != nil { // while it waited for its turn: of these nothing was sent
				g.putBack(batch)
				continue
			}
			g.serve(batch)
			idle.Reset(ringLinger)
			continue
		}
		if g.turn.over() {
			g.turn.give(g.ctx)
		}
		select {
		case <-g.more:
		case <-g.ctx.Done():
			g.end()
			return
		case <-idle.C:
			g.turn.give(g.ctx)
			if g.rest() {
				return
			}
			idle.Reset(ringLinger)
		}
	}
}

func (g *ring) pop(most int) []newcomer {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting) == 0 || g.ctx.Err() != nil {
		return nil
	}
	most = min(most, len(g.waiting))
	batch := slices.Clone(g.waiting[:most])
	g.waiting = slices.Delete(g.waiting, 0, most)
	return batch
}

// putBack makes newcomers the first that wait.
func (g *ring) putBack(batch []newcomer) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = append(slices.Clone(batch), g.waiting...)
}

// rest ends the goroutine unless there is more to do.
func (g *ring) rest() bool {
	g.scout.tidy(ringLanes)
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting) > 0 {
		return false
	}
	g.running = false
	return true
}

// end tells all that wait that the client was closed.
func (g *ring) end() {
	g.mu.Lock()
	left := g.waiting
	g.waiting, g.running = nil, false
	g.mu.Unlock()
	for _, n := range left {
		g.settle(n, wire.PubAck{}, ErrClosed)
	}
}

// settle tells a newcomer's publisher.
func (g *ring) settle(n newcomer, ack wire.PubAck, err error) {
	g.mu.Lock()
	g.pending--
	g.mu.Unlock()
	n.done(ack, err)
}

// takeTurn makes sure that it is this agent's turn. Without the bucket it goes on all the same.
func (g *ring) takeTurn() {
	if g.turn.over() {
		g.turn.pass(g.ctx)
	}
	if err := g.turn.take(g.ctx); err != nil && g.ctx.Err() == nil {
		g.c.seldom.Warn("agents cannot take turns at a full queue: what they evict at the same time may not be the lowest", "queue", g.queue, "error", err)
	}
}

// serve stores newcomers. As long as all of a batch find room, batches grow; the first one that finds none has it made, and
// those behind it wait on.
func (g *ring) serve(batch []newcomer) {
	refused := g.storeAll(batch)
	if len(refused) == 0 {
		g.burst = min(2*g.burst, ringBurst)
		return
	}
	g.burst = 1
	g.putBack(refused[1:])
	ack, err := g.insist(refused[0])
	g.settle(refused[0], ack, err)
}

// storeAll stores newcomers side by side, and returns those that a limit has refused, in their order. The others are settled.
func (g *ring) storeAll(batch []newcomer) (refused []newcomer) {
	full := make([]bool, len(batch))
	var all sync.WaitGroup
	for i, n := range batch {
		all.Add(1)
		g.c.store(n.msg, func(ack wire.PubAck, err error) {
			defer all.Done()
			if full[i] = errors.Is(err, ErrQueueFull); !full[i] {
				g.settle(n, ack, err)
			}
		})
	}
	all.Wait() // writes end by themselves
	for i, n := range batch {
		if full[i] {
			refused = append(refused, n)
		}
	}
	return refused
}

// insist has room made for a newcomer that was just refused, and stores it; or says why not. Whenever it is refused again
// (somebody else was faster, or there was more to make room for) it decides anew.
func (g *ring) insist(n newcomer) (ack wire.PubAck, err error) {
	failures := 0
	var refusal error
	for try := range ringTries {
		if g.ctx.Err() != nil {
			return ack, ErrClosed // it is not stored: it was refused just before
		}
		// A duplicate is told before anybody has to go.
		if ack, err = g.c.storeAndWait(g.ctx, n.msg); !errors.Is(err, ErrQueueFull) {
			return ack, err
		}
		refusal = err
		if n = g.upToDate(n); !evicts(n.queue) {
			return ack, err
		}
		var lacks missing
		var size func(*Message) int64
		if lacks, size, err = g.lacks(n, err, try); err != nil {
			break
		}
		if lacks.nothing() {
			// JetStream counts what its replicas do not agree on yet; or there is room by now.
			g.pause(min(try, 5))
			continue
		}
		if err = g.makeRoom(n, lacks, size); err == nil {
			continue
		}
		if failures++; failures == writeTries || errors.Is(err, ErrQueueFull) || errors.Is(err, errNotKept) || !g.c.Connected() || g.ctx.Err() != nil {
			break
		}
		// A lane that was lost is made again.
	}
	if err == nil { // others were faster each time
		err = refusal
	}
	return ack, g.failure(err)
}

// upToDate puts a newcomer, which may have waited for long, under the definition that agents follow by now. Through the lanes of
// another layout it could take what somebody has in hand.
func (g *ring) upToDate(n newcomer) newcomer {
	if g.c.Followed == nil {
		return n
	}
	def, ok := g.c.Followed(n.queue.Name)
	if !ok {
		return n
	}
	n.queue, n.level = def, NewLayout(def).levelOf(g.subject(n).class)
	return n
}

func (g *ring) pause(shift int) {
	select {
	case <-time.After(time.Millisecond << shift):
	case <-g.ctx.Done():
	}
}

// lacks works out what has to go for a newcomer that was refused. One message, as a rule; but where bytes or tenants are
// limited, or limits have changed and there may be more than they allow, the stream is asked.
func (g *ring) lacks(n newcomer, refusal error, try int) (missing, func(*Message) int64, error) {
	var full *FullError
	errors.As(refusal, &full)
	if try == 0 && full.Reason == wire.FullMessages && n.queue.Limits.MaxBytes == 0 && n.queue.Limits == g.within {
		return missing{messages: 1}, func(*Message) int64 { return 0 }, nil
	}
	room, err := g.c.room(g.ctx, g.stream, n.msg.Subject)
	if err != nil {
		return missing{}, nil, err
	}
	if room.maxMessages == n.queue.Limits.MaxMessages && room.messages <= room.maxMessages {
		g.within = n.queue.Limits
	}
	size := room.sizeOf(n.msg)
	if room.never(size) {
		return missing{}, nil, &FullError{Reason: wire.FullBytes}
	}
	return room.of(size), func(m *Message) int64 { return room.size(m.bytes, m.headed) }, nil
}

// errNotKept says that what had to go could not be moved to the dead letters, or that nobody said whether it was. Another
// one is not tried: it could be one more that goes.
var errNotKept = fmt.Errorf("%w: no room was made", ErrUnavailable)

// failure is what a newcomer's publisher is told when room could not be made: nothing was stored.
func (g *ring) failure(err error) error {
	var full *FullError
	switch {
	case g.ctx.Err() != nil:
		return ErrClosed
	case errors.As(err, &full), errors.Is(err, ErrUnavailable):
		return err
	}
	return fmt.Errorf("%w: no room could be made in %s: %w", ErrUnavailable, g.queue, unwrapUnknown(err))
}

// unwrapUnknown hides that the outcome of something is unknown which is not the storing of a message.
func unwrapUnknown(err error) error {
	if errors.Is(err, ErrOutcomeUnknown) {
		return errors.New("no answer in time")
	}
	return err
}

// makeRoom has as many go as a newcomer needs. An error says why nobody did, or not enough.
func (g *ring) makeRoom(n newcomer, lacks missing, size func(*Message) int64) error {
	began := time.Now()
	h, err := g.hunt(n)
	if err != nil {
		return err
	}
	victims, err := h.choose(g.ctx, want{missing: lacks, level: n.level, subject: g.subject(n), size: size})
	if err == nil && time.Since(began) > g.layout.AckWait/2 {
		// They may be in somebody else's hands by now.
		h.taken, victims = append(h.taken, victims...), nil
	}
	g.release(h.taken)
	if err != nil {
		return err
	}
	return g.evict(n, victims)
}

// hunt prepares a decision under the newcomer's definition.
func (g *ring) hunt(n newcomer) (*hunt, error) {
	if err := g.scout.open(); err != nil {
		return nil, err
	}
	if layout := NewLayout(n.queue); layout != g.layout {
		g.scout.tidy(0)
		g.marks.forget()
		g.mu.Lock()
		g.layout, g.scout.layout = layout, layout
		g.mu.Unlock()
		g.strangeAt = time.Time{}
	}
	g.scout.direct = n.queue.Storage.Replicas <= 1 && g.c.wire.Denied(rights.Publish, "$JS.API.DIRECT.GET."+g.stream) == nil
	if time.Since(g.strangeAt) > strangersAge {
		strange, err := g.scout.strangers(g.ctx)
		if err != nil {
			return nil, err
		}
		g.strange, g.strangeAt = strange, time.Now()
	}
	return newHunt(g.scout, g.layout, g.marks, g.strange), nil
}

// subject is where the newcomer would wait.
func (g *ring) subject(n newcomer) query {
	class, key, _ := names.Split(strings.TrimPrefix(n.msg.Subject, g.c.names.SubjectPrefix(g.queue)))
	return query{class: class, key: key, from: 1}
}

// release gives back what was taken and not needed. It is in its place again before anything else is decided.
func (g *ring) release(taken []*Message) {
	var all sync.WaitGroup
	for _, m := range sortedBySeq(taken) {
		g.unmark(g.layout, m.Lane.Address, m.Seq, time.Time{})
		all.Add(1)
		g.c.Return(m, Return{}, func(error) { all.Done() })
	}
	all.Wait()
}

// evict removes what has to go.
func (g *ring) evict(n newcomer, victims []*Message) error {
	if len(victims) == 0 {
		return nil
	}
	outcomes := make(chan error, len(victims))
	for _, m := range victims {
		g.c.bury(n.queue, m, func(f Finish, err error) {
			if f == Finished {
				g.c.metrics.Evicted.Add(g.queue, strconv.Itoa(m.Level))
			}
			outcomes <- err
		})
	}
	var failed error
	for range victims {
		if err := <-outcomes; err != nil {
			failed = err
		}
	}
	g.c.seldom.Warn("queue "+g.queue+" is full: its oldest messages of the lowest level make room for new ones", "limits", fmt.Sprintf("%+v", n.queue.Limits))
	switch {
	case failed == nil:
		return nil
	case keepsDead(n.queue, DeadEvicted): // not as a FullError: it is the dead letters that are full
		return fmt.Errorf("%w: what had to go from %s cannot be kept: %s", errNotKept, g.queue, unwrapUnknown(failed).Error())
	}
	return fmt.Errorf("%w: no answer to an eviction from %s", ErrUnavailable, g.queue)
}

// returned hears that an agent has given a message back.
func (g *ring) returned(seq uint64, record []byte) {
	var r attempt
	if json.Unmarshal(record, &r) != nil {
		return
	}
	class, key, ok := names.Split(r.Address)
	if !ok {
		return
	}
	g.mu.Lock()
	layout := g.layout
	g.mu.Unlock()
	if layout.Levels == 0 {
		return // nothing was decided yet
	}
	if address, ok := layout.Address(class, key); ok {
		g.unmark(layout, address, seq, r.notBefore())
	}
}

// unmark forgets that a message did not wait.
func (g *ring) unmark(layout Layout, lane Address, seq uint64, at time.Time) {
	g.marks.returned(lane.Class, lane, seq, at)
	if !layout.Keyed && lane.Class == names.Class(layout.Default) {
		g.marks.returned(names.NoPriority, lane, seq, at) // its lane reads both
	}
}
