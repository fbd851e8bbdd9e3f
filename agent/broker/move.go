package broker

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/fairlead/fairlead/agent/broker/names"
	"github.com/fairlead/fairlead/agent/broker/wire"
	"github.com/fairlead/fairlead/config"
)

const (
	// delayedMark begins the id of a message that was delayed. No encoded key begins so, nor does any id that an agent gives.
	delayedMark = "=delayed:"
	// tenantPause is how long a message waits first that is refused for what it is: for its tenant, or its level; doubled each time.
	tenantPause     = 250 * time.Millisecond
	tenantPauseMost = 10 * time.Second
	// largePause is how long one waits that does not fit into the server's limit.
	largePause = time.Minute
)

// dueMessage is a message that is being moved.
type dueMessage struct {
	names.Delayed
	msg    jetstream.Msg
	seq    uint64 // in the stream of delayed messages
	tries  uint64 // how often it was given to a mover
	since  time.Time
	header nats.Header // of the copy
}

// move moves messages that are due, in order, and returns when the outcome of each is known.
func (m *mover) move(ctx context.Context, def config.Queue, msgs []jetstream.Msg) error {
	begin := time.Now()
	due := m.read(def, msgs)
	if err := m.skipMoved(ctx, def, due, begin); err != nil {
		m.putBack(msgs, moverPause)
		return err
	}
	b := &moves{m: m}
	for i := range due {
		d := &due[i]
		now := time.Now()
		expires := expiryOf(d.header.Get(headerExpires))
		switch {
		case d.msg == nil: // moved before
		case d.At.After(now): // by this clock; the server's is ahead
			_ = d.msg.NakWithDelay(d.At.Sub(now) + time.Millisecond)
		case !expires.IsZero() && !now.Before(expires):
			b.dropExpired(def, d)
		case now.Sub(begin) > moveLimit: // somebody else is about to get it
			_ = d.msg.Nak()
		default:
			if !expires.IsZero() {
				setBackstop(d.header, expires, now)
			}
			b.store(def, d)
		}
	}
	b.open.Wait()
	m.full = b.full
	return b.err
}

// read finds out what messages are. What no agent has put there is moved too: its sequence serves as its handle.
func (m *mover) read(def config.Queue, msgs []jetstream.Msg) []dueMessage {
	prefix := m.c.names.DelayPrefix(m.queue)
	due := make([]dueMessage, 0, len(msgs))
	for _, msg := range msgs {
		meta, err := msg.Metadata()
		if err != nil {
			continue
		}
		d := dueMessage{msg: msg, seq: meta.Sequence.Stream, tries: meta.NumDelivered, since: meta.Timestamp}
		rest := strings.TrimPrefix(msg.Subject(), prefix)
		var ok bool
		if d.Delayed, ok = names.ParseDelayed(rest); !ok {
			class, token, _ := canonical(def.Levels, strings.TrimPrefix(rest, names.DueToken+"."), false)
			d.Delayed = names.Delayed{Due: true, Class: class, Token: token, Handle: strconv.FormatUint(d.seq, 10)}
		}
		d.header = make(nats.Header, len(msg.Headers())+3)
		for name, values := range msg.Headers() {
			if !hasPrefixFold(name, serverPrefix) && !strings.EqualFold(name, headerDelayed) {
				d.header[name] = values
			}
		}
		d.header[headerMsgID] = []string{delayedMark + d.Handle}
		if ok {
			d.header[headerDelayed] = []string{d.Handle}
		}
		due = append(due, d)
	}
	return due
}

