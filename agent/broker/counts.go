package broker

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// Counts counts what happens in queues, by queue and by a label such as a reason. Numbers only grow. The zero value is
// ready; it is safe for several goroutines. Counting takes no lock once a number exists: there are few of them.
type Counts struct {
	all atomic.Pointer[map[Count]*atomic.Uint64] // never changed, but replaced by a larger one
	mu  sync.Mutex                               // serialises replacing
}

// Count names one of the numbers.
type Count struct {
	Queue string
	Label string
}

// Add adds one.
func (c *Counts) Add(queue, label string) { c.of(Count{queue, label}).Add(1) }

// Expect makes numbers of a queue exist before anything is counted, at 0: who watches them sees the first one come.
func (c *Counts) Expect(queue string, labels ...string) {
	for _, label := range labels {
		c.of(Count{queue, label})
	}
}

// of finds a number, and makes it the first time.
func (c *Counts) of(name Count) *atomic.Uint64 {
	if n := c.find(name); n != nil {
		return n
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.find(name); n != nil {
		return n
	}
	larger := map[Count]*atomic.Uint64{}
	if old := c.all.Load(); old != nil {
		larger = maps.Clone(*old)
	}
	n := new(atomic.Uint64)
	larger[name] = n
	c.all.Store(&larger)
	return n
}

// find returns nil when nothing was counted under a name.
func (c *Counts) find(name Count) *atomic.Uint64 {
	if all := c.all.Load(); all != nil {
		return (*all)[name]
	}
	return nil
}

// Load returns a queue's number under a label.
func (c *Counts) Load(queue, label string) uint64 {
	if n := c.find(Count{queue, label}); n != nil {
		return n.Load()
	}
	return 0
}

// Each calls f for every number, by queue and then by label.
func (c *Counts) Each(f func(Count, uint64)) {
	all := c.all.Load()
	if all == nil {
		return
	}
	names := slices.SortedFunc(maps.Keys(*all), func(a, b Count) int { return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Label, b.Label)) })
	for _, name := range names {
		f(name, (*all)[name].Load())
	}
}

// QueueCounts is Counts without a label.
type QueueCounts struct{ counts Counts }

// Add adds one.
func (c *QueueCounts) Add(queue string) { c.counts.Add(queue, "") }

// Expect makes a queue's number exist before anything is counted.
func (c *QueueCounts) Expect(queue string) { c.counts.Expect(queue, "") }

// Load returns a queue's number.
func (c *QueueCounts) Load(queue string) uint64 { return c.counts.Load(queue, "") }

// Each calls f for every queue's number, by queue.
func (c *QueueCounts) Each(f func(queue string, n uint64)) {
	c.counts.Each(func(name Count, n uint64) { f(name.Queue, n) })
}
