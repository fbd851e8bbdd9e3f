package broker

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/broker/names"
	"github.com/fairlead/fairlead/config"
)

// lease is a grant as a test wants it.
type lease struct {
	fence uint64
	over  atomic.Bool
}

func (l *lease) Trusted(time.Time) (uint64, bool) { return l.fence, !l.over.Load() }
func (l *lease) Held(time.Time) (uint64, bool)    { return l.fence, !l.over.Load() }
func (l *lease) ValidUntil() time.Time            { return time.Now().Add(time.Hour) }

func singleActive(q *config.Queue) { q.SingleActiveConsumer, q.AckWait = true, 2*time.Second }

// tenure asks the lanes of one tenure.
type tenure struct {
	*asker
	*lease
	layout Layout
}

func (r *rig) tenure(fence uint64) *tenure {
	r.t.Helper()
	l := &lease{fence: fence}
	return &tenure{asker: r.asker(), lease: l, layout: r.layout().In(NewTenure(fence, l))}
}

func (s *tenure) lane(key string) *Lane {
	return s.Lane(s.layout, Address{Class: names.Class(0), Level: 0, Key: key})
}

// comes waits for the next message of a lane that may have nothing to give before a time.
func (s *tenure) comes(lane *Lane) (m *Message) {
	s.r.t.Helper()
	until(s.r.t, "the message comes when its time has come", func() bool {
		s.Ask(lane, 1, answerLimit/4)
		answer := wait(s.r.t, s.answers, "an answer")
		if answer.Err != nil {
			s.r.t.Fatal(answer.Err)
		}
		if len(answer.Messages) == 0 {
			return false
		}
		m = answer.Messages[0]
		return true
	})
	return m
}

// consumers lists the lane consumers of the queue.
func (r *rig) lanes() (names []string) {
	r.t.Helper()
	stream, err := r.wire.JS.Stream(within(r.t), r.names.Stream(r.q.Name))
	if err != nil {
		r.t.Fatal(err)
	}
	list := stream.ConsumerNames(within(r.t))
	for name := range list.Name() {
		names = append(names, name)
	}
	return names
}

// A new holder begins with the oldest unfinished message, in order, whatever the old one still has in its hands.
func TestNewTenureBeginsWithTheOldestMessage(t *testing.T) {
	r := newRig(t, singleActive)
	for i := range 4 {
		r.publish(0, "a", fmt.Sprint(i))
	}
	first := r.tenure(100)
	m := first.take(first.lane("a"), 1)[0]
	if r.finished(m) != Finished || m.Fence() != 100 {
		t.Fatalf("fence %d", m.Fence())
	}
	held := first.take(first.lane("a"), 1)[0]

	other := r.another()
	first.over.Store(true)
	second := other.tenure(200)
	for i, want := range []string{"1 ", "2 ", "3 "} {
		m := second.take(second.lane("a"), 1)[0]
		if got := payloads([]*Message{m}); got != want || m.Fence() != 200 || m.Attempt != 2-min(i, 1) {
			t.Errorf("message %d is %sattempt %d, fence %d; want %s", i, got, m.Attempt, m.Fence(), want)
		}
		if other.finished(m) != Finished {
			t.Error("not finished")
		}
	}
	// The old holder's message is not given back any more, and leaves no record.
	back := make(chan error, 1)
	r.Return(held, Return{Counts: AnAttempt, Reason: "late"}, func(err error) { back <- err })
	if err := wait(t, back, "a late return"); !errors.Is(err, ErrTenureOver) {
		t.Errorf("a late return: %v", err)
	}
	if n := held.Lane.InHand.Load(); n != 0 {
		t.Errorf("%d in hand", n)
	}
}

// A serial lane gives out nothing while one of its messages is out or backing off.
func TestSerialLaneGivesOutOneAtATime(t *testing.T) {
	t.Parallel() // it waits for seconds
	r := newRig(t, singleActive)
	s := r.tenure(100)
	lane := s.lane("a")
	r.publish(0, "a", "first")
	m := s.take(lane, 1)[0]
	r.publish(0, "a", "second")
	r.caughtUp(lane, 1)
	s.Ask(lane, 1, 150*time.Millisecond)
	if a := wait(t, s.answers, "an answer"); len(a.Messages) > 0 || !a.Short || a.Err != nil {
		t.Errorf("while one is out: %d messages, short %t, %v", len(a.Messages), a.Short, a.Err)
	}
	r.giveBack(m, Return{Counts: AnAttempt, NotBefore: time.Now().Add(2 * time.Second)})
	s.Ask(lane, 1, 100*time.Millisecond)
	if a := wait(t, s.answers, "an answer"); len(a.Messages) > 0 || !a.Short {
		t.Errorf("while one is backing off: %d messages, short %t, %v", len(a.Messages), a.Short, a.Err)
	}
	if m := s.comes(lane); string(m.Data) != "first" || m.Attempt != 2 {
		t.Errorf("then %s with attempt %d", m.Data, m.Attempt)
	}
}

