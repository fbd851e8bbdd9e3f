package history

import (
	"slices"
	"sync"
	"time"
)

// A Log is a record that is being written. It is safe for several goroutines. Make it with [New].
type Log struct {
	start time.Time

	mu      sync.Mutex
	h       History
	highest map[string]uint64 // the sink's memory, by queue
}

// New begins a record.
func New() *Log { return &Log{start: time.Now(), highest: map[string]uint64{}} }

// Now is the time since the record began.
func (l *Log) Now() time.Duration { return time.Since(l.start) }

// Stored notes a message that was confirmed to its publisher.
func (l *Log) Stored(queue, id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.h.Stored = append(l.h.Stored, Message{queue, id})
}

// Got notes a hand-over, now.
func (l *Log) Got(h Hand) *Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	h.Got = l.Now()
	l.h.Hands = append(l.h.Hands, h)
	return &Entry{l, len(l.h.Hands) - 1}
}

// Cut notes that an agent has no tenure from a time on.
func (l *Log) Cut(agent string, at time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.h.Cuts = append(l.h.Cuts, Cut{agent, at})
}

// Rebuilt notes that lanes may have been made again between a time and now.
func (l *Log) Rebuilt(from time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.h.Rebuilds = append(l.h.Rebuilds, Rebuild{from, l.Now()})
}

// History returns the record so far.
func (l *Log) History() *History {
	l.mu.Lock()
	defer l.mu.Unlock()
	return &History{
		Stored: slices.Clone(l.h.Stored), Hands: slices.Clone(l.h.Hands), Writes: slices.Clone(l.h.Writes), Cuts: slices.Clone(l.h.Cuts),
		Rebuilds: slices.Clone(l.h.Rebuilds),
	}
}

// An Entry is a hand-over whose further fate is noted.
type Entry struct {
	l *Log
	i int
}

func (e *Entry) note(f func(h *Hand, now time.Duration)) {
	e.l.mu.Lock()
	defer e.l.mu.Unlock()
	f(&e.l.h.Hands[e.i], e.l.Now())
}

// Begin notes that the handler begins.
func (e *Entry) Begin() { e.note(func(h *Hand, now time.Duration) { h.Began = now }) }

// End notes that the handler has ended.
func (e *Entry) End() { e.note(func(h *Hand, now time.Duration) { h.Ended = now }) }

// Asked notes that a settlement is about to be sent.
func (e *Entry) Asked(result string) {
	e.note(func(h *Hand, now time.Duration) { h.Result, h.Asked = result, now })
}

// Answered notes what became of the settlement.
func (e *Entry) Answered(status string) {
	e.note(func(h *Hand, now time.Duration) { h.Status, h.Told = status, now })
}

// Lost notes that the app has the message no more, and why.
func (e *Entry) Lost(why string) {
	e.note(func(h *Hand, now time.Duration) {
		if h.Lost == "" {
			h.Lost, h.LostAt = why, now
		}
	})
}

// Write is an effect on something that all apps share. It remembers the highest fence of each queue, and refuses lower
// ones: what an application does that cannot bear two active consumers.
func (e *Entry) Write() (accepted bool) {
	e.note(func(h *Hand, _ time.Duration) {
		if accepted = h.Fence >= e.l.highest[h.Queue]; accepted {
			e.l.highest[h.Queue] = h.Fence
		}
		e.l.h.Writes = append(e.l.h.Writes, Write{h.Queue, h.ID, h.Fence, accepted})
	})
	return accepted
}
