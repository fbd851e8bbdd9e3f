package priority_test

import (
	"fmt"
	"testing"

	"github.com/fairlead/fairlead/priority"
)

// BenchmarkPick is the promise: 3 levels of 1,000 keys, one pick and its
// settlement, at most 150 ns and no allocation. The tops of the levels differ:
// with the guard all three levels take part.
func BenchmarkPick(b *testing.B) {
	for _, bench := range []struct {
		name  string
		guard int
	}{{"strict", 0}, {"guard=10", 10}} {
		b.Run(bench.name, func(b *testing.B) {
			q := priority.New(3, bench.guard, 1)
			for level := range 3 {
				for k := range 1000 {
					q.Wake(level, fmt.Sprintf("tenant-%d", k), priority.Weight(1000*(1+k%7)))
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				t, _ := q.Pick()
				q.Settle(t, t.Weight)
			}
		})
	}
}

// BenchmarkBatch picks 64 turns before it settles them.
func BenchmarkBatch(b *testing.B) {
	q := priority.New(3, 10, 1)
	for level := range 3 {
		for k := range 1000 {
			q.Wake(level, fmt.Sprintf("tenant-%d", k), priority.Weight(1000*(1+k%7)))
		}
	}
	var turns [64]priority.Turn
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		turns[n], _ = q.Pick()
		if n++; n == len(turns) {
			for _, t := range turns {
				q.Settle(t, t.Weight)
			}
			n = 0
		}
	}
}

// BenchmarkFlap is the low-load path: a key wakes, is served, and sleeps.
func BenchmarkFlap(b *testing.B) {
	q := priority.New(3, 0, 1)
	b.ReportAllocs()
	for b.Loop() {
		q.Wake(1, "acme", 1000)
		t, _ := q.Pick()
		q.Settle(t, t.Weight)
		q.Sleep(1, "acme")
	}
}
