package integration

import (
	"sync/atomic"
	"time"
)

// ran is for how long this process has been running. It is a clock that stands still with the process, and so with the machine:
// those that tests run on stop for up to half a second now and then. A bound that is measured with it is one for a machine that
// runs; what an agent or a server is late by alone counts in full.
func ran() time.Duration { return time.Duration(running.Load()) }

var running atomic.Int64

func init() {
	const tick, most = 5 * time.Millisecond, 25 * time.Millisecond // a tick that is later than this was a stop
	go func() {
		last := time.Now()
		for range time.Tick(tick) {
			now := time.Now()
			running.Add(int64(min(now.Sub(last), most)))
			last = now
		}
	}()
}
