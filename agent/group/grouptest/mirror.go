package grouptest

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/fairlead/fairlead/agent/broker/bucket"
	"github.com/fairlead/fairlead/agent/broker/wire"
)

// Op is a kind of write.
type Op string

// The kinds of writes. A Sync writes too.
const (
	Put    Op = "put"
	Swap   Op = "swap"
	Delete Op = "delete"
	Sync   Op = "sync"
)

// Fault is what befalls a write. The zero value is none. It takes Delay to be carried out and confirmed, and then:
type Fault struct {
	Delay    time.Duration
	Refused  bool          // it is not carried out, and that is known: wire.ErrUnavailable
	Lost     bool          // it is not carried out; the outcome is unknown after AnswerWait
	Unknown  bool          // it is carried out; the outcome is unknown after AnswerWait
	Late     time.Duration // it is carried out only this long after the outcome was reported unknown; 0: not late
	Repeated bool          // it is carried out twice; the first is confirmed
}

// AnswerWait is how long a writer waits before it gives an outcome up as unknown.
const AnswerWait = 2 * time.Second

// syncLimit is how long a watch may be behind before it is opened again.
const syncLimit = 3 * time.Second

const syncKey = "sync"

// Options shape a mirror.
type Options struct {
	Fault func(op Op, key string) Fault // nil: none
	Lag   func() time.Duration          // of the watch, for each record; nil: none
}

// Mirror is one agent's view of a [Store]. It is safe for several goroutines.
type Mirror struct {
	store *Store
	o     Options

	mu     sync.Mutex
	view   map[string]bucket.Entry
	subs   []subscription
	queue  []delivery // of the watch, in order
	seen   uint64
	moved  chan struct{} // closed when seen grows
	silent bool
	cut    bool
}

type subscription struct {
	prefix string
	f      func(bucket.Entry)
}

type delivery struct {
	entry bucket.Entry
	due   time.Time
}

// SetSilent makes the watch fall silent. A Sync that waits for it in vain fails, and wakes it up again.
func (m *Mirror) SetSilent(silent bool) {
	m.mu.Lock()
	m.silent = silent
	m.mu.Unlock()
	m.deliver()
}

// Cut ends or restores the connection: writes fail, the watch is silent. What was under way is lost for good.
func (m *Mirror) Cut(cut bool) {
	m.mu.Lock()
	m.cut = cut
	m.mu.Unlock()
	m.deliver()
}

// Subscribe is as in the real bucket.
func (m *Mirror) Subscribe(prefix string, f func(bucket.Entry)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.subs = append(m.subs, subscription{prefix, f})
	for key, e := range m.view {
		if strings.HasPrefix(key, prefix) {
			f(e)
		}
	}
}

// Put is as in the real bucket.
func (m *Mirror) Put(key string, value []byte, done func(uint64, error)) {
	m.write(Put, bucket.Entry{Key: key, Value: value}, nil, done)
}

// Swap is as in the real bucket.
func (m *Mirror) Swap(key string, value []byte, revision uint64, done func(uint64, error)) {
	m.write(Swap, bucket.Entry{Key: key, Value: value}, &revision, done)
}

// Delete is as in the real bucket.
func (m *Mirror) Delete(key string, done func(uint64, error)) {
	m.write(Delete, bucket.Entry{Key: key, Deleted: true}, nil, done)
}

// Sync is as in the real bucket.
func (m *Mirror) Sync(ctx context.Context) error {
	type result struct {
		revision uint64
		err      error
	}
	written := make(chan result, 1)
	m.write(Sync, bucket.Entry{Key: syncKey}, nil, func(revision uint64, err error) { written <- result{revision, err} })
	var r result
	select {
	case r = <-written:
	case <-ctx.Done():
		return ctx.Err()
	}
	if r.err != nil {
		return r.err
	}
	late := time.NewTimer(syncLimit)
	defer late.Stop()
	for {
		m.mu.Lock()
		seen, moved := m.seen, m.moved
		m.mu.Unlock()
		if seen >= r.revision {
			return nil
		}
		select {
		case <-moved:
		case <-late.C:
			m.SetSilent(false)
			return bucket.ErrUnusable
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// write carries a write out, with what befalls it.
func (m *Mirror) write(op Op, e bucket.Entry, expected *uint64, done func(uint64, error)) {
	f := m.o.Fault(op, e.Key)
	time.AfterFunc(f.Delay, func() {
		m.mu.Lock()
		cut := m.cut
		m.mu.Unlock()
		switch {
		case cut, f.Refused:
			done(0, wire.ErrUnavailable)
		case f.Lost:
			time.AfterFunc(AnswerWait, func() { done(0, wire.ErrOutcomeUnknown) })
		case f.Late > 0:
			time.AfterFunc(AnswerWait, func() { done(0, wire.ErrOutcomeUnknown) })
			time.AfterFunc(AnswerWait+f.Late, func() { _, _ = m.store.commit(e, expected) })
		case f.Unknown:
			_, _ = m.store.commit(e, expected)
			time.AfterFunc(AnswerWait, func() { done(0, wire.ErrOutcomeUnknown) })
		default:
			revision, err := m.store.commit(e, expected)
			if f.Repeated {
				_, _ = m.store.commit(e, expected)
			}
			if err == nil {
				e.Revision = revision
				m.apply(e)
			}
			done(revision, err)
		}
	})
}

// watched queues a record for the watch. The store's lock is held, which keeps the order.
func (m *Mirror) watched(e bucket.Entry) {
	lag := m.o.Lag()
	m.mu.Lock()
	m.queue = append(m.queue, delivery{e, time.Now().Add(lag)})
	m.mu.Unlock()
	time.AfterFunc(lag, m.deliver)
}

// deliver shows what is due, in order.
func (m *Mirror) deliver() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(m.queue) > 0 && !m.silent && !m.cut && !time.Now().Before(m.queue[0].due) {
		e := m.queue[0].entry
		m.queue = m.queue[1:]
		m.applyLocked(e)
		if e.Revision > m.seen {
			m.seen = e.Revision
			close(m.moved)
			m.moved = make(chan struct{})
		}
	}
}

func (m *Mirror) apply(e bucket.Entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.applyLocked(e)
}

func (m *Mirror) applyLocked(e bucket.Entry) {
	have, ok := m.view[e.Key]
	if ok && have.Revision >= e.Revision || !ok && e.Deleted {
		return
	}
	if e.Deleted {
		delete(m.view, e.Key)
	} else {
		m.view[e.Key] = e
	}
	for _, s := range m.subs {
		if strings.HasPrefix(e.Key, s.prefix) {
			s.f(e)
		}
	}
}
