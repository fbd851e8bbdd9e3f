package overview

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/broker"
	"github.com/fairlead/fairlead/agent/delivery"
	"github.com/fairlead/fairlead/config"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeAgent is what is looked at.
type fakeAgent struct {
	mu      sync.Mutex
	asked   int // queues
	aged    [][]string
	deads   int
	queues  []*api.QueueStatus
	broken  map[string]error
	takes   time.Duration // each queue
	away    bool
	weights map[string]float64
}

func (f *fakeAgent) Status(context.Context) (*api.AgentStatus, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return &api.AgentStatus{Agent: "a1", Broker: api.BrokerStatus{Connected: !f.away}}, nil
}

func (f *fakeAgent) Definitions() (list []config.Queue) {
	for _, q := range f.queues {
		list = append(list, config.Queue{Name: q.Name, Levels: q.Levels, FairShare: config.FairShare{Enabled: true}})
	}
	return list
}

func (f *fakeAgent) Queue(_ context.Context, name string, _ int) (*api.QueueStatus, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	time.Sleep(f.takes)
	f.asked++
	if err := f.broken[name]; err != nil {
		return nil, err
	}
	for _, q := range f.queues {
		if q.Name == name {
			return q, nil
		}
	}
	return nil, errors.New("no such queue")
}

func (f *fakeAgent) Weight(_ config.Queue, key string) (float64, bool) {
	w, ok := f.weights[key]
	return w, ok
}

func (f *fakeAgent) Oldest(_ context.Context, _ string, keys []string) (map[string]time.Duration, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.aged = append(f.aged, keys)
	ages := map[string]time.Duration{}
	for i, k := range keys {
		ages[k] = time.Duration(i+1) * time.Second
	}
	return ages, nil
}

func (f *fakeAgent) Latest(context.Context, string, int) ([]api.DeadLetter, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.deads++
	return []api.DeadLetter{{Seq: 9, Reason: "rejected"}}, nil
}

func (f *fakeAgent) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked
}

func queueOf(name string, keys ...api.KeyStat) *api.QueueStatus {
	q := &api.QueueStatus{QueueSummary: api.QueueSummary{Name: name, Levels: 2}, Keys: keys, KeysTotal: len(keys), LevelStats: []api.LevelStat{{Priority: 0}, {Priority: 1}}}
	for _, k := range keys {
		q.Waiting += k.Waiting
	}
	return q
}

func handed(queue, key string, level int, waited time.Duration, n int) (ds []delivery.Delivery) {
	for range n {
		ds = append(ds, delivery.Delivery{Message: &broker.Message{Queue: queue, Key: key, Level: level, Attempt: 1, EnqueuedAt: time.Now().Add(-waited)}})
	}
	return ds
}

// While nobody looks, nothing is asked and nothing is noted; when the last one has gone, it ends.
func TestNobodyLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l := &fakeAgent{queues: []*api.QueueStatus{queueOf("orders")}}, &Ledger{}
		w := NewWatcher(f, l, nil)
		defer w.Stop()
		l.Handed(handed("orders", "a", 0, 0, 3))
		time.Sleep(time.Minute)
		if f.count() != 0 || l.take() != nil {
			t.Fatal("something is asked or noted although nobody looks")
		}
		leave := w.Watch()
		time.Sleep(time.Minute)
		if n := f.count(); n < 100 || n > 121 {
			t.Errorf("%d looks in a minute, want one every %v", n, Interval)
		}
		leave()
		leave()
		time.Sleep(Linger + time.Second)
		before := f.count()
		l.Handed(handed("orders", "a", 0, 0, 3))
		time.Sleep(time.Minute)
		if f.count() != before || l.take() != nil {
			t.Error("it goes on when the last one has gone")
		}
		// One question is answered with a fresh overview, not with that of a minute ago.
		shot, err := w.After(t.Context(), 0)
		if err != nil || time.Since(shot.Overview.At) > time.Second {
			t.Errorf("%v %v", shot.Overview.At, err)
		}
	})
}

