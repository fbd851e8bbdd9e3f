package leases_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead/fairlead/leases"
	"github.com/fairlead/fairlead/leases/memory"
)

const ttl = 10 * time.Second

// candidate is a runner with its store's faults, and an owner that notes what it is told.
type candidate struct {
	*leases.Runner
	t      *testing.T
	id     string
	dead   atomic.Bool // nothing reaches the store any more
	silent atomic.Bool
	delay  atomic.Int64 // of answers

	mu     sync.Mutex
	told   []string
	latest uint64 // fence
}

func (c *candidate) note(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told = append(c.told, fmt.Sprintf(format, args...))
}

func (c *candidate) Acquired(fence uint64) {
	c.note("acquired")
	c.mu.Lock()
	defer c.mu.Unlock()
	c.latest = fence
}

func (c *candidate) fence() uint64 {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.latest
}

func (c *candidate) Lost(_ uint64, why leases.Reason) { c.note("lost: %s", why) }
func (c *candidate) HandOver()                        { c.note("hand over?") }
func (c *candidate) Keep()                            { c.note("keep") }

func (c *candidate) expect(want ...string) {
	c.t.Helper()
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if fmt.Sprint(c.told) != fmt.Sprint(want) {
		c.t.Errorf("%s was told %q, want %q", c.id, c.told, want)
	}
	c.told = nil
}

func (c *candidate) trusted() bool {
	_, ok := c.Trusted(time.Now())
	return ok
}

// newCandidate starts one. Requests take 2 ms, the watch 1 ms.
func newCandidate(t *testing.T, b *memory.Bucket, id string) *candidate {
	t.Helper()
	c := &candidate{t: t, id: id}
	store := b.Open("lease.orders", memory.Faults{
		Op: func(memory.Op) memory.Fault {
			return memory.Fault{Before: time.Millisecond, After: time.Millisecond + time.Duration(c.delay.Load()), Lost: c.dead.Load()}
		},
		Silent: func() bool { return c.silent.Load() || c.dead.Load() },
		Lag:    func() time.Duration { return time.Millisecond },
	})
	runner, err := leases.NewRunner(store, leases.Config{ID: id, Boot: id + ".1", TTL: ttl}, c)
	if err != nil {
		t.Fatal(err)
	}
	c.Runner = runner
	runner.Start()
	return c
}

func (c *candidate) stop() {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := c.Stop(ctx); err != nil && !c.dead.Load() {
		c.t.Errorf("%s: Stop: %v", c.id, err)
	}
}

// wait returns how long it takes until something is so, to the millisecond.
func wait(t *testing.T, so func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	for !so() {
		if time.Since(began) > time.Minute {
			t.Fatal("it does not happen")
		}
		time.Sleep(time.Millisecond)
	}
	return time.Since(began)
}

// two are candidates of which the first holds the lease.
func two(t *testing.T, b *memory.Bucket) (first, second *candidate) {
	first, second = newCandidate(t, b, "first"), newCandidate(t, b, "second")
	first.Want()
	wait(t, first.trusted)
	first.expect("acquired")
	second.Want()
	time.Sleep(7 * time.Second)
	second.expect()
	return first, second
}

func TestRunnerCleanTakeover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := two(t, memory.New(memory.FirstRevision))
		first.stop()
		first.expect("lost: released")
		if took := wait(t, second.trusted); took > 250*time.Millisecond {
			t.Errorf("takeover after %s", took)
		}
		second.expect("acquired")
		if second.fence() <= first.fence() {
			t.Errorf("fence %d after %d", second.fence(), first.fence())
		}
		if s := second.Status(); s.Holder != "second" || s.Fence != second.fence() || s.HolderFence != second.fence() || s.Term != 2 {
			t.Errorf("Status = %+v", s)
		}
		if err := first.Stop(t.Context()); err != nil {
			t.Errorf("second Stop: %v", err)
		}
		second.stop()
	})
}

func TestRunnerHolderCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := two(t, memory.New(memory.FirstRevision))
		first.dead.Store(true)
		cut := time.Now()
		until := first.ValidUntil()
		wait(t, func() bool { return !first.trusted() })
		if now := time.Now(); now.Before(until) || now.After(until.Add(time.Millisecond)) {
			t.Errorf("trust ended at %s, valid until %s", now, until)
		}
		if age := time.Since(cut); age > ttl*2/3 {
			t.Errorf("trust ended %s after the cut", age)
		}
		first.expect("lost: expired")
		wait(t, second.trusted)
		if took := time.Since(cut); took > ttl+500*time.Millisecond {
			t.Errorf("takeover after %s", took)
		}
		// The old holder comes back, and stands by.
		first.dead.Store(false)
		time.Sleep(30 * time.Second)
		first.expect()
		second.stop()
		if took := wait(t, first.trusted); took > 500*time.Millisecond {
			t.Errorf("takeover after %s", took)
		}
		if first.fence() <= second.fence() {
			t.Errorf("fence %d after %d", first.fence(), second.fence())
		}
		first.stop()
	})
}

func TestRunnerSlowAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCandidate(t, memory.New(memory.FirstRevision), "slow")
		c.Want()
		wait(t, c.trusted)
		const late = 900 * time.Millisecond
		c.delay.Store(int64(late))
		c.silent.Store(true) // the watch would tell sooner
		renewed := 0
		for last := c.ValidUntil(); renewed < 10; time.Sleep(time.Millisecond) {
			until := c.ValidUntil()
			if until.Equal(last) {
				continue
			}
			renewed, last = renewed+1, until
			if left := time.Until(until); left > ttl*2/3-late {
				t.Errorf("an answer that took %s leaves %s", late, left)
			}
		}
		c.expect("acquired")
		c.delay.Store(0)
		c.stop()
	})
}

func TestRunnerDisconnected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := two(t, memory.New(memory.FirstRevision))
		first.Disconnected()
		synctest.Wait()
		if _, held := first.Held(time.Now()); first.trusted() || !held {
			t.Errorf("without a connection: trusted %v, held %v", first.trusted(), held)
		}
		time.Sleep(2 * time.Second)
		first.Connected()
		if took := wait(t, first.trusted); took > 10*time.Millisecond {
			t.Errorf("trusted again after %s", took)
		}
		first.expect() // the tenure went on
		time.Sleep(time.Minute)
		first.expect()
		second.expect()
		first.stop()
		second.stop()
	})
}

func TestRunnerHandOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := two(t, memory.New(memory.FirstRevision))
		first.Peers(0, []leases.Peer{{ID: "second", Priority: 10}})
		second.Peers(10, []leases.Peer{{ID: "first", Priority: 0}})
		time.Sleep(ttl/2 + time.Millisecond)
		first.expect("hand over?")
		time.Sleep(20 * time.Second) // a long handler
		if _, held := first.Held(time.Now()); first.trusted() || !held || second.trusted() {
			t.Error("while a message is in flight nobody hands out, and the tenure lasts")
		}
		first.Idle()
		if took := wait(t, second.trusted); took > 50*time.Millisecond {
			t.Errorf("handed over in %s", took)
		}
		first.expect("lost: handed over")
		second.expect("acquired")
		time.Sleep(time.Minute)
		first.expect()
		second.expect()
		second.stop()
		wait(t, first.trusted)
		first.stop()
	})
}

func TestRunnerSilentWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := two(t, memory.New(memory.FirstRevision))
		second.silent.Store(true)
		time.Sleep(time.Minute)
		second.expect()
		first.dead.Store(true)
		if took := wait(t, second.trusted); took > ttl+500*time.Millisecond {
			t.Errorf("takeover after %s", took)
		}
		first.stop()
		second.stop()
	})
}

func TestRunnerBucketLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(memory.FirstRevision)
		first, second := two(t, b)
		b.Drop()
		if took := wait(t, func() bool { return !first.trusted() }); took > 10*time.Millisecond {
			t.Errorf("the holder went on for %s", took)
		}
		time.Sleep(100 * time.Millisecond)
		first.expect("lost: vanished")
		if p := first.Status().Problem; !errors.Is(p, leases.ErrGone) {
			t.Errorf("Problem = %v", p)
		}
		time.Sleep(time.Minute)
		b.Recreate(memory.FirstRevision + 1_000_000)
		took := wait(t, func() bool { return first.trusted() || second.trusted() })
		if took > time.Second {
			t.Errorf("work resumes after %s", took)
		}
		if fence := max(second.fence(), first.fence()); fence <= memory.FirstRevision+1_000_000 {
			t.Errorf("fence %d is not of the new bucket", fence)
		}
		first.stop()
		second.stop()
	})
}

func TestRunnerBucketMadeByHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(0)
		c := newCandidate(t, b, "one")
		c.Want()
		time.Sleep(time.Minute)
		c.expect()
		if p := c.Status().Problem; !errors.Is(p, leases.ErrLowRevision) {
			t.Errorf("Problem = %v", p)
		}
		if n := len(b.Versions("lease.orders")); n > 2 {
			t.Errorf("%d writes to a bucket that cannot be used", n)
		}
		c.stop()
	})
}

func TestRunnerUnreadableRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(memory.FirstRevision)
		b.Put("lease.orders", []byte("who goes there?"))
		c := newCandidate(t, b, "one")
		c.Want()
		if took := wait(t, c.trusted); took < ttl || took > ttl+500*time.Millisecond {
			t.Errorf("claimed after %s", took)
		}
		c.stop()
	})
}

func TestRunnerStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(memory.FirstRevision)
		c := newCandidate(t, b, "one")
		c.Want()
		wait(t, c.trusted)
		c.dead.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := c.Stop(ctx); !errors.Is(err, leases.ErrNotReleased) {
			t.Errorf("Stop = %v, want ErrNotReleased", err)
		}
		c.expect("acquired", "lost: released")
		if c.trusted() {
			t.Error("trusted after Stop")
		}
		c.Want() // too late, and harmless
		idle, err := leases.NewRunner(b.Open("x", memory.Faults{}), leases.Config{ID: "x", Boot: "1"}, c)
		if err != nil {
			t.Fatal(err)
		}
		if err := idle.Stop(t.Context()); err != nil {
			t.Errorf("Stop without Start: %v", err)
		}
		idle.Start() // does nothing any more
	})
}

// lingering is a store whose calls take a while to end.
type lingering struct {
	leases.Store
	under atomic.Int64
}

func (s *lingering) Read(ctx context.Context) (leases.Value, error) {
	s.under.Add(1)
	defer s.under.Add(-1)
	<-ctx.Done()
	time.Sleep(time.Second)
	return leases.Value{}, ctx.Err()
}

func TestRunnerStopWaitsForCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &lingering{Store: memory.New(memory.FirstRevision).Open("a", memory.Faults{})}
		r, err := leases.NewRunner(s, leases.Config{ID: "a", Boot: "1"}, &candidate{t: t})
		if err != nil {
			t.Fatal(err)
		}
		r.Start()
		r.Want()
		synctest.Wait()
		if s.under.Load() == 0 {
			t.Fatal("nothing is under way")
		}
		if err := r.Stop(t.Context()); err != nil {
			t.Errorf("Stop = %v", err)
		}
		if n := s.under.Load(); n != 0 {
			t.Errorf("%d calls are under way after Stop", n)
		}
	})
}

func TestRunnerRefusesConfiguration(t *testing.T) {
	if _, err := leases.NewRunner(nil, leases.Config{}, nil); !errors.Is(err, leases.ErrInvalid) {
		t.Errorf("NewRunner = %v", err)
	}
}

func TestTrustedIsCheap(t *testing.T) {
	runner, err := leases.NewRunner(nil, leases.Config{ID: "a", Boot: "b"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() { runner.Trusted(time.Now()) }); n != 0 {
		t.Errorf("Trusted allocates %v times", n)
	}
}
