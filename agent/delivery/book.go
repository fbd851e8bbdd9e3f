package delivery

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairlead/fairlead/agent/broker"
)

// Broker finishes messages and gives them back. All methods are safe for several goroutines.
type Broker interface {
	// Finish deletes m from its stream and calls done once with the outcome, from any goroutine. It may block to bound
	// what is in flight, not for the outcome.
	Finish(m *broker.Message, done func(broker.Finish))
	// Return records the attempt and the not-before time of m durably, gives it back to its lane, and calls done once,
	// from any goroutine. [broker.ErrTenureOver] means that nothing was done. Any other error means that it is not known to have gone back as asked: JetStream then gives it to
	// somebody by itself. It may block to bound what is in flight. Messages go back in the order of the calls.
	Return(m *broker.Message, r broker.Return, done func(error))
	// Bury gives m up: it goes to the dead letters, or nowhere where none are kept, and is deleted from its stream. It calls
	// done once, from any goroutine, when that is confirmed. [broker.ErrTenureOver] means that m is left to the next holder. Any
	// other error means that m is still in this agent's hands: it wraps [broker.ErrDeadLetters] when asking again at once is
	// of no use. It does not block.
	Bury(m *broker.Message, b broker.Burial, done func(broker.Finish, error))
	// Extend tells JetStream that m is being worked on. It does not block. It may come just after a Finish or Return of m.
	Extend(m *broker.Message)
}

// Owner is whose slots deliveries take: a capsule's dispatcher. Its methods must not block for long, and may call the
// book.
type Owner interface {
	// Released tells that the slot of m is free again, and how m left the app's hands.
	Released(m *broker.Message, how broker.Ending)
	// Returned tells that m can be taken again from at on; the zero time means now. It comes before m's slot is released.
	Returned(m *broker.Message, at time.Time)
}

// Book is the record of all live deliveries of an agent. It is safe for several goroutines.
type Book struct {
	broker   Broker
	retry    Retry
	observer Observer // of deliveries; set before the first
	mint     mint
	start    time.Time

	stop         chan struct{} // closed by Close
	loops        sync.WaitGroup
	wakeExpiry   chan struct{} // written by holders of mu, read by runExpiry
	wakeProgress chan struct{} // written by holders of mu, read by runProgress
	wakeReturns  chan struct{} // written by anyone, read by runReturns

	outstanding atomic.Int64 // messages whose outcome, or the telling of it, is still due

	mu        sync.Mutex
	closed    bool
	byToken   map[uint64]*entry  // live, finishing and returning
	byMessage map[address]*entry // live and finishing
	sessions  map[string]*Session
	deadlines deadlines
	progress  progress
	memory    memory
	returns   []giveBack // in the order in which they go back
	idle      chan struct{}
	leaving   bool // ReturnAll was called: what is lost from now on is this agent's doing, and no attempt
	counts    Stats

	expiryArmed   instant // when runExpiry looks next, at the latest
	progressArmed instant // the same of runProgress
}

// New returns an empty book. Close ends its goroutines.
func New(b Broker, r Retry) *Book {
	book := &Book{
		broker:        b,
		retry:         r,
		observer:      unobserved{},
		mint:          newMint(),
		start:         time.Now(),
		stop:          make(chan struct{}),
		wakeExpiry:    make(chan struct{}, 1),
		wakeProgress:  make(chan struct{}, 1),
		wakeReturns:   make(chan struct{}, 1),
		byToken:       make(map[uint64]*entry),
		byMessage:     make(map[address]*entry),
		sessions:      make(map[string]*Session),
		memory:        newMemory(),
		expiryArmed:   never,
		progressArmed: never,
	}
	book.loops.Add(3)
	go book.runExpiry()
	go book.runProgress()
	go book.runReturns()
	return book
}

// Close ends the book's goroutines and waits for them; sessions end. What is still live is not given back: call ReturnAll
// and WaitIdle before. Outcomes that arrive later still answer their settlements. Close can be called twice.
func (b *Book) Close() {
	b.mu.Lock()
	if !b.closed {
		b.closed = true
		close(b.stop)
		for _, s := range b.sessions {
			s.cancel()
		}
		clear(b.sessions)
	}
	b.mu.Unlock()
	b.loops.Wait()
}

// InFlight returns the number of messages that are live or whose outcome is still due.
func (b *Book) InFlight() int { return int(b.outstanding.Load()) }

// WaitIdle blocks until there was a moment with nothing in flight, with all owners told, or until ctx ends; then its
// error is wrapped.
func (b *Book) WaitIdle(ctx context.Context) error {
	b.mu.Lock()
	if b.outstanding.Load() == 0 {
		b.mu.Unlock()
		return nil
	}
	if b.idle == nil {
		b.idle = make(chan struct{})
	}
	idle := b.idle
	b.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("delivery: %d messages are still in flight: %w", b.InFlight(), ctx.Err())
	}
}

// told ends the accounting of n messages, after their owners were told.
func (b *Book) told(n int) {
	b.mu.Lock()
	b.toldLocked(n)
	b.mu.Unlock()
}

func (b *Book) toldLocked(n int) {
	if b.outstanding.Add(int64(-n)) == 0 && b.idle != nil {
		close(b.idle)
		b.idle = nil
	}
}
