package controls

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/fairlead/fairlead/agent/broker/bucket"
	"github.com/fairlead/fairlead/agent/broker/wire"
	"github.com/fairlead/fairlead/config"
)

// writeTries is how often a write whose outcome is unknown is made. Repeating one is safe.
const writeTries = 3

// Bucket is what a store needs of the coordination bucket. [bucket.Bucket] is one. A write that is confirmed is shown to
// subscribers before done is called.
type Bucket interface {
	// Subscribe calls f with every record under a prefix and with every later change, in order for each record. f does not
	// block and does not call the bucket.
	Subscribe(prefix string, f func(bucket.Entry))
	// Put writes a record. done is called once, from any goroutine.
	Put(key string, value []byte, done func(revision uint64, err error))
	// Delete removes a record.
	Delete(key string, done func(revision uint64, err error))
}

// Store is one agent's view of what is set, and its way to set something. It is safe for several goroutines.
type Store struct {
	bucket Bucket
	agent  string
	log    hclog.Logger
	follow func(Change)

	mu    sync.Mutex
	state state
	since map[Thing]time.Time // when this agent heard that a thing is set; monotonic
	known bool                // what was set before this agent started has been told
}

// New makes a store. follow is told of everything that is set already, as soon as the bucket shows it, and of every change
// from then on: one at a time, in order. It must not block, nor call the store or the bucket.
func New(b Bucket, agent string, log hclog.Logger, follow func(Change)) *Store {
	s := &Store{bucket: b, agent: agent, log: log, follow: follow, since: map[Thing]time.Time{}}
	b.Subscribe(pausePrefix, s.heard)
	b.Subscribe(weightPrefix, s.heard)
	return s
}

// heard takes over a record.
func (s *Store) heard(e bucket.Entry) {
	thing, ok := parseRecord(e.Key)
	if !ok {
		s.log.Warn("a record in the coordination bucket names nothing that can be set, and is ignored", "record", e.Key)
		return
	}
	var c Control
	set := !e.Deleted
	if set {
		var err error
		if c, err = decode(thing, e.Value); err != nil {
			s.log.Warn("a record in the coordination bucket has no effect", "record", e.Key, "error", err)
			set = false
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var change Change
	var differs bool
	if set {
		change, differs = s.state.put(c)
	} else {
		change, differs = s.state.remove(thing)
		delete(s.since, thing)
	}
	if differs {
		if set {
			s.since[thing] = time.Now()
		}
		s.tellLocked(change)
		s.follow(change)
	}
}

// Known says that everything which was set before this agent started has been heard of. It is logged in one line; changes
// from then on are logged one by one.
func (s *Store) Known() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known {
		return
	}
	s.known = true
	n := map[Kind]int{}
	for t := range s.state.set {
		n[t.Kind]++
	}
	if len(s.state.set) > 0 {
		s.log.Info("set by operators before this agent started", "paused_queues", n[QueuePause], "paused_keys", n[KeyPause], "weights", n[KeyWeight])
	}
}

// tellLocked logs a change.
func (s *Store) tellLocked(c Change) {
	if !s.known {
		return
	}
	log := s.log.With("queue", c.Queue)
	if c.Kind != QueuePause {
		log = log.With("key", c.Key)
	}
	if c.Set && c.Agent != "" {
		log = log.With("through_agent", c.Agent, "at", c.At.UTC().Format(time.RFC3339))
	}
	switch {
	case c.Kind == KeyWeight && c.Set:
		log.Info("the weight of a key is overridden", "weight", config.Weight(c.Weight).String())
	case c.Kind == KeyWeight:
		log.Info("the weight of a key is no longer overridden")
	case c.Kind == KeyPause && c.Set:
		log.Info("a key is paused: nothing of it is taken")
	case c.Kind == KeyPause:
		log.Info("a key is resumed")
	case c.Set:
		log.Info("the queue is paused: nothing is taken from it")
	default:
		log.Info("the queue is resumed")
	}
}

// Queue returns what is set for a queue. It costs in proportion to all that is set.
func (s *Store) Queue(queue string) Settings {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.of(queue)
}

// Get returns a thing, and whether it is set.
func (s *Store) Get(t Thing) (Control, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.state.set[t]
	return c, ok
}

// Since tells for how long a thing has been set as it is, as far as this agent has heard, and whether it is.
func (s *Store) Since(t Thing) (time.Duration, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok := s.since[t]
	return time.Since(at), ok
}

// Set sets a thing, or sets it anew, and blocks until that is stored. The agent and the time are filled in. The error wraps
// [ErrInvalid], or one of the broker's; with [wire.ErrOutcomeUnknown] it may have been stored.
func (s *Store) Set(ctx context.Context, c Control) (Control, error) {
	c.Agent, c.At = s.agent, time.Now().UTC().Truncate(time.Millisecond)
	name, err := c.record()
	if err != nil {
		return c, err
	}
	text, err := c.encode()
	if err != nil {
		return c, err
	}
	return c, s.write(ctx, func(done func(uint64, error)) { s.bucket.Put(name, text, done) })
}

// Unset takes a thing back, and blocks until that is stored. What is not set stays so. Errors are as of [Store.Set].
func (s *Store) Unset(ctx context.Context, t Thing) error {
	name, err := t.record()
	if err != nil {
		return err
	}
	return s.write(ctx, func(done func(uint64, error)) { s.bucket.Delete(name, done) })
}

// write writes until the outcome is known, three times at most.
func (s *Store) write(ctx context.Context, one func(done func(uint64, error))) (err error) {
	for range writeTries {
		outcome := make(chan error, 1)
		one(func(_ uint64, err error) { outcome <- err })
		select {
		case err = <-outcome:
		case <-ctx.Done():
			return fmt.Errorf("controls: %w: %w", wire.ErrOutcomeUnknown, context.Cause(ctx))
		}
		if !errors.Is(err, wire.ErrOutcomeUnknown) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("controls: %w", err)
	}
	return nil
}
