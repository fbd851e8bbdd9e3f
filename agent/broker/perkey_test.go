package broker

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/agent/broker/wire"
	"github.com/fairlead/fairlead/config"
)

// A limit per key that is brought in, or lowered, drops nothing: JetStream would. It comes into force when the backlog is gone.
func TestALowerLimitPerKeyDropsNothing(t *testing.T) {
	for name, more := range map[string]func(*config.Queue){"file": func(*config.Queue) {}, "memory": inMemory} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, more)
			for i := range 20 {
				r.publish(1, "a", fmt.Sprint("a", i))
			}
			r.publish(1, "b", "b")
			q := r.q
			q.Limits.MaxMessagesPerKey = 8
			r.define(q)
			if n := r.stored(); n != 21 {
				t.Fatalf("%d are left of 21", n)
			}
			if got := r.Spared(); len(got) != 1 || got[0] != "orders" {
				t.Errorf("spared: %q", got)
			}
			if got := r.SparedWarnings(); len(got) != 1 || !strings.Contains(got[0], "is not 8 yet, but 30, because a tenant has 20") {
				t.Errorf("warnings: %q", got)
			}
			q.Limits.MaxMessagesPerKey = 7
			r.define(q)
			if n := r.stored(); n != 21 {
				t.Fatalf("lowered: %d are left of 21", n)
			}
			r.refusedAfter("a", 10) // the backlog does not grow much
			other := r.another()
			a := r.asker()
			for range 29 {
				r.finished(a.take(a.at(1, "a"), 1)[0])
				r.define(q)
			}
			if got := r.Spared(); got != nil {
				t.Errorf("one message is left, and spared are %q", got)
			}
			other.define(q)
			if got := other.Spared(); got != nil {
				t.Errorf("in another agent spared are %q", got)
			}
			r.refusedAfter("a", 6)
			if n := r.stored(); n != 8 {
				t.Errorf("%d are stored, want 7 and b", n)
			}
		})
	}
}

// refusedAfter publishes so many messages of a key at level 1, after which the next one has to be refused.
func (r *rig) refusedAfter(key string, n int) {
	r.t.Helper()
	for i := range n {
		r.publish(1, key, fmt.Sprint("more", i))
	}
	_, err := r.Publish(within(r.t), r.q, Publication{Level: 1, Key: key})
	var full *FullError
	if !errors.As(err, &full) || full.Reason != wire.FullKey {
		r.t.Errorf("after %d more: %v", n, err)
	}
}

// How much room a change leaves for what is published meanwhile.
func TestFits(t *testing.T) {
	for _, c := range []struct {
		limit, fullest int64
		fits           bool
	}{
		{1, 0, true}, {1, 1, false}, {5, 4, true}, {5, 5, false}, {100, 75, true}, {100, 76, false}, {100_000, 99_000, true}, {100_000, 99_001, false},
	} {
		if got := fits(c.limit, c.fullest); got != c.fits {
			t.Errorf("a limit of %d with %d: %v", c.limit, c.fullest, got)
		}
	}
}
