package api

import "time"

// Status of the agent: GET /v1/status.
type AgentStatus struct {
	Agent         string          `json:"agent"`
	Version       string          `json:"version"`
	State         string          `json:"state"`
	PID           int             `json:"pid"`
	StartedAt     time.Time       `json:"started_at"`
	UptimeSeconds float64         `json:"uptime_seconds"`
	Broker        BrokerStatus    `json:"broker"`
	Capsules      []CapsuleStatus `json:"capsules"`
	Peers         []Peer          `json:"peers"`
	Warnings      []string        `json:"warnings,omitempty"` // for instance: another definition is in force
}

// BrokerStatus is the agent's connection to NATS.
type BrokerStatus struct {
	Connected  bool   `json:"connected"`
	URL        string `json:"url,omitempty"`
	Server     string `json:"server,omitempty"` // name and version
	Embedded   bool   `json:"embedded"`
	Reconnects uint64 `json:"reconnects"`
	LastError  string `json:"last_error,omitempty"`
}

// CapsuleStatus is one capsule as this agent runs it.
type CapsuleStatus struct {
	Name        string         `json:"name"`
	Queues      []CapsuleQueue `json:"queues"`
	Concurrency int            `json:"concurrency"`
	Credit      int            `json:"credit"`    // asked for and not got
	InFlight    int            `json:"in_flight"` // delivered and not settled
	Pulls       int            `json:"pulls"`     // waiting
	Demand      bool           `json:"demand"`
	Delivered   uint64         `json:"delivered"`
	LanePulls   uint64         `json:"lane_pulls"`
	EmptyPulls  uint64         `json:"empty_lane_pulls"`
}

// CapsuleQueue is one queue of a capsule, in list order.
type CapsuleQueue struct {
	Name       string `json:"name"`
	BacksOff   bool   `json:"backs_off"`
	BackOffFor string `json:"back_off_for,omitempty"` // the peer, and why
	// Lease is the capsule's part in a queue with a single active consumer: holder, handing_over (as soon as nothing is in
	// flight), standby, or idle (no app uses the capsule). "" in other queues.
	Lease string `json:"lease,omitempty"`
	// LeaseHolder is the agent and the capsule that hold the lease, as far as is known here, Fence the number of their
	// tenure, and LeaseAgeSeconds how long ago it was first seen here.
	LeaseHolder     string  `json:"lease_holder,omitempty"`
	Fence           uint64  `json:"fence,omitempty"`
	LeaseAgeSeconds float64 `json:"lease_age_seconds,omitempty"`
	Paused          bool    `json:"paused,omitempty"`
	PausedKeys      int     `json:"paused_keys,omitempty"`
	Lanes           int     `json:"lanes"` // believed to have work
	// Why says in a sentence why the capsule does not work on the queue now; "" when it does.
	Why string `json:"why,omitempty"`
}

// What Lease can be.
const (
	LeaseHolder      = "holder"
	LeaseHandingOver = "handing_over"
	LeaseStandby     = "standby"
	LeaseIdle        = "idle"
)

// Peer is another agent's capsule on one of the same queues.
type Peer struct {
	Agent            string   `json:"agent"`
	Capsule          string   `json:"capsule"`
	Queues           []string `json:"queues"`
	ConsumerPriority int      `json:"consumer_priority"`
	Demand           bool     `json:"demand"`
	AgeSeconds       float64  `json:"age_seconds"` // since its record last changed
}

// QueueSummary is a line of GET /v1/queues.
type QueueSummary struct {
	Name     string `json:"name"`
	Levels   int    `json:"priority_levels"`
	Waiting  uint64 `json:"waiting"`
	InFlight uint64 `json:"in_flight"`
	Delayed  uint64 `json:"delayed"`
	Dead     uint64 `json:"dead"`
	Bytes    uint64 `json:"bytes"`
	Paused   bool   `json:"paused,omitempty"` // nothing is taken from it, by any agent
}

// QueueStatus is GET /v1/queues/{queue}.
type QueueStatus struct {
	QueueSummary
	Definition       any           `json:"definition"` // the one in force
	LevelStats       []LevelStat   `json:"levels"`
	Keys             []KeyStat     `json:"keys"` // largest first
	KeysTotal        int           `json:"keys_total"`
	OldestAgeSeconds float64       `json:"oldest_age_seconds"`
	Limits           any           `json:"limits"`
	Controls         QueueControls `json:"controls"` // set by operators
	Warnings         []string      `json:"warnings,omitempty"`
}

// LevelStat is one level of a queue.
type LevelStat struct {
	Priority         int     `json:"priority"`
	Name             string  `json:"name,omitempty"`
	Waiting          uint64  `json:"waiting"`
	InFlight         uint64  `json:"in_flight"`
	Delayed          uint64  `json:"delayed"`
	OldestAgeSeconds float64 `json:"oldest_age_seconds"`
}

// KeyStat is one tenant of a queue.
type KeyStat struct {
	Key      string  `json:"key"`
	Waiting  uint64  `json:"waiting"`
	InFlight uint64  `json:"in_flight"`
	Weight   float64 `json:"weight"`
	From     string  `json:"weight_from"`
	Paused   bool    `json:"paused,omitempty"`
}

// QueueList is GET /v1/queues.
type QueueList struct {
	Queues []QueueSummary `json:"queues"`
}

// Peeked is a waiting message, looked at without taking it.
type Peeked struct {
	Queue       string            `json:"queue"`
	Priority    int               `json:"priority"`
	Key         string            `json:"key"`
	Seq         uint64            `json:"seq"`
	ID          string            `json:"id,omitempty"`
	EnqueuedAt  time.Time         `json:"enqueued_at"`
	ContentType string            `json:"content_type,omitempty"`
	Headers     map[string]string `json:"headers"`
	Data        *string           `json:"data,omitempty"`
	DataBase64  []byte            `json:"data_base64,omitempty"`
}

// PeekList is GET /v1/queues/{queue}/peek.
type PeekList struct {
	Messages []Peeked `json:"messages"`
}