// A fresh lane that begins with a message that is backing off says until when.
func TestFreshSerialLaneTellsUntilWhenItsHeadBacksOff(t *testing.T) {
	t.Parallel() // it waits for seconds
	r := newRig(t, singleActive)
	r.publish(0, "a", "first")
	r.publish(0, "a", "second")
	first := r.tenure(100)
	at := time.Now().Add(3 * time.Second)
	r.giveBack(first.take(first.lane("a"), 1)[0], Return{Counts: AnAttempt, NotBefore: at})
	first.over.Store(true)
	second := r.another().tenure(200)
	second.Ask(second.lane("a"), 1, time.Second) // answered at once
	a := wait(t, second.answers, "an answer")
	if d := a.HeldUntil.Sub(at); a.Held != 1 || d < 0 || d > 2*time.Millisecond || len(a.Messages) > 0 {
		t.Fatalf("held %d until %v from the time asked for, %d messages", a.Held, d, len(a.Messages))
	}
	if m := second.comes(second.lane("a")); string(m.Data) != "first" || m.Attempt != 2 {
		t.Errorf("then %s with attempt %d", m.Data, m.Attempt)
	}
	if early := time.Until(at); early > 0 {
		t.Errorf("%v too early", early)
	}
}

// Each holder that ends with the message counts once: also when it was returned before, and when the next holder is
// interrupted between the record and the removal of what was left.
func TestAttemptsAcrossTenures(t *testing.T) {
	r := newRig(t, singleActive)
	r.publish(0, "a", "deadly")
	attempt := func(fence uint64) (*rig, *tenure, *Message) {
		agent := r.another()
		s := agent.tenure(fence)
		return agent, s, s.take(s.lane("a"), 1)[0]
	}
	_, s, m := attempt(100)
	if m.Attempt != 1 {
		t.Fatalf("attempt %d of the first holder", m.Attempt)
	}
	s.over.Store(true) // it died
	agent, s, m := attempt(200)
	if m.Attempt != 2 {
		t.Fatalf("attempt %d after a crash", m.Attempt)
	}
	agent.giveBack(m, Return{Counts: AnAttempt, Reason: "boom"})
	if m = s.take(s.lane("a"), 1)[0]; m.Attempt != 3 {
		t.Fatalf("attempt %d after a crash and a nack", m.Attempt)
	}
	agent.giveBack(m, Return{}) // a drain: it does not count
	s.over.Store(true)
	_, s, m = attempt(300)
	if m.Attempt != 3 {
		t.Fatalf("attempt %d after a crash, a nack and a clean hand-over", m.Attempt)
	}
	s.over.Store(true)

	// Interrupted: the record is written, what was left is still there.
	agent = r.another()
	next := agent.tenure(400)
	left, err := agent.remains(within(t), next.layout)
	if err != nil || len(left) != 1 {
		t.Fatal(left, err)
	}
	cancelled, cancel := context.WithCancel(within(t))
	for _, all := range left {
		for _, one := range all {
			if one.fence == 300 {
				rec, _ := agent.attempts.lookup("orders", m.Seq)
				rec.Tries, rec.Fence, rec.Sequence, rec.Delivered = rec.Tries+1, one.fence, one.info.Delivered.Consumer, 0
				if err := agent.putAttempt(within(t), attemptKey{"orders", m.Seq}, rec); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	cancel()
	if err := agent.succeed(cancelled, next.lane("a")); err == nil {
		t.Fatal("what was left is removed by a call that was cancelled")
	}
	_, _, m = attempt(500)
	if m.Attempt != 4 {
		t.Errorf("attempt %d after an interrupted succession, want 4: three holders ended with it, and one nack", m.Attempt)
	}
	if names := r.lanes(); len(names) != 1 {
		t.Errorf("lanes %v, want the last holder's only", names)
	}
}

// The control: without looking at what was left, a holder that died with the message leaves no trace.
func TestWithoutSuccessionCrashesAreNotCounted(t *testing.T) {
	r := newRig(t, singleActive)
	r.publish(0, "a", "deadly")
	first := r.tenure(100)
	first.take(first.lane("a"), 1)
	first.over.Store(true)
	second := r.another().tenure(200)
	second.layout.Tenure.succession.read = true
	if m := second.take(second.lane("a"), 1)[0]; m.Attempt != 1 {
		t.Errorf("attempt %d", m.Attempt)
	}
}

// Only the newest tenure's lanes count as in flight.
func TestStatsOfATakenOverQueue(t *testing.T) {
	r := newRig(t, singleActive)
	r.publish(0, "a", "1")
	r.publish(0, "b", "2")
	first := r.tenure(100)
	first.take(first.lane("a"), 1)
	first.over.Store(true)
	second := r.another().tenure(200)
	second.take(second.lane("b"), 1)
	s, err := r.Stats(within(t), r.layout(), 10)
	if err != nil || s.InFlight != 1 || s.Waiting != 1 {
		t.Errorf("%d in flight, %d waiting, %v; want 1 and 1", s.InFlight, s.Waiting, err)
	}
}

// The same agent gets the lease again: what it held before is new work, not a copy of something in its hands.
func TestSameAgentInANewTenure(t *testing.T) {
	r := newRig(t, singleActive)
	r.publish(0, "a", "1")
	first := r.tenure(100)
	first.take(first.lane("a"), 1)
	first.over.Store(true)
	second := r.tenure(200)
	if m := second.take(second.lane("a"), 1)[0]; m.Fence() != 200 {
		t.Errorf("fence %d", m.Fence())
	}
}
