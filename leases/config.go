package leases

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

const (
	// MinTTL and MaxTTL bound [Config].TTL.
	MinTTL = 500 * time.Millisecond
	MaxTTL = time.Hour
	// MinRevision is the lowest revision that can be a fence: 10^15 microseconds after 1970 was in 2001, so a bucket whose
	// revisions start from the clock is above it, and one that counts from 1 never gets there.
	MinRevision = 1_000_000_000_000_000
	// DefaultTTL suits one server. With three replicas an election takes 6 to 7 seconds: 15 seconds keep ordered work going.
	DefaultTTL = 10 * time.Second
)

// Config is what a candidate is made from. It does not change afterwards.
type Config struct {
	// ID names the candidate, uniquely among those that live at the same time.
	ID string
	// Boot is unique to this run of the candidate. It must not contain a slash.
	Boot string
	// TTL is how long others wait for a holder that is silent. Defaults to 10 seconds; 500 milliseconds to one hour.
	// Candidates may differ: everybody goes by the holder's.
	TTL time.Duration
	// Stay is how long a higher candidate must have been there before the holder hands over to it. Defaults to TTL/2.
	Stay time.Duration
	// Ended lists boots that are known for certain to have ended, so that what they held can be claimed at once. Certain is
	// what the kernel says, for example a lock on a file that the other run held until it died; never what the network says.
	Ended []string
}

// WithDefaults returns c with zero values replaced.
func (c Config) WithDefaults() Config {
	if c.TTL == 0 {
		c.TTL = DefaultTTL
	}
	if c.Stay == 0 {
		c.Stay = c.TTL / 2
	}
	return c
}

// Validate reports everything that is wrong with c, as one error that wraps [ErrInvalid].
func (c Config) Validate() error {
	var problems []error
	bad := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...))
	}
	if c.ID == "" {
		bad("ID: must not be empty")
	}
	if c.Boot == "" || strings.Contains(c.Boot, "/") {
		bad("Boot: is %q, must not be empty and must not contain a slash", c.Boot)
	}
	if c.TTL < MinTTL || c.TTL > MaxTTL {
		bad("TTL: is %s, must be between %s and %s", c.TTL, MinTTL, MaxTTL)
	}
	if c.Stay < 0 {
		bad("Stay: is %s, must not be negative", c.Stay)
	}
	return errors.Join(problems...)
}

// trust is for how long after it was sent an acknowledged write is relied upon.
func (c Config) trust() time.Duration { return c.TTL * 2 / 3 }

// renewal is the time between two renewals: three can fail before trust ends.
func (c Config) renewal() time.Duration { return c.TTL / 5 }

// patience is for how long an answer is waited for.
func (c Config) patience() time.Duration { return c.TTL / 10 }

// fastPoll is the time between two looks when the watch may have fallen silent.
func (c Config) fastPoll() time.Duration { return min(c.TTL/33, 300*time.Millisecond) }

// giveWay is how long a standby waits for one that should come before it.
func (c Config) giveWay() time.Duration { return min(c.TTL/20, 100*time.Millisecond) }

// spread is how far claims of equal candidates are spread.
func (c Config) spread() time.Duration { return min(c.TTL/100, 20*time.Millisecond) }
