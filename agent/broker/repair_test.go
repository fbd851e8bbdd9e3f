package broker

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/fairlead/fairlead/agent/broker/wire"
	"github.com/fairlead/fairlead/config"
)

func (r *rig) odd() []string {
	r.t.Helper()
	s, err := r.Sweep(within(r.t), r.layout())
	if err != nil {
		r.t.Fatal(err)
	}
	return s.Odd
}

// subjectsNow are the queue's subjects with messages, without its prefix, in order.
func (r *rig) subjectsNow() []string {
	r.t.Helper()
	info, err := r.subjects(within(r.t), r.q.Name)
	if err != nil {
		r.t.Fatal(err)
	}
	var all []string
	for s, n := range info.State.Subjects {
		all = append(all, fmt.Sprint(s[len(r.names.SubjectPrefix(r.q.Name)):], "×", n))
	}
	slices.Sort(all)
	return all
}

func TestCanonical(t *testing.T) {
	for _, tt := range []struct {
		rest, class, key string
		flaws            flaws
	}{
		{"p0.*", "p0", "_", flaws{key: true}},
		{"p0.>", "p0", "_", flaws{key: true}},
		{"p0.=ZZ", "p0", "_", flaws{key: true}},
		{"px.a", "p2", "a", flaws{level: true}},
		{"p00.a", "p2", "a", flaws{level: true}},
		{"p100.a", "p2", "a", flaws{level: true}},
		{"*.a", "p2", "a", flaws{level: true}},
		{"p7.=zz", "p7", "_", flaws{key: true}},
		{"p0", "p0", "_", flaws{key: true}},
		{"d", "d", "_", flaws{key: true}},
		{"d.=ZZ", "d", "_", flaws{key: true}},
		{"p0.a.b", "p0", "_", flaws{key: true}},
		{"x.y.z", "p2", "_", flaws{level: true, key: true}},
		{"hello", "p2", "_", flaws{level: true, key: true}},
	} {
		class, key, flaws := canonical(3, tt.rest, false)
		if class != tt.class || key != tt.key || flaws != tt.flaws {
			t.Errorf("%s belongs to %s.%s %+v, want %s.%s %+v", tt.rest, class, key, flaws, tt.class, tt.key, tt.flaws)
		}
	}
}

func TestRepairedHeader(t *testing.T) {
	born := time.Unix(1000, 500)
	for _, tt := range []struct {
		ttl, want string
		age       time.Duration
		expired   bool
	}{
		{"", "", time.Hour, false},
		{"never", "never", time.Hour, false},
		{"60", "50", 10 * time.Second, false},
		{"1m", "51", 9500 * time.Millisecond, false}, // 50.5 s are left: rather late than early
		{"1m", "1", 59500 * time.Millisecond, false},
		{"1m", "", time.Minute, true},
	} {
		m := &wire.Stored{Seq: 7, Time: born, Header: nats.Header{"Nats-TTL": {tt.ttl}}}
		h, expired := repairedHeader(m, born.Add(tt.age))
		if expired != tt.expired || h.Get("Nats-TTL") != tt.want {
			t.Errorf("%q after %v became %q, %t", tt.ttl, tt.age, h.Get("Nats-TTL"), expired)
		}
	}
	h, _ := repairedHeader(&wire.Stored{Seq: 7, Time: born, Header: nats.Header{
		"Nats-Msg-Id": {"acme:1"}, "nats-rollup": {"all"}, "Nats-Expected-Last-Sequence": {"3"}, "Fairlead-Weight": {"3"}, "x": {"1", "2"},
	}}, born)
	if len(h) != 3 || h.Get("Nats-Msg-Id") != "=repair:7:1000000000500" || h.Get("Fairlead-Weight") != "3" || !slices.Equal(h["x"], []string{"1", "2"}) {
		t.Errorf("headers became %v", h)
	}
}

