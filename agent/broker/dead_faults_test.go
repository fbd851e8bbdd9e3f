package broker

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/fairlead/fairlead/agent/broker/wire"
	"github.com/fairlead/fairlead/config"
)

// A crash between the two steps of the move, wherever it comes, leaves one dead letter, and nobody is handed the message
// again: the next one that takes it completes the move.
func TestACrashInTheMiddleOfAMove(t *testing.T) {
	for _, reason := range []DeadReason{DeadMaxAttempts, DeadRejected} {
		for _, stored := range []bool{false, true} {
			for _, remade := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, stored %v, lane remade %v", reason, stored, remade), func(t *testing.T) {
					t.Parallel()
					r := newDeadRig(t, nil)
					a := r.asker()
					seq := r.publish(0, "a", "poison").Seq
					lane := a.at(0, "a")
					m := a.take(lane, 1)[0]
					// What Bury does, up to where the agent dies.
					kept := make(chan struct{})
					r.keep(m, r.attempts.verdict(m, 1, Return{Reason: "boom", Dead: reason}), 1, func() { close(kept) })
					wait(t, kept, "the verdict")
					if stored {
						letter, err := r.deadLetter(m, Burial{reason, 1, "boom"})
						if err != nil {
							t.Fatal(err)
						}
						if _, err := r.storeAndWait(within(t), letter); err != nil {
							t.Fatal(err)
						}
					}
					if remade {
						if err := r.wire.JS.DeleteConsumer(within(t), lane.stream, lane.name); err != nil {
							t.Fatal(err)
						}
					}
					other := r.another()
					other.inForce()
					b := other.asker()
					r.publish(0, "a", "next")
					var got []*Message
					until(t, "the move is complete", func() bool {
						for _, m := range b.ask(b.at(0, "a"), 1).Messages {
							other.finished(m)
							got = append(got, m)
						}
						n, err := r.DeadCount(within(t), "orders")
						return err == nil && n == 1 && r.stored() == 0
					})
					if payloads(got) != "next " {
						t.Errorf("handed out %s", payloads(got))
					}
					d := r.deadLetterOf(seq)
					if d.Reason != reason || d.Attempts != 1 || d.Error != "boom" {
						t.Errorf("%+v", d)
					}
					until(t, "the record is removed", func() bool { return !r.hasRecord(seq) })
				})
			}
		}
	}
}

// Any number of agents that give up the same message at the same time move it once.
func TestBuriedTogether(t *testing.T) {
	r := newDeadRig(t, nil)
	a := r.asker()
	other := r.another()
	other.inForce()
	const n = 50
	r.backlog(n, "p0.a")
	var finished atomic.Int64
	done := make(chan error, 4*n)
	for _, m := range a.take(a.at(0, "a"), n) {
		for i := range 4 {
			who := []*rig{r, other}[i%2]
			copied := &Message{Queue: m.Queue, Seq: m.Seq, Lane: m.Lane, raw: m.raw, Attempt: m.Attempt}
			who.Bury(copied, Burial{DeadRejected, 1, "boom"}, func(f Finish, err error) {
				if f == Finished {
					finished.Add(1)
				}
				done <- err
			})
		}
	}
	for range 4 * n {
		if err := wait(t, done, "a burial"); err != nil {
			t.Fatal(err)
		}
	}
	if got := len(r.dead()); got != n || finished.Load() != n || r.stored() != 0 {
		t.Errorf("%d dead letters, finished %d times, %d left", got, finished.Load(), r.stored())
	}
	if sum := r.metrics.Dead.Load("orders", "rejected") + other.metrics.Dead.Load("orders", "rejected"); sum != n {
		t.Errorf("counted %d", sum)
	}
}

