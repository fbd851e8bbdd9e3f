package broker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/fairlead/fairlead/agent/broker/names"
	"github.com/fairlead/fairlead/agent/broker/wire"
	"github.com/fairlead/fairlead/config"
)

// repairLimit is how many messages one call of Repair moves at most.
const repairLimit = 200

// Repair moves messages from subjects that are not canonical, as a sweep found them, to where they should have been
// published, so that lanes can find them. An unusable level becomes the lowest one, an unusable or missing key becomes
// "". Payload and headers stay, except the server's control headers; a time to live goes on from where it was.
//
// Each message is stored at its new place first, under an id made from its sequence and its time, and then deleted at its
// old one. So nothing is lost when the agent stops in between, and several agents that repair at once, or one that
// repeats itself, store one copy, as long as the repeat comes inside the queue's dedup window. The id begins with "=" and
// a lower-case letter: no encoded key begins so, nor does any id that an agent gives.
//
// A call moves at most 200 messages, and looks at 5,000 when a subject holds a literal "*" or ">", which cannot be
// searched for; it goes on where the last one stopped. moved is how many this call has moved. In a full queue it returns
// [ErrQueueFull], and what did not fit stays where it is, to be tried again when there is room: a copy needs a place
// beside its original for a moment. [ErrTooLarge] means that a message is so near to the server's limit that the id does
// not fit; it stays too, and the others are moved. [ErrOutcomeUnknown] means that a copy may have been stored and its
// original may still be there; the next call finishes it. Subjects of other queues, and canonical ones, are passed over.
func (c *Client) Repair(ctx context.Context, q config.Queue, odd []string) (moved int, err error) {
	r := &repair{c: c, queue: q, layout: NewLayout(q), prefix: c.names.SubjectPrefix(q.Name), stream: c.names.Stream(q.Name)}
	literal := map[string]bool{} // subjects that cannot be searched for
	var errs []error
	for _, subject := range odd {
		switch {
		case !r.odd(subject):
		case hasWildcard(subject):
			literal[subject] = true
		default:
			if err := r.all(ctx, subject); err != nil {
				errs = append(errs, err)
			}
		}
		if r.stop || r.moved >= repairLimit {
			return r.moved, errors.Join(errs...)
		}
	}
	if len(literal) > 0 {
		errs = append(errs, r.scan(ctx, literal))
	}
	return r.moved, errors.Join(errs...)
}

// repair is one call of Repair.
type repair struct {
	c      *Client
	queue  config.Queue
	layout Layout
	prefix string
	stream string
	moved  int
	stop   bool // nothing more can be moved now
}

// odd tells whether messages on a subject are this queue's, and no lane reads them.
func (r *repair) odd(subject string) bool {
	rest, ok := strings.CutPrefix(subject, r.prefix)
	if !ok {
		return false
	}
	class, key, ok := names.Split(rest)
	if ok {
		_, ok = r.layout.Address(class, key)
	}
	return !ok
}

// hasWildcard tells whether a subject means more than itself when it is used as a filter.
func hasWildcard(subject string) bool {
	for token := range strings.SplitSeq(subject, ".") {
		if token == "*" || token == ">" {
			return true
		}
	}
	return false
}

// all moves the messages of one subject, oldest first.
func (r *repair) all(ctx context.Context, subject string) error {
	var stays error
	seq := uint64(1)
	for r.moved < repairLimit {
		m, err := r.c.wire.Read(ctx, r.stream, wire.Look{Seq: seq, Filter: subject})
		if err != nil {
			r.stop = true
			return err
		}
		if m == nil || m.Subject != subject {
			break
		}
		if err := r.move(ctx, m); errors.Is(err, ErrTooLarge) {
			stays = err // the ones behind it can still be moved
		} else if err != nil {
			return err
		}
		seq = m.Seq + 1
	}
	return stays
}

