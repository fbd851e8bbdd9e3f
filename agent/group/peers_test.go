package group

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead/fairlead/agent/group/grouptest"
)

func TestPeersComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := grouptest.NewStore()
		cfg := testConfig("a", "1", queue("orders", 0, 1))
		cfg.Capsules[0].ConsumerPriority = 10
		a := join(t, s, cfg)
		b := join(t, s, testConfig("b", "1", queue("orders", 0, 1)))
		pass(roundTrip)
		a.wantPeers("b")
		b.wantPeers("a")
		a.SetDemand("work", true)
		pass(roundTrip)
		want := Peer{Agent: "a", Capsule: "work", Queues: []string{"orders"}, ConsumerPriority: 10, Demand: true}
		got := b.Peers()[0]
		if got.Age < 0 || got.Age > testInterval {
			t.Errorf("the peer's record is %s old", got.Age)
		}
		got.Age = 0
		if !reflect.DeepEqual(got, want) {
			t.Errorf("b sees %+v, want %+v", got, want)
		}
		b.changes = nil
		pass(time.Minute)
		if len(b.changes) > 0 {
			t.Errorf("nothing happens, and b is told %v", b.changes)
		}

		a.stop() // clean: seen at once
		pass(roundTrip)
		b.wantPeers()
		if !reflect.DeepEqual(b.changes, []Change{{Peers: true}}) {
			t.Errorf("b was told %v", b.changes)
		}
		if keys := s.Keys("hb.a."); len(keys) > 0 {
			t.Errorf("a has left %v", keys)
		}
		b.stop()
	})
}

// A crashed peer is gone stale_after after its last heartbeat, neither earlier nor much later.
func TestCrashedPeerGoesStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := grouptest.NewStore()
		a := join(t, s, testConfig("a", "1", queue("orders", 0, 1)))
		b := join(t, s, testConfig("b", "1", queue("orders", 0, 1)))
		pass(time.Minute)
		a.crash()
		pass(testStale - testInterval - roundTrip)
		b.wantPeers("a")
		pass(testInterval + 2*roundTrip)
		b.wantPeers()
		pass(time.Hour + 11*time.Minute)
		if keys := s.Keys("hb.a."); len(keys) > 0 {
			t.Errorf("an hour later the bucket still has %v", keys)
		}
		b.stop()
	})
}

// A watch that falls silent, and a bucket that cannot be used, make nobody look dead.
func TestNobodyDiesOfOurDeafness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := grouptest.NewStore()
		a := join(t, s, testConfig("a", "1", queue("orders", 0, 1)))
		b := join(t, s, testConfig("b", "1", queue("orders", 0, 2)))
		pass(time.Second)
		b.changes = nil

		b.mirror.SetSilent(true)
		pass(time.Minute)
		a.mirror.Cut(true) // the server is away, and b is the first to come back
		b.mirror.Cut(true)
		told := b.Warnings()
		pass(time.Minute)
		if now := b.Warnings(); len(now) != len(told)+1 || !strings.Contains(now[0], "as they were last seen") {
			t.Errorf("while the bucket cannot be used b warns %q, before %q", now, told)
		}
		b.mirror.Cut(false)
		pass(testStale / 2)
		if now := b.Warnings(); !slices.Equal(now, told) {
			t.Errorf("when the bucket can be used again b warns %q, before %q", now, told)
		}
		a.mirror.Cut(false)
		pass(time.Minute)

		if len(b.changes) > 0 {
			t.Errorf("b was told %v", b.changes)
		}
		b.wantPeers("a")
		b.wantSize(1)
		if n := len(s.History("def.")); n != 1 {
			t.Errorf("the definition was written %d times", n)
		}
		a.crash()
		pass(testStale + roundTrip)
		b.wantPeers() // and who is dead is found out all the same
		b.wantSize(2)
		b.stop()
	})
}

