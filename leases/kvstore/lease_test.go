package kvstore_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/fairlead/fairlead/internal/running"
	"github.com/fairlead/fairlead/leases"
	"github.com/fairlead/fairlead/leases/kvstore"
)

// agent is a candidate on a real server.
type agent struct {
	*leases.Runner
	t     *testing.T
	js    jetstream.JetStream
	fence atomic.Uint64 // of the latest tenure
	lost  atomic.Uint64 // the latest reason
}

func (a *agent) Acquired(fence uint64)               { a.fence.Store(fence) }
func (a *agent) Lost(_ uint64, reason leases.Reason) { a.lost.Store(uint64(reason)) }
func (a *agent) HandOver()                           { a.Idle() }
func (a *agent) Keep()                               {}

func newAgent(t *testing.T, ns *server.Server, id string, ttl time.Duration) *agent {
	t.Helper()
	a := &agent{t: t, js: connect(t, ns)}
	runner, err := leases.NewRunner(kvstore.New(a.js, bucket, "lease.orders"), leases.Config{ID: id, Boot: id, TTL: ttl, Stay: ttl / 5}, a)
	if err != nil {
		t.Fatal(err)
	}
	a.Runner = runner
	a.Start()
	a.Want()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := a.Stop(ctx); err != nil && !errors.Is(err, leases.ErrNotReleased) {
			t.Errorf("%s: Stop: %v", id, err)
		}
	})
	return a
}

// wait returns how long it takes until something is so, on a machine that runs.
func wait(t *testing.T, what string, so func() bool) time.Duration {
	t.Helper()
	clock := running.Start()
	defer clock.Stop()
	for !so() {
		if clock.Now() > patience {
			t.Fatalf("%s: not within %s", what, patience)
		}
		time.Sleep(time.Millisecond)
	}
	return clock.Now()
}

// atOnce says what was not done within a quarter of a second, by the median: a busy machine may give one process no core for so long.
func atOnce(t *testing.T, what string, took []time.Duration) {
	t.Helper()
	slices.Sort(took)
	if len(took) > 0 && took[len(took)/2] > 250*time.Millisecond {
		t.Errorf("%s took %s", what, took)
	}
}

func (a *agent) holds() bool {
	_, ok := a.Trusted(time.Now())
	return ok
}

// holdsBeside tells whether an agent holds the lease at a moment at which another one does: before and after that one was asked,
// in one tenure.
func (a *agent) holdsBeside(other *agent) bool {
	before, ok := a.Trusted(time.Now())
	if !ok || !other.holds() {
		return false
	}
	after, ok := a.Trusted(time.Now())
	return ok && after == before
}

// holding starts a holder and a standby.
func holding(t *testing.T, ttl time.Duration) (ns *server.Server, admin jetstream.JetStream, first, second *agent) {
	ns = startServer(t)
	admin = connect(t, ns)
	createBucket(t, admin)
	first = newAgent(t, ns, "first", ttl)
	wait(t, "the first holds", first.holds)
	second = newAgent(t, ns, "second", ttl)
	wait(t, "the second stands by", func() bool { return second.Status().Holder == "first" })
	return ns, admin, first, second
}

func TestLeaseCleanStop(t *testing.T) {
	ns, _, first, second := holding(t, 10*time.Second)
	var took []time.Duration
	for _, next := range []string{"third", "fourth", "fifth"} {
		clock := running.Start()
		if err := first.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		wait(t, "takeover", second.holds)
		clock.Stop()
		took = append(took, clock.Now())
		wait(t, "the new holder knows its fence", func() bool { return second.fence.Load() > 0 })
		if second.fence.Load() <= first.fence.Load() {
			t.Errorf("fence %d after %d", second.fence.Load(), first.fence.Load())
		}
		first, second = second, newAgent(t, ns, next, 10*time.Second)
		wait(t, "the next one stands by", func() bool { return second.Status().HolderFence == first.fence.Load() })
	}
	atOnce(t, "takeover", took)
}

func TestLeaseHolderLosesItsConnection(t *testing.T) {
	const ttl = 2 * time.Second
	_, _, first, second := holding(t, ttl)
	first.js.Conn().Close() // nothing tells the runner: the end of trust has to
	began, clock := time.Now(), running.Start()
	defer clock.Stop()
	for !second.holds() {
		now := time.Now() // trust ends by the clock: what is said of this moment is not changed by a machine that stands still
		if _, trusts := first.Trusted(now); trusts && now.Sub(began) > ttl*2/3 {
			t.Fatal("the holder trusts on")
		}
		if clock.Now() > ttl+500*time.Millisecond {
			t.Fatal("no takeover")
		}
		time.Sleep(time.Millisecond)
	}
	if first.holds() {
		t.Error("two hold the lease")
	}
}

