package broker

import (
	"cmp"
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
	"github.com/fairlead/fairlead/fairshare"
)

// Names of the headers that are stored with a message.
const (
	headerWeight   = "Fairlead-Weight"
	headerID       = "Fairlead-Id"
	headerType     = "Content-Type"
	headerMsgID    = "Nats-Msg-Id"
	headerParent   = "traceparent"
	headerState    = "tracestate"
	ownPrefix      = "Fairlead-"
	serverPrefix   = "Nats-"
	headerEncoding = "Content-Encoding"
)

// Publish stores one message and returns when JetStream has confirmed it: in the queue, or, with a time to come, among its
// delayed ones, which no limit refuses. A write that is not answered is repeated under the same id, so that it is stored
// once. Errors wrap [names.ErrInvalidKey], [ErrTooLarge], [ErrQueueFull], [ErrStoreFull], [ErrUnavailable] or
// [ErrOutcomeUnknown]; after all but the last nothing was stored.
func (c *Client) Publish(ctx context.Context, q config.Queue, p Publication) (Receipt, error) {
	type outcome struct {
		receipt Receipt
		err     error
	}
	stored := make(chan outcome, 1)
	c.PublishAsync(q, p, func(r Receipt, err error) { stored <- outcome{r, err} })
	select {
	case o := <-stored:
		if o.err == nil && o.receipt.Duplicate && o.receipt.Seq > 0 {
			o.receipt.Level = c.levelAt(ctx, q, o.receipt)
		}
		return o.receipt, o.err
	case <-ctx.Done():
		return Receipt{}, fmt.Errorf("%w: %w", ErrOutcomeUnknown, ctx.Err())
	}
}

// levelAt looks up at which level the message of a receipt is served. Where that cannot be found out, because the message is
// finished or nobody answers, it is the level that was asked for.
func (c *Client) levelAt(ctx context.Context, q config.Queue, r Receipt) int {
	m, err := c.wire.Read(ctx, c.names.Stream(q.Name), wire.Look{Seq: r.Seq})
	if err != nil || m == nil {
		return r.Level
	}
	class, _, ok := names.Split(strings.TrimPrefix(m.Subject, c.names.SubjectPrefix(q.Name)))
	if !ok {
		return r.Level
	}
	return NewLayout(q).levelOf(class)
}

// PublishAsync is Publish without waiting, and without looking up the level of a duplicate: messages are sent in the order
// of the calls, and stored in it unless one has to be repeated. p's data must not change before done was called, which happens once, from any goroutine; it must not block.
func (c *Client) PublishAsync(q config.Queue, p Publication, done func(Receipt, error)) {
	c.publishAt(time.Now(), q, p, done)
}

// publishAt is PublishAsync at a time: what is to come later than that is delayed.
func (c *Client) publishAt(now time.Time, q config.Queue, p Publication, done func(Receipt, error)) {
	m, err := c.message(q, p, now)
	if err != nil {
		done(Receipt{}, err)
		return
	}
	handle := ""
	if p.At.After(now) {
		handle = c.delay(m, q.Name, p.At)
	}
	if int64(m.Size()) > c.MaxPayload() {
		done(Receipt{}, fmt.Errorf("%w: it has %d bytes, %d with the headers that are stored with it, and may have %d", ErrTooLarge, len(m.Data), m.Size(), c.MaxPayload()))
		return
	}
	level := p.Level
	if level < 0 {
		level = q.DefaultPriority
	}
	if handle != "" {
		c.storeDelayed(m, q, Receipt{Delayed: handle, Level: level}, done)
		return
	}
	c.storeOrMakeRoom(newcomer{queue: q, level: level, msg: m}, func(ack wire.PubAck, err error) {
		if err != nil {
			c.refused(q.Name, err)
			done(Receipt{}, err)
			return
		}
		c.metrics.Published.Add(1)
		if ack.Duplicate {
			c.metrics.Duplicates.Add(1)
		}
		done(Receipt{Seq: ack.Sequence, Level: level, Duplicate: ack.Duplicate}, nil)
	})
}

