package memory_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/fairlead/fairlead/leases"
	"github.com/fairlead/fairlead/leases/memory"
	"github.com/fairlead/fairlead/leases/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Rig {
		b := memory.New(memory.FirstRevision)
		return storetest.Rig{
			Open:     func(key string) leases.Store { return b.Open(key, memory.Faults{}) },
			Remove:   b.Remove,
			Drop:     func() bool { b.Drop(); return true },
			Recreate: func() { b.Recreate(memory.FirstRevision + 1_000_000) },
		}
	})
}

// faults draws what befalls a client from a seed.
func faults(seed uint64, stale bool) memory.Faults {
	var mu sync.Mutex
	rnd := rand.New(rand.NewPCG(seed, 3))
	return memory.Faults{Op: func(op memory.Op) memory.Fault {
		mu.Lock()
		defer mu.Unlock()
		ms := func(n int) time.Duration { return time.Duration(rnd.IntN(n*1000)) * time.Microsecond }
		f := memory.Fault{Before: ms(3), After: ms(3)}
		switch n := rnd.IntN(100); {
		case n < 5:
			f.Lost = true
		case n < 10:
			f.Unanswered = true
		case n < 15:
			f.Refused = true
		case n < 25:
			f.Before = ms(60) // often longer than anybody waits
		case n < 35 && stale:
			f.Stale = 1
		}
		return f
	}}
}

func history(seed uint64, stale bool) (string, error) {
	b := memory.New(memory.FirstRevision)
	h := storetest.History{
		Clients: 5, Operations: 60, Seed: seed,
		Timeout: func(r *rand.Rand) time.Duration { return time.Duration(5+r.IntN(20)) * time.Millisecond },
	}
	return storetest.Linearizable(h, func(client int) leases.Store {
		if client < 0 {
			return b.Open("a", memory.Faults{})
		}
		return b.Open("a", faults(seed*100+uint64(client), stale))
	})
}

func TestLinearizable(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			report, err := history(seed, false)
			if err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
			t.Log(report)
		})
	}
}

// TestStaleReadsAreNotLinearizable is the control: the check notices reads that go back in time.
func TestStaleReadsAreNotLinearizable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if report, err := history(1, true); err == nil || !strings.Contains(err.Error(), "not linearizable") {
			t.Errorf("%v; %s", err, report)
		}
	})
}

func TestFaults(t *testing.T) {
	for _, c := range []struct {
		name   string
		fault  memory.Fault
		want   error
		stored bool
	}{
		{"lost", memory.Fault{Lost: true}, context.DeadlineExceeded, false},
		{"unanswered", memory.Fault{Unanswered: true}, context.DeadlineExceeded, true},
		{"late", memory.Fault{Before: 2 * time.Second}, context.DeadlineExceeded, true},
		{"late answer", memory.Fault{After: 2 * time.Second}, context.DeadlineExceeded, true},
		{"refused", memory.Fault{Refused: true}, leases.ErrUnavailable, false},
		{"conflict", memory.Fault{Conflict: true}, leases.ErrConflict, false},
		{"denied", memory.Fault{Denied: true}, leases.ErrConflict, true},
		{"none", memory.Fault{Before: time.Millisecond, After: time.Millisecond}, nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := memory.New(memory.FirstRevision)
				s := b.Open("a", memory.Faults{Op: func(memory.Op) memory.Fault { return c.fault }})
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if _, err := s.Swap(ctx, []byte("one"), 0); !errors.Is(err, c.want) {
					t.Errorf("Swap = %v, want %v", err, c.want)
				}
				time.Sleep(5 * time.Second)
				if got := len(b.Versions("a")) == 1; got != c.stored {
					t.Errorf("stored: %v, want %v", got, c.stored)
				}
			})
		})
	}
}
