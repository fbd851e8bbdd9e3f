package dispatch

import (
	"fmt"
	"testing"
	"time"

	"github.com/fairlead/fairlead/config"
	"github.com/fairlead/fairlead/fairshare"
)

// Weights hold in every window of four whatever else is asked of the queue, as those of messages and as those of the
// definition; and the levels stay strict.
func TestWeightsHoldBesideCapsAndOrder(t *testing.T) {
	kinds := map[string]func(*config.Queue){
		"cap that never binds": func(q *config.Queue) { q.ConcurrencyPerKey = 1000 },
		"cap of one":           func(q *config.Queue) { q.ConcurrencyPerKey = 1 },
		"ordered keys":         func(q *config.Queue) { q.OrderedKeys = true },
	}
	for name, kind := range kinds {
		for _, header := range []bool{false, true} {
			w := newWorld(t, 70)
			w.merged = name == "ordered keys"
			weights, own := map[string]config.Weight{"heavy": 3000}, fairshare.Weight(0)
			if header {
				weights, own = nil, 3000
			}
			for i := range 200 {
				w.publish("q", i%2, "heavy", own)
				w.publish("q", i%2, "light", 0)
			}
			q := def("q", 2, 0, true, weights)
			kind(&q)
			w.agent(10, q).worker(1, time.Second, time.Millisecond)
			w.run(long, func() bool { return len(w.taken) == 400 })
			if len(w.taken) != 400 {
				t.Fatalf("%s, header %v: %d of 400 were handed over", name, header, len(w.taken))
			}
			for i, d := range w.taken {
				if level := i / 200; d.m.Level != level {
					t.Fatalf("%s, header %v: delivery %d is of level %d", name, header, i, d.m.Level)
				}
			}
			for i := 0; i+4 <= 120; i += 4 { // of each level, while both wait
				for level := range 2 {
					if n := shares(w.taken[200*level+i : 200*level+i+4])["heavy"]; n != 3 {
						t.Fatalf("%s, header %v: %d of deliveries %d to %d of level %d went to the heavy tenant", name, header, n, i, i+3, level)
					}
				}
			}
		}
	}
}

// A level's starvation guard yields to the levels below it, not to the queues behind: the list of a capsule stays strict.
func TestAGuardYieldsInsideItsQueueOnly(t *testing.T) {
	for _, pull := range []int{1, 8} {
		w := newWorld(t, 71)
		for i := range 60 {
			w.publish("first", i%2, "", 0)
			w.publish("second", 0, "", 0)
		}
		drain(t, w, w.agent(10, def("first", 3, 2, false, nil), def("second", 1, 0, false, nil)), pull)
		for i, d := range w.taken {
			if want := []string{"first", "second"}[i/60]; d.m.Queue != want {
				t.Fatalf("pulls of %d: delivery %d is of %s, want %s: %s", pull, i, d.m.Queue, want, fmt.Sprint(w.order()[:i+1]))
			}
		}
	}
}