// message is what a publication looks like in the stream.
func (c *Client) message(q config.Queue, p Publication, now time.Time) (*nats.Msg, error) {
	key, err := names.EncodeKey(p.Key)
	if err != nil {
		return nil, err
	}
	token := names.NoPriority
	if p.Level >= 0 {
		token = names.Class(p.Level)
	}
	h := make(nats.Header, 4+len(p.Headers))
	for name, value := range p.Headers {
		h[name] = []string{value}
	}
	if p.ContentType != "" {
		h[headerType] = []string{p.ContentType}
	}
	if p.Weight > 0 {
		h[headerWeight] = []string{formatWeight(p.Weight)}
	}
	if ttl := cmp.Or(p.TTL, q.TTL); ttl > 0 {
		expires := now.Add(ttl)
		setExpiry(h, expires)
		setBackstop(h, expires, now)
	}
	if p.ID != "" {
		h[headerID] = []string{p.ID}
		// One tenant's id must not swallow another's.
		h[headerMsgID] = []string{key + ":" + p.ID}
	} else {
		// "~" starts no encoded key, so that it cannot meet a publisher's id.
		h[headerMsgID] = []string{"~" + c.boot + strconv.FormatUint(c.serial.Add(1), 36)}
	}
	data := p.stored(q, h)
	return &nats.Msg{Subject: c.names.SubjectPrefix(q.Name) + token + "." + key, Header: h, Data: data}, nil
}

// storeAndWait is store, and waits for the outcome.
func (c *Client) storeAndWait(ctx context.Context, m *nats.Msg) (wire.PubAck, error) {
	type outcome struct {
		ack wire.PubAck
		err error
	}
	stored := make(chan outcome, 1)
	c.store(m, func(ack wire.PubAck, err error) { stored <- outcome{ack, err} })
	select {
	case o := <-stored:
		return o.ack, o.err
	case <-ctx.Done():
		return wire.PubAck{}, fmt.Errorf("%w: %w", ErrOutcomeUnknown, ctx.Err())
	}
}

// store writes m, which must carry an id, and repeats it while its outcome is unknown, as long as JetStream remembers the id.
func (c *Client) store(m *nats.Msg, done func(wire.PubAck, error)) {
	c.storeAgain(m, writing{try: 1, until: c.repeatable(m, time.Now())}, done)
}

// writing is how far the writing of a message has come.
type writing struct {
	try     int
	until   time.Time // no repetition after it; zero is at any time
	unknown bool      // a try was not answered
}

// repeatable is until when a message that is stored now can be repeated, and be recognised by its id: the last try has to arrive
// within the dedup window of its queue. Zero is at any time: where the window is not the queue's.
func (c *Client) repeatable(m *nats.Msg, now time.Time) time.Time {
	queue, ok := c.names.QueueOf(m.Subject)
	if !ok {
		return time.Time{}
	}
	def, ok := c.definition(queue)
	if !ok || def.DedupWindow <= 0 {
		return time.Time{}
	}
	return now.Add(def.DedupWindow - wire.Wait(int64(len(m.Data))))
}

// again tells whether another try is of use.
func (w writing) again(now time.Time) bool {
	return w.try < writeTries && (w.until.IsZero() || now.Before(w.until))
}

func (c *Client) storeAgain(m *nats.Msg, w writing, done func(wire.PubAck, error)) {
	// A copy: the requester sets its reply, and an earlier try may still be on its way.
	once := &nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Data}
	c.wire.Writes.Do(once, func(answer *nats.Msg, err error) {
		var ack wire.PubAck
		if err == nil {
			ack, err = wire.ParseAck(answer)
		}
		if errors.Is(err, ErrOutcomeUnknown) {
			w.unknown = true
			if w.again(time.Now()) && c.Connected() {
				w.try++
				c.storeAgain(m, w, done)
				return
			}
		}
		// Not being able to repeat a write does not say that the first one failed.
		if w.unknown && errors.Is(err, ErrUnavailable) {
			err = ErrOutcomeUnknown
		}
		done(ack, err)
	})
}

// formatWeight writes thousandths as a decimal number.
func formatWeight(w fairshare.Weight) string {
	s := strconv.Itoa(int(w) / 1000)
	if r := int(w) % 1000; r != 0 {
		s += "." + strings.TrimRight(fmt.Sprintf("%03d", r), "0")
	}
	return s
}

// ParseWeight reads a weight: a decimal number over 0 and at most 1000, with at most three decimals.
func ParseWeight(s string) (fairshare.Weight, bool) {
	whole, frac, dotted := strings.Cut(s, ".")
	if len(whole) == 0 || len(whole) > 4 || dotted && (len(frac) == 0 || len(frac) > 3) {
		return 0, false
	}
	n := 0
	for _, c := range []byte(whole + frac) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	for i := len(frac); i < 3; i++ {
		n *= 10
	}
	if n < 1 || n > 1_000_000 {
		return 0, false
	}
	return fairshare.Weight(n), true
}