// However many look: one overview per interval, the same for all.
func TestAllSeeTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeAgent{queues: []*api.QueueStatus{queueOf("orders")}}
		w := NewWatcher(f, &Ledger{}, nil)
		defer w.Stop()
		var work sync.WaitGroup
		for range 50 {
			work.Go(func() {
				leave := w.Watch()
				defer leave()
				number := uint64(0)
				for range 20 {
					shot, err := w.After(t.Context(), number)
					if err != nil || shot.Number != number+1 {
						t.Errorf("after %d: %+v %v", number, shot, err)
						return
					}
					number = shot.Number
					if !json.Valid(shot.JSON) {
						t.Error("not JSON")
					}
				}
			})
		}
		work.Wait()
		if n := f.count(); n > 21 {
			t.Errorf("%d looks for 20 overviews", n)
		}
	})
}

// What takes long is done more seldom: a tenth of the time at most, or a third of it when it takes very long.
func TestThePauseGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeAgent{queues: []*api.QueueStatus{queueOf("orders")}, takes: 200 * time.Millisecond}
		w := NewWatcher(f, &Ledger{}, nil)
		defer w.Stop()
		defer w.Watch()()
		time.Sleep(time.Minute)
		if n := f.count(); n < 25 || n > 29 {
			t.Errorf("%d looks of 0.2 s in a minute, want about 27", n)
		}
		f.mu.Lock()
		f.takes, f.asked = 2500*time.Millisecond, 0
		f.mu.Unlock()
		time.Sleep(time.Minute)
		if n := f.count(); n < 7 || n > 9 {
			t.Errorf("%d looks of 2.5 s in a minute, want about 8", n)
		}
	})
}

func TestRatesAndWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		orders := queueOf("orders", api.KeyStat{Key: "flood", Waiting: 1000, InFlight: 2, Weight: 1}, api.KeyStat{Key: "a", Waiting: 1, Weight: 3})
		orders.Dead = 4
		f, l := &fakeAgent{queues: []*api.QueueStatus{orders}, weights: map[string]float64{"a": 3}}, &Ledger{}
		w := NewWatcher(f, l, nil)
		defer w.Stop()
		defer w.Watch()()
		first, err := w.After(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		if q := first.Overview.Queues[0]; !q.Tenants[0].Noisy || q.WindowSeconds != 0 || q.Noisy.Tenants != 1 {
			t.Errorf("the first overview: %+v", q)
		}
		l.Handed(handed("orders", "flood", 1, time.Second, 30))
		l.Handed(handed("orders", "a", 0, 10*time.Millisecond, 10))
		retried := handed("orders", "a", 0, time.Hour, 10)
		for i := range retried {
			retried[i].Message.Attempt = 2
		}
		l.Handed(retried)
		shot, err := w.After(t.Context(), first.Number)
		if err != nil {
			t.Fatal(err)
		}
		q := shot.Overview.Queues[0]
		if q.Deliveries != 50 || q.DeliveredPerSecond != 50/q.WindowSeconds {
			t.Errorf("%d deliveries, %v per second in %v s", q.Deliveries, q.DeliveredPerSecond, q.WindowSeconds)
		}
		if q.LevelStats[0].DeliveredPerSecond != 20/q.WindowSeconds || q.LevelStats[1].DeliveredPerSecond != 30/q.WindowSeconds {
			t.Errorf("levels %+v", q.LevelStats)
		}
		if q.Tenants[0].Share != 0.6 || q.Tenants[0].Fair != 0.25 || q.Tenants[1].Fair != 0.75 {
			t.Errorf("tenants %+v", q.Tenants)
		}
		if q.Quiet.LongestSeconds != 0.01 || q.Noisy.WaitedSeconds != 1 {
			t.Errorf("quiet waited %v s, noisy %v s; a retry's backoff is no wait", q.Quiet.LongestSeconds, q.Noisy.WaitedSeconds)
		}
		if q.Tenants[0].OldestAgeSeconds != 1 || q.Quiet.OldestAgeSeconds != 2 || q.Noisy.OldestAgeSeconds != 1 {
			t.Errorf("ages: tenant %v, quiet %v, noisy %v", q.Tenants[0].OldestAgeSeconds, q.Quiet.OldestAgeSeconds, q.Noisy.OldestAgeSeconds)
		}
		if len(q.Latest) != 1 || q.Latest[0].Seq != 9 {
			t.Errorf("dead letters %+v", q.Latest)
		}
		time.Sleep(time.Minute)
		if f.deads != 1 {
			t.Errorf("dead letters were read %d times although none has died since", f.deads)
		}
	})
}

