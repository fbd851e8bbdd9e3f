package api

import "time"

// Overview is GET /v1/overview, and what the dashboard shows: all of an agent at a time, with rates. It is taken while
// somebody looks, and shared by all who do.
type Overview struct {
	At time.Time `json:"at"`
	// EverySeconds is how long after the one before it was taken, and TookSeconds how long that took. The pause grows with
	// what it takes.
	EverySeconds float64         `json:"every_seconds"`
	TookSeconds  float64         `json:"took_seconds"`
	Status       *AgentStatus    `json:"status"`
	Queues       []QueueOverview `json:"queues"`
	// Problem says why some queues are shown as they were before, or not at all; "" when all are as they are now.
	Problem string `json:"problem,omitempty"`
}

// QueueOverview is one queue of an overview. What is delivered is what this agent delivered.
type QueueOverview struct {
	QueueSummary
	FairShare        bool            `json:"fair_share"`
	LevelStats       []LevelOverview `json:"levels"`
	OldestAgeSeconds float64         `json:"oldest_age_seconds"` // of what is not finished
	// WindowSeconds is the time that rates, shares and waits are of; 0 when there is nothing to compare with yet.
	WindowSeconds      float64          `json:"window_seconds"`
	Deliveries         uint64           `json:"deliveries"` // within the window
	DeliveredPerSecond float64          `json:"delivered_per_second"`
	Tenants            []TenantOverview `json:"tenants"`        // those with the most waiting, and those that got the most
	TenantsActive      int              `json:"tenants_active"` // with messages, or deliveries within the window
	Rest               TenantsOverview  `json:"rest"`           // the tenants that are not listed
	Quiet              TenantsOverview  `json:"quiet"`
	Noisy              TenantsOverview  `json:"noisy"`  // those with far more waiting than others, and at least 10 messages
	Latest             []DeadLetter     `json:"latest"` // dead letters, the last one first; on the dashboard only
	AsOf               time.Time        `json:"as_of"`  // older than the overview when the queue could not be looked at since
	Warnings           []string         `json:"warnings,omitempty"`
}

// LevelOverview is one level of a queue.
type LevelOverview struct {
	LevelStat
	DeliveredPerSecond float64 `json:"delivered_per_second"`
}

// TenantOverview is one tenant of a queue.
type TenantOverview struct {
	Key       string  `json:"key"`
	Noisy     bool    `json:"noisy"`
	Paused    bool    `json:"paused,omitempty"`
	Waiting   uint64  `json:"waiting"`
	InFlight  uint64  `json:"in_flight"`
	Weight    float64 `json:"weight"`
	PerSecond float64 `json:"delivered_per_second"`
	// Share is its part of the deliveries within the window, Fair its part of the weights of all tenants that are active.
	Share float64 `json:"share"`
	Fair  float64 `json:"fair_share"`
	// WaitedSeconds is how long its deliveries within the window had waited on average, LongestSeconds the longest;
	// OldestAgeSeconds is the age of its oldest message that is not finished, -1 when it was not looked at.
	WaitedSeconds    float64 `json:"waited_seconds"`
	LongestSeconds   float64 `json:"longest_wait_seconds"`
	OldestAgeSeconds float64 `json:"oldest_age_seconds"`
}

// TenantsOverview is several tenants together.
type TenantsOverview struct {
	Tenants          int     `json:"tenants"`
	Waiting          uint64  `json:"waiting"`
	Deliveries       uint64  `json:"deliveries"`
	PerSecond        float64 `json:"delivered_per_second"`
	Share            float64 `json:"share"`
	Fair             float64 `json:"fair_share"`
	WaitedSeconds    float64 `json:"waited_seconds"`
	LongestSeconds   float64 `json:"longest_wait_seconds"`
	OldestAgeSeconds float64 `json:"oldest_age_seconds"` // of those that are listed; -1 when none was looked at
}
