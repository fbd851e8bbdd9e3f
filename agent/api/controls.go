package api

import "time"

// Said tells through which agent something was set last, and when by that agent's clock.
type Said struct {
	Agent string    `json:"agent,omitempty"`
	At    time.Time `json:"at,omitzero"`
}

// Paused is the answer to a pause or a resume.
type Paused struct {
	Queue  string  `json:"queue"`
	Key    *string `json:"key,omitempty"` // nil: the whole queue; "" are the messages without a key
	Paused bool    `json:"paused"`
	Said
}

// Where the weight of a key comes from, by rank.
const (
	WeightOverride = "override" // set by an operator
	WeightConfig   = "config"   // the definition in force
	WeightMessages = "messages" // each message's own, else 1
)

// KeyWeight is the weight of one key: what counts for the messages that wait.
type KeyWeight struct {
	Queue  string  `json:"queue"`
	Key    string  `json:"key"`
	Weight float64 `json:"weight"`
	From   string  `json:"weight_from"`
	Said           // of an override
}

// Purged is the answer to a purge.
type Purged struct {
	Queue   string  `json:"queue"`
	Key     *string `json:"key,omitempty"` // nil: of all keys
	Removed int     `json:"removed"`
	Until   uint64  `json:"until"` // the newest sequence that was to be removed
	More    bool    `json:"more"`  // max ended it: there may be more to remove
}

// QueueControls is what operators have set for a queue.
type QueueControls struct {
	Paused     *Said       `json:"paused,omitempty"` // nil: it is not
	PausedKeys []PausedKey `json:"paused_keys,omitempty"`
	Weights    []SetWeight `json:"weights,omitempty"`
}

// PausedKey is a key of which nothing is taken.
type PausedKey struct {
	Key string `json:"key"`
	Said
}

// SetWeight is a key with an overridden weight.
type SetWeight struct {
	Key    string  `json:"key"`
	Weight float64 `json:"weight"`
	Said
}
