package api

import (
	"encoding/json"
	"time"
)

// DeadLetter is a message that was given up: a line of GET /v1/queues/{queue}/dead, and, with its payload, GET
// /v1/queues/{queue}/dead/{seq}.
type DeadLetter struct {
	Queue    string `json:"queue"`
	Seq      uint64 `json:"seq"`      // that the message had in its queue: the dead letter's name
	Priority int    `json:"priority"` // the level it was served at
	// Unprioritised is true for a message that was published without a priority. Tried again, it is one again.
	Unprioritised bool              `json:"unprioritised,omitempty"`
	Key           string            `json:"key"`
	Reason        string            `json:"reason"` // max_attempts | rejected | evicted
	Attempts      int               `json:"attempts"`
	LastError     string            `json:"last_error"`
	EnqueuedAt    time.Time         `json:"enqueued_at"`
	DiedAt        time.Time         `json:"died_at"`
	Agent         string            `json:"agent,omitempty"` // that moved it
	ID            string            `json:"id,omitempty"`
	Weight        float64           `json:"weight,omitempty"` // in its own header
	ContentType   string            `json:"content_type,omitempty"`
	Headers       map[string]string `json:"headers"`
	Size          int64             `json:"size"` // of the payload, in bytes
	// Data is the payload when it is valid UTF-8; otherwise DataBase64 holds it. Lists have neither.
	Data       *string `json:"data,omitempty"`
	DataBase64 []byte  `json:"data_base64,omitempty"`
}

// Payload returns the payload's bytes, whichever of the two fields holds them.
func (d *DeadLetter) Payload() []byte {
	if d.Data != nil {
		return []byte(*d.Data)
	}
	return d.DataBase64
}

// DeadList is GET /v1/queues/{queue}/dead.
type DeadList struct {
	Dead  []DeadLetter `json:"dead"`  // in the order in which they died
	Total uint64       `json:"total"` // how many there are
}

// DeadRetry is the body of POST /v1/queues/{queue}/dead/retry: either Seqs or All.
type DeadRetry struct {
	Seqs     []uint64        `json:"seqs,omitempty"`
	All      bool            `json:"all,omitempty"`
	Priority json.RawMessage `json:"priority,omitempty"` // a number or a level's name; absent: the queue's retry_priority, or the old level
	// Max and From are for clients that show how far they are: with All, look at this many at most (0: all), from where an
	// earlier answer's Next says.
	Max  int    `json:"max,omitempty"`
	From uint64 `json:"from,omitempty"`
	// Until goes with From, as an earlier answer gave it: what died after that call is not looked at. 0: what dies after this one.
	Until uint64 `json:"until,omitempty"`
}

// DeadRetried answers a retry.
type DeadRetried struct {
	Retried int          `json:"retried"` // put back into the queue, and out of the dead letters
	Failed  []DeadFailed `json:"failed"`  // are where they were, unless their error says otherwise
	// Next is where the next call goes on, when Max or a full queue ended this one before the last dead letter; else 0.
	Next uint64 `json:"next,omitempty"`
	// Until goes into the next call together with Next.
	Until uint64 `json:"until,omitempty"`
}

// DeadFailed is a dead letter that could not be tried again.
type DeadFailed struct {
	Seq   uint64 `json:"seq"`
	Error *Error `json:"error"`
}

// DeadPurged answers a purge of dead letters.
type DeadPurged struct {
	Purged uint64 `json:"purged"`
}
