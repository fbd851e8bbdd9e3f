package delivery

import (
	"math/rand/v2"
	"time"

	"github.com/fairlead/fairlead/config"
)

// Retry says how long a message waits after a failure.
type Retry interface {
	// Backoff returns the wait after this attempt (1 for the first) of a message of this queue. Never negative.
	Backoff(queue string, attempt int) time.Duration
	// LastAttempt tells whether a message of this queue whose attempt (1 for the first) has failed is given up.
	LastAttempt(queue string, attempt int) bool
}

// Backoff is the Retry of the configuration: the queue's list by attempt, its last entry for all further attempts and for
// messages that were given up and could not be moved. Jitter only ever adds, up to its part of the wait: a wait is never shorter than what was
// configured.
type Backoff struct {
	// Setting returns the retry settings in force for a queue. An empty list means no wait.
	Setting func(queue string) config.Retry
	// Random returns a number in [0, 1). Nil means math/rand/v2.
	Random func() float64
}

// Backoff implements Retry.
func (b Backoff) Backoff(queue string, attempt int) time.Duration {
	s := b.Setting(queue)
	if len(s.Backoff) == 0 {
		return 0
	}
	last := len(s.Backoff) - 1
	i := min(max(attempt, 1)-1, last)
	if s.MaxAttempts > 0 && attempt >= s.MaxAttempts {
		i = last
	}
	random := b.Random
	if random == nil {
		random = rand.Float64
	}
	wait := s.Backoff[i]
	return wait + time.Duration(float64(wait)*s.Jitter*random())
}

// LastAttempt implements Retry. With max_attempts 0 nothing is given up.
func (b Backoff) LastAttempt(queue string, attempt int) bool {
	most := b.Setting(queue).MaxAttempts
	return most > 0 && attempt >= most
}
