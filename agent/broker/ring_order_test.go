package broker

import (
	"sync"
	"testing"
)

// Newcomers of one agent that wait for room are stored in the order in which they came: a place that comes free is for
// the one that has waited longest, and not for whoever is published at that moment; and one that finds no room keeps its place
// before those that came later.
func TestRingStoresNewcomersInTheirOrder(t *testing.T) {
	r := newRig(t, ringOf(3))
	r.fill(1, 1, 1)
	r.put(turnPrefix+"orders", "dead") // so that nothing is decided for a second
	var mu sync.Mutex
	order := map[string]uint64{}
	var all sync.WaitGroup
	names := []string{"a", "b", "c", "d", "e", "f"}
	offer := func(name string) {
		all.Add(1)
		r.PublishAsync(r.q, Publication{Level: 1, Key: "t0", Data: []byte(name)}, func(receipt Receipt, err error) {
			defer all.Done()
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			mu.Lock()
			order[name] = receipt.Seq
			mu.Unlock()
		})
	}
	offer(names[0])
	g := r.rings.of("orders")
	until(t, "the first one waits for room", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.pending == 1
	})
	a := r.asker()
	if r.finished(a.take(a.at(1, "t0"), 1)[0]) != Finished { // there is room for one
		t.Fatal("not finished")
	}
	for _, name := range names[1:] {
		offer(name)
	}
	all.Wait()
	for i, name := range names[1:] {
		if before := names[i]; order[name] < order[before] {
			t.Errorf("%s, which came after %s, was stored before it: %v", name, before, order)
		}
	}
	r.wantLeft("d e f")
}