// Whatever a raw publisher wrote comes out of a lane, once, as it was sent, and literal wildcards move nothing else.
func TestRepair(t *testing.T) {
	r := newRig(t, nil)
	r.publish(0, "acme", "good")
	r.raw("d.acme", "good too")
	for i, subject := range []string{"p0.*", "p0.>", "p0.=ZZ", "px.a", "p00.a", "p0", "p0.a.b", "*.a", "one", "d.=zz", "*.*.*"} {
		r.raw(subject, fmt.Sprint("odd", i), "X-Mine", "ä", "Fairlead-Weight", "2.5", "Nats-Msg-Id", fmt.Sprint("mine", i))
	}
	odd := r.odd()
	if len(odd) != 11 {
		t.Fatalf("the sweep calls %q odd", odd)
	}
	moved, err := r.Repair(within(t), r.q, append(odd, "fl.q.orders.p0.acme", "fl.q.other.px.a"))
	if moved != 11 || err != nil {
		t.Fatalf("moved %d, %v", moved, err)
	}
	if got, want := fmt.Sprint(r.subjectsNow()), "[d._×1 d.acme×1 p0._×5 p0.acme×1 p2._×2 p2.a×3]"; got != want {
		t.Errorf("the queue holds %s, want %s", got, want)
	}
	if n := r.metrics.Repaired.Load(); n != 11 {
		t.Errorf("counted %d repaired", n)
	}
	if levels, keys := r.metrics.UnknownLevels.Load(), r.metrics.UnknownKeys.Load(); levels != 5 || keys != 8 {
		t.Errorf("counted %d unknown levels and %d unknown keys, want 5 and 8", levels, keys)
	}
	a := r.asker()
	got := a.take(a.at(0, ""), 5)
	for _, m := range got {
		if m.Headers["x-mine"] != "ä" || m.Weight != 2500 || len(m.Headers) != 1 || m.Key != "" || m.Level != 0 {
			t.Errorf("%s came as %+v", m.Data, m)
		}
	}
	if again := r.odd(); len(again) != 0 {
		t.Errorf("%q are still odd", again)
	}
}

