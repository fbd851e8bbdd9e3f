package broker

import (
	"errors"
	"fmt"
)

var (
	// ErrUnavailable says that NATS or JetStream cannot be reached now. Nothing was stored.
	ErrUnavailable = errors.New("broker: NATS is not reachable")
	// ErrNobody says that NATS is there, and nobody answers what was asked: a stream is missing, or JetStream is not enabled.
	// It wraps ErrUnavailable. Nothing was stored.
	ErrNobody = fmt.Errorf("%w: nobody answers there", ErrUnavailable)
	// ErrStoreFull says that JetStream has no room for what was to be stored, whatever the limits of the queue are: the limit of
	// the server's store, or that of the account, is reached. Nothing was stored. See [RefusedError].
	ErrStoreFull = errors.New("broker: JetStream's store is full")
	// ErrNoJetStream says that NATS is there, and nobody makes streams: it has no JetStream for this account. It wraps
	// ErrUnavailable.
	ErrNoJetStream error = noJetStream{}
	// ErrOutcomeUnknown says that a request was sent and not answered in time: it may have been carried out.
	ErrOutcomeUnknown = errors.New("broker: no answer in time, the outcome is unknown")
	// ErrQueueFull says that a limit of the queue refused a message. Nothing was stored. See [FullError] for which.
	ErrQueueFull = errors.New("broker: queue is full")
	// ErrUnknownQueue says that this agent's file names no such queue.
	ErrUnknownQueue = errors.New("broker: unknown queue")
	// ErrTooLarge says that a message is bigger than the server takes. Nothing was stored.
	ErrTooLarge = errors.New("broker: message is larger than the server takes")
	// ErrClosed says that the client was closed.
	ErrClosed = errors.New("broker: closed")
	// ErrTenureOver says that a message was taken in a tenure that is over: it is the next holder's. Nothing was done.
	ErrTenureOver = errors.New("broker: the tenure that the message was taken in is over")
	// ErrBucket says that the coordination bucket is not usable: it is missing, or was made by someone else. Messages are
	// still delivered; attempts and delays of returned messages are not kept until it is back.
	ErrBucket = errors.New("broker: coordination bucket is not usable")
)

// noJetStream is an ErrUnavailable in other words: NATS can be reached.
type noJetStream struct{}

// Error implements error.
func (noJetStream) Error() string {
	return "broker: JetStream is not enabled on this server or for this account: switch it on (nats-server -js), or use another account"
}

// Unwrap makes errors.Is true for ErrUnavailable.
func (noJetStream) Unwrap() error { return ErrUnavailable }

// RefusedError says that JetStream answered a write with an error that is none of a queue's limits. It wraps [ErrUnavailable],
// and, when that is the reason, [ErrStoreFull]. Nothing was stored; the same write can succeed later.
type RefusedError struct {
	Code        int // of the JetStream API
	Description string
}

// Error implements error.
func (e *RefusedError) Error() string {
	what := "broker: JetStream refused to store it"
	if e.full() {
		what = ErrStoreFull.Error()
	}
	return fmt.Sprintf("%s: %s (%d)", what, e.Description, e.Code)
}

// Unwrap makes errors.Is true for ErrUnavailable and, if it applies, ErrStoreFull.
func (e *RefusedError) Unwrap() []error {
	if e.full() {
		return []error{ErrUnavailable, ErrStoreFull}
	}
	return []error{ErrUnavailable}
}

// full tells whether it is for want of room: in the server's store (10023, and 10028 and 10047 where room is set aside), or in
// what the account may use (10002).
func (e *RefusedError) full() bool {
	switch e.Code {
	case 10002, 10023, 10028, 10047:
		return true
	}
	return false
}

// FullError says which limit refused a message. It wraps [ErrQueueFull].
type FullError struct {
	Reason string // max_messages | max_bytes | max_messages_per_key | lower_than_all
}

// The reasons of a FullError.
const (
	fullMessages = "max_messages"
	fullBytes    = "max_bytes"
	fullKey      = "max_messages_per_key"
	fullLower    = "lower_than_all"
)

// StoreFull counts as a reason of refusals, beside those of a [FullError].
const StoreFull = "store_full"

// Error implements error.
func (e *FullError) Error() string { return ErrQueueFull.Error() + ": " + e.Reason }

// Unwrap makes errors.Is(err, ErrQueueFull) true.
func (e *FullError) Unwrap() error { return ErrQueueFull }
