package bucket

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/fairlead/fairlead/agent/broker/wire"
)

// Entry is one record of the coordination bucket.
type Entry struct {
	Key      string
	Value    []byte
	Revision uint64
	Deleted  bool
}

const (
	// markerAge is how long the mark of a deleted record stays, so that every agent hears of the deletion.
	markerAge = 5 * time.Minute
	// watchLimit is how long a watch may be behind a confirmed write before it is opened again: a watch can fall silent
	// when a server dies.
	watchLimit = 3 * time.Second
)

// Bucket mirrors the coordination bucket in memory and writes to it. One watch feeds all subscribers. It is safe for
// several goroutines.
type Bucket struct {
	w    *wire.Wire
	log  hclog.Logger
	name string

	mu       sync.Mutex
	entries  map[string]Entry
	subs     []subscription
	seen     uint64            // the newest revision that the watch has shown
	moved    chan struct{}     // closed when seen grows
	restart  chan struct{}     // asks the loop to open the watch again
	markers  []marker          // of deleted records, the oldest first
	deleted  map[string]uint64 // the same by key: where a record is made anew, JetStream expects the mark's revision
	probe    *probe            // not written yet; Sync waits for it
	probing  bool              // runProbes is at work
	probes   sync.WaitGroup
	missing  bool          // nobody took the last write: the bucket was deleted, or its stream has no leader
	ended    chan struct{} // closed by Stop
	end      sync.Once
	loaded   chan struct{} // closed when the first snapshot is complete
	isLoaded bool
	cancel   context.CancelFunc
	done     chan struct{}
}

type subscription struct {
	prefix string
	f      func(Entry)
}

type marker struct {
	key      string
	revision uint64
	since    time.Time
}

// New returns a mirror of the bucket with a name. It has to be told of the connection ([Bucket.Connection]), and is empty until
// it is started.
func New(w *wire.Wire, name string, log hclog.Logger) *Bucket {
	return &Bucket{
		w: w, log: log.Named("bucket"), name: name,
		entries: map[string]Entry{}, deleted: map[string]uint64{}, moved: make(chan struct{}), restart: make(chan struct{}, 1), loaded: make(chan struct{}), ended: make(chan struct{}),
	}
}

// Subscribe calls f with every record under a prefix: first those that are there, then every change. f must not block and
// must not call the bucket.
func (b *Bucket) Subscribe(prefix string, f func(Entry)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.subs = append(b.subs, subscription{prefix, f})
	for key, e := range b.entries { // records are independent of each other
		if strings.HasPrefix(key, prefix) {
			f(e)
		}
	}
}

// Get returns a record as the mirror has it.
func (b *Bucket) Get(key string) (Entry, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e, ok := b.entries[key]
	return e, ok
}

// Start opens the watch, which is kept open until Stop. It does not wait, and can be called twice.
func (b *Bucket) Start() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cancel != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	b.cancel, b.done = cancel, make(chan struct{})
	go b.run(ctx, b.done)
}

// Connection is to be called when the connection comes or goes. It opens the watch again when NATS is back: its consumer was in
// the server's memory, and may be gone; by itself the watch would notice that only seconds later, for which all lanes that are
// made again would wait.
func (b *Bucket) Connection(up bool) {
	b.mu.Lock()
	started := b.cancel != nil
	b.mu.Unlock()
	if up && started {
		b.reopen()
	}
}

// reopen asks the loop to open the watch again.
func (b *Bucket) reopen() {
	select {
	case b.restart <- struct{}{}:
	default:
	}
}

// Loaded is closed when the mirror was complete for the first time.
func (b *Bucket) Loaded() <-chan struct{} { return b.loaded }

// Stop ends the watch. It can be called twice, and without Start.
func (b *Bucket) Stop() {
	b.mu.Lock()
	cancel, done := b.cancel, b.done
	b.mu.Unlock()
	b.end.Do(func() {
		b.mu.Lock()
		close(b.ended)
		b.mu.Unlock()
	})
	if cancel != nil {
		cancel()
		<-done
	}
	b.probes.Wait()
}

func (b *Bucket) run(ctx context.Context, done chan<- struct{}) {
	defer close(done)
	janitor := time.NewTicker(time.Minute)
	defer janitor.Stop()
	for try := 0; ctx.Err() == nil; try++ {
		began := time.Now()
		err := b.watch(ctx, janitor.C)
		if ctx.Err() != nil {
			return
		}
		if err != nil && (try < 3 || try%20 == 0) {
			b.log.Warn("the coordination bucket cannot be watched; trying again", "bucket", b.name, "error", err)
		}
		if time.Since(began) > time.Minute {
			try = 0
		}
		select {
		case <-time.After(wire.ReconnectDelay(try)):
		case <-b.restart: // it is there again
			try = 0
		case <-ctx.Done():
		}
	}
}