// move stores m at its canonical place and deletes the original.
func (r *repair) move(ctx context.Context, m *wire.Stored) error {
	from, sourced := originOf(m.Header)
	level, token, flaws := canonical(r.queue.Levels, strings.TrimPrefix(m.Subject, r.prefix), sourced)
	header, expired := repairedHeader(m, time.Now())
	if sourced {
		from.keep(header)
	}
	if !expired {
		to := &nats.Msg{Subject: r.prefix + level + "." + token, Header: header, Data: m.Data}
		if size := int64(to.Size()); size > r.c.MaxPayload() {
			return fmt.Errorf("%w (message %d in %s, on %q, cannot be moved: %d bytes with headers, of %d)",
				ErrTooLarge, m.Seq, r.queue.Name, m.Subject, size, r.c.MaxPayload())
		}
		if _, err := r.c.storeAndWait(ctx, to); err != nil {
			// A full tenant says nothing of the others; a full queue does, and so does NATS being away.
			var full *FullError
			r.stop = !errors.As(err, &full) || full.Reason != wire.FullKey
			return fmt.Errorf("broker: repair of message %d in %s: %w", m.Seq, r.queue.Name, err)
		}
	}
	switch r.c.remove(ctx, r.queue.Name, r.stream, m.Seq) {
	case FinishUnknown:
		r.stop = true
		return fmt.Errorf("broker: repair of message %d in %s: %w", m.Seq, r.queue.Name, ErrOutcomeUnknown)
	case Finished:
		r.moved++
		r.c.metrics.Repaired.Add(1)
		if flaws.level {
			r.c.metrics.UnknownLevels.Add(1)
		}
		if flaws.key {
			r.c.metrics.UnknownKeys.Add(1)
		}
	case AlreadyFinished: // another agent moved it
	}
	return nil
}

// remove deletes one message and waits until that is confirmed.
func (c *Client) remove(ctx context.Context, queue, stream string, seq uint64) Finish {
	done := make(chan Finish, 1)
	c.Finish(&Message{Queue: queue, Seq: seq, Lane: &Lane{stream: stream}}, func(f Finish) { done <- f })
	select {
	case f := <-done:
		return f
	case <-ctx.Done():
		return FinishUnknown
	}
}

// flaws says what of an odd subject could not be used.
type flaws struct{ level, key bool }

// canonical returns the class and key tokens under which a message belongs whose tokens are not canonical. The key of one
// that a source brought is a token of some other subject: what follows it does not matter, and what is no token of ours is a
// key as it stands.
func canonical(levels int, rest string, sourced bool) (classToken, keyToken string, f flaws) {
	classToken, keyToken, _ = strings.Cut(rest, ".")
	if _, ok := names.ClassLevel(classToken); !ok {
		classToken, f.level = names.Class(levels-1), true
	}
	if sourced {
		keyToken, _, _ = strings.Cut(keyToken, ".")
	}
	if _, ok := names.DecodeKey(keyToken); ok {
		return classToken, keyToken, f
	}
	if token, err := names.EncodeKey(keyToken); sourced && err == nil {
		return classToken, token, f
	}
	return classToken, names.Unkeyed, flaws{f.level, true}
}

const (
	headerTTL = "Nats-TTL"
	// repairMark begins the id of a repaired message. It is no escape, because those are in upper case.
	repairMark = "=repair:"
)

// repairedHeader is the header of the copy of m. Control headers spoke of the first time it was stored, and do not go
// along. What counts on is its time to live; expired is true when that is over, so that there is nothing left to move.
func repairedHeader(m *wire.Stored, now time.Time) (h nats.Header, expired bool) {
	h = make(nats.Header, len(m.Header)+1)
	for name, values := range m.Header {
		if !hasPrefixFold(name, serverPrefix) {
			h[name] = values
		}
	}
	h.Set(headerMsgID, repairMark+strconv.FormatUint(m.Seq, 10)+":"+strconv.FormatInt(m.Time.UnixNano(), 10))
	ttl := m.Header.Get(headerTTL)
	if strings.EqualFold(ttl, "never") {
		h.Set(headerTTL, "never")
		return h, false
	}
	d, err := time.ParseDuration(ttl)
	if err != nil {
		seconds, _ := strconv.ParseUint(ttl, 10, 31)
		d = time.Duration(seconds) * time.Second
	}
	if d <= 0 {
		return h, false
	}
	left := d - now.Sub(m.Time)
	if left <= 0 {
		return h, true
	}
	// JetStream takes whole seconds, and one at least. A little late: the server's own removal is only a backstop.
	h.Set(headerTTL, strconv.FormatInt(int64((left+time.Second-1)/time.Second), 10))
	return h, false
}
