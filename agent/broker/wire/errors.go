package wire

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
	// ErrTooLarge says that a message is bigger than the server takes. Nothing was stored.
	ErrTooLarge = errors.New("broker: message is larger than the server takes")
	// ErrClosed says that the client was closed.
	ErrClosed = errors.New("broker: closed")
	// ErrConflict says that a record was not at the expected revision. Nothing was written.
	ErrConflict = errors.New("broker: the record has changed")
	// ErrStreamMissing says that a queue's stream does not exist: it was deleted underneath, or never set up. The agent does
	// not make it again by itself: it does not know what the one who deleted it wanted.
	ErrStreamMissing = errors.New("broker: the queue's stream does not exist; run setup or restart an agent to make it again")
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
	FullMessages = "max_messages"
	FullBytes    = "max_bytes"
	FullKey      = "max_messages_per_key"
	FullLower    = "lower_than_all"
)

// Error implements error.
func (e *FullError) Error() string { return ErrQueueFull.Error() + ": " + e.Reason }

// Unwrap makes errors.Is(err, ErrQueueFull) true.
func (e *FullError) Unwrap() error { return ErrQueueFull }
