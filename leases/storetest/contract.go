package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/fairlead/fairlead/leases"
)

// Rig is a bucket under test.
type Rig struct {
	// Open returns another client's view of a record.
	Open func(key string) leases.Store
	// Remove deletes a record, Drop the whole bucket, and Recreate makes it again, as operators do. Drop says whether those
	// who watch were told: a store may lose that.
	Remove   func(key string)
	Drop     func() (told bool)
	Recreate func()
}

// patience is how long a test waits for what must happen; nothing in a passing test takes nearly as long.
const patience = 20 * time.Second

// Run checks the contract. open makes a new, empty bucket.
func Run(t *testing.T, open func(t *testing.T) Rig) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, r Rig)
	}{
		{"nothing there", nothingThere},
		{"swap", swap},
		{"records are independent", independent},
		{"any bytes", anyBytes},
		{"deleted record", deletedRecord},
		{"one of many wins", oneWins},
		{"watch", watch},
		{"watch from nothing", watchFromNothing},
		{"watch ends with its context", watchEnds},
		{"ended context", endedContext},
		{"bucket gone", bucketGone},
		{"bucket made anew", bucketAnew},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, open(t)) })
	}
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func mustSwap(t *testing.T, s leases.Store, data string, revision uint64) uint64 {
	t.Helper()
	next, err := s.Swap(within(t), []byte(data), revision)
	if err != nil {
		t.Fatalf("Swap(%q, %d): %v", data, revision, err)
	}
	if next <= revision {
		t.Fatalf("Swap(%q, %d) = %d: revisions must grow", data, revision, next)
	}
	return next
}

func mustRead(t *testing.T, s leases.Store, data string, revision uint64) {
	t.Helper()
	v, err := s.Read(within(t))
	if err != nil || string(v.Data) != data || v.Revision != revision {
		t.Fatalf("Read = %q at %d, %v; want %q at %d", v.Data, v.Revision, err, data, revision)
	}
}

func mustConflict(t *testing.T, s leases.Store, revision uint64) {
	t.Helper()
	if next, err := s.Swap(within(t), []byte("wrong"), revision); !errors.Is(err, leases.ErrConflict) {
		t.Fatalf("Swap at %d = %d, %v; want a conflict", revision, next, err)
	}
}

func nothingThere(t *testing.T, r Rig) {
	s := r.Open("a")
	mustRead(t, s, "", 0)
	mustConflict(t, s, 7)
	mustRead(t, s, "", 0)
}

func swap(t *testing.T, r Rig) {
	s, other := r.Open("a"), r.Open("a")
	one := mustSwap(t, s, "one", 0)
	if one < leases.MinRevision {
		t.Errorf("the first revision is %d: a bucket for leases starts from the clock", one)
	}
	mustConflict(t, other, 0)
	mustRead(t, other, "one", one)
	two := mustSwap(t, other, "two", one)
	mustConflict(t, s, one)
	mustConflict(t, s, two+1)
	mustRead(t, s, "two", two)
	mustSwap(t, s, "two", two) // the same value is a write like any other
	mustConflict(t, s, two)
}

func independent(t *testing.T, r Rig) {
	a, b := r.Open("a"), r.Open("b")
	one := mustSwap(t, a, "one", 0)
	mustRead(t, b, "", 0)
	if two := mustSwap(t, b, "two", 0); two <= one {
		t.Errorf("revision %d of b came after %d of a", two, one)
	}
	mustRead(t, a, "one", one)
	mustSwap(t, a, "three", one) // b's write is no conflict
}

func anyBytes(t *testing.T, r Rig) {
	s := r.Open("a")
	data := make([]byte, 2048)
	for i := range data {
		data[i] = byte(i * 7)
	}
	revision, err := s.Swap(within(t), data, 0)
	if err != nil {
		t.Fatal(err)
	}
	if v, err := s.Read(within(t)); err != nil || !bytes.Equal(v.Data, data) || v.Revision != revision {
		t.Errorf("Read = %d bytes at %d, %v", len(v.Data), v.Revision, err)
	}
}

func deletedRecord(t *testing.T, r Rig) {
	s := r.Open("a")
	one := mustSwap(t, s, "one", 0)
	r.Remove("a")
	v, err := s.Read(within(t))
	if err != nil || len(v.Data) != 0 || v.Revision <= one {
		t.Fatalf("Read of a deleted record = %q at %d, %v; want nothing, at a revision above %d", v.Data, v.Revision, err, one)
	}
	mustConflict(t, s, one) // a holder that does not know yet
	mustConflict(t, s, 0)   // the mark of the deletion is something
	mustSwap(t, s, "two", v.Revision)
}

func oneWins(t *testing.T, r Rig) {
	const clients, rounds = 6, 20
	won := make([][]uint64, clients)
	var all sync.WaitGroup
	for c := range clients {
		s := r.Open("a")
		all.Go(func() {
			for n := 0; n < rounds; {
				v, err := s.Read(within(t))
				if err != nil {
					t.Errorf("Read: %v", err)
					return
				}
				next, err := s.Swap(within(t), fmt.Appendf(nil, "%d", c), v.Revision)
				switch {
				case err == nil:
					won[c] = append(won[c], next)
					n++
				case !errors.Is(err, leases.ErrConflict):
					t.Errorf("Swap: %v", err)
					return
				}
			}
		})
	}
	all.Wait()
	seen := map[uint64]bool{}
	for c, revisions := range won {
		for _, revision := range revisions {
			if seen[revision] {
				t.Errorf("revision %d was given to two, one of them %d", revision, c)
			}
			seen[revision] = true
		}
	}
	if len(seen) != clients*rounds {
		t.Errorf("%d writes have %d revisions", clients*rounds, len(seen))
	}
}

