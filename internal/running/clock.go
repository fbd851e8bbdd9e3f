// Package running has a clock for tests of how long something takes on real processes and servers. Machines that tests run on stand
// still now and then, for up to half a second; a bound of a quarter of a second would be about the machine then. The clock stands
// still with the process that has it: what it measures is how long others took while they could run.
package running

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	tick = 5 * time.Millisecond
	// most is what one tick counts at most: one that comes later was a stop, or a process that was not given a core.
	most = 25 * time.Millisecond
)

// Clock counts for how long this process has been running. It is safe for several goroutines.
type Clock struct {
	ran  atomic.Int64
	stop chan struct{}
	once sync.Once
	work sync.WaitGroup
}

// Start returns a clock that runs until Stop.
func Start() *Clock {
	c := &Clock{stop: make(chan struct{})}
	c.work.Go(c.run)
	return c
}

func (c *Clock) run() {
	ticks := time.NewTicker(tick)
	defer ticks.Stop()
	last := time.Now()
	for {
		select {
		case <-ticks.C:
		case <-c.stop:
			return
		}
		now := time.Now() // the tick has the time at which it was due
		c.ran.Add(int64(min(now.Sub(last), most)))
		last = now
	}
}

// Now is how long the process has been running since the clock was started, to 5 ms.
func (c *Clock) Now() time.Duration { return time.Duration(c.ran.Load()) }

// Stop ends the clock, which keeps its time. It can be called twice.
func (c *Clock) Stop() {
	c.once.Do(func() { close(c.stop) })
	c.work.Wait()
}