// watch mirrors the bucket until the watch breaks or is asked to open again (which is no error).
func (b *Bucket) watch(ctx context.Context, janitor <-chan time.Time) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	kv, err := b.w.JS.KeyValue(ctx, b.name)
	if err != nil {
		return wire.Translate(err)
	}
	w, err := kv.WatchAll(ctx)
	if err != nil {
		return wire.Translate(err)
	}
	defer func() { _ = w.Stop() }()
	snapshot := map[string]bool{} // nil once complete
	for {
		select {
		case u, ok := <-w.Updates():
			switch {
			case !ok:
				return errors.New("the watch has ended")
			case u == nil:
				b.complete(snapshot)
				snapshot = nil
			default:
				if snapshot != nil {
					snapshot[u.Key()] = true
				}
				b.apply(Entry{Key: u.Key(), Value: u.Value(), Revision: u.Revision(), Deleted: u.Operation() != jetstream.KeyValuePut})
			}
		case <-janitor:
			b.clean()
		case <-b.restart:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// apply takes over one record, unless a newer one is known.
func (b *Bucket) apply(e Entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e.Revision > b.seen {
		b.seen = e.Revision
		close(b.moved)
		b.moved = make(chan struct{})
	}
	b.applyLocked(e)
}

func (b *Bucket) applyLocked(e Entry) {
	if have, ok := b.entries[e.Key]; ok && have.Revision >= e.Revision {
		return
	}
	// The watch is behind our own writes: what it shows of a record from before we deleted it does not bring it back.
	if e.Revision > 0 && e.Revision <= b.deleted[e.Key] {
		return
	}
	if e.Deleted {
		if e.Revision > 0 {
			b.markers = append(b.markers, marker{e.Key, e.Revision, time.Now()})
			b.deleted[e.Key] = e.Revision
		}
		if _, ok := b.entries[e.Key]; !ok {
			return
		}
		delete(b.entries, e.Key)
	} else {
		b.entries[e.Key] = e
		delete(b.deleted, e.Key)
	}
	for _, s := range b.subs {
		if strings.HasPrefix(e.Key, s.prefix) {
			s.f(e)
		}
	}
}

// complete ends a snapshot: what is not in it was deleted while nobody watched, or the whole bucket was made anew.
func (b *Bucket) complete(snapshot map[string]bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, e := range b.entries {
		// What is newer than the watch was written by this agent while the watch opened: it is still to come.
		if snapshot == nil || snapshot[key] || e.Revision > b.seen {
			continue
		}
		delete(b.entries, key)
		for _, s := range b.subs {
			if strings.HasPrefix(key, s.prefix) {
				s.f(Entry{Key: key, Revision: e.Revision, Deleted: true})
			}
		}
	}
	if !b.isLoaded {
		b.isLoaded = true
		close(b.loaded)
	}
}

// clean removes the marks of records that were deleted some time ago. All agents try; one succeeds.
func (b *Bucket) clean() {
	b.mu.Lock()
	n := 0
	for n < len(b.markers) && time.Since(b.markers[n].since) > markerAge {
		if m := b.markers[n]; b.deleted[m.key] == m.revision {
			delete(b.deleted, m.key)
		}
		n++
	}
	old := b.markers[:n:n]
	b.markers = append([]marker(nil), b.markers[n:]...)
	b.mu.Unlock()
	b.removeMarks(old)
}

// removeMarks removes one after the other: there can be as many as messages that were retried, and apps wait for deletes
// that would stand behind them.
func (b *Bucket) removeMarks(marks []marker) {
	if len(marks) == 0 {
		return
	}
	b.w.Deletes.Do(wire.DeleteRequest("KV_"+b.name, marks[0].revision), func(_ *nats.Msg, err error) {
		if err == nil {
			b.removeMarks(marks[1:])
			return
		}
		b.mu.Lock() // the next time
		b.markers = append(marks, b.markers...)
		b.mu.Unlock()
	})
}

// Put writes a record and reports its revision. done may be called from another goroutine; it must not block.
func (b *Bucket) Put(key string, value []byte, done func(revision uint64, err error)) {
	b.write(key, value, nil, done)
}

// Swap writes a record if its revision is the given one; 0 means that there must be none. It reports [ErrConflict] if not.
func (b *Bucket) Swap(key string, value []byte, revision uint64, done func(revision uint64, err error)) {
	mark := uint64(0)
	if revision == 0 {
		b.mu.Lock()
		mark = b.deleted[key]
		b.mu.Unlock()
	}
	if mark == 0 {
		b.write(key, value, wire.ExpectLast(revision), done)
		return
	}
	b.write(key, value, wire.ExpectLast(mark), func(written uint64, err error) {
		if errors.Is(err, ErrConflict) {
			// Another agent has removed the mark, or the record is there again: only the first is as asked for.
			b.write(key, value, wire.ExpectLast(0), done)
			return
		}
		done(written, err)
	})
}

// Delete removes a record.
func (b *Bucket) Delete(key string, done func(revision uint64, err error)) {
	b.write(key, nil, nats.Header{"KV-Operation": {"DEL"}}, done)
}

func (b *Bucket) write(key string, value []byte, h nats.Header, done func(uint64, error)) {
	m := &nats.Msg{Subject: "$KV." + b.name + "." + key, Header: h, Data: value}
	deleted := h.Get("KV-Operation") != ""
	b.w.Writes.Do(m, func(answer *nats.Msg, err error) {
		b.heard(answer, err)
		if errors.Is(err, wire.ErrNobody) {
			err = fmt.Errorf("%w: nobody takes what is written to %s: it was deleted, or has no leader: %w", ErrUnusable, b.name, err)
		}
		var ack wire.PubAck
		if err == nil {
			ack, err = wire.ParseAck(answer)
		}
		if err != nil {
			done(0, err)
			return
		}
		// Our own writes count at once: the watch may be a moment behind.
		b.mu.Lock()
		b.applyLocked(Entry{Key: key, Value: value, Revision: ack.Sequence, Deleted: deleted})
		b.mu.Unlock()
		done(ack.Sequence, nil)
	})
}

// heard takes what an answer to a write says of the bucket itself. When the bucket is gone or there again, the watch is
// opened again: by itself it would notice the one only when it has heard nothing for long, and the other at its next try.
func (b *Bucket) heard(answer *nats.Msg, err error) {
	missing := errors.Is(err, wire.ErrNobody)
	if answer == nil && !missing {
		return // says nothing of it
	}
	b.mu.Lock()
	changed := b.missing != missing && b.cancel != nil
	b.missing = missing
	b.mu.Unlock()
	if changed {
		b.reopen()
	}
}