// A second move of a message is refused however late it comes: by what is there, and, if that was taken out again, by
// the stream's memory.
func TestALateSecondMove(t *testing.T) {
	r := newDeadRig(t, nil)
	a := r.asker()
	for i, takeOut := range []bool{false, true} {
		r.publish(0, "a", "x")
		m := a.take(a.at(0, "a"), 1)[0]
		late := &Message{Queue: m.Queue, Seq: m.Seq, Key: m.Key, Lane: m.Lane, raw: m.raw}
		if f, err := r.bury(m, Burial{DeadRejected, 1, ""}); f != Finished || err != nil {
			t.Fatal(f, err)
		}
		if takeOut {
			if _, err := r.RetryDeadLetter(within(t), r.q, r.deadLetterOf(m.Seq), nil); err != nil {
				t.Fatal(err)
			}
		}
		if f, err := r.bury(late, Burial{DeadRejected, 1, ""}); f != AlreadyFinished || err != nil {
			t.Errorf("a second time: %v, %v", f, err)
		}
		if n := len(r.dead()); n != 1 {
			t.Errorf("step %d: %d dead letters, want the first only", i, n)
		}
	}
}

// A second move is refused also by a server that has forgotten the first one's id: there is no window in which to be late.
func TestASecondMoveIsRefusedWithoutItsID(t *testing.T) {
	r := newDeadRig(t, nil)
	a := r.asker()
	r.publish(0, "a", "x")
	m := a.take(a.at(0, "a"), 1)[0]
	late := &Message{Queue: m.Queue, Seq: m.Seq, Key: m.Key, Lane: m.Lane, raw: m.raw}
	if f, err := r.bury(m, Burial{DeadRejected, 1, ""}); f != Finished || err != nil {
		t.Fatal(f, err)
	}
	letter, err := r.deadLetter(late, Burial{DeadRejected, 1, ""})
	if err != nil {
		t.Fatal(err)
	}
	letter.Header.Del(headerMsgID)
	if _, err := r.storeAndWait(within(t), letter); !errors.Is(err, ErrConflict) {
		t.Errorf("a second dead letter: %v", err)
	}
	if n := len(r.dead()); n != 1 {
		t.Errorf("%d dead letters, want one", n)
	}
}

// An outage at any time of the move loses nothing and doubles nothing.
func TestBuriedThroughAnOutage(t *testing.T) {
	s := newOutside(t)
	r := s.rig(givesUp)
	r.inForce()
	a := r.asker()
	const n = 200
	r.backlog(n, "p0.a")
	all := a.take(a.at(0, "a"), n)
	type outcome struct {
		m   *Message
		err error
	}
	done := make(chan outcome, n)
	for i, m := range all {
		r.Bury(m, Burial{DeadRejected, 1, "boom"}, func(_ Finish, err error) { done <- outcome{m, err} })
		if i == n/2 {
			s.stop()
		}
	}
	var again []*Message
	for range all {
		if o := wait(t, done, "a burial"); o.err != nil {
			if errors.Is(o.err, ErrDeadLetters) {
				t.Fatalf("an outage is no refusal: %v", o.err)
			}
			again = append(again, o.m)
		}
	}
	if len(again) == 0 {
		t.Fatal("the outage was not noticed")
	}
	s.start()
	r.reconnected()
	for _, m := range again {
		until(t, "it is buried", func() bool {
			_, err := r.bury(m, Burial{DeadRejected, 1, "boom"})
			return err == nil
		})
	}
	if got := len(r.dead()); got != n || r.stored() != 0 {
		t.Errorf("%d dead letters and %d left, want %d and none", got, r.stored(), n)
	}
}

