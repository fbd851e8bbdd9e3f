package delivery

import (
	"math"
	"testing"
	"time"

	"github.com/fairlead/fairlead/config"
)

func TestBackoff(t *testing.T) {
	s := config.Retry{MaxAttempts: 5, Backoff: []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second}}
	for _, c := range []struct {
		attempts, attempt int
		want              time.Duration
	}{
		{5, 1, 5 * time.Second}, {5, 2, 10 * time.Second}, {5, 3, 20 * time.Second}, {5, 4, 40 * time.Second},
		{5, 5, 40 * time.Second}, {5, 100, 40 * time.Second}, {5, math.MaxInt, 40 * time.Second},
		{5, 0, 5 * time.Second},
		{2, 1, 5 * time.Second}, {2, 2, 40 * time.Second}, // what is over max_attempts waits the longest
		{0, 3, 20 * time.Second}, // never gives up
	} {
		s.MaxAttempts = c.attempts
		b := Backoff{Setting: func(string) config.Retry { return s }}
		if got := b.Backoff("q", c.attempt); got != c.want {
			t.Errorf("attempt %d of %d: %v, want %v", c.attempt, c.attempts, got, c.want)
		}
	}
	if got := (Backoff{Setting: func(string) config.Retry { return config.Retry{} }}).Backoff("q", 1); got != 0 {
		t.Errorf("an empty list waits %v", got)
	}
}

func TestJitterOnlyAdds(t *testing.T) {
	s := config.Retry{Backoff: []time.Duration{10 * time.Second}, Jitter: 0.15}
	for _, c := range []struct {
		random float64
		want   time.Duration
	}{{0, 10 * time.Second}, {0.5, 10*time.Second + 750*time.Millisecond}, {0.999, 11*time.Second + 498500*time.Microsecond}} {
		b := Backoff{Setting: func(string) config.Retry { return s }, Random: func() float64 { return c.random }}
		if got := b.Backoff("q", 1); got != c.want {
			t.Errorf("random %v: %v, want %v", c.random, got, c.want)
		}
	}
	b := Backoff{Setting: func(string) config.Retry { return s }}
	different := map[time.Duration]bool{}
	for range 100 {
		d := b.Backoff("q", 1)
		different[d] = true
		if d < 10*time.Second || d > 11500*time.Millisecond {
			t.Fatalf("%v is outside of 10s to 11.5s", d)
		}
	}
	if len(different) < 50 {
		t.Errorf("only %d different waits of 100", len(different))
	}
}
