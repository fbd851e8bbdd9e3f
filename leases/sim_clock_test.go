package leases

import (
	"testing"
	"time"
	"unsafe"
)

// simClock is the clock of one process: it runs a little fast or slow, starts anywhere, and its time of day jumps.
type simClock struct {
	epoch int64 // monotonic nanoseconds at the world's time 0
	drift int64 // parts in a thousand
	wall  time.Duration
}

// local returns the process's time at a moment of the world.
func (c *simClock) local(at int64) time.Time {
	return clockTime(c.epoch+at+at*c.drift/1000, c.wall)
}

// global is the inverse of local, rounded up.
func (c *simClock) global(t time.Time) int64 {
	d := int64(t.Sub(clockTime(c.epoch, 0)))
	return d*1000/(1000+c.drift) + 1
}

// clockTime makes a time with a monotonic reading and any time of day, as time.Now returns after somebody has set the
// clock. There is no other way to make one: the layout is that of package time, and the test below watches it.
func clockTime(monotonic int64, wall time.Duration) time.Time {
	t := struct {
		wall uint64
		ext  int64
		loc  *time.Location
	}{1<<63 | uint64(4_500_000_000+int64(wall/time.Second))<<30, monotonic, nil}
	return *(*time.Time)(unsafe.Pointer(&t))
}

func TestClockTime(t *testing.T) {
	a, b := clockTime(1e9, time.Hour), clockTime(3e9, -time.Hour)
	if b.Sub(a) != 2*time.Second || !a.Before(b) {
		t.Error("times are not compared by their monotonic readings")
	}
	if b.Round(0).Sub(a.Round(0)) != -2*time.Hour {
		t.Errorf("the time of day has not jumped: %s, %s", a, b)
	}
	c := simClock{epoch: 5e9, drift: -50, wall: time.Hour}
	if got := c.global(c.local(20e9)); got < 20e9 || got > 20e9+2 {
		t.Errorf("global(local(20s)) = %d", got)
	}
}
