package broker

import (
	"bytes"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/fairlead/fairlead/config"
)

// givesUp is a queue that gives up after three attempts.
func givesUp(q *config.Queue) {
	q.Retry = config.Retry{MaxAttempts: 3, Backoff: []time.Duration{time.Millisecond}}
	q.DeadLetters = config.DeadLetters{Enabled: true, MaxAge: 720 * time.Hour}
	q.AckWait = 300 * time.Millisecond
}

// newDeadRig is a rig whose client knows the definition in force.
func newDeadRig(t *testing.T, change func(*config.Queue)) *rig {
	t.Helper()
	r := newRig(t, func(q *config.Queue) {
		givesUp(q)
		if change != nil {
			change(q)
		}
	})
	r.inForce()
	return r
}

func (r *rig) inForce() {
	r.Definition = func(name string) (config.Queue, bool) { return r.q, name == r.q.Name }
}

// bury gives m up and waits.
func (r *rig) bury(m *Message, b Burial) (Finish, error) {
	r.t.Helper()
	type outcome struct {
		f   Finish
		err error
	}
	done := make(chan outcome, 2)
	r.Bury(m, b, func(f Finish, err error) { done <- outcome{f, err} })
	o := wait(r.t, done, "a burial")
	return o.f, o.err
}

// dead lists the dead letters.
func (r *rig) dead() []*DeadLetter {
	r.t.Helper()
	list, err := r.DeadLetters(within(r.t), r.q.Name, deadMost)
	if err != nil {
		r.t.Fatal(err)
	}
	return list
}

func (r *rig) deadLetterOf(seq uint64) *DeadLetter {
	r.t.Helper()
	d, err := r.DeadLetter(within(r.t), r.q.Name, seq)
	if err != nil {
		r.t.Fatal(err)
	}
	return d
}

// Everything that a message had is kept, byte for byte, and told.
func TestADeadLetterIsTheWholeMessage(t *testing.T) {
	for name, change := range map[string]func(*config.Queue){"fair": nil, "arrival order": arrivalOrder} {
		t.Run(name, func(t *testing.T) {
			r := newDeadRig(t, change)
			a := r.asker()
			payload := bytes.Repeat([]byte("\x00\xff\r\n{}"), 3000)
			headers := map[string]string{"x-region": "eu ü", "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate": "a=b"}
			before := time.Now().Add(-time.Second)
			receipt, err := r.Publish(within(t), r.q, Publication{
				Level: 2, Key: "ac.me *>", Weight: 2500, ID: "order-17", ContentType: "application/json", Headers: headers, Data: payload,
			})
			if err != nil {
				t.Fatal(err)
			}
			m := a.take(a.at(2, "ac.me *>"), 1)[0]
			reason := "boom\r\nNats-Msg-Id: x\x00 ü " + strings.Repeat("x", 2000)
			if f, err := r.bury(m, Burial{DeadMaxAttempts, 3, reason}); f != Finished || err != nil {
				t.Fatalf("buried: %v, %v", f, err)
			}
			if n := r.stored(); n != 0 {
				t.Errorf("%d messages are left in the queue", n)
			}
			until(t, "the record of its attempts is removed", func() bool { return !r.hasRecord(receipt.Seq) })
			d := r.deadLetterOf(receipt.Seq)
			if d.Queue != "orders" || d.Seq != receipt.Seq || d.Level != 2 || d.Unprioritised || d.Key != "ac.me *>" || d.Weight != 2500 ||
				d.ID != "order-17" || d.ContentType != "application/json" || d.Reason != DeadMaxAttempts || d.Attempts != 3 || d.Agent != "test" {
				t.Errorf("%+v", d)
			}
			if d.Error != reason[:maxReason] {
				t.Errorf("the error is %q", d.Error)
			}
			if !maps.Equal(d.Headers, headers) || !bytes.Equal(d.Data, payload) || d.Size != int64(len(payload)) {
				t.Errorf("headers %v, %d bytes", d.Headers, len(d.Data))
			}
			if !d.EnqueuedAt.Equal(m.EnqueuedAt) || d.DiedAt.Before(before) || d.DiedAt.Before(d.EnqueuedAt) {
				t.Errorf("enqueued at %v, died at %v", d.EnqueuedAt, d.DiedAt)
			}
			list := r.dead()
			if len(list) != 1 || list[0].Data != nil || list[0].Size != int64(len(payload)) || list[0].Error != d.Error || !maps.Equal(list[0].Headers, headers) {
				t.Errorf("listed as %+v", list)
			}
			if n, err := r.DeadCount(within(t), "orders"); n != 1 || err != nil {
				t.Errorf("counted %d, %v", n, err)
			}
			if n := r.metrics.Dead.Load("orders", "max_attempts"); n != 1 {
				t.Errorf("counted %d", n)
			}
		})
	}
}

