package dispatch

import (
	"sync"
	"time"

	"github.com/fairlead/fairlead/agent/broker"
	"github.com/fairlead/fairlead/fairshare"
)

// event is something that happened, to be told to core. Events are told in the order in which they were put.
type event func(c *core, now time.Time)

// mailbox takes events from any goroutine; the capsule's goroutine empties it. Wake-ups are merged per lane on the way in:
// a flood of publishes costs one event per lane and turn of the loop.
type mailbox struct {
	ready chan struct{} // written by put and wake, read by the capsule's goroutine

	mu     sync.Mutex
	events []event
	wakes  map[wakeKey]wakeNote
	order  []wakeKey // of wakes, so that they are told in the order of the first of each
	closed bool
	// heard is the newest message of each queue that a wake-up told of, ahead the messages that this agent stored itself and
	// told of before their wake-ups came. So each message is told of once.
	heard map[string]uint64
	ahead map[aheadKey]bool
}

// maxAhead bounds what is kept for wake-ups that were lost.
const maxAhead = 1 << 14

type aheadKey struct {
	queue string
	seq   uint64
}

type wakeKey struct {
	layout  *broker.Layout // that the address is of
	address broker.Address
}

type wakeNote struct {
	weight fairshare.Weight // of the first message: it will be first in line
	seq    uint64           // of the first message
	last   uint64           // the highest of all
	n      int
}

func newMailbox() *mailbox {
	return &mailbox{ready: make(chan struct{}, 1), wakes: map[wakeKey]wakeNote{}, heard: map[string]uint64{}, ahead: map[aheadKey]bool{}}
}

// put reports false when the capsule has stopped: the event will not be told.
func (b *mailbox) put(e event) bool {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return false
	}
	b.events = append(b.events, e)
	b.mu.Unlock()
	b.signal()
	return true
}

// wake tells of a message that a wake-up spoke of.
func (b *mailbox) wake(key wakeKey, weight fairshare.Weight, seq uint64) {
	b.mu.Lock()
	b.heard[key.layout.Queue] = max(b.heard[key.layout.Queue], seq)
	told := b.ahead[aheadKey{key.layout.Queue, seq}]
	if told {
		delete(b.ahead, aheadKey{key.layout.Queue, seq})
	}
	first := !told && b.noteLocked(key, weight, seq)
	b.mu.Unlock()
	if first {
		b.signal()
	}
}

// stored tells of a message that this agent has stored, unless its wake-up was faster.
func (b *mailbox) stored(key wakeKey, weight fairshare.Weight, seq uint64) {
	b.mu.Lock()
	first := false
	if seq > b.heard[key.layout.Queue] {
		if len(b.ahead) >= maxAhead {
			clear(b.ahead) // their wake-ups were lost; at worst some messages are told of twice
		}
		b.ahead[aheadKey{key.layout.Queue, seq}] = true
		first = b.noteLocked(key, weight, seq)
	}
	b.mu.Unlock()
	if first {
		b.signal()
	}
}

// noteLocked merges a wake-up with those of its lane that were not told yet. It reports whether there was none.
func (b *mailbox) noteLocked(key wakeKey, weight fairshare.Weight, seq uint64) (first bool) {
	if b.closed {
		return false
	}
	note, ok := b.wakes[key]
	if !ok {
		note.weight, note.seq = weight, seq
		b.order = append(b.order, key)
	}
	note.n++
	note.last = max(note.last, seq)
	b.wakes[key] = note
	return !ok
}

func (b *mailbox) signal() {
	select {
	case b.ready <- struct{}{}:
	default:
	}
}

// take empties the mailbox. The slices and the map are the caller's until the next call, which gets them back.
func (b *mailbox) take(spare *batch) (full batch) {
	b.mu.Lock()
	full = batch{b.events, b.wakes, b.order}
	b.events, b.wakes, b.order = spare.events, spare.wakes, spare.order
	b.mu.Unlock()
	return full
}

// close refuses what comes later and returns what was not told.
func (b *mailbox) close() []event {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	return b.events
}

// batch is what a mailbox held.
type batch struct {
	events []event
	wakes  map[wakeKey]wakeNote
	order  []wakeKey
}

func (t *batch) reset() {
	clear(t.events)
	t.events = t.events[:0]
	clear(t.wakes)
	clear(t.order)
	t.order = t.order[:0]
}