// Several agents that find the same messages store one copy of each.
func TestRepairTogether(t *testing.T) {
	r := newRig(t, nil)
	for i := range 150 {
		r.raw([]string{"px.a", "p0.*", "p1.b.c"}[i%3], fmt.Sprint(i))
	}
	odd := r.odd()
	agents := []*rig{r, r.another(), r.another()}
	var sum [3]int
	var wg sync.WaitGroup
	for i, agent := range agents {
		wg.Go(func() {
			var err error
			if sum[i], err = agent.Repair(within(t), r.q, odd); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := sum[0] + sum[1] + sum[2]; n != 150 || r.stored() != 150 {
		t.Errorf("agents moved %v, which is %d; the queue holds %d; want 150 of both", sum, n, r.stored())
	}
	if odd := r.odd(); len(odd) > 0 {
		t.Errorf("%q are left", odd)
	}
}

// A copy that was stored before an agent died is not stored again by the next one.
func TestRepairAfterCrash(t *testing.T) {
	r := newRig(t, nil)
	seq := r.raw("px.a", "once")
	m, err := r.wire.Read(within(t), r.names.Stream("orders"), wire.Look{Seq: seq})
	if err != nil {
		t.Fatal(err)
	}
	h, _ := repairedHeader(m, time.Now())
	if _, err := r.storeAndWait(within(t), &nats.Msg{Subject: "fl.q.orders.p2.a", Header: h, Data: m.Data}); err != nil {
		t.Fatal(err)
	}
	if moved, err := r.another().Repair(within(t), r.q, r.odd()); moved != 1 || err != nil {
		t.Fatal(moved, err)
	}
	if got := fmt.Sprint(r.subjectsNow()); got != "[p2.a×1]" {
		t.Errorf("the queue holds %s", got)
	}
}

func TestRepairInAFullQueue(t *testing.T) {
	for name, tt := range map[string]struct {
		limits config.Limits
		full   string
	}{
		"queue":  {config.Limits{MaxMessages: 3}, "max_messages"},
		"tenant": {config.Limits{MaxMessagesPerKey: 1}, "max_messages_per_key"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(q *config.Queue) { q.Limits = tt.limits })
			r.publish(2, "a", "good")
			r.raw("px.a", "odd")
			r.raw("p0.=ZZ", "odd")
			moved, err := r.Repair(within(t), r.q, []string{"fl.q.orders.px.a"})
			var full *FullError
			if moved != 0 || !errors.Is(err, ErrQueueFull) || !errors.As(err, &full) || full.Reason != tt.full {
				t.Fatalf("moved %d, %v, want %s", moved, err, tt.full)
			}
			if r.stored() != 3 {
				t.Fatalf("%d messages are left of 3", r.stored())
			}
			a := r.asker()
			if f := r.finished(a.take(a.at(2, "a"), 1)[0]); f != Finished {
				t.Fatal(f)
			}
			if moved, err := r.Repair(within(t), r.q, r.odd()); moved != 2 || err != nil {
				t.Fatalf("with room: moved %d, %v", moved, err)
			}
			if got := string(a.take(a.at(2, "a"), 1)[0].Data); got != "odd" {
				t.Errorf("delivered %q", got)
			}
		})
	}
}

// One full tenant does not keep another's message from being repaired.
func TestRepairPastAFullTenant(t *testing.T) {
	r := newRig(t, func(q *config.Queue) { q.Limits.MaxMessagesPerKey = 1 })
	r.publish(2, "a", "good")
	r.raw("px.a", "waits")
	r.raw("px.b", "moves")
	moved, err := r.Repair(within(t), r.q, r.odd())
	if moved != 1 || !errors.Is(err, ErrQueueFull) {
		t.Fatal(moved, err)
	}
	if got := fmt.Sprint(r.subjectsNow()); got != "[p2.a×1 p2.b×1 px.a×1]" {
		t.Errorf("the queue holds %s", got)
	}
}

// One call's work is bounded, and the next goes on where it stopped, also in the search for literal wildcards.
func TestRepairInSteps(t *testing.T) {
	r := newRig(t, nil)
	r.backlog(scanLimit+10, "p0.acme")
	r.raw("p0.*", "behind a deep backlog")
	odd := r.odd()
	if moved, err := r.Repair(within(t), r.q, odd); moved != 0 || err != nil {
		t.Fatalf("the first step moved %d, %v: it looked at more than it may", moved, err)
	}
	if moved, err := r.Repair(within(t), r.q, odd); moved != 1 || err != nil {
		t.Fatalf("the second step moved %d, %v", moved, err)
	}
	for range repairLimit + 5 {
		r.raw("px.a", "many")
	}
	if moved, err := r.Repair(within(t), r.q, r.odd()); moved != repairLimit || err != nil {
		t.Fatalf("moved %d at once, %v", moved, err)
	}
	if moved, err := r.Repair(within(t), r.q, r.odd()); moved != 5 || err != nil {
		t.Fatalf("moved %d of the rest, %v", moved, err)
	}
	until(t, "the searches' consumers are gone", func() bool {
		page, err := r.wire.Consumers(within(t), r.names.Stream("orders"), 0)
		return err == nil && page.Total == 0
	})
}

// What is over is not brought back to life.
func TestRepairExpired(t *testing.T) {
	r := newRig(t, nil)
	seq := r.raw("px.a", "short-lived", "Nats-TTL", "1h")
	rep := &repair{c: r.Client, queue: r.q, layout: r.layout(), prefix: "fl.q.orders.", stream: "FL_Q_orders"}
	m, err := r.wire.Read(within(t), rep.stream, wire.Look{Seq: seq})
	if err != nil {
		t.Fatal(err)
	}
	m.Time = m.Time.Add(-2 * time.Hour)
	if err := rep.move(within(t), m); err != nil || r.stored() != 0 {
		t.Errorf("%v, and %d messages are stored", err, r.stored())
	}
}