// One queue that cannot be looked at is shown as it was, and the others as they are.
func TestOneQueueFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeAgent{queues: []*api.QueueStatus{queueOf("bad", api.KeyStat{Key: "x", Waiting: 7, Weight: 1}), queueOf("good")}}
		w := NewWatcher(f, &Ledger{}, nil)
		defer w.Stop()
		defer w.Watch()()
		first, _ := w.After(t.Context(), 0)
		f.mu.Lock()
		f.broken = map[string]error{"bad": errors.New("its stream is gone")}
		f.mu.Unlock()
		shot, err := w.After(t.Context(), first.Number)
		if err != nil {
			t.Fatal(err)
		}
		o := shot.Overview
		if o.Problem != "queue bad: its stream is gone" || o.Queues[0].Waiting != 7 || !o.Queues[0].AsOf.Before(o.At) || o.Queues[1].AsOf.Before(o.At) {
			t.Errorf("problem %q, queues %+v", o.Problem, o.Queues)
		}
		// Without NATS nothing is asked, and nothing waited for.
		f.mu.Lock()
		f.away, f.asked = true, 0
		f.mu.Unlock()
		shot, _ = w.After(t.Context(), shot.Number)
		if f.count() != 0 || shot.Overview.Problem == "" || shot.Overview.Queues[0].Waiting != 7 {
			t.Errorf("without NATS: asked %d times, problem %q", f.count(), shot.Overview.Problem)
		}
	})
}

// Of many tenants and many queues, an overview has a bounded part.
func TestBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeAgent{}
		var keys []api.KeyStat
		for i := range 1000 {
			keys = append(keys, api.KeyStat{Key: fmt.Sprint("k", i), Waiting: 5, Weight: 1})
		}
		for i := range 100 {
			f.queues = append(f.queues, queueOf(fmt.Sprint("q", i), keys...))
		}
		w := NewWatcher(f, &Ledger{}, nil)
		defer w.Stop()
		shot, err := w.After(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		rows, aged := 0, 0
		for _, q := range shot.Overview.Queues {
			rows += len(q.Tenants)
			if q.Rest.Tenants+len(q.Tenants) != 1000 {
				t.Fatalf("%d tenants in %s", q.Rest.Tenants+len(q.Tenants), q.Name)
			}
		}
		for _, k := range f.aged {
			aged += len(k)
		}
		if rows > MaxRows || aged > agesAsked {
			t.Errorf("%d rows, %d ages", rows, aged)
		}
	})
	var l Ledger
	l.note(true)
	for i := range ledgerTenants + 500 {
		l.Handed(handed("orders", fmt.Sprint(i), 0, 0, 1))
	}
	p := l.take()["orders"]
	if len(p.tenants) != ledgerTenants || p.others.Deliveries != 500 {
		t.Errorf("%d tenants, %d others", len(p.tenants), p.others.Deliveries)
	}
}

func TestStop(t *testing.T) {
	w := NewWatcher(&fakeAgent{}, &Ledger{}, nil)
	defer w.Watch()()
	w.Stop()
	w.Stop()
	if _, err := w.After(t.Context(), 1<<60); !errors.Is(err, ErrStopped) {
		t.Errorf("after Stop: %v", err)
	}
	defer w.Watch()()
}

// What a delivery costs when nobody looks, and when somebody does.
func BenchmarkHanded(b *testing.B) {
	for _, on := range []bool{false, true} {
		b.Run(fmt.Sprint("looking=", on), func(b *testing.B) {
			var l Ledger
			l.note(on)
			ds := handed("orders", "a", 0, 0, 1)
			for b.Loop() {
				l.Handed(ds)
			}
		})
	}
}
