package broker

import (
	"encoding/json"
	"errors"
)

// unwritten is a record that could not be written, because NATS was away or did not answer. This agent goes by it at once.
// It is written as soon as NATS answers again, unless somebody has written or removed the record meanwhile.
type unwritten struct {
	value    []byte
	revision uint64 // of the record that it replaces; 0 is none
}

// later keeps a record that could not be written.
func (a *attempts) later(key attemptKey, value []byte) {
	var rec attempt
	if json.Unmarshal(value, &rec) != nil {
		return
	}
	have, _ := a.c.bucket.Get(key.String()) // before the lock: the bucket calls apply under its own
	a.mu.Lock()
	defer a.mu.Unlock()
	a.records[key] = rec
	a.unwritten[key] = unwritten{value, have.Revision}
	a.count.Store(int64(len(a.records)))
}

// forgetUnwritten forgets what was not written yet of a message that is finished.
func (a *attempts) forgetUnwritten(key attemptKey) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.unwritten[key]; !ok {
		return
	}
	delete(a.unwritten, key)
	delete(a.records, key)
	a.count.Store(int64(len(a.records)))
}

// flush writes what could not be written before, one record after the other, until one fails: then NATS is away again, and
// its return or the next sweep calls flush. It does not wait.
func (a *attempts) flush() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.flushing {
		return
	}
	var next *attemptKey
	for key := range a.unwritten { // the minimum does not depend on the order
		if next == nil || key.seq < next.seq || key.seq == next.seq && key.queue < next.queue {
			next = &key
		}
	}
	if next == nil {
		return
	}
	a.flushing = true
	key, u := *next, a.unwritten[*next]
	go a.c.bucket.Swap(key.String(), u.value, u.revision, func(_ uint64, err error) { a.flushed(key, u.revision, err) })
}

// flushed takes the outcome of one write. A conflict means that the bucket knows better, also when it was a try of our own
// that was not answered.
func (a *attempts) flushed(key attemptKey, revision uint64, err error) {
	done := err == nil || errors.Is(err, ErrConflict)
	a.mu.Lock()
	a.flushing = false
	if u, ok := a.unwritten[key]; done && ok && u.revision == revision {
		delete(a.unwritten, key)
	}
	a.mu.Unlock()
	if done {
		a.flush()
	}
}
