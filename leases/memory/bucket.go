package memory

import (
	"sync"

	"github.com/fairlead/fairlead/leases"
)

// Bucket is a set of records that share their revisions. It is safe for several goroutines.
type Bucket struct {
	mu       sync.Mutex
	revision uint64
	gone     bool
	records  map[string][]leases.Value // every version, oldest first
	changed  chan struct{}             // closed when anything changes
}

// FirstRevision is the revision before the first one of a new bucket: what a clock would give.
const FirstRevision = 1_700_000_000_000_000

// New makes an empty bucket. Its revisions follow the given one, usually [FirstRevision].
func New(revision uint64) *Bucket {
	return &Bucket{revision: revision, records: map[string][]leases.Value{}, changed: make(chan struct{})}
}

// Drop deletes the bucket.
func (b *Bucket) Drop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gone = true
	b.records = map[string][]leases.Value{}
	b.notifyLocked()
}

// Recreate makes it again, empty, with revisions that follow the given one.
func (b *Bucket) Recreate(revision uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gone, b.revision = false, revision
	b.notifyLocked()
}

// Remove deletes a record, as an operator would.
func (b *Bucket) Remove(key string) { b.Put(key, nil) }

// Put writes whatever was there, as an operator would, and returns the revision.
func (b *Bucket) Put(key string, data []byte) uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.putLocked(key, data)
}

// Versions returns everything that was ever written to a record, oldest first.
func (b *Bucket) Versions(key string) []leases.Value {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]leases.Value(nil), b.records[key]...)
}

func (b *Bucket) putLocked(key string, data []byte) uint64 {
	b.revision++
	b.records[key] = append(b.records[key], leases.Value{Revision: b.revision, Data: append([]byte(nil), data...)})
	b.notifyLocked()
	return b.revision
}

func (b *Bucket) notifyLocked() {
	close(b.changed)
	b.changed = make(chan struct{})
}

func (b *Bucket) swap(key string, data []byte, revision uint64) (uint64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.gone {
		return 0, leases.ErrGone
	}
	if b.latestLocked(key).Revision != revision {
		return 0, leases.ErrConflict
	}
	return b.putLocked(key, data), nil
}

// read returns the record as it was some versions ago: 0 is now.
func (b *Bucket) read(key string, ago int) (leases.Value, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.gone {
		return leases.Value{}, leases.ErrGone
	}
	if v := b.records[key]; ago < len(v) {
		return v[len(v)-1-ago], nil
	}
	return b.latestLocked(key), nil
}

func (b *Bucket) latestLocked(key string) leases.Value {
	if v := b.records[key]; len(v) > 0 {
		return v[len(v)-1]
	}
	return leases.Value{}
}

// after returns the first version after a revision, or a channel that is closed when there may be one.
func (b *Bucket) after(key string, revision uint64) (next leases.Value, changed <-chan struct{}, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.gone {
		return leases.Value{}, nil, leases.ErrGone
	}
	for _, v := range b.records[key] {
		if v.Revision > revision {
			return v, nil, nil
		}
	}
	return leases.Value{}, b.changed, nil
}