// Without a place for dead letters the message is not lost: it goes back with its verdict, is not handed out, and is moved
// once there is a place.
func TestNoPlaceForDeadLetters(t *testing.T) {
	for name, how := range map[string]struct{ shut, open func(*rig) error }{
		"the stream is missing": {
			func(r *rig) error { return r.wire.JS.DeleteStream(within(r.t), "FL_DEAD_orders") },
			func(r *rig) error { return r.EnsureStream(within(r.t), r.q) },
		},
		"the stream is full": {
			func(r *rig) error { return r.limitDead(1) },
			func(r *rig) error { return r.limitDead(-1) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newDeadRig(t, nil)
			a := r.asker()
			r.publish(0, "b", "first")
			if f, err := r.bury(a.take(a.at(0, "b"), 1)[0], Burial{DeadRejected, 1, ""}); f != Finished || err != nil {
				t.Fatal(f, err)
			}
			if err := how.shut(r); err != nil {
				t.Fatal(err)
			}
			seq := r.publish(0, "a", "x").Seq
			m := a.take(a.at(0, "a"), 1)[0]
			_, err := r.bury(m, Burial{DeadRejected, 1, "boom"})
			if !errors.Is(err, ErrDeadLetters) || !strings.Contains(err.Error(), "FL_DEAD_orders") {
				t.Fatalf("buried: %v", err)
			}
			// The verdict comes before everything: an agent that dies now leaves a message that nobody is handed.
			if rec, _ := r.attempts.lookup("orders", seq); rec.Dead != DeadRejected || rec.Tries != 1 || rec.Error != "boom" {
				t.Errorf("its record is %+v", rec)
			}
			r.giveBack(m, Return{Counts: AnAttempt, Reason: "boom", Dead: DeadRejected})
			if answer := a.ask(a.at(0, "a"), 5); len(answer.Messages) != 0 || answer.Held != 1 {
				t.Errorf("handed out %s, held %d", payloads(answer.Messages), answer.Held)
			}
			until(t, "it has gone back again", func() bool { return r.metrics.BurialsFailed.Load() == 2 && r.metrics.Returned.Load() == 2 })
			if err := how.open(r); err != nil {
				t.Fatal(err)
			}
			until(t, "it is moved", func() bool {
				if got := a.ask(a.at(0, "a"), 5).Messages; len(got) > 0 {
					t.Fatalf("handed out %s", payloads(got))
				}
				return r.stored() == 0
			})
			if d := r.deadLetterOf(seq); d.Reason != DeadRejected || d.Error != "boom" || d.Attempts != 1 {
				t.Errorf("%+v", d)
			}
		})
	}
}

// limitDead sets a limit as an operator would.
func (r *rig) limitDead(messages int64) error {
	stream, err := r.wire.JS.Stream(within(r.t), "FL_DEAD_orders")
	if err != nil {
		return err
	}
	cfg := stream.CachedInfo().Config
	cfg.MaxMsgs = messages
	if _, err = r.wire.JS.UpdateStream(within(r.t), cfg); err != nil {
		return err
	}
	// A definition that comes into force leaves it alone.
	if err = r.EnsureStream(within(r.t), r.q); err != nil {
		return err
	}
	if stream, err = r.wire.JS.Stream(within(r.t), "FL_DEAD_orders"); err == nil && stream.CachedInfo().Config.MaxMsgs != messages {
		err = errors.New("the operator's limit is gone")
	}
	return err
}

// What was about to be evicted, and may be among the dead letters by now, is not handed out any more when nobody says
// whether it is: it would be both.
func TestAnEvictionWithoutAnAnswer(t *testing.T) {
	t.Parallel() // it waits for seconds
	r := newDeadRig(t, func(q *config.Queue) {
		ringOf(2, func(*config.Queue) {})(q)
		q.AckWait, q.DeadLetters.Evicted = 30*time.Second, true
	})
	r.fill(1, 1)
	if err := r.wire.JS.DeleteStream(within(t), "FL_DEAD_orders"); err != nil {
		t.Fatal(err)
	}
	silent, err := r.wire.NC.Subscribe("fl.dead.orders.>", func(*nats.Msg) {})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Publish(within(t), r.q, Publication{Key: "t1", Data: []byte("new")}); !errors.Is(err, ErrUnavailable) {
		t.Fatalf("published without anybody saying that there is room: %v", err)
	}
	if err := silent.Unsubscribe(); err != nil {
		t.Fatal(err)
	}
	r.define(r.q)
	a := r.asker()
	until(t, "the eviction is complete", func() bool {
		for _, m := range a.ask(a.at(1, "t0"), 1).Messages {
			if string(m.Data) == "1a" {
				t.Fatal("what was to be evicted was handed out")
			}
			r.giveBack(m, Return{})
		}
		return len(r.dead()) == 1
	})
	r.wantLeft("1b")
}

