package delivery

import (
	"math"
	"time"
)

// instant is a time of the book's own monotonic clock: nanoseconds since it was made. A jump of the wall clock moves no
// deadline.
type instant = time.Duration

// never is later than every deadline.
const never instant = math.MaxInt64

// now returns the present instant.
func (b *Book) now() instant { return time.Since(b.start) }

// until returns how long to sleep until t. For never that is a day: a wake-up without work costs nothing.
func (b *Book) until(t instant) time.Duration {
	if t == never {
		return 24 * time.Hour
	}
	return max(t-b.now(), 0)
}

// newTimer returns a timer that has not been set yet.
func newTimer() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

// wake makes a loop look again; one pending wake-up is enough.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