// A message whose agents died with it each time is not handed out more often than is allowed.
func TestGivenUpAtTheTake(t *testing.T) {
	for name, c := range map[string]struct {
		steps    []string
		attempts int
		want     string
	}{
		"three deaths":           {[]string{"die", "die", "die"}, 3, diedWithIt},
		"two nacks and a death":  {[]string{"nack", "nack", "die"}, 3, diedWithIt},
		"a lower limit in force": {[]string{"nack", "nack", "lower"}, 2, "boom"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newDeadRig(t, nil)
			a := r.asker()
			seq := r.publish(0, "a", "x").Seq
			for i, step := range c.steps {
				if step == "lower" {
					r.q.Retry.MaxAttempts = 2
					break
				}
				m := a.take(a.at(0, "a"), 1)[0]
				if m.Attempt != i+1 {
					t.Fatalf("came as attempt %d, want %d", m.Attempt, i+1)
				}
				if step == "nack" {
					r.giveBack(m, Return{Counts: AnAttempt, Reason: "boom"})
				} else {
					m.letGo() // the agent is gone, and with it all that it knew
				}
			}
			until(t, "it is given up", func() bool {
				if got := a.ask(a.at(0, "a"), 1).Messages; len(got) > 0 {
					t.Fatalf("handed out as attempt %d", got[0].Attempt)
				}
				return r.stored() == 0
			})
			d := r.deadLetterOf(seq)
			if d.Reason != DeadMaxAttempts || d.Attempts != c.attempts || d.Error != c.want {
				t.Errorf("%+v", d)
			}
			until(t, "the record is removed", func() bool { return !r.hasRecord(seq) })
		})
	}
}

// With max_attempts 0 nothing is given up.
func TestNeverGivenUp(t *testing.T) {
	r := newDeadRig(t, func(q *config.Queue) { q.Retry.MaxAttempts = 0 })
	a := r.asker()
	r.publish(0, "a", "x")
	for i := range 20 {
		m := a.take(a.at(0, "a"), 1)[0]
		if m.Attempt != i+1 {
			t.Fatalf("attempt %d came as %d", i+1, m.Attempt)
		}
		r.giveBack(m, Return{Counts: AnAttempt})
	}
}

// Where no dead letters are kept, what is given up is dropped, and counted by its reason.
func TestDropped(t *testing.T) {
	r := newDeadRig(t, func(q *config.Queue) { q.DeadLetters.Enabled = false })
	if _, err := r.wire.JS.Stream(within(t), "FL_DEAD_orders"); err == nil {
		t.Error("a stream was made for what is not kept")
	}
	a := r.asker()
	r.publish(0, "a", "rejected")
	if f, err := r.bury(a.take(a.at(0, "a"), 1)[0], Burial{DeadRejected, 1, ""}); f != Finished || err != nil {
		t.Fatal(f, err)
	}
	r.publish(0, "a", "failed")
	for range 3 {
		r.giveBack(a.take(a.at(0, "a"), 1)[0], Return{Counts: AnAttempt})
	}
	until(t, "it is dropped", func() bool { a.ask(a.at(0, "a"), 1); return r.stored() == 0 })
	until(t, "it is counted", func() bool { return r.metrics.Dropped.Load("orders", "max_attempts") == 1 })
	if r.metrics.Dropped.Load("orders", "rejected") != 1 || r.metrics.Dead.Load("orders", "max_attempts")+r.metrics.Dead.Load("orders", "rejected") != 0 {
		t.Error("not counted by reason")
	}
	if n, err := r.DeadCount(within(t), "orders"); n != 0 || err != nil {
		t.Errorf("%d dead letters, %v", n, err)
	}
}

// Eviction keeps a dead letter only when the definition says so.
func TestEvicted(t *testing.T) {
	r := newDeadRig(t, nil)
	a := r.asker()
	for i, keep := range []bool{false, true} {
		r.q.DeadLetters.Evicted = keep
		r.publish(0, "a", "x")
		if f, err := r.bury(a.take(a.at(0, "a"), 1)[0], Burial{DeadEvicted, 0, ""}); f != Finished || err != nil {
			t.Fatal(f, err)
		}
		if n := len(r.dead()); n != i {
			t.Errorf("evicted %v: %d dead letters", keep, n)
		}
	}
}

// What a full ring evicts is kept where the definition says so.
func TestARingKeepsWhatItEvicts(t *testing.T) {
	r := newDeadRig(t, func(q *config.Queue) {
		ringOf(5, func(*config.Queue) {})(q)
		q.AckWait, q.DeadLetters.Evicted = 30*time.Second, true
	})
	r.fill(2, 2, 1, 1, 0)
	if reason := r.offer(0, "t1", "new"); reason != "" {
		t.Fatal(reason)
	}
	r.wantLeft("2b 1c 1d 0e new")
	list := r.dead()
	if len(list) != 1 || list[0].Reason != DeadEvicted || list[0].Attempts != 0 || list[0].Level != 2 || list[0].Key != "t0" {
		t.Fatalf("%+v", list)
	}
	if d := r.deadLetterOf(list[0].Seq); string(d.Data) != "2a" {
		t.Errorf("%s was kept", d.Data)
	}
	if r.evicted() != 1 || r.metrics.Dead.Load("orders", "evicted") != 1 {
		t.Error("not counted once each")
	}
}

