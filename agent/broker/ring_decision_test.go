package broker

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/fairlead/fairlead/agent/broker/wire"
	"github.com/fairlead/fairlead/config"
)

// newcomer is a message that has found no room, as a ring gets it.
func (r *rig) newcomer(level int, p Publication) newcomer {
	r.t.Helper()
	p.Level = level
	m, err := r.message(r.q, p, time.Now())
	if err != nil {
		r.t.Fatal(err)
	}
	return newcomer{queue: r.q, level: level, msg: m}
}

// Between a refusal and the decision room may come free, or a message with the same id be stored: then nobody has to go.
func TestRingTriesAgainBeforeItDecides(t *testing.T) {
	r := newRig(t, ringOf(2))
	r.fill(1)
	g := r.rings.of("orders")
	n := r.newcomer(1, Publication{Key: "a", ID: "1", Data: []byte("new")})
	if _, err := g.insist(n); err != nil {
		t.Fatal(err)
	}
	r.wantLeft("1a new")
	if ack, err := g.insist(n); err != nil || !ack.Duplicate {
		t.Errorf("the same id at the limit: %+v, %v", ack, err)
	}
	r.wantLeft("1a new")
	if n := r.evicted(); n != 0 {
		t.Errorf("%d were evicted, want none", n)
	}
}

// What is bigger than the whole queue may be is told so, whatever ranks above it, and nothing is taken for it.
func TestRingTakesNothingForWhatNeverFits(t *testing.T) {
	r := newRig(t, ringOfBytes(10_000))
	for _, data := range []string{"a", "b", "c"} {
		if reason := r.offer(0, "t", sized(data, 3_000)); reason != "" {
			t.Fatal(reason)
		}
	}
	if reason := r.offer(2, "t", sized("low", 3_000)); reason != "lower_than_all" {
		t.Fatalf("one that could fit is refused with %q", reason)
	}
	asked := r.metrics.LanePulls.Load("orders")
	for _, level := range []int{0, 2, -1} {
		if reason := r.offer(level, "t", sized("whale", 11_000)); reason != "max_bytes" {
			t.Errorf("level %d: refused with %q, want max_bytes", level, reason)
		}
	}
	if now := r.metrics.LanePulls.Load("orders"); now != asked {
		t.Errorf("lanes were asked %d times", now-asked)
	}
}

// A decision that took so long that what it took may be in somebody else's hands by now evicts nothing.
func TestRingDropsADecisionThatTookTooLong(t *testing.T) {
	both(t, func(t *testing.T, share func(*config.Queue)) {
		r := newRig(t, ringOf(3, share, func(q *config.Queue) { q.AckWait = 20 * time.Microsecond })) // any takes longer
		for _, data := range []string{"a", "b", "c"} {
			r.raw("p1.t", data)
		}
		if reason := r.offer(1, "t", "new"); reason != "max_messages" {
			t.Errorf("refused with %q", reason)
		}
		r.wantLeft("a b c")
		if n := r.evicted(); n != 0 {
			t.Errorf("%d were evicted, want none", n)
		}
	})
}

// Only what an eviction has removed counts as evicted: not what was gone already.
func TestRingCountsWhatItRemoves(t *testing.T) {
	r := newRig(t, ringOf(3))
	r.fill(1, 1)
	a, g := r.asker(), r.rings.of("orders")
	first, second := a.take(a.at(1, "t0"), 1)[0], a.take(a.at(1, "t1"), 1)[0]
	stream, err := r.wire.JS.Stream(within(t), r.names.Stream("orders"))
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.DeleteMsg(within(t), first.Seq); err != nil {
		t.Fatal(err)
	}
	if err := g.evict(r.newcomer(1, Publication{Key: "a"}), []*Message{first, second}); err != nil {
		t.Fatal(err)
	}
	if n := r.evicted(); n != 1 {
		t.Errorf("%d were counted as evicted, want 1", n)
	}
	if n := r.stored(); n != 0 {
		t.Errorf("%d are left", n)
	}
}

