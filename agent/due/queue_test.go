package due

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"
)

var start = time.Unix(1_700_000_000, 0)

// Against the obvious model: a list that is sorted, stably, whenever something is taken.
func TestQueueAgainstModel(t *testing.T) {
	type entry struct{ at, value int }
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var q Queue[int]
		var model []entry
		now := 0
		for step := range 300 {
			switch rng.IntN(3) {
			case 0, 1:
				at := now + rng.IntN(20) - 5 // past ones, and many for the same moment
				q.Add(start.Add(time.Duration(at)), step)
				model = append(model, entry{at, step})
				slices.SortStableFunc(model, func(a, b entry) int { return a.at - b.at })
			case 2:
				now += rng.IntN(10)
				got, ok := q.Take(start.Add(time.Duration(now)))
				due := len(model) > 0 && model[0].at <= now
				if ok != due || ok && got != model[0].value {
					t.Fatalf("seed %d, step %d: took %d, %v; the model has %v at %d", seed, step, got, ok, model, now)
				}
				if due {
					model = model[1:]
				}
			}
			var next time.Time
			if len(model) > 0 {
				next = start.Add(time.Duration(model[0].at))
			}
			if q.Len() != len(model) || !q.Next().Equal(next) {
				t.Fatalf("seed %d, step %d: %d values, the next at %v; want %d, %v", seed, step, q.Len(), q.Next(), len(model), next)
			}
		}
	}
}

// What was taken out can be collected.
func TestQueueLetsGo(t *testing.T) {
	var q Queue[*[1 << 20]byte]
	gone := make(chan struct{})
	func() {
		value := new([1 << 20]byte)
		runtime.AddCleanup(value, func(struct{}) { close(gone) }, struct{}{})
		q.Add(start, value)
		if taken, ok := q.Take(start); !ok || taken != value {
			t.Fatal("it was not there")
		}
	}()
	deadline := time.After(20 * time.Second)
	for {
		runtime.GC()
		select {
		case <-gone:
			runtime.KeepAlive(&q)
			return
		case <-deadline:
			t.Fatal("the queue still has it")
		case <-time.After(time.Millisecond):
		}
	}
}
