package grouptest

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fairlead/fairlead/agent/broker/bucket"
)

// Store is a bucket. It is safe for several goroutines.
type Store struct {
	mu       sync.Mutex
	revision uint64
	entries  map[string]bucket.Entry // deleted ones too
	mirrors  []*Mirror
	history  []bucket.Entry
}

// NewStore makes an empty bucket.
func NewStore() *Store { return &Store{entries: map[string]bucket.Entry{}} }

// Mirror opens a view. Its watch begins at once, with what is there.
func (s *Store) Mirror(o Options) *Mirror {
	if o.Fault == nil {
		o.Fault = func(Op, string) Fault { return Fault{} }
	}
	if o.Lag == nil {
		o.Lag = func() time.Duration { return 0 }
	}
	m := &Mirror{store: s, o: o, view: map[string]bucket.Entry{}, moved: make(chan struct{})}
	s.mu.Lock()
	snapshot := make([]bucket.Entry, 0, len(s.entries))
	for _, e := range s.entries {
		snapshot = append(snapshot, e)
	}
	slices.SortFunc(snapshot, func(a, b bucket.Entry) int { return int(a.Revision) - int(b.Revision) })
	s.mirrors = append(s.mirrors, m)
	for _, e := range snapshot {
		m.watched(e)
	}
	s.mu.Unlock()
	return m
}

// Get returns a record as it is stored.
func (s *Store) Get(key string) (bucket.Entry, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.entries[key]
	return e, ok && !e.Deleted
}

// Keys lists the records under a prefix, sorted.
func (s *Store) Keys(prefix string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var keys []string
	for key, e := range s.entries {
		if !e.Deleted && strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// History lists all that was ever written under a prefix, in order.
func (s *Store) History(prefix string) []bucket.Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []bucket.Entry
	for _, e := range s.history {
		if strings.HasPrefix(e.Key, prefix) {
			out = append(out, e)
		}
	}
	return out
}

// Write writes a record as somebody else would.
func (s *Store) Write(key string, value []byte) uint64 {
	r, _ := s.commit(bucket.Entry{Key: key, Value: value}, nil)
	return r
}

// Remove deletes a record as somebody else would.
func (s *Store) Remove(key string) { _, _ = s.commit(bucket.Entry{Key: key, Deleted: true}, nil) }

// commit writes a record, if it is at the expected revision (nil: at any).
func (s *Store) commit(e bucket.Entry, expected *uint64) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if expected != nil && s.entries[e.Key].Revision != *expected {
		return 0, bucket.ErrConflict
	}
	s.revision++
	e.Revision = s.revision
	s.entries[e.Key] = e
	s.history = append(s.history, e)
	for _, m := range s.mirrors {
		m.watched(e)
	}
	return e.Revision, nil
}
