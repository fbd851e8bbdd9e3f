package broker

import (
	"sync/atomic"
	"time"

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
	Data        []byte
	EnqueuedAt  time.Time
	Attempt     int           // 1 for the first try
	AckWait     time.Duration // after this long without Extend, JetStream hands it to someone else

	// Lane is where it was taken from.
	Lane *Lane

	reply     string // where JetStream wants acknowledgements
	delivered uint64 // how often this lane's consumer has delivered it
	cseq      uint64 // its number in this lane's consumer
	hold      *hold  // nil for a message that was not admitted
}

// hold is an agent's hold on a message. The handles of one delivery share it, so that it is ended once, whichever of them
// the message is finished or returned through.
type hold struct {
	lane   *Lane
	ended  atomic.Bool
	unsure atomic.Bool // a delete of it was not answered: a later "not found" means done
}

func newHold(lane *Lane) *hold {
	lane.InHand.Add(1)
	return &hold{lane: lane}
}

// letGo ends the agent's hold on a message.
func (m *Message) letGo() {
	if m.hold != nil && m.hold.ended.CompareAndSwap(false, true) {
		m.hold.lane.InHand.Add(-1)
	}
}

// doubt notes that a delete of the message was not answered.
func (m *Message) doubt() {
	if m.hold != nil {
		m.hold.unsure.Store(true)
	}
}

func (m *Message) doubtful() bool { return m.hold != nil && m.hold.unsure.Load() }

// Replace makes m the newer handle of the delivery that old is a handle of.
func (m *Message) Replace(old *Message) {
	m.hold, m.Attempt = old.hold, old.Attempt
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
}

// Counting tells whether a hand-over counted as an attempt.
type Counting int

// The two ways to count.
const (
	NotAnAttempt Counting = iota
	AnAttempt
)
