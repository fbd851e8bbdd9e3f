package broker

import (
	"errors"

	"github.com/fairlead/fairlead/agent/broker/wire"
)

// What goes wrong between an agent and JetStream goes wrong for those who use this package: see package wire.
var (
	ErrUnavailable    = wire.ErrUnavailable
	ErrNobody         = wire.ErrNobody
	ErrStoreFull      = wire.ErrStoreFull
	ErrNoJetStream    = wire.ErrNoJetStream
	ErrOutcomeUnknown = wire.ErrOutcomeUnknown
	ErrQueueFull      = wire.ErrQueueFull
	ErrTooLarge       = wire.ErrTooLarge
	ErrClosed         = wire.ErrClosed
	ErrConflict       = wire.ErrConflict
	ErrStreamMissing  = wire.ErrStreamMissing
)

// The errors of package wire that carry more than their text.
type (
	FullError         = wire.FullError
	RefusedError      = wire.RefusedError
	NotPermittedError = wire.NotPermittedError
)

var (
	// ErrUnknownQueue says that this agent's file names no such queue.
	ErrUnknownQueue = errors.New("broker: unknown queue")
	// ErrTenureOver says that a message was taken in a tenure that is over: it is the next holder's. Nothing was done.
	ErrTenureOver = errors.New("broker: the tenure that the message was taken in is over")
)

// StoreFull counts as a reason of refusals, beside those of a [FullError].
const StoreFull = "store_full"
