package broker

import (
	"fmt"
	"testing"

	"github.com/fairlead/fairlead/config"
)

// A place in a full queue costs as many requests however much waits there, also when that is of higher levels and lies before
// what has to go. (How long they take is measured by BenchmarkRing.)
func TestRingCostsTheSameHoweverMuchWaits(t *testing.T) {
	both(t, func(t *testing.T, share func(*config.Queue)) {
		const newcomers = 100
		spent := func(n int) uint64 {
			r := newRig(t, ringOf(int64(n), share))
			for class, part := range map[string]int{"p0": n - n/4, "p2": n / 4} {
				for i := range 5 {
					r.backlog(part/5, fmt.Sprint(class, ".t", i))
				}
			}
			if reason := r.offer(0, "t0", "the first one makes the lanes"); reason != "" {
				t.Fatal(reason)
			}
			before := r.wire.NC.Stats().OutMsgs
			for i := range newcomers {
				if reason := r.offer(0, fmt.Sprint("t", i%5), "new"); reason != "" {
					t.Fatal(reason)
				}
			}
			after := r.wire.NC.Stats().OutMsgs
			if n := r.evicted(); n != newcomers+1 {
				t.Errorf("%d were evicted", n)
			}
			return after - before
		}
		few, many := spent(1000), spent(20_000)
		if many > few*3/2 { // how often agents take turns depends on how long it takes
			t.Errorf("%d newcomers cost %d requests with 1,000 waiting, and %d with 20,000", newcomers, few, many)
		}
	})
}
