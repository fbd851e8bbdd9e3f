package broker

import (
	"encoding/json"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairlead/fairlead/agent/broker/bucket"
	"github.com/fairlead/fairlead/agent/broker/names"
)

// attempts keeps, for messages that were returned, how often they were tried and when they may be tried again. The
// records live in the coordination bucket under attempts.<queue>.<seq>, because a lane consumer forgets them when it is
// made again. Messages that never failed have no record.
type attempts struct {
	c     *Client
	count atomic.Int64 // records held, for a quick "none"

	mu        sync.Mutex
	records   map[attemptKey]attempt
	unwritten map[attemptKey]unwritten // of these, what the bucket does not have yet
	flushing  bool                     // one of them is being written
	tidy      map[string]time.Time     // by queue: when its records are looked through next
	// returned is told of every record: the message waits in a lane again from its not-before time on.
	returned []func(queue, class, key string, at time.Time)
}

type attemptKey struct {
	queue string
	seq   uint64
}

// attempt is the record of one message, as it stands in the bucket.
type attempt struct {
	Tries     int    `json:"tries"`                // hand-overs that count
	NotBefore int64  `json:"not_before,omitempty"` // Unix milliseconds, rounded up; 0 is at once
	Delivered uint64 `json:"delivered"`            // the lane consumer's own count at the return
	Sequence  uint64 `json:"sequence"`             // the lane consumer's sequence at the return
	Fence     uint64 `json:"fence,omitempty"`      // of the tenure that the lane consumer belongs to
	Address   string `json:"address"`              // class and key tokens, to find the lane
	Error     string `json:"error,omitempty"`      // the last error
	// Dead is set once the message was given up: it is not handed out any more.
	Dead DeadReason `json:"dead,omitempty"`
}

const attemptsPrefix = "attempts."

// maxReason bounds what of an error is kept, in bytes.
const maxReason = 1024

func newAttempts(c *Client) *attempts {
	return &attempts{c: c, records: map[attemptKey]attempt{}, unwritten: map[attemptKey]unwritten{}, tidy: map[string]time.Time{}}
}

func (k attemptKey) String() string {
	return attemptsPrefix + k.queue + "." + strconv.FormatUint(k.seq, 10)
}

func parseAttemptKey(s string) (attemptKey, bool) {
	queue, seq, ok := strings.Cut(strings.TrimPrefix(s, attemptsPrefix), ".")
	n, err := strconv.ParseUint(seq, 10, 64)
	return attemptKey{queue, n}, ok && err == nil
}

// apply takes over a record from the bucket.
func (a *attempts) apply(e bucket.Entry) {
	key, ok := parseAttemptKey(e.Key)
	if !ok {
		return
	}
	var rec attempt
	if !e.Deleted && json.Unmarshal(e.Value, &rec) != nil {
		return // not ours
	}
	a.mu.Lock()
	delete(a.unwritten, key) // the bucket knows better
	if e.Deleted {
		delete(a.records, key)
	} else {
		a.records[key] = rec
	}
	a.count.Store(int64(len(a.records)))
	hooks := a.returned
	a.mu.Unlock()
	if e.Deleted || rec.Dead != "" && rec.NotBefore == 0 {
		return // finished, or about to be
	}
	if class, token, ok := names.Split(rec.Address); ok {
		for _, f := range hooks {
			f(key.queue, class, token, rec.notBefore())
		}
	}
}

func (r attempt) notBefore() time.Time {
	if r.NotBefore == 0 {
		return time.Time{}
	}
	return time.UnixMilli(r.NotBefore)
}

