package broker

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/fairlead/fairlead/agent/broker/names"
	"github.com/fairlead/fairlead/config"
)

// smallStore starts a server whose store takes so many bytes, and an agent beside it.
func smallStore(t *testing.T, most int64) *rig {
	t.Helper()
	ns, err := server.NewServer(&server.Options{
		ServerName: "small", Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, JetStreamMaxStore: most, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	if !ns.ReadyForConnections(patience) {
		t.Fatal("the server does not start")
	}
	c := connect(t, config.NATS{URLs: []string{ns.ClientURL()}, Prefix: "fl"})
	return (&rig{c, t, definition(nil)}).setUp()
}

// A delayed message that falls due while the store is full comes when there is room again, although JetStream tries only once.
func TestADelayedMessageThatFellDueInAFullStore(t *testing.T) {
	t.Parallel() // it waits for seconds
	r := smallStore(t, 1<<20)
	handle := r.delayed(3*time.Second, Publication{Level: 0, Key: "a", Weight: 2500, Data: []byte("late"), Headers: map[string]string{"x-a": "1"}})
	ballast, err := r.wire.JS.CreateStream(within(t), jetstream.StreamConfig{Name: "BALLAST", Subjects: []string{"ballast"}})
	if err != nil {
		t.Fatal(err)
	}
	full := func() bool {
		_, err := r.wire.JS.Publish(within(t), "ballast", make([]byte, 64<<10))
		return err != nil
	}
	until(t, "the store is full", full)
	at, _ := names.ParseHandle(handle)
	if !time.Now().Before(at) {
		t.Fatal("the store was not full in time: nothing is tried")
	}
	time.Sleep(time.Until(at) + time.Second) // until JetStream has tried
	m := &mover{c: r.Client, queue: r.q.Name, log: r.seldom}
	if n, err := m.bringOverdue(within(t), 0); n != 0 || !errors.Is(err, ErrStoreFull) || !errors.Is(err, ErrUnavailable) {
		t.Fatalf("in a full store: %d, %v", n, err)
	}
	if err := ballast.Purge(within(t)); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second) // JetStream had another chance
	stuck, _, err := r.delayedUnder(within(t), r.q.Name, names.ScheduledToken+".>")
	if err != nil || len(stuck) != 1 {
		t.Fatalf("this server brings it by itself: %v, %v", stuck, err)
	}
	if n, err := m.bringOverdue(within(t), time.Hour); n != 0 || err != nil {
		t.Fatalf("not overdue yet: %d, %v", n, err)
	}
	if n, err := m.bringOverdue(within(t), 0); n != 1 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	r.due(1)
	r.mover()
	a := r.asker()
	got := a.take(a.at(0, "a"), 1)[0]
	if string(got.Data) != "late" || got.Weight != 2500 || got.Headers["x-a"] != "1" || len(got.Headers) != 1 {
		t.Errorf("it came as %+v", got)
	}
	until(t, "nothing is left among the delayed", func() bool { return r.leftDelayed() == 0 })
}

// Movers that look at the same time, and JetStream that is late after all, give one copy.
func TestOverdueMessagesComeOnce(t *testing.T) {
	r := newRig(t, arrivalOrder)
	other := r.another()
	const n = 40
	for i := range n {
		r.delayed(700*time.Millisecond, Publication{Level: 0, Data: []byte(fmt.Sprint(i))})
	}
	r.mover()
	other.mover()
	brought := make(chan int, 2)
	for _, one := range []*rig{r, other} {
		go func() {
			m, sum := &mover{c: one.Client, queue: r.q.Name, log: one.seldom}, 0
			for {
				some, err := m.bringOverdue(within(t), 0)
				if sum += some; err != nil || r.leftDelayed() == 0 {
					break
				}
			}
			brought <- sum
		}()
	}
	total := wait(t, brought, "one mover") + wait(t, brought, "the other")
	t.Logf("%d of %d were brought on by agents", total, n)
	if stored := r.stored(); stored != n {
		t.Errorf("%d copies of %d", stored, n)
	}
}
