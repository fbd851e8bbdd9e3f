package group

import (
	"encoding/json"
	"time"

	"github.com/fairlead/fairlead/config"
)

// heartbeat is the record of one capsule of one agent. An agent without capsules has one with an empty capsule, because
// it carries definitions too.
type heartbeat struct {
	Agent   string `json:"agent"`
	Boot    string `json:"boot"`
	Capsule string `json:"capsule"`
	// Born is the revision of the first heartbeat of this boot, 0 in the first one itself. Of two agents with one id the
	// one that was born later gives way.
	Born             uint64           `json:"born,omitempty"`
	Queues           []string         `json:"queues"`
	ConsumerPriority int              `json:"consumer_priority"`
	Demand           bool             `json:"demand"`
	Failing          bool             `json:"failing,omitempty"`
	Definitions      map[string]stamp `json:"definitions"`
	IntervalMS       int64            `json:"interval_ms"`
	Seq              uint64           `json:"seq"` // makes every heartbeat a change
}

// stamp identifies a definition.
type stamp struct {
	Revision int64  `json:"revision"`
	Hash     string `json:"hash"`
}

func stampOf(q config.Queue) stamp { return stamp{Revision: q.Revision, Hash: q.Hash()} }

// readHeartbeat reads a record. What cannot be read is an agent that serves nothing and carries nothing.
func readHeartbeat(value []byte) (h heartbeat, ok bool) {
	if err := json.Unmarshal(value, &h); err != nil || h.Agent == "" || h.Boot == "" {
		return heartbeat{}, false
	}
	return h, true
}

func (h heartbeat) interval() time.Duration {
	const longest = time.Hour
	return min(time.Duration(min(max(h.IntervalMS, 0), longest.Milliseconds()))*time.Millisecond, longest)
}

// beat is one of this agent's own heartbeats and when it is written next.
type beat struct {
	key     string
	capsule Capsule
	demand  bool // as last written
	failing bool // the same
	foreign bool // the record is another agent's that has this one's id, or a predecessor's
	seq     uint64
	sent    time.Time // when it was written last; zero: never
	due     time.Time
}