func TestLeaseHandOver(t *testing.T) {
	_, _, first, second := holding(t, 2*time.Second)
	first.Peers(0, []leases.Peer{{ID: "second", Priority: 1}})
	second.Peers(1, []leases.Peer{{ID: "first", Priority: 0}})
	wait(t, "handed over", second.holds)
	wait(t, "the holder is told", func() bool { return first.lost.Load() != 0 })
	if why := leases.Reason(first.lost.Load()); why != leases.HandedOver {
		t.Errorf("the holder lost it: %s", why)
	}
}

func TestLeaseBucketDeleted(t *testing.T) {
	const ttl = 10 * time.Second
	_, admin, first, second := holding(t, ttl)
	fence := func() uint64 { return max(first.fence.Load(), second.fence.Load()) }
	var told []time.Duration
	for range 3 {
		old := fence()
		// Untold it goes on to its next renewal.
		heard := deleteBucket(t, admin)
		if took := wait(t, "the holder stops", func() bool { return !first.holds() && !second.holds() }); heard {
			told = append(told, took)
		}
		wait(t, "it says so", func() bool {
			return errors.Is(first.Status().Problem, leases.ErrGone) || errors.Is(second.Status().Problem, leases.ErrGone)
		})
		createBucket(t, admin)
		if took := wait(t, "work resumes", func() bool { return first.holds() || second.holds() }); took > 2*time.Second {
			t.Errorf("work resumes after %s", took)
		}
		wait(t, "the fence has grown", func() bool { return fence() > old })
	}
	atOnce(t, "the holder's end", told)
}

func TestLeaseServerRestarts(t *testing.T) {
	const ttl = 2 * time.Second
	opts := &server.Options{ServerName: "test", Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true}
	start := func() *server.Server {
		ns, err := server.NewServer(opts)
		if err != nil {
			t.Fatal(err)
		}
		ns.Start()
		if !ns.ReadyForConnections(patience) {
			t.Fatal("the server does not start")
		}
		return ns
	}
	ns := start()
	defer func() { ns.Shutdown(); ns.WaitForShutdown() }()
	opts.Port = ns.Addr().(*net.TCPAddr).Port // the same one after a restart
	createBucket(t, connect(t, ns))
	first := newAgent(t, ns, "first", ttl)
	second := newAgent(t, ns, "second", ttl)
	fence := uint64(0)
	for round := range 3 {
		wait(t, "somebody holds", func() bool {
			if first.holdsBeside(second) {
				t.Fatal("two hold the lease")
			}
			return first.holds() || second.holds()
		})
		if now := max(first.fence.Load(), second.fence.Load()); now < fence {
			t.Errorf("fence %d after %d", now, fence)
		} else {
			fence = now
		}
		ns.Shutdown()
		ns.WaitForShutdown()
		if round == 1 {
			wait(t, "trust ends", func() bool { return !first.holds() && !second.holds() })
		}
		ns = start()
		if took := wait(t, "somebody holds again", func() bool { return first.holds() || second.holds() }); took > ttl+time.Second {
			t.Errorf("nobody held the lease for %s after the server was back", took)
		}
	}
}

// TestUpdateDropsTheTTLOfAKey is why leases are not built on TTLs of keys: the record of a holder that renewed it once and
// then died would stay for ever.
func TestUpdateDropsTheTTLOfAKey(t *testing.T) {
	const ttl = time.Second // the shortest that there is
	js := connect(t, startServer(t))
	kv, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "ttl", LimitMarkerTTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"renewed", "later"} {
		revision, err := kv.Create(t.Context(), key, []byte("holder"), jetstream.KeyTTL(ttl))
		if err == nil && key == "renewed" {
			_, err = kv.Update(t.Context(), key, []byte("holder"), revision)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	has := func(key string) bool {
		_, err := kv.Get(t.Context(), key)
		return err == nil
	}
	wait(t, "the TTL passes", func() bool { return !has("later") })
	if !has("renewed") {
		t.Error("the renewed key has expired: TTLs of keys could be used after all")
	}
}
