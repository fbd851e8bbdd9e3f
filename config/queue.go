package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Queue is the definition of one queue. Its JSON form has the keys of the
// YAML file and every value, so that it can be stored and read back without
// loss, also by an agent with other defaults.
type Queue struct {
	Name     string
	Revision int64 // the definition with the higher one is in force; 0 or more
	Levels   int   // number of priority levels, 1 to 100; level 0 is the highest
	// LevelNames are the levels' names in order, or nil when the levels were
	// given as a number. They are unique and never all digits.
	LevelNames           []string
	DefaultPriority      int // level of messages without one; defaults to (Levels-1)/2
	StarvationGuard      int // deliveries of a level before it yields a turn; 0: strict
	FairShare            FairShare
	SingleActiveConsumer bool
	Limits               Limits
	Retry                Retry
	DeadLetters          DeadLetters
	AckWait              time.Duration // silence of an agent after which its work is given to another; defaults to 30 seconds
	TTL                  time.Duration // messages older than this are not delivered; 0: no limit
	DedupWindow          time.Duration // how long an id suppresses duplicates; defaults to 2 minutes
	Compress             *Compress     // nil: off
	ConcurrencyPerKey    int           // messages of one key in flight, over all agents; 0: no cap
	OrderedKeys          bool          // one message of a key at a time, in order
	Sources              []Source
	Storage              Storage
}

// FairShare is how the tenants of a queue share it.
type FairShare struct {
	Enabled bool              // off: arrival order inside a level
	Weights map[string]Weight // by tenant key; "" are the messages without one
	KeyFrom *KeyFrom          // nil: only keys that the publisher gives
}

// Weight is a tenant's share in thousandths, from 1 (0.001) to 1,000,000
// (1000). In files it is a decimal number with at most three decimals.
type Weight int32

// KeyFrom says where the tenant key of a published message is found when the
// publisher gives none. Exactly one field is set.
type KeyFrom struct {
	Header string // an application header
	JSON   string // a dotted path into a JSON payload
}

// Limits bound a queue; 0 is unlimited everywhere.
type Limits struct {
	MaxMessages       int64
	MaxBytes          int64 // bytes as JetStream counts stored messages
	MaxMessagesPerKey int64 // of one key in one level
	MaxPayload        int64 // bytes of one message's body as published; at most 64 MiB
	Overflow          Overflow
}

// Overflow is what happens to a publish at the limit.
type Overflow string

// What happens at the limit. OverflowReject is the default.
const (
	OverflowNone   Overflow = "none"   // there is no limit
	OverflowReject Overflow = "reject" // the publisher is told that the queue is full
	OverflowRing   Overflow = "ring"   // the oldest waiting message of the lowest level makes room
)

// Retry is how failed messages are tried again.
type Retry struct {
	MaxAttempts int             // 0: never gives up; defaults to 5
	Backoff     []time.Duration // delay after attempt 1, 2, …; the last one repeats; defaults to 5, 10, 20, 40 seconds
	Jitter      float64         // share of a delay that is added at random, 0 to 1; defaults to 0.15
}

// DeadLetters is what happens to messages that are given up.
type DeadLetters struct {
	Enabled       bool          // off: they are dropped and counted
	MaxAge        time.Duration // how long they are kept; 0: for ever; defaults to 720 hours
	RetryPriority *int          // level at which they are tried again; nil: their own
	Evicted       bool          // messages that a ring evicts are kept too
}

// Compress is which payloads are compressed.
type Compress struct {
	Algorithm string // gzip
	MinBytes  int64  // smaller payloads travel as they are; defaults to 1 KiB
}

// Source feeds a queue from another JetStream stream.
type Source struct {
	Stream   string
	Subject  string // filter with wildcards
	Key      string // tenant key, or a template such as {{wildcard(1)}}; "" for none
	Priority *int   // level; nil: none, as of messages that are published without a priority
}

// Wildcard returns which * of the source's subject is the key, counted from 1; 0
// when the key is not taken from the subject.
func (s Source) Wildcard() int {
	m := wildcardForm.FindStringSubmatch(s.Key)
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1]) // up to three digits
	return n
}

// Storage is how JetStream keeps a queue.
type Storage struct {
	Type        string // file or memory; defaults to file
	Replicas    int    // 1, 3 or 5; defaults to 1
	Compression string // s2 or none; defaults to s2
}

// LevelByName returns the level that s names: a level's name, or its number
// in plain decimal digits. It reports false when the queue has no such level.
func (q Queue) LevelByName(s string) (int, bool) {
	if i := slices.Index(q.LevelNames, s); i >= 0 {
		return i, true
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n >= q.Levels || strconv.Itoa(n) != s {
		return 0, false
	}
	return n, true
}

// PermitsPerKey is how many messages of one key may be in flight, over all
// agents and levels; 0 is any number.
func (q Queue) PermitsPerKey() int {
	if q.OrderedKeys {
		return 1
	}
	return q.ConcurrencyPerKey
}

// KeysApart tells whether the messages of each key wait by themselves, so that
// something can be done to those of one key alone.
func (q Queue) KeysApart() bool {
	return q.FairShare.Enabled || !q.SingleActiveConsumer && q.PermitsPerKey() > 0
}

// Hash returns a short hash of the whole definition: 16 hex digits, the same
// for equal definitions on every machine.
func (q Queue) Hash() string {
	return shortHash(queueTable.appendJSON(nil, q), 8)
}

// Layout returns a short hash (8 hex digits) of what decides which lanes the
// queue has and how they may be read: levels, default level, fair share,
// ordered keys, the cap per key, single active consumer. Two definitions with
// the same layout can share lanes; limits, weights, names of levels and
// timings do not enter.
func (q Queue) Layout() string {
	return shortHash(fmt.Appendf(nil, "levels=%d default=%d fair=%t ordered=%t cap=%d single=%t",
		q.Levels, q.DefaultPriority, q.FairShare.Enabled, q.OrderedKeys, q.ConcurrencyPerKey, q.SingleActiveConsumer), 4)
}

func shortHash(data []byte, size int) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:size])
}
