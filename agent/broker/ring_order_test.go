package broker

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/broker/bucket"
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

// However many publish through one agent, it lets others have their turn: they need not wait until it takes a break, or is
// taken for dead.
func TestRingSharesItsTurn(t *testing.T) {
	r := newRig(t, ringOf(3))
	r.fill(1, 1, 1)
	var given atomic.Int64
	r.Bucket().Subscribe(turnPrefix, func(e bucket.Entry) {
		if !e.Deleted && len(e.Value) == 0 {
			given.Add(1)
		}
	})
	before := given.Load()
	var flood sync.WaitGroup
	for range 32 { // so many that somebody waits always
		flood.Go(func() {
			for end := time.Now().Add(patience); given.Load() < before+3 && time.Now().Before(end); {
				r.offer(1, "t0", "m")
			}
		})
	}
	flood.Wait()
	if n := given.Load() - before; n < 3 {
		t.Errorf("the turn was given back %d times", n)
	}
}
