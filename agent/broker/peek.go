package broker

import (
	"context"
	"maps"
	"strings"
	"time"

	"github.com/fairlead/fairlead/agent/broker/names"
	"github.com/fairlead/fairlead/agent/broker/wire"
	"github.com/fairlead/fairlead/agent/payload"
	"github.com/fairlead/fairlead/config"
	"github.com/fairlead/fairlead/fairshare"
)

const (
	// peekMax is the most messages that one Peek returns.
	peekMax = 1000
	// peekSkips is how many messages in hand one Peek passes over before it stops.
	peekSkips = 1000
	// peekBytes is how many bytes of payloads one Peek looks at before it stops.
	peekBytes = 64 << 20
)

// Peek says which waiting messages to look at.
type Peek struct {
	Max   int     // 1 to 1,000; what is outside is brought inside
	Level *int    // only this level, as it is served; nil: all
	Key   *string // only this tenant; "" is the unkeyed one; nil: all
	// Skip tells which messages are in this agent's own hands, and are left out. It must not block. nil: none.
	Skip func(queue string, seq uint64) bool
}

// Peeked is a waiting message, looked at without taking it.
type Peeked struct {
	Queue       string
	Seq         uint64
	Level       int    // the level it will be served at
	Key         string // "" is unkeyed
	Weight      fairshare.Weight
	ID          string
	ContentType string
	Headers     map[string]string // names in lower case; never nil
	Data        []byte            // as published; as stored when that is compressed and damaged, beside a header content-encoding
	EnqueuedAt  time.Time
	Attempts    int       // how often it was tried, as far as that is on record
	NotBefore   time.Time // zero unless it is backing off
	LastError   string    // of the last attempt, or ""
}

// Peek looks at waiting messages without taking them: level by level, the highest first, and by sequence inside a level.
// Messages without a priority come at the default level, and those of levels that no longer exist at the lowest one.
// That is arrival order: which tenant is next is for the taking agents to decide, and not known here.
//
// Messages that other agents are running cannot be told apart from waiting ones, and are shown; those on subjects that
// are not canonical are not shown until they were repaired, and expired ones never. It costs a read per message that is
// returned or skipped, and 1 for each level that a message could have, at most 101; it stops early after passing over 1,000
// messages in hand or expired, or with
// 64 MiB of payloads. It blocks until it is done or ctx ends. Errors wrap [names.ErrInvalidKey], [ErrStreamMissing] or [ErrUnavailable].
func (c *Client) Peek(ctx context.Context, q config.Queue, p Peek) ([]Peeked, error) {
	token := "*"
	if p.Key != nil {
		var err error
		if token, err = names.EncodeKey(*p.Key); err != nil {
			return nil, err
		}
	}
	p.Max = min(max(p.Max, 1), peekMax)
	w := &peeker{c: c, queue: q, peek: p, skips: peekSkips, found: []Peeked{}}
	for level := range q.Levels {
		if p.Level != nil && *p.Level != level {
			continue
		}
		if err := w.level(ctx, level, token); err != nil {
			return nil, err
		}
	}
	return w.found, nil
}

type peeker struct {
	c     *Client
	queue config.Queue
	peek  Peek
	skips int // messages that may still be passed over
	bytes int // of payloads found
	found []Peeked
}

func (w *peeker) full() bool {
	return len(w.found) >= w.peek.Max || w.skips <= 0 || w.bytes >= peekBytes
}

// level reads one level, merging the subjects that are served at it by their sequences.
func (w *peeker) level(ctx context.Context, level int, token string) error {
	if w.full() {
		return nil
	}
	prefix := w.c.names.SubjectPrefix(w.queue.Name)
	stream := w.c.names.Stream(w.queue.Name)
	var heads []*head
	for _, class := range classesOf(w.queue, level) {
		h := &head{filter: prefix + class + "." + token}
		if err := h.advance(ctx, w.c, stream); err != nil {
			return err
		}
		if h.m != nil {
			heads = append(heads, h)
		}
	}
	for !w.full() {
		h := oldest(heads)
		if h == nil {
			return nil
		}
		w.take(level, h.m)
		if err := h.advance(ctx, w.c, stream); err != nil {
			return err
		}
	}
	return nil
}

// classesOf returns the class tokens of the messages that are served at a level.
func classesOf(q config.Queue, level int) []string {
	classes := []string{names.Class(level)}
	if level == q.DefaultPriority {
		classes = append(classes, names.NoPriority)
	}
	if level == q.Levels-1 {
		for gone := q.Levels; gone < names.MaxLevels; gone++ {
			classes = append(classes, names.Class(gone))
		}
	}
	return classes
}

// head is the next message under a filter.
type head struct {
	filter string
	m      *wire.Stored // nil: there are no more
}

func (h *head) advance(ctx context.Context, c *Client, stream string) (err error) {
	next := uint64(1)
	if h.m != nil {
		next = h.m.Seq + 1
	}
	h.m, err = c.wire.Read(ctx, stream, wire.Look{Seq: next, Filter: h.filter})
	return err
}

func oldest(heads []*head) *head {
	var first *head
	for _, h := range heads {
		if h.m != nil && (first == nil || h.m.Seq < first.m.Seq) {
			first = h
		}
	}
	return first
}

// take adds a message to what was found, unless it is in hand.
func (w *peeker) take(level int, s *wire.Stored) {
	if w.peek.Skip != nil && w.peek.Skip(w.queue.Name, s.Seq) {
		w.skips--
		return
	}
	key := ""
	if _, token, ok := names.Split(strings.TrimPrefix(s.Subject, w.c.names.SubjectPrefix(w.queue.Name))); ok {
		key, _ = names.DecodeKey(token) // unusable: it will be served as unkeyed
	}
	m := Message{Data: s.Data}
	m.setHeaders(s.Header)
	if ttl := w.queue.TTL; ttl > 0 && m.Expires.IsZero() {
		m.Expires = s.Time.Add(ttl)
	}
	if m.Expired(time.Now()) { // it does not wait any more
		w.skips--
		return
	}
	data, err := m.Payload(w.queue.Limits.MaxPayload)
	if err != nil { // it will be found out when it is taken
		data, m.Headers = s.Data, maps.Clone(m.Headers)
		m.Headers["content-encoding"] = payload.Encoding
	}
	w.bytes += len(data)
	p := Peeked{
		Queue: w.queue.Name, Seq: s.Seq, Level: level, Key: key, Weight: m.Weight, ID: m.ID, ContentType: m.ContentType,
		Headers: m.Headers, Data: data, EnqueuedAt: s.Time,
	}
	if rec, ok := w.c.attempts.lookup(w.queue.Name, s.Seq); ok {
		p.Attempts, p.LastError = rec.Tries, rec.Error
		if at := rec.notBefore(); at.After(time.Now()) {
			p.NotBefore = at
		}
	}
	w.found = append(w.found, p)
}