// A message so big that its dead letter does not fit keeps its short record; and one for which even that is too much stays.
func TestABigMessageDies(t *testing.T) {
	// A server that takes less than others, so that the largest message is handled at once on a slow machine too.
	r := newOutside(t, func(o *server.Options) { o.MaxPayload = 128 << 10 }).rig(givesUp)
	r.inForce()
	a := r.asker()
	room := int(r.MaxPayload())
	for _, c := range []struct {
		spare int // what the server's limit leaves beside the payload
		kept  bool
	}{{700, true}, {300, true}, {20, false}} {
		seq := r.raw("p0.a", strings.Repeat("x", room-c.spare))
		m := a.take(a.at(0, "a"), 1)[0]
		f, err := r.bury(m, Burial{DeadRejected, 1, strings.Repeat("e", 1000)})
		if c.kept && (err != nil || f != Finished || r.deadLetterOf(seq).Size != int64(room-c.spare)) {
			t.Errorf("with %d to spare: %v, %v", c.spare, f, err)
		}
		if !c.kept && !(errors.Is(err, ErrDeadLetters) && errors.Is(err, ErrTooLarge) && r.stored() == 1) {
			t.Errorf("with %d to spare: %v, %v, %d in the queue", c.spare, f, err, r.stored())
		}
	}
}

// What a raw publisher writes cannot pass for a record, nor get into the server's controls.
func TestHostileHeadersOfADeadMessage(t *testing.T) {
	r := newDeadRig(t, nil)
	a := r.asker()
	seq := r.raw("p0.a", "x", "fairlead-dead", `{"reason":"forged"}`, "Fairlead-Dead", `{"reason":"forged"}`, "Nats-TTL", "3600s", "Fairlead-Weight", "abc", "X-Up", "1")
	if f, err := r.bury(a.take(a.at(0, "a"), 1)[0], Burial{DeadRejected, 1, ""}); f != Finished || err != nil {
		t.Fatal(f, err)
	}
	d := r.deadLetterOf(seq)
	if d.Reason != DeadRejected || d.Headers["x-up"] != "1" || d.header.Get("Nats-TTL") != "" || len(d.header[headerDead]) != 1 {
		t.Errorf("%+v %v", d, d.header)
	}
	// And what somebody stores among the dead letters is passed over.
	for _, subject := range []string{"fl.dead.orders.x", "fl.dead.orders.p0.a.b.c", "fl.dead.orders.p0.a.1", "fl.dead.orders.p0.=ZZ.2"} {
		if _, err := r.wire.JS.PublishMsg(within(t), &nats.Msg{Subject: subject, Data: []byte("junk")}); err != nil {
			t.Fatal(err)
		}
	}
	if list := r.dead(); len(list) != 1 || list[0].Seq != seq {
		t.Errorf("%d listed", len(list))
	}
	if _, err := r.DeadLetter(within(t), "orders", 1); !errors.Is(err, ErrNoDeadLetter) {
		t.Error(err)
	}
	if d, _, err := r.NextDeadLetter(within(t), "orders", 0); err != nil || d.Seq != seq {
		t.Error(d, err)
	}
}

// The age of dead letters is what the definition says, live.
func TestDeadLettersAge(t *testing.T) {
	r := newDeadRig(t, func(q *config.Queue) { q.DeadLetters.MaxAge = time.Hour })
	for _, age := range []time.Duration{time.Hour, 0, time.Millisecond, 48 * time.Hour} {
		q := r.q
		q.DeadLetters.MaxAge = age
		r.define(q)
		stream, err := r.wire.JS.Stream(within(t), "FL_DEAD_orders")
		if err != nil {
			t.Fatal(err)
		}
		want := age
		if age == time.Millisecond {
			want = 100 * time.Millisecond // JetStream's least
		}
		if got := stream.CachedInfo().Config.MaxAge; got != want {
			t.Errorf("max_age %v: %v", age, got)
		}
	}
}

// The check of rights harms no dead letter, and names what is missing.
func TestCheckAccessOfDeadLetters(t *testing.T) {
	r := newDeadRig(t, nil)
	a := r.asker()
	r.publish(0, "a", "x")
	if f, err := r.bury(a.take(a.at(0, "a"), 1)[0], Burial{DeadRejected, 1, ""}); f != Finished || err != nil {
		t.Fatal(f, err)
	}
	if problems := r.CheckAccess(within(t), []config.Queue{r.q}); len(problems) != 0 {
		t.Errorf("%q", problems)
	}
	if n := len(r.dead()); n != 1 {
		t.Errorf("%d dead letters after the check", n)
	}
}