// Nobody says whether a dead letter was stored: while that is tried again, JetStream hears of the message and does not give
// it to somebody else; then the outcome is unknown, and burying again settles it.
func TestABurialWithoutAnAnswer(t *testing.T) {
	t.Parallel() // it waits for seconds
	// Three times as long a wait are the tries, and the agent may stand still for a moment between two words of it.
	r := newDeadRig(t, func(q *config.Queue) { q.AckWait = wire.AnswerWait })
	other := r.another().asker()
	if err := r.wire.JS.DeleteStream(within(t), "FL_DEAD_orders"); err != nil {
		t.Fatal(err)
	}
	silent, err := r.wire.NC.Subscribe("fl.dead.orders.>", func(*nats.Msg) {})
	if err != nil {
		t.Fatal(err)
	}
	a := r.asker()
	lane := a.at(0, "a")
	seq := r.publish(0, "a", "x").Seq
	m := a.take(lane, 1)[0]
	done := make(chan error, 1)
	r.Bury(m, Burial{DeadRejected, 1, "boom"}, func(_ Finish, err error) { done <- err })
	for waiting := true; waiting; { // several times its acknowledgement wait
		select {
		case err = <-done:
			waiting = false
		default:
			if answer := other.ask(lane, 1); len(answer.Messages)+answer.Held > 0 { // held: for its verdict
				t.Fatal("given to somebody else meanwhile")
			}
		}
	}
	if !errors.Is(err, ErrOutcomeUnknown) || errors.Is(err, ErrDeadLetters) || r.stored() != 1 {
		t.Errorf("%v, %d in the queue", err, r.stored())
	}
	if err := silent.Unsubscribe(); err != nil {
		t.Fatal(err)
	}
	r.define(r.q)
	if f, err := r.bury(m, Burial{DeadRejected, 1, "boom"}); f != Finished || err != nil {
		t.Errorf("again: %v, %v", f, err)
	}
	r.deadLetterOf(seq)
	if len(r.dead()) != 1 || r.stored() != 0 {
		t.Errorf("%d dead letters, %d in the queue", len(r.dead()), r.stored())
	}
}

// A verdict outlives a lane that is made again, and hands the message out before its time.
func TestAVerdictOutlivesAnEarlyArrival(t *testing.T) {
	r := newDeadRig(t, nil)
	a := r.asker()
	lane := a.at(0, "a")
	seq := r.publish(0, "a", "poison").Seq
	m := a.take(lane, 1)[0]
	r.giveBack(m, Return{Counts: AnAttempt, NotBefore: time.Now().Add(time.Second), Reason: "boom", Dead: DeadRejected})
	if err := r.wire.JS.DeleteConsumer(within(t), lane.stream, lane.name); err != nil {
		t.Fatal(err)
	}
	until(t, "it arrives before its time", func() bool { return a.ask(lane, 1).Held > 0 })
	until(t, "it is buried", func() bool {
		for _, m := range a.ask(lane, 1).Messages {
			t.Fatalf("%s was handed out, attempt %d", m.Data, m.Attempt)
		}
		return len(r.dead()) == 1 && r.stored() == 0
	})
	if d := r.deadLetterOf(seq); d.Reason != DeadRejected || d.Attempts != 1 || d.Error != "boom" {
		t.Errorf("%+v", d)
	}
}

// Also when the stream remembers nothing any more, a second dead letter of a message is refused.
func TestTheSubjectOfADeadLetterIsTaken(t *testing.T) {
	r := newDeadRig(t, nil)
	a := r.asker()
	r.publish(0, "a", "x")
	m := a.take(a.at(0, "a"), 1)[0]
	letter, err := r.deadLetter(m, Burial{DeadRejected, 1, ""})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []error{nil, ErrConflict} {
		letter.Header.Set("Nats-Msg-Id", fmt.Sprint("forgotten", i))
		if _, err := r.storeAndWait(within(t), letter); !errors.Is(err, want) {
			t.Errorf("stored %d times: %v, want %v", i+1, err, want)
		}
	}
}
