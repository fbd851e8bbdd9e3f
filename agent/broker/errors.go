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

// Error implements error.
func (e *FullError) Error() string { return ErrQueueFull.Error() + ": " + e.Reason }

// Unwrap makes errors.Is(err, ErrQueueFull) true.
func (e *FullError) Unwrap() error { return ErrQueueFull }