// Whose app dies again and again counts as a rival, but not as a well one, for other agents and for the other capsules of its own.
func TestFailingRivals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := grouptest.NewStore()
		cfg := testConfig("a", "1", queue("orders", 0, 1))
		cfg.Capsules = append(cfg.Capsules, Capsule{Name: "second", Queues: []string{"orders"}})
		a := join(t, s, cfg)
		b := join(t, s, testConfig("b", "1", queue("orders", 0, 1)))
		pass(time.Second / 2)
		a.SetDemand("work", true)
		for _, want := range []Rivals{{1, 1}, {1, 0}, {1, 1}} {
			a.SetFailing("work", want.Well == 0)
			pass(demandGap + roundTrip)
			if got := b.Rivals("orders", "work"); got != want {
				t.Errorf("in the other agent: %+v, want %+v", got, want)
			}
			if got := a.Rivals("orders", "second"); got != want {
				t.Errorf("in the other capsule: %+v, want %+v", got, want)
			}
		}
		a.stop()
		b.stop()
	})
}

func TestDemandIsToldAtOnceButCoalesced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := grouptest.NewStore()
		a := join(t, s, testConfig("a", "1", queue("orders", 0, 1)))
		b := join(t, s, testConfig("b", "1", queue("orders", 0, 1)))
		pass(time.Second / 2)
		if n := b.Rivals("orders", "work").All; n != 0 {
			t.Errorf("%d rivals without demand", n)
		}
		before := len(s.History("hb.a."))
		a.SetDemand("work", true)
		pass(20 * time.Millisecond)
		if n := b.Rivals("orders", "work").All; n != 1 {
			t.Errorf("%d rivals 20 ms after demand came up", n)
		}
		for i := range 1000 { // flapping, for a second
			a.SetDemand("work", i%2 == 0)
			pass(time.Millisecond)
		}
		if n := len(s.History("hb.a.")) - before; n > 12 {
			t.Errorf("%d heartbeats in a second", n)
		}
		pass(roundTrip)
		if n := b.Rivals("orders", "work").All; n != 0 {
			t.Error("the last change of demand was not told")
		}
		a.stop()
		b.stop()
	})
}

// A heartbeat that was lost is repeated before the next one is due.
func TestLostHeartbeatIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := grouptest.NewStore()
		cfg := testConfig("a", "1", queue("orders", 0, 1))
		cfg.Interval, cfg.StaleAfter = 30*time.Second, time.Minute
		var refuse atomic.Bool
		a := newMemberWith(t, s, cfg, grouptest.Options{Fault: func(op grouptest.Op, _ string) grouptest.Fault {
			return grouptest.Fault{Refused: refuse.Load() && op == grouptest.Put}
		}})
		a.start()
		b := join(t, s, testConfig("b", "1", queue("orders", 0, 1)))
		pass(time.Second)
		refuse.Store(true)
		a.SetDemand("work", true)
		pass(roundTrip)
		refuse.Store(false)
		pass(time.Second + roundTrip)
		if n := b.Rivals("orders", "work").All; n != 1 {
			t.Errorf("b knows of %d rivals", n)
		}
		a.stop()
		b.stop()
	})
}

func TestRivalsAreAllButTheCapsuleItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := grouptest.NewStore()
		cfg := testConfig("a", "1", queue("orders", 0, 1), queue("mail", 0, 1))
		cfg.Capsules = append(cfg.Capsules, Capsule{Name: "spare", Queues: []string{"orders"}})
		a := join(t, s, cfg)
		b := join(t, s, testConfig("b", "1", queue("orders", 0, 1)))
		for _, capsule := range []string{"work", "spare"} {
			a.SetDemand(capsule, true)
		}
		b.SetDemand("work", true)
		pass(roundTrip)
		for _, c := range []struct {
			m              *member
			queue, capsule string
			want           int
		}{
			{a, "orders", "work", 2}, {a, "orders", "spare", 2}, {a, "mail", "work", 0}, {a, "mail", "spare", 1},
			{b, "orders", "work", 2}, {b, "mail", "work", 1}, {b, "none", "work", 0},
		} {
			if got := c.m.Rivals(c.queue, c.capsule).All; got != c.want {
				t.Errorf("%s: Rivals(%s, %s) = %d, want %d", c.m.cfg.Agent, c.queue, c.capsule, got, c.want)
			}
		}
		b.crash()
		pass(testStale + roundTrip)
		if got := a.Rivals("orders", "work").All; got != 1 {
			t.Errorf("%d rivals after b went stale", got)
		}
		a.stop()
	})
}

