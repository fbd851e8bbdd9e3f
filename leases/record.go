package leases

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Record is what is stored of a lease. The zero Record stands for a lease without a record, or with a deleted one.
type Record struct {
	Holder string // the candidate that holds it; "" once released
	Nonce  string // of the tenure: the boot of the holder's run, a slash, and a number
	Fence  uint64 // of the tenure; 0 in the claim itself, whose revision is the fence
	Number uint64 // of the write within the run: no two writes of a run are equal
	TTL    time.Duration
	Term   uint64 // how many tenures there have been since the record was made

	Former    string // who released it
	Successor string // who is to claim it first; "" is anybody
}

// unreadable stands for a holder whose record makes no sense: it is waited for like any other.
const unreadable = "(unreadable)"

// Absent says that there is no record.
func (r Record) Absent() bool { return r.Holder == "" && r.Nonce == "" }

// Released says that the tenure of this record was ended by its holder.
func (r Record) Released() bool { return r.Holder == "" && r.Nonce != "" }

// boot returns the run that wrote the record.
func (r Record) boot() string {
	boot, _, _ := strings.Cut(r.Nonce, "/")
	return boot
}

type storedRecord struct {
	Holder    string `json:"holder"`
	Nonce     string `json:"nonce"`
	Fence     uint64 `json:"fence,omitempty"`
	Number    uint64 `json:"number"`
	TTL       string `json:"ttl"`
	Term      uint64 `json:"term"`
	Former    string `json:"former,omitempty"`
	Successor string `json:"successor,omitempty"`
}

// Encode returns the record as it is stored.
func (r Record) Encode() []byte {
	b, err := json.Marshal(storedRecord{r.Holder, r.Nonce, r.Fence, r.Number, r.TTL.String(), r.Term, r.Former, r.Successor})
	if err != nil {
		panic("leases: a record cannot be encoded: " + err.Error()) // strings and numbers always can
	}
	return b
}

// Decode reads a stored value. Empty means that there is no record. Of a value that is no record it returns a Record that
// a standby waits for as for any holder, and an error that wraps [ErrRecord].
func Decode(value []byte) (Record, error) {
	if len(value) == 0 {
		return Record{}, nil
	}
	var s storedRecord
	if err := json.Unmarshal(value, &s); err != nil {
		return Record{Holder: unreadable}, fmt.Errorf("%w: %w", ErrRecord, err)
	}
	ttl, err := time.ParseDuration(s.TTL)
	if err != nil || ttl <= 0 || ttl > MaxTTL || s.Nonce == "" {
		return Record{Holder: unreadable}, fmt.Errorf("%w: it needs a nonce, and a ttl of at most %s", ErrRecord, MaxTTL)
	}
	return Record{s.Holder, s.Nonce, s.Fence, s.Number, ttl, s.Term, s.Former, s.Successor}, nil
}

// Seen is a record at a moment.
type Seen struct {
	// Revision is where the record, or the mark of its deletion, was stored; 0 if there is neither.
	Revision uint64
	Record   Record
}
