package broker

import (
	"time"

	"github.com/nats-io/nats.go"

	"github.com/fairlead/fairlead/fairshare"
)

// Message is one message taken from a lane: it is in this agent's hands, and in nobody else's, until it is finished or
// returned. All exported fields are read-only once the message was handed out.
type Message struct {
	Queue       string
	Seq         uint64           // in the queue's stream; never reused, also not by a recreated stream
	Level       int              // the level it is served at; 0 is the highest
	Key         string           // tenant key, decoded; "" is unkeyed
	Weight      fairshare.Weight // the weight in its own header; 0 when it has none or an unusable one
	ID          string           // as given by the publisher, or ""
	ContentType string
	Headers     map[string]string // application headers and trace context, names in lower case; never nil
	// Data is the payload as it is stored. When that is Compressed, Payload is what was published.
	Data       []byte
	Compressed bool
	EnqueuedAt time.Time
	Asked      time.Time     // when its lane was asked for it; zero when nobody waited for it any more
	Expires    time.Time     // not to be handed out from then on; zero is never
	Attempt    int           // 1 for the first try
	AckWait    time.Duration // after this long without Extend, JetStream hands it to someone else

	// Lane is where it was taken from.
	Lane *Lane

	raw       *nats.Msg // as it is stored; nil for a message that was not taken from a lane
	size      int64     // of the payload before it was compressed, as its headers say; 0 when they do not
	delayed   string    // the handle that it had when it was delayed; "" if it was not
	reply     string    // where JetStream wants acknowledgements
	delivered uint64    // how often this lane's consumer has delivered it
	cseq      uint64    // its number in this lane's consumer
	hold      *hold     // nil for a message that was not admitted
	own       *hold     // memory for its hold, until it is needed
	heldUntil time.Time // when it may be delivered, if it was not admitted for that
	bytes     int64     // of its subject, headers and payload, as they are stored
	headed    bool      // it is stored with headers
}

// Finish is the outcome of finishing a message.
type Finish int

// The outcomes of Finish.
const (
	// Finished: the message was deleted from the stream, by this call.
	Finished Finish = iota
	// AlreadyFinished: somebody else had deleted it before.
	AlreadyFinished
	// FinishUnknown: JetStream did not answer. It may or may not have been deleted; finishing again is safe.
	FinishUnknown
)

// Return says how a message goes back to its lane.
type Return struct {
	// Counts is whether this hand-over counts as an attempt: a nack, an expiry and a lost session do; an answer that could
	// not be written and a drain do not.
	Counts Counting
	// NotBefore is when it may be delivered again; the zero time means at once.
	NotBefore time.Time
	// Reason is the last error, kept with the attempts.
	Reason string
	// Dead is set when the message was given up and could not be buried: whoever takes it next buries it, and does not hand
	// it out.
	Dead DeadReason
}

// Counting tells whether a hand-over counted as an attempt.
type Counting int

// The two ways to count.
const (
	NotAnAttempt Counting = iota
	AnAttempt
)

// Ending is how a message left an app's hands.
type Ending int

// The ways in which a message leaves an app's hands.
const (
	// Settled: the app said what became of it.
	Settled Ending = iota
	// Lost: the app went away with it, or took longer than it may.
	Lost
	// Unused: the app never had it, or had to give it back for no fault of its own.
	Unused
)
