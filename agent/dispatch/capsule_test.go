package dispatch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/nats-server/v2/server"
	"go.uber.org/goleak"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/broker"
	"github.com/fairlead/fairlead/agent/delivery"
	"github.com/fairlead/fairlead/config"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must happen; nothing in a passing test takes nearly as long.
const patience = 30 * time.Second

// rig is one agent's capsule on a real server, with the book that the socket would use.
type rig struct {
	t       *testing.T
	client  *broker.Client
	book    *delivery.Book
	capsule *Capsule
}

func newRig(t *testing.T, queues ...config.Queue) *rig {
	t.Helper()
	return newRigOn(t, config.NATS{Embedded: &config.Embedded{StoreDir: t.TempDir()}, Prefix: "fl"}, queues...)
}

func newRigOn(t *testing.T, nats config.NATS, queues ...config.Queue) *rig {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	client, err := broker.Connect(ctx, broker.Options{NATS: nats, Bucket: "fairlead", Agent: "test", Logger: hclog.NewNullLogger()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	if _, err := client.Bucket().Ensure(ctx, 1); err != nil {
		t.Fatal(err)
	}
	client.Bucket().Start()
	r := &rig{t: t, client: client}
	r.book = delivery.New(client, delivery.Backoff{Setting: func(string) config.Retry { return config.Retry{} }})
	t.Cleanup(r.book.Close)
	client.Live = r.book.Refresh
	var names []string
	for _, q := range queues {
		if err := client.EnsureStream(ctx, q); err != nil {
			t.Fatal(err)
		}
		names = append(names, q.Name)
	}
	r.capsule, err = New(Options{
		Name: "test", Queues: names, Concurrency: 64, PollInterval: 250 * time.Millisecond, Seed: 1, Broker: client,
		Logger: hclog.NewNullLogger(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.capsule.Stop)
	for _, q := range queues {
		r.capsule.Define(q)
	}
	return r
}

func stored(q config.Queue) config.Queue {
	q.DedupWindow, q.Storage = 2*time.Minute, config.Storage{Type: "memory", Replicas: 1}
	return q
}

// work pulls, hands out and acks, as the socket does, and tells each of what was acked.
func (r *rig) work(ctx context.Context, max int, acked func(m *broker.Message, s api.Status)) {
	for ctx.Err() == nil {
		messages, err := r.capsule.Pull(ctx, Request{Max: max, Wait: time.Second})
		if errors.Is(err, broker.ErrUnavailable) && ctx.Err() == nil {
			continue
		}
		if err != nil {
			if ctx.Err() == nil && !errors.Is(err, ErrStopped) {
				r.t.Error(err)
			}
			if len(messages) > 0 {
				r.t.Error("messages came with an error")
			}
			return
		}
		ds, err := r.book.Hand(r.capsule, messages, time.Minute, nil)
		if err != nil {
			r.t.Error(err)
			return
		}
		r.book.Written(ds)
		list := make([]api.Settlement, len(ds))
		for i, d := range ds {
			list[i] = api.Settlement{Token: d.Token, Result: api.Ack}
		}
		for i, s := range r.book.Settle(context.Background(), list) {
			for s.Status == api.StatusUnavailable && ctx.Err() == nil { // not known to be done: ask again, as apps do
				time.Sleep(time.Millisecond)
				s = r.book.Settle(context.Background(), list[i:i+1])[0]
			}
			acked(ds[i].Message, s.Status)
		}
	}
}

// Two queues of one shape, several pulls at a time, and definitions that change again and again while messages are in
// flight, pulls wait and work is published: every message is done once, and slots and counts are free in the end.
func TestDefinitionsThatChangeUnderLoad(t *testing.T) {
	layouts := []func(name string) config.Queue{
		func(name string) config.Queue { return stored(def(name, 3, 0, true, nil)) },
		func(name string) config.Queue { return stored(def(name, 1, 0, false, nil)) },
		func(name string) config.Queue { return stored(def(name, 3, 10, true, nil)) },
		func(name string) config.Queue { return stored(def(name, 5, 0, true, nil)) },
	}
	names := []string{"a", "b"}
	r := newRig(t, layouts[0]("a"), layouts[0]("b"))
	const each = 1500
	var mu sync.Mutex
	done := map[string]int{}
	var finished, twice atomic.Int64
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	all := make(chan struct{})
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			r.work(ctx, []int{1, 3, 16, 64}[i], func(m *broker.Message, s api.Status) {
				mu.Lock()
				done[fmt.Sprint(m.Queue, "/", string(m.Data))]++
				mu.Unlock()
				if s != api.StatusOK {
					twice.Add(1)
				} else if finished.Add(1) == each*int64(len(names)) {
					close(all)
				}
			})
		})
	}
	for _, name := range names {
		wg.Go(func() {
			q := layouts[0](name)
			for i := range each {
				_, err := r.client.Publish(context.Background(), q, broker.Publication{Level: i%4 - 1, Key: fmt.Sprint("k", i%7), Data: fmt.Append(nil, i)})
				if err != nil {
					t.Error(err)
				}
				if i%100 == 99 {
					r.capsule.Define(layouts[i/100%len(layouts)](name))
				}
			}
		})
	}
	select {
	case <-all:
	case <-time.After(patience):
		t.Errorf("%d of %d were finished", finished.Load(), each*len(names))
	}
	cancel()
	wg.Wait()
	for _, name := range names {
		for i := range each {
			if n := done[fmt.Sprint(name, "/", i)]; n != 1 {
				t.Errorf("message %d of %s was handed over %d times", i, name, n)
			}
		}
	}
	if n := twice.Load(); n > 0 {
		t.Errorf("%d were handed over after they had been acked", n)
	}
	if s := r.capsule.Status(); s.InFlight != 0 || s.Pulls != 0 {
		t.Errorf("in the end there are %d in flight and %d pulls", s.InFlight, s.Pulls)
	}
	r.noneInHand()
}

// noneInHand checks that no lane counts a message that nobody holds: sweeps would pass it over.
func (r *rig) noneInHand() {
	r.t.Helper()
	found := make(chan string, 1)
	r.capsule.box.put(func(k *core, _ time.Time) {
		s := ""
		for _, q := range k.queues {
			for a, l := range q.lanes {
				if n := l.ref.InHand.Load(); n != 0 {
					s += fmt.Sprintf("%s %+v: %d; ", q.layout.Queue, a, n)
				}
			}
		}
		found <- s
	})
	if s := <-found; s != "" {
		r.t.Errorf("in hand: %s", s)
	}
}

// Apps that leave in the middle of a pull, and a capsule that stops in the middle of everything: what was taken and not
// handed over can be had by the next one at once, not after the acknowledgement wait.
func TestNothingIsLostOnTheWay(t *testing.T) {
	q := stored(def("q", 3, 0, true, nil))
	r := newRig(t, q)
	const total = 600
	for i := range total {
		if _, err := r.client.Publish(context.Background(), q, broker.Publication{Level: i % 3, Key: fmt.Sprint("k", i%5), Data: fmt.Append(nil, i)}); err != nil {
			t.Fatal(err)
		}
	}
	var finished atomic.Int64
	acked := func(_ *broker.Message, s api.Status) {
		if s != api.StatusOK {
			t.Errorf("an ack was answered %s", s)
		}
		finished.Add(1)
	}
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			for n := 0; finished.Load() < total/2; n++ {
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i*n%7)*200*time.Microsecond+100*time.Microsecond)
				r.work(ctx, 1+n%9, acked)
				cancel()
			}
		})
	}
	wg.Wait()
	ctx, cancel := context.WithCancel(context.Background())
	for range 3 {
		wg.Go(func() { r.work(ctx, 7, acked) })
	}
	r.capsule.Stop()
	cancel()
	wg.Wait()
	left := total - finished.Load()
	next := &rig{t: t, client: r.client, book: r.book}
	var err error
	next.capsule, err = New(Options{Name: "next", Queues: []string{"q"}, Concurrency: 64, PollInterval: 250 * time.Millisecond, Seed: 2, Broker: r.client, Logger: hclog.NewNullLogger()})
	if err != nil {
		t.Fatal(err)
	}
	defer next.capsule.Stop()
	next.capsule.Define(q)
	ctx, cancel = context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	next.work(ctx, 16, func(m *broker.Message, s api.Status) {
		acked(m, s)
		if m.Attempt != 1 {
			t.Errorf("message %s came as attempt %d", m.Data, m.Attempt)
		}
		if finished.Load() == total {
			cancel()
		}
	})
	if n := finished.Load(); n != total {
		t.Errorf("%d of the %d that were left came within 10 s", n-(total-left), left)
	}
	next.noneInHand()
}

