package leases_test

import (
	"context"
	"fmt"
	"time"

	"github.com/fairlead/fairlead/leases"
	"github.com/fairlead/fairlead/leases/memory"
)

// worker tells the example when it holds the lease.
type worker struct{ acquired chan uint64 }

func (w worker) Acquired(fence uint64)          { w.acquired <- fence }
func (w worker) Lost(_ uint64, _ leases.Reason) {}
func (w worker) HandOver()                      {}
func (w worker) Keep()                          {}

// Two candidates: the second takes over when the first stops.
func Example() {
	bucket := memory.New(memory.FirstRevision)
	start := func(id string) (*leases.Runner, worker) {
		w := worker{make(chan uint64, 1)}
		config := leases.Config{ID: id, Boot: id + "-1"}
		runner, err := leases.NewRunner(bucket.Open("lease.orders", memory.Faults{}), config, w)
		if err != nil {
			panic(err)
		}
		runner.Start()
		runner.Want()
		return runner, w
	}
	first, a := start("first")
	older := <-a.acquired
	_, ok := first.Trusted(time.Now())
	fmt.Println("the first may hand out:", ok)

	second, b := start("second")
	if err := first.Stop(context.Background()); err != nil {
		panic(err)
	}
	newer := <-b.acquired
	_, ok = first.Trusted(time.Now())
	fmt.Println("the first may hand out:", ok)
	fmt.Println("the fence has grown:", newer > older)
	if err := second.Stop(context.Background()); err != nil {
		panic(err)
	}
	// Output:
	// the first may hand out: true
	// the first may hand out: false
	// the fence has grown: true
}
