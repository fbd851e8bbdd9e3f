package broker

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/fairlead/fairlead/config"
)

// What a publish costs in a full queue that makes room, by what waits there. It is the same with 1,000 and 1,000,000 messages;
// the million takes a while to store, so it is only measured with FAIRLEAD_SLOW=1.
func BenchmarkRing(b *testing.B) {
	sizes := []int{1_000, 100_000}
	if os.Getenv("FAIRLEAD_SLOW") != "" {
		sizes = append(sizes, 1_000_000)
	}
	for _, keys := range []int{0, 10, 1000} {
		for _, n := range sizes {
			name := "arrival order"
			if keys > 0 {
				name = fmt.Sprintf("%d tenants", keys)
			}
			b.Run(fmt.Sprintf("%s/%d waiting", name, n), func(b *testing.B) { benchmarkRing(b, n, keys) })
		}
	}
}

func benchmarkRing(b *testing.B, n, keys int) {
	r := newRig(b, func(q *config.Queue) {
		q.FairShare.Enabled = keys > 0
		q.Limits = config.Limits{MaxMessages: int64(n), Overflow: config.OverflowRing}
	})
	var stored sync.WaitGroup
	window := make(chan struct{}, 1000)
	for i := range n { // mostly of high levels, so that what goes lies between them
		window <- struct{}{}
		stored.Add(1)
		r.PublishAsync(r.q, Publication{Level: []int{0, 0, 1, 2}[i%4], Key: fmt.Sprint("t", i%max(keys, 1)), Data: []byte("payload")}, func(_ Receipt, err error) {
			if err != nil {
				b.Error(err)
			}
			stored.Done()
			<-window
		})
	}
	stored.Wait()
	b.ResetTimer()
	for i := range b.N {
		if reason := r.offer(0, fmt.Sprint("t", i%max(keys, 1)), "new"); reason != "" {
			b.Fatal(reason)
		}
	}
	b.StopTimer()
	if evicted := r.evicted(); evicted != uint64(b.N) || r.stored() != uint64(n) {
		b.Fatalf("%d were evicted for %d newcomers, and %d are stored", evicted, b.N, r.stored())
	}
}