// A container that crashed and restarts under its id serves at once, and is told nothing.
func TestCrashedPredecessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := grouptest.NewStore()
		cfg := testConfig("a", "1", queue("orders", 0, 1))
		cfg.Capsules = append(cfg.Capsules, Capsule{Name: "old", Queues: []string{"orders"}})
		first := join(t, s, cfg)
		pass(time.Minute)
		first.crash()
		began := time.Now()
		second := join(t, s, testConfig("a", "2", queue("orders", 0, 1)))
		if took := time.Since(began); took > roundTrip {
			t.Errorf("it took %s to start", took)
		}
		wantNeverDeleted(t, s, "hb.a.work")
		pass(time.Minute)
		second.wantConflict(false)
		if keys := s.Keys("hb."); len(keys) != 1 {
			t.Errorf("the bucket has %v", keys)
		}
		second.stop()
	})
}

// Of two live agents with one id exactly one is told, the later one, and the other goes on.
func TestTwoLiveAgentsWithOneID(t *testing.T) {
	for _, apart := range []time.Duration{0, 3 * time.Millisecond, 7 * time.Second} {
		t.Run(fmt.Sprint(apart), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := grouptest.NewStore()
				watcher := join(t, s, testConfig("w", "1", queue("orders", 0, 1)))
				pass(time.Second)
				first := newMember(t, s, testConfig("a", "1", queue("orders", 0, 1)))
				second := newMember(t, s, testConfig("a", "2", queue("orders", 0, 1)))
				go func() { _ = first.Start(context.Background()) }()
				time.Sleep(apart)
				go func() { _ = second.Start(context.Background()) }()
				pass(2 * testInterval)
				if apart == 0 { // either can be the first
					told := len(first.conflict) + len(second.conflict)
					if told != 1 {
						t.Fatalf("%d of two are told", told)
					}
					if len(first.conflict) == 1 {
						first, second = second, first
					}
				}
				second.wantConflict(true)
				if err := second.Start(context.Background()); !errors.Is(err, ErrDuplicateAgent) || !strings.Contains(err.Error(), "agent.id") {
					t.Errorf("Start says %v", err)
				}
				second.stop()
				wantNeverDeleted(t, s, "hb.a.work")
				pass(time.Minute)
				first.wantConflict(false)
				watcher.wantPeers("a")
				first.stop()
				watcher.stop()
			})
		})
	}
}

func wantNeverDeleted(t *testing.T, s *grouptest.Store, key string) {
	t.Helper()
	for _, e := range s.History(key) {
		if e.Deleted {
			t.Errorf("%s was deleted", key)
		}
	}
}

func TestDeletedHeartbeatIsWrittenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := grouptest.NewStore()
		a := join(t, s, testConfig("a", "1", queue("orders", 0, 1)))
		pass(time.Second)
		s.Remove("hb.a.work")
		pass(20 * time.Millisecond)
		if _, ok := s.Get("hb.a.work"); !ok {
			t.Error("the heartbeat is still missing")
		}
		a.stop()
	})
}

func TestStopInEveryState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := grouptest.NewStore()
		never := newMember(t, s, testConfig("n", "1", queue("orders", 0, 1)))
		never.stop()
		never.stop()
		if err := never.Start(context.Background()); !errors.Is(err, ErrStopped) {
			t.Errorf("Start after Stop says %v", err)
		}

		a := join(t, s, testConfig("a", "1", queue("orders", 0, 1)))
		a.mirror.Cut(true)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		began := time.Now()
		for range 2 {
			if err := a.Stop(ctx); !errors.Is(err, ErrHeartbeatsLeft) {
				t.Errorf("Stop without a bucket says %v", err)
			}
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("Stop took %s", took)
		}

		// Heartbeats that were stored although nobody said so are deleted too.
		b := newMemberWith(t, s, testConfig("b", "1", queue("orders", 0, 1)), grouptest.Options{
			Fault: func(op grouptest.Op, _ string) grouptest.Fault { return grouptest.Fault{Unknown: op == grouptest.Put} },
		})
		ctx, cancel = context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := b.Start(ctx); !errors.Is(err, ErrUndecided) {
			t.Errorf("Start says %v", err)
		}
		b.stop()
		if keys := s.Keys("hb.b."); len(keys) > 0 {
			t.Errorf("b has left %v", keys)
		}
		b.SetDemand("work", true) // nothing listens any more
		b.Reload(nil, nil)
	})
}