func (a *attempts) lookup(queue string, seq uint64) (attempt, bool) {
	if a.count.Load() == 0 {
		return attempt{}, false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	r, ok := a.records[attemptKey{queue, seq}]
	return r, ok
}

// of returns the records of a queue, in any order.
func (a *attempts) of(queue string) []attempt {
	if a.count.Load() == 0 {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	var found []attempt
	for key, r := range a.records {
		if key.queue == queue {
			found = append(found, r)
		}
	}
	return found
}

// recorded is a record with what it is of.
type recorded struct {
	attemptKey
	attempt
}

// between returns the records of a queue whose messages back off until after a time, and not until after another one (zero:
// no such bound). They come in any order.
func (a *attempts) between(queue string, after, until time.Time) []recorded {
	if a.count.Load() == 0 {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	var found []recorded
	for key, r := range a.records {
		if at := r.notBefore(); key.queue == queue && at.After(after) && (until.IsZero() || !at.After(until)) {
			found = append(found, recorded{key, r})
		}
	}
	return found
}

const (
	// tidyPause is the time between two looks through a queue's records; half of it to one and a half.
	tidyPause = time.Minute
	// tidyMost is how many records one look removes.
	tidyMost = 500
)

// leftovers returns records of messages that are no more, because the queue's stream begins behind them: they were removed
// by other means, or by an agent that had not heard of the record yet.
func (a *attempts) leftovers(queue string, firstSeq uint64, now time.Time) (keys []attemptKey) {
	if a.count.Load() == 0 {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	at, known := a.tidy[queue]
	if known && now.Before(at) {
		return nil
	}
	a.tidy[queue] = now.Add(tidyPause/2 + rand.N(tidyPause)) // agents take turns: the first one does it for all
	if !known {
		return nil
	}
	for key := range a.records {
		if key.queue == queue && key.seq < firstSeq && len(keys) < tidyMost {
			keys = append(keys, key)
		}
	}
	return keys
}

// number sets which try of the message this delivery is. An agent that died left no record: there the consumer's own
// count tells. Deliveries between the return on record and this one, by the same consumer, were crashes; a consumer that
// was made again has forgotten what went before, and shows only its own.
func (a *attempts) number(m *Message) attempt {
	r, ok := a.lookup(m.Queue, m.Seq)
	crashes := int(m.delivered) - 1
	if ok && m.Fence() == r.Fence && m.cseq > r.Sequence && m.delivered > r.Delivered {
		crashes = int(m.delivered-r.Delivered) - 1
	}
	m.Attempt = r.Tries + crashes + 1
	return r
}

// record is what is written when a message goes back.
func (a *attempts) record(m *Message, r Return) []byte {
	h := m.handle()
	rec := attempt{
		Tries: m.Attempt - 1, Delivered: h.delivered, Sequence: h.cseq, Fence: h.Fence(), Address: m.Lane.address(m.Key),
		Error: cutReason(r.Reason), Dead: r.Dead,
	}
	if r.Counts == AnAttempt {
		rec.Tries = m.Attempt
	}
	if !r.NotBefore.IsZero() {
		rec.NotBefore = r.NotBefore.Add(time.Millisecond - 1).UnixMilli()
	}
	b, _ := json.Marshal(rec) // cannot fail: numbers and strings
	return b
}

// verdict is what is written when a message is given up.
func (a *attempts) verdict(m *Message, tries int, r Return) []byte {
	judged := *m
	judged.Attempt = tries + 1
	return a.record(&judged, r)
}

// cutReason bounds what of an error is kept.
func cutReason(s string) string {
	if len(s) > maxReason {
		s = strings.ToValidUTF8(s[:maxReason], "")
	}
	return s
}

// address is where the lane's messages with a key wait, as two subject tokens.
func (l *Lane) address(key string) string {
	token, _ := names.EncodeKey(key)
	return l.Class + "." + token
}

// OnAvailable calls f for every message that some agent returned: it waits in the lane that its subject tokens name, from
// a time on (zero: now). f must not block and must not call the client.
func (c *Client) OnAvailable(f func(queue, class, key string, at time.Time)) {
	c.attempts.mu.Lock()
	c.attempts.returned = append(c.attempts.returned, f)
	c.attempts.mu.Unlock()
}
