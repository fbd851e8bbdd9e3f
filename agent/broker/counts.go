package broker

import (
	"cmp"
	"slices"
	"sync"
)

// Counts counts what happens in queues, by queue and by a label such as a reason. Numbers only grow. The zero value is
// ready; it is safe for several goroutines.
type Counts struct {
	mu sync.Mutex
	n  map[Count]uint64
}

// Count names one of the numbers.
type Count struct {
	Queue string
	Label string
}

// Add adds one.
func (c *Counts) Add(queue, label string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[Count]uint64{}
	}
	c.n[Count{queue, label}]++
}

// Load returns a queue's number under a label.
func (c *Counts) Load(queue, label string) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[Count{queue, label}]
}

// Each calls f for every number, by queue and then by label.
func (c *Counts) Each(f func(Count, uint64)) {
	c.mu.Lock()
	names := make([]Count, 0, len(c.n))
	for name := range c.n {
		names = append(names, name)
	}
	c.mu.Unlock()
	slices.SortFunc(names, func(a, b Count) int { return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Label, b.Label)) })
	for _, name := range names {
		f(name, c.Load(name.Queue, name.Label))
	}
}