// A ring that was closed tells whoever comes then, and those that wait.
func TestRingIsClosed(t *testing.T) {
	r := newRig(t, ringOf(1))
	r.fill(1)
	r.put(turnPrefix+"orders", "dead") // so that nothing is decided for a second
	told := make(chan error, 3)
	g := r.rings.of("orders")
	publish := func() {
		n := r.newcomer(1, Publication{Key: "a"})
		n.done = func(_ wire.PubAck, err error) { told <- err }
		g.enqueue(n)
	}
	publish()
	until(t, "the ring waits for its turn", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return len(g.waiting) == 0
	})
	publish()
	r.rings.close()
	publish()
	for range 3 {
		if err := wait(t, told, "the outcome"); !errors.Is(err, ErrClosed) {
			t.Errorf("told %v, want ErrClosed", err)
		}
	}
	r.wantLeft("1a")
}

// Where only one message of a lane, or so many of a key, may be out at a time, nobody but who has them could take another:
// such a queue refuses, and nobody has to go.
func TestRingRefusesWhereItCannotTake(t *testing.T) {
	for name, more := range map[string]func(*config.Queue){
		"single active": func(q *config.Queue) { q.SingleActiveConsumer = true },
		"ordered keys":  func(q *config.Queue) { q.OrderedKeys = true },
		"cap per key":   func(q *config.Queue) { q.ConcurrencyPerKey = 2 },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, ringOf(2, more))
			r.fill(2, 2)
			if reason := r.offer(0, "t0", "new"); reason != "max_messages" {
				t.Errorf("refused with %q", reason)
			}
			r.wantLeft("2a 2b")
		})
	}
}

// What had to go and cannot be kept waits as before: with the first attempt yet to come, and no verdict on it.
func TestRingLeavesWhatCannotBeKept(t *testing.T) {
	r := newDeadRig(t, func(q *config.Queue) {
		ringOf(2, func(*config.Queue) {})(q)
		q.AckWait, q.DeadLetters.Evicted = 30*time.Second, true
	})
	r.fill(1, 1)
	if err := r.wire.JS.DeleteStream(within(t), "FL_DEAD_orders"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Publish(within(t), r.q, Publication{Level: 1, Key: "t1"}); !errors.Is(err, ErrUnavailable) {
		t.Fatalf("published, and nothing was kept: %v", err)
	}
	a := r.asker()
	until(t, "it can be taken", func() bool {
		answer := a.ask(a.at(1, "t0"), 1)
		if answer.Held > 0 {
			t.Fatal("it is held back, or was given up")
		}
		return len(answer.Messages) == 1 && string(answer.Messages[0].Data) == "1a" && answer.Messages[0].Attempt == 1
	})
}

// An eviction that nobody confirms makes no room, and what may still be there goes back at once.
func TestRingDoesNotTrustASilentEviction(t *testing.T) {
	t.Parallel() // it waits for seconds
	r := newRig(t, ringOf(2))
	r.fill(1, 1)
	if _, err := r.wire.NC.Subscribe("silent", func(*nats.Msg) {}); err != nil {
		t.Fatal(err)
	}
	a := r.asker()
	lane := a.at(1, "t0")
	m := a.take(lane, 1)[0]
	confirmed := lane.remove
	lane.remove = "silent"
	if err := r.rings.of("orders").evict(r.newcomer(1, Publication{Key: "a"}), []*Message{m}); !errors.Is(err, ErrUnavailable) {
		t.Errorf("evicted, and nobody has confirmed it: %v", err)
	}
	lane.remove = confirmed
	if n := r.evicted(); n != 0 {
		t.Errorf("%d were counted as evicted", n)
	}
	if again := a.take(lane, 1)[0]; again.Seq != m.Seq || r.finished(again) != Finished {
		t.Errorf("%d came instead of %d", again.Seq, m.Seq)
	}
}