// watching collects what a watch shows.
func watching(t *testing.T, s leases.Store) <-chan leases.Value {
	values := make(chan leases.Value, 100)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.Watch(ctx, func(v leases.Value) { values <- v })
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return values
}

// mustShow waits until a watch shows a revision, in order.
func mustShow(t *testing.T, values <-chan leases.Value, data string, revision uint64) {
	t.Helper()
	deadline := time.After(patience)
	last := uint64(0)
	for {
		select {
		case v := <-values:
			if v.Revision <= last {
				t.Fatalf("the watch shows %d after %d", v.Revision, last)
			}
			last = v.Revision
			if v.Revision == revision {
				if string(v.Data) != data {
					t.Fatalf("the watch shows %q at %d, want %q", v.Data, v.Revision, data)
				}
				return
			}
		case <-deadline:
			t.Fatalf("the watch does not show %q at %d; the last was %d", data, revision, last)
		}
	}
}

func watch(t *testing.T, r Rig) {
	s := r.Open("a")
	one := mustSwap(t, s, "one", 0)
	values := watching(t, r.Open("a"))
	mustShow(t, values, "one", one)
	two := mustSwap(t, s, "two", one)
	mustShow(t, values, "two", two)
	r.Remove("a")
	v, err := s.Read(within(t))
	if err != nil {
		t.Fatal(err)
	}
	mustShow(t, values, "", v.Revision)
	mustShow(t, values, "three", mustSwap(t, s, "three", v.Revision))
}

func watchFromNothing(t *testing.T, r Rig) {
	s := r.Open("a")
	values := watching(t, r.Open("a"))
	mustShow(t, values, "one", mustSwap(t, s, "one", 0))
}

func watchEnds(t *testing.T, r Rig) {
	s := r.Open("a")
	one := mustSwap(t, s, "one", 0)
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	shown, ended := make(chan uint64, 10), make(chan error, 1)
	go func() { ended <- s.Watch(ctx, func(v leases.Value) { shown <- v.Revision }) }()
	select {
	case got := <-shown:
		if got != one {
			t.Fatalf("the watch shows %d, want %d", got, one)
		}
	case err := <-ended:
		t.Fatalf("Watch = %v before it has shown anything", err)
	case <-time.After(patience):
		t.Fatal("the watch shows nothing")
	}
	cancel()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("Watch has no reason to end")
		}
	case <-time.After(patience):
		t.Error("Watch goes on after its context has ended")
	}
}

func endedContext(t *testing.T, r Rig) {
	s := r.Open("a")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if v, err := s.Read(ctx); err == nil {
		t.Errorf("Read = %v, want an error", v)
	}
	if revision, err := s.Swap(ctx, []byte("one"), 0); err == nil || errors.Is(err, leases.ErrConflict) {
		t.Errorf("Swap = %d, %v: want an error that leaves the outcome open", revision, err)
	}
}

func bucketGone(t *testing.T, r Rig) {
	s := r.Open("a")
	one := mustSwap(t, s, "one", 0)
	ended, shown := make(chan error, 1), make(chan struct{}, 10)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { ended <- s.Watch(ctx, func(leases.Value) { shown <- struct{}{} }) }()
	select {
	case <-shown:
	case err := <-ended:
		t.Fatalf("Watch = %v before it has shown anything", err)
	case <-time.After(patience):
		t.Fatal("the watch shows nothing")
	}
	told := r.Drop()
	if _, err := s.Read(within(t)); !errors.Is(err, leases.ErrGone) {
		t.Errorf("Read = %v, want ErrGone", err)
	}
	if next, err := s.Swap(within(t), []byte("two"), one); err == nil || errors.Is(err, leases.ErrConflict) {
		t.Errorf("Swap = %d, %v in a bucket that is gone", next, err)
	}
	if told {
		select {
		case err := <-ended:
			if !errors.Is(err, leases.ErrGone) {
				t.Errorf("Watch = %v, want ErrGone", err)
			}
		case <-time.After(patience):
			t.Error("Watch goes on in a bucket that is gone")
		}
	}
	if err := s.Watch(within(t), func(leases.Value) {}); !errors.Is(err, leases.ErrGone) {
		t.Errorf("Watch = %v, want ErrGone", err)
	}
}

func bucketAnew(t *testing.T, r Rig) {
	s := r.Open("a")
	one := mustSwap(t, s, "one", 0)
	r.Drop()
	r.Recreate()
	mustRead(t, s, "", 0)
	mustConflict(t, s, one)
	values := watching(t, r.Open("a"))
	two := mustSwap(t, s, "two", 0)
	if two <= one {
		t.Errorf("revision %d in the new bucket, %d in the old one", two, one)
	}
	mustRead(t, s, "two", two)
	mustShow(t, values, "two", two)
}