// skipMoved deletes those of which a copy is in the queue, and forgets those that somebody deleted meanwhile.
func (m *mover) skipMoved(ctx context.Context, def config.Queue, due []dueMessage, now time.Time) error {
	old := now
	for i := range due {
		if due[i].doubtful(def, now) && due[i].since.Before(old) {
			old = due[i].since
		}
	}
	if old.Equal(now) {
		m.copies = copies{}
		return nil
	}
	if err := m.copies.refresh(ctx, m.c, m.queue, old); err != nil {
		return err
	}
	stream := m.c.names.DelayStream(m.queue)
	for i := range due {
		d := &due[i]
		if !d.doubtful(def, now) {
			continue
		}
		if m.copies.handles[d.Handle] {
			m.c.drop(stream, d.seq, 1, func(Finish) {}) // if that fails, the next time
			d.msg = nil
			continue
		}
		there, err := m.c.wire.Read(ctx, stream, wire.Look{Seq: d.seq})
		if err != nil {
			return err
		}
		if there == nil {
			d.msg = nil
		}
	}
	return nil
}

// doubtful tells whether somebody may have moved the message before, so long ago that JetStream would not know its id. The
// half of the window is for clocks that differ; where they differ by more, a message is from the future.
func (d *dueMessage) doubtful(def config.Queue, now time.Time) bool {
	age := now.Sub(d.since)
	return d.msg != nil && (age > def.DedupWindow/2 || age < 0 && d.tries > 1)
}

// moves is what becomes of the messages of one call of move.
type moves struct {
	m    *mover
	open sync.WaitGroup

	mu   sync.Mutex
	full bool
	err  error
}

func (b *moves) dropExpired(def config.Queue, d *dueMessage) {
	level := def.DefaultPriority
	if n, ok := names.ClassLevel(d.Class); ok && n >= 0 {
		level = min(n, def.Levels-1)
	}
	b.open.Add(1)
	b.m.c.drop(b.m.c.names.DelayStream(b.m.queue), d.seq, 1, func(f Finish) {
		if f == Finished {
			b.m.c.metrics.Expired.Add(def.Name, strconv.Itoa(level))
		}
		b.open.Done()
	})
}

// store stores the copy of d, and then deletes the original.
func (b *moves) store(def config.Queue, d *dueMessage) {
	c := b.m.c
	to := &nats.Msg{Subject: c.names.SubjectPrefix(def.Name) + d.Class + "." + d.Token, Header: d.header, Data: d.msg.Data()}
	if int64(to.Size()) > c.MaxPayload() {
		c.seldom.Warn("a delayed message is larger than the server takes; it waits", "queue", def.Name, "handle", d.Handle)
		_ = d.msg.NakWithDelay(largePause)
		return
	}
	b.open.Add(1)
	c.storeOrMakeRoom(newcomer{queue: def, level: NewLayout(def).levelOf(d.Class), msg: to}, func(ack wire.PubAck, err error) {
		if err != nil {
			b.failed(d, err)
			b.open.Done()
			return
		}
		if !ack.Duplicate {
			c.metrics.DelayedMoved.Add(1)
		}
		c.drop(c.names.DelayStream(b.m.queue), d.seq, 1, func(Finish) { b.open.Done() }) // if that fails, it is found out
	})
}

// failed lets a message that could not be stored come again.
func (b *moves) failed(d *dueMessage, err error) {
	var full *FullError
	if errors.As(err, &full) {
		if full.Reason == wire.FullKey || full.Reason == wire.FullLower { // says nothing of the others
			_ = d.msg.NakWithDelay(min(tenantPause<<min(d.tries-1, 6), tenantPauseMost))
			return
		}
		b.mu.Lock()
		b.full = true
		b.mu.Unlock()
		_ = d.msg.NakWithDelay(moverPauseMost / 2) // before the next try
		return
	}
	if errors.Is(err, ErrTooLarge) { // nor does this
		b.m.c.seldom.Warn("a delayed message is larger than its queue's stream takes; it waits", "queue", b.m.queue, "handle", d.Handle, "error", err)
		_ = d.msg.NakWithDelay(largePause)
		return
	}
	b.mu.Lock()
	b.err = err
	b.mu.Unlock()
	_ = d.msg.NakWithDelay(moverPause)
}