// A queue whose stream is deleted underneath serves what is stored when it has been made again, and the others meanwhile.
func TestStreamDeletedUnderneath(t *testing.T) {
	a, b := stored(def("a", 2, 0, true, nil)), stored(def("b", 2, 0, true, nil))
	r := newRig(t, a, b)
	publish := func(q config.Queue, data string) {
		t.Helper()
		if _, err := r.client.Publish(context.Background(), q, broker.Publication{Level: 0, Key: "k", Data: []byte(data)}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	got := make(chan string, 100)
	var wg sync.WaitGroup
	wg.Go(func() { r.work(ctx, 4, func(m *broker.Message, _ api.Status) { got <- m.Queue + string(m.Data) }) })
	defer wg.Wait()
	defer cancel()
	expect := func(want string) {
		t.Helper()
		select {
		case s := <-got:
			if s != want {
				t.Errorf("%s came, not %s", s, want)
			}
		case <-time.After(patience):
			t.Fatalf("%s did not come", want)
		}
	}
	publish(a, "1")
	expect("a1")
	if err := r.client.JetStream().DeleteStream(context.Background(), "FL_Q_a"); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		publish(b, fmt.Sprint(i))
		expect(fmt.Sprint("b", i))
	}
	if err := r.client.EnsureStream(context.Background(), a); err != nil {
		t.Fatal(err)
	}
	publish(a, "2")
	expect("a2")
}

// slow tells of returns a little later than they happen, as a busy server does.
type slow struct {
	*broker.Client
	open atomic.Int64
}

func (s *slow) Return(m *broker.Message, r broker.Return, done func(error)) {
	s.open.Add(1)
	s.Client.Return(m, r, func(err error) {
		time.AfterFunc(50*time.Millisecond, func() { s.open.Add(-1); done(err) })
	})
}

// Whoever stops a capsule closes the connection next: what is on its way back must be back by then.
func TestStopWaitsForReturns(t *testing.T) {
	q := stored(def("q", 1, 0, false, nil))
	r := newRig(t, q)
	for range 20 {
		if _, err := r.client.Publish(context.Background(), q, broker.Publication{}); err != nil {
			t.Fatal(err)
		}
	}
	s := &slow{Client: r.client}
	c, err := New(Options{Name: "slow", Queues: []string{"q"}, Concurrency: 64, PollInterval: 250 * time.Millisecond, Seed: 2, Broker: s, Logger: hclog.NewNullLogger()})
	if err != nil {
		t.Fatal(err)
	}
	c.Define(q)
	messages, err := c.Pull(context.Background(), Request{Max: 20, Wait: patience})
	if err != nil || len(messages) == 0 {
		t.Fatal(len(messages), err)
	}
	for _, m := range messages {
		c.strayed(m)
	}
	c.Stop()
	if n := s.open.Load(); n != 0 {
		t.Errorf("%d messages are on their way back", n)
	}
	c.Stop()
}

// outside is a NATS server of its own, which can be stopped and started again with its store.
type outside struct {
	t    *testing.T
	opts server.Options
	ns   *server.Server
}

func newOutside(t *testing.T) *outside {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	s := &outside{t: t, opts: server.Options{Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true}}
	s.start()
	t.Cleanup(s.stop)
	return s
}

func (s *outside) start() {
	opts := s.opts
	ns, err := server.NewServer(&opts)
	if err != nil {
		s.t.Fatal(err)
	}
	ns.Start()
	if !ns.ReadyForConnections(10 * time.Second) {
		s.t.Fatal("the server did not start")
	}
	s.ns = ns
}

func (s *outside) stop() {
	s.ns.Shutdown()
	s.ns.WaitForShutdown()
}

// The server goes and comes back under load, three times; lanes live in its memory and are gone each time. Everything that
// is stored is done, once: a lone agent recognises what it holds, and what it has finished.
func TestServerRestartsUnderLoad(t *testing.T) {
	s := newOutside(t)
	q := stored(def("q", 3, 0, true, nil))
	// The acknowledgement wait is longer than what is allowed below: nothing may wait for it.
	q.Storage.Type, q.AckWait = "file", 10*time.Second
	r := newRigOn(t, config.NATS{URLs: []string{s.ns.ClientURL()}, Prefix: "fl"}, q)
	const total = 3000
	var mu sync.Mutex
	done := map[string]int{}
	var finished atomic.Int64
	all := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var wg sync.WaitGroup
	for i := range 3 {
		wg.Go(func() {
			r.work(ctx, 1+i*8, func(m *broker.Message, s api.Status) {
				mu.Lock()
				done[string(m.Data)]++
				mu.Unlock()
				if s != api.StatusOK && ctx.Err() == nil {
					t.Errorf("message %s was answered %s", m.Data, s)
				}
				if finished.Add(1) == total {
					close(all)
				}
			})
		})
	}
	wg.Go(func() {
		for i := range total {
			p := broker.Publication{Level: i % 3, Key: fmt.Sprint("k", i%20), ID: fmt.Sprint(i), Data: fmt.Append(nil, i)}
			for ctx.Err() == nil { // again under its id, until it is stored
				if _, err := r.client.Publish(ctx, q, p); err == nil {
					break
				}
				time.Sleep(time.Millisecond)
			}
		}
	})
	for i := range 3 {
		for finished.Load() < int64(total*(i+1)/5) && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		s.stop()
		s.start()
		back, n := time.Now(), finished.Load()
		for finished.Load() < min(n+50, total) && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		if took := time.Since(back); took > 5*time.Second {
			t.Errorf("work went on %v after the server was back", took)
		}
	}
	select {
	case <-all:
	case <-time.After(patience):
		t.Errorf("%d of %d were finished", finished.Load(), total)
	}
	cancel()
	wg.Wait()
	for i := range total {
		if n := done[fmt.Sprint(i)]; n != 1 {
			t.Errorf("message %d was handed over %d times", i, n)
		}
	}
	r.noneInHand()
}
