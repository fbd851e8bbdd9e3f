package api

import "time"

// Delayed is a message that is not to be delivered before a time.
type Delayed struct {
	Handle      string     `json:"handle"`
	At          time.Time  `json:"at"`            // when it enters its queue
	Due         bool       `json:"due,omitempty"` // that time has come: it waits for room in the queue, and cannot be cancelled
	Priority    int        `json:"priority"`
	Key         string     `json:"key"`
	ID          string     `json:"id,omitempty"`
	Bytes       int        `json:"bytes"` // of the payload as it is stored
	PublishedAt time.Time  `json:"published_at"`
	ExpiresAt   *time.Time `json:"expires_at,omitempty"`
}

// DelayedList is GET /v1/queues/{queue}/delayed.
type DelayedList struct {
	Delayed []Delayed `json:"delayed"` // the next to come first
	Total   uint64    `json:"total"`   // however many were asked for
}
