package broker

import (
	"strconv"
	"sync/atomic"

	"github.com/fairlead/fairlead/agent/broker/wire"
)

// Metrics counts what happens between the agent and JetStream. All numbers only grow.
type Metrics struct {
	LanePulls      QueueCounts   // questions to lanes
	EmptyPulls     QueueCounts   // answered with nothing
	LanesMade      atomic.Uint64 // lane consumers created, or found
	LanesLost      atomic.Uint64 // lane consumers that had to be made again
	Deletes        atomic.Uint64 // messages deleted from their queues
	DeletesUnknown atomic.Uint64 // finishes without an answer
	Returned       atomic.Uint64 // messages given back
	HeldBack       atomic.Uint64 // messages that arrived before their not-before time, and went back
	Refreshed      atomic.Uint64 // messages of a lane made anew that this agent was already running
	Published      atomic.Uint64
	Duplicates     atomic.Uint64
	Refused        Counts        // publishes that a limit refused, by queue and reason
	Evicted        Counts        // messages that made room for others, by queue and level
	Delayed        atomic.Uint64 // delayed messages stored
	DelayedMoved   atomic.Uint64 // delayed messages that became due and entered their queue
	Cancelled      atomic.Uint64 // delayed messages cancelled
	Expired        Counts        // messages removed because nobody took them in time, by queue and level
	Wakeups        QueueCounts
	Sweeps         QueueCounts
	Repaired       atomic.Uint64 // messages moved from a subject that was not canonical
	PoisonWeights  atomic.Uint64 // messages whose weight header was unusable
	UnknownLevels  atomic.Uint64 // messages of a level that the queue does not have, or that is no level at all
	UnknownKeys    atomic.Uint64 // repaired messages whose key was missing or unusable
	Dead           Counts        // messages moved to the dead letters, by queue and reason
	Dropped        Counts        // messages given up and not kept, by queue and reason
	BurialsFailed  atomic.Uint64 // messages that were given up, and could not be moved or dropped yet
	DeadRetried    atomic.Uint64 // dead letters put back into their queues
	DeadPurged     atomic.Uint64 // dead letters deleted by an operator
}

// ExpectQueue lets the numbers of a queue begin at 0, instead of being absent until something happens.
func (m *Metrics) ExpectQueue(queue string, levels int) {
	for _, c := range []*QueueCounts{&m.LanePulls, &m.EmptyPulls, &m.Wakeups, &m.Sweeps} {
		c.Expect(queue)
	}
	m.Refused.Expect(queue, wire.FullMessages, wire.FullBytes, wire.FullKey, wire.FullLower, StoreFull)
	for _, c := range []*Counts{&m.Dead, &m.Dropped} {
		c.Expect(queue, string(DeadMaxAttempts), string(DeadRejected), string(DeadEvicted))
	}
	for level := range levels {
		m.Evicted.Expect(queue, strconv.Itoa(level))
		m.Expired.Expect(queue, strconv.Itoa(level))
	}
}
