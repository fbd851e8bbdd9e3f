package api

import (
	"encoding/json"
	"time"
)

// Delivery is one message as a pull hands it over: one NDJSON line, or the metadata of one frame.
type Delivery struct {
	Token       string            `json:"token"`
	Queue       string            `json:"queue"`
	Priority    int               `json:"priority"`
	Key         string            `json:"key"`
	Seq         uint64            `json:"seq"`
	Attempt     int               `json:"attempt"`
	ID          string            `json:"id,omitempty"`
	EnqueuedAt  time.Time         `json:"enqueued_at"`
	Deadline    time.Time         `json:"deadline"`
	Fence       uint64            `json:"fence"`
	ContentType string            `json:"content_type,omitempty"`
	Headers     map[string]string `json:"headers"`
	// Data is the payload when it is valid UTF-8; otherwise DataBase64 holds it.
	Data       *string `json:"data,omitempty"`
	DataBase64 []byte  `json:"data_base64,omitempty"`
}

// Payload returns the payload's bytes, whichever of the two fields holds them.
func (d *Delivery) Payload() []byte {
	if d.Data != nil {
		return []byte(*d.Data)
	}
	return d.DataBase64
}

// Result is what an app says of a delivery.
type Result string

// The four settlements.
const (
	Ack    Result = "ack"    // done: remove the message
	Nack   Result = "nack"   // try again, after Delay or else the queue's backoff
	Reject Result = "reject" // to the dead letters now
	Extend Result = "extend" // still on it: move the deadline
)

// Settlement is one entry of a settle body.
type Settlement struct {
	Token  string `json:"token"`
	Result Result `json:"result"`
	Delay  string `json:"delay,omitempty"`  // nack: a duration such as "5s"; absent = the queue's backoff
	Reason string `json:"reason,omitempty"` // nack, reject
	Lease  string `json:"lease,omitempty"`  // extend: a duration; absent = the delivery's lease
}

// Status is what became of a settlement.
type Status string

// The settlement statuses.
const (
	StatusOK             Status = "ok"
	StatusAlreadySettled Status = "already_settled"
	StatusExpired        Status = "expired"
	StatusUnknown        Status = "unknown"
	StatusLeaseLost      Status = "lease_lost"
	StatusUnavailable    Status = "unavailable" // not known to be done: ask again
)

// SettleResult answers one settlement.
type SettleResult struct {
	Token  string `json:"token"`
	Status Status `json:"status"`
}

// SettleResponse is the body of POST /v1/settle.
type SettleResponse struct {
	Results []SettleResult `json:"results"`
}

// SettleFailed is the first line of a pull's answer when settlements of its body failed.
type SettleFailed struct {
	SettleFailed []SettleResult `json:"settle_failed"`
}

// Event is one line of a session.
type Event struct {
	Session string `json:"session,omitempty"` // the first line only
	Event   string `json:"event,omitempty"`   // draining | revoked | ping
	Token   string `json:"token,omitempty"`
	Reason  string `json:"reason,omitempty"` // lease_lost | expired
}

// BatchMessage is one line of a batch publish.
type BatchMessage struct {
	Data        json.RawMessage   `json:"data,omitempty"` // a string is the payload; other JSON is stored as its text
	DataBase64  *string           `json:"data_base64,omitempty"`
	Priority    json.RawMessage   `json:"priority,omitempty"` // a number or a level's name
	Key         string            `json:"key,omitempty"`
	Weight      json.RawMessage   `json:"weight,omitempty"` // a number, or the number as a string
	ID          string            `json:"id,omitempty"`
	Delay       string            `json:"delay,omitempty"`
	At          string            `json:"at,omitempty"`
	TTL         string            `json:"ttl,omitempty"`
	ContentType string            `json:"content_type,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
}

// Published answers one publish.
type Published struct {
	Queue     string `json:"queue"`
	Priority  int    `json:"priority"`
	Key       string `json:"key"`
	Seq       uint64 `json:"seq,omitempty"`
	Delayed   string `json:"delayed,omitempty"` // handle of a delayed message, instead of Seq
	Duplicate bool   `json:"duplicate"`
}

// BatchResult is one line of a batch's answer: either a stored message or an error.
type BatchResult struct {
	Seq       uint64 `json:"seq,omitempty"`
	Delayed   string `json:"delayed,omitempty"`
	Duplicate bool   `json:"duplicate"`
	Error     *Error `json:"error,omitempty"`
}
