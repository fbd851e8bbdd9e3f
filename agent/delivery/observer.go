package delivery

import (
	"errors"
	"time"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/broker"
)

// Observer hears of every delivery, for whoever counts them: once when it begins, and once when it has ended and is known to
// have. Its methods are called from several goroutines at a time, with no lock held, and on the way of every message: they
// must return at once.
type Observer interface {
	// Handed tells of messages that were entered as live deliveries, before their app gets them.
	Handed(ds []Delivery)
	// Ended tells how a delivery ended, and how long it took. A delivery of a book that was closed before may never be told of.
	Ended(m *broker.Message, how Result, took Took)
}

// Took is how long a delivery that has just ended took.
type Took struct {
	Held     time.Duration // from when it was handed out
	Settling time.Duration // from when its app said what became of it; 0 when the app never did
}

// Observers are several of them, told in order.
type Observers []Observer

// Handed implements Observer.
func (list Observers) Handed(ds []Delivery) {
	for _, o := range list {
		o.Handed(ds)
	}
}

// Ended implements Observer.
func (list Observers) Ended(m *broker.Message, how Result, took Took) {
	for _, o := range list {
		o.Ended(m, how, took)
	}
}

// Result is how a delivery ended.
type Result int

// The ways in which a delivery ends.
const (
	undelivered     Result = iota // of messages that go back without ever having been handed out
	Acked                         // finished by its app's ack
	AlreadyFinished               // acked, but somebody else had finished the message before
	Nacked
	Rejected
	Expired     // its lease was over
	SessionLost // its session ended
	Unwritten   // the answer with it could not be written
	Drained     // given back because the agent ended
	Revoked     // the lease of its queue was lost
	Unknown     // JetStream did not say what became of its settlement, and decides by itself
)

var resultNames = [...]string{
	"undelivered", "ack", "already_finished", "nack", "reject", "expired", "session_lost", "unwritten", "drained", "revoked", "unknown",
}

// String is the result's name in metrics.
func (r Result) String() string { return resultNames[r] }

// unobserved is the Observer of a book that nobody observes.
type unobserved struct{}

func (unobserved) Handed([]Delivery)                   {}
func (unobserved) Ended(*broker.Message, Result, Took) {}

// Observe sets who hears of deliveries. It is to be called before the first Hand.
func (b *Book) Observe(o Observer) { b.observer = o }

// resultOf is what an app said.
func resultOf(r api.Result) Result {
	if r == api.Reject {
		return Rejected
	}
	return Nacked
}

// outcome is how the delivery ended whose message has gone back, or has not.
func (g *giveBack) outcome(err error) Result {
	switch {
	case g.entry == nil: // lost: how is known, whatever became of the message
		return g.result
	case errors.Is(err, broker.ErrTenureOver):
		return Revoked
	case err != nil || g.rejected: // a reject that has gone back is not what its app asked for
		return Unknown
	}
	return g.result
}

// backEnded tells of a delivery whose message has gone back, or up. Messages that were never handed out were no delivery.
func (b *Book) backEnded(back *giveBack, how Result) {
	if back.result != undelivered {
		b.ended(back.m, how, back.since, back.settling)
	}
}

// ended tells of a delivery that began at an instant, and was settled by its app at another one, or at 0 if it was not.
func (b *Book) ended(m *broker.Message, how Result, since, settling instant) {
	took := Took{Held: b.now() - since}
	if settling != 0 {
		took.Settling = max(b.now()-settling, 1)
	}
	b.observer.Ended(m, how, took)
}
