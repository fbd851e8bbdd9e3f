package broker

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/broker/wire"
	"github.com/fairlead/fairlead/config"
)

func wantError(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

// expiring publishes a message that expires.
func (r *rig) expiring(ttl time.Duration, data string) {
	r.t.Helper()
	if _, err := r.Publish(within(r.t), r.q, Publication{Level: 0, Key: "a", Data: []byte(data), TTL: ttl}); err != nil {
		r.t.Fatal(err)
	}
}

// An expired message is removed at the take, counted, and what is behind it comes.
func TestAnExpiredMessageIsGone(t *testing.T) {
	r := newRig(t, nil)
	r.expiring(50*time.Millisecond, "old")
	r.expiring(time.Hour, "young")
	r.publish(0, "a", "for ever")
	time.Sleep(60 * time.Millisecond)
	if found, err := r.Peek(within(t), r.q, Peek{Max: 10}); err != nil || len(found) != 2 {
		t.Errorf("peek shows %d, %v", len(found), err)
	}
	a := r.asker()
	lane := a.at(0, "a")
	answer := a.ask(lane, 1)
	until(t, "the first answer", func() bool { // right after a publish a lane may say that it is empty
		if answer.Held == 0 && len(answer.Messages) == 0 {
			answer = a.ask(lane, 1)
			return false
		}
		return true
	})
	if answer.Held != 1 || len(answer.Messages) != 0 {
		t.Errorf("the answer is %+v: want one that was held", answer)
	}
	if got := payloads(a.take(lane, 2)); got != "young for ever " {
		t.Errorf("got %s", got)
	}
	until(t, "it is removed and counted", func() bool { return r.stored() == 2 && r.metrics.Expired.Load("orders", "0") == 1 })
}

// To the millisecond: what has time left is handed out, and its time is known.
func TestExpiryIsExact(t *testing.T) {
	at := time.Now()
	m := &Message{Expires: at}
	if !m.Expired(at) || m.Expired(at.Add(-time.Millisecond)) || (&Message{}).Expired(at) {
		t.Error("wrong by a millisecond")
	}
	r := newRig(t, nil)
	before := time.Now()
	r.expiring(time.Minute, "x")
	after := time.Now()
	a := r.asker()
	if got := a.take(a.at(0, "a"), 1)[0].Expires; got.Before(before.Add(time.Minute)) || got.After(after.Add(time.Minute)) {
		t.Errorf("expires at %v, published between %v and %v", got, before, after)
	}
}

// Work that is running when its time is over is not removed: it is settled as always. JetStream would remove it a day later.
func TestRunningWorkDoesNotExpire(t *testing.T) {
	t.Parallel() // it waits for seconds
	r := newRig(t, func(q *config.Queue) { q.AckWait = time.Second })
	r.expiring(2*time.Second, "x") // long enough to be taken on a slow machine
	a := r.asker()
	m := a.take(a.at(0, "a"), 1)[0]
	for time.Since(m.Expires) < 1500*time.Millisecond { // past its time, and past what JetStream would have rounded it to
		time.Sleep(200 * time.Millisecond)
		r.Extend(m)
	}
	if r.stored() != 1 {
		t.Fatal("it was removed")
	}
	if f := r.finished(m); f != Finished {
		t.Errorf("finish: %v", f)
	}
	if n := r.metrics.Expired.Load("orders", "0"); n != 0 {
		t.Errorf("%d expired", n)
	}
}

func TestARetryExpires(t *testing.T) {
	t.Parallel() // it waits for seconds
	r := newRig(t, nil)
	r.expiring(2*time.Second, "x") // long enough to be taken on a slow machine
	a := r.asker()
	m := a.take(a.at(0, "a"), 1)[0]
	r.giveBack(m, Return{Counts: AnAttempt, NotBefore: m.Expires.Add(100 * time.Millisecond)})
	until(t, "it is removed", func() bool {
		if answer := a.ask(a.at(0, "a"), 1); len(answer.Messages) > 0 {
			t.Fatal("it was delivered")
		}
		return r.stored() == 0
	})
	until(t, "it is counted", func() bool { return r.metrics.Expired.Load("orders", "0") == 1 })
	until(t, "its record is gone", func() bool { return len(r.attempts.of("orders")) == 0 })
}

// What backs off for longer than it lives is removed as soon as a lane gives it out, and does not wait for its time.
func TestARetryThatNeverComesExpires(t *testing.T) {
	t.Parallel() // it waits for seconds
	r := newRig(t, nil)
	r.expiring(2*time.Second, "x") // long enough to be taken on a slow machine
	a := r.asker()
	lane := a.at(0, "a")
	m := a.take(lane, 1)[0]
	r.giveBack(m, Return{Counts: AnAttempt, NotBefore: time.Now().Add(time.Hour)})
	until(t, "it has expired", func() bool { return m.Expired(time.Now()) })
	if err := r.wire.JS.DeleteConsumer(within(t), lane.stream, lane.name); err != nil { // the next one forgets the delay
		t.Fatal(err)
	}
	until(t, "it is removed", func() bool { a.ask(lane, 1); return r.stored() == 0 })
	until(t, "it is counted", func() bool { return r.metrics.Expired.Load("orders", "0") == 1 })
}

// What was given up before its time was over is among the dead letters, and has not expired.
func TestWhatWasGivenUpDoesNotExpire(t *testing.T) {
	t.Parallel() // it waits for seconds
	r := newDeadRig(t, nil)
	r.expiring(2*time.Second, "x") // long enough to be taken on a slow machine
	a := r.asker()
	lane := a.at(0, "a")
	m := a.take(lane, 1)[0]
	until(t, "it has expired while its app had it", func() bool { return m.Expired(time.Now()) })
	r.giveBack(m, Return{Counts: AnAttempt, Reason: "boom", Dead: DeadRejected})
	until(t, "it is gone", func() bool { a.ask(lane, 1); return r.stored() == 0 })
	until(t, "it is among the dead letters", func() bool { return len(r.dead()) == 1 })
	if d := r.dead()[0]; d.Reason != DeadRejected || r.metrics.Expired.Load("orders", "0") != 0 {
		t.Errorf("%+v", d)
	}
}

// Only what a take has removed counts as expired: not what somebody else has finished, and what a tenure that is over has left is
// the next holder's.
func TestExpiredIsCountedOnce(t *testing.T) {
	t.Parallel() // it waits for seconds
	r := newRig(t, singleActive)
	r.expiring(10*time.Millisecond, "x")
	first := r.tenure(5)
	gone := &Message{Queue: "orders", Seq: 1 << 50, Lane: first.lane("a")}
	r.expire(gone)
	first.over.Store(true)
	info, err := r.streamInfo(within(t), "orders", 0)
	if err != nil {
		t.Fatal(err)
	}
	r.expire(&Message{Queue: "orders", Seq: info.State.LastSeq, Lane: first.lane("a")})
	second := r.tenure(6)
	until(t, "the next holder has removed it", func() bool {
		second.Ask(second.lane("a"), 1, 100*time.Millisecond)
		wait(t, second.answers, "an answer")
		return r.stored() == 0
	})
	until(t, "it is counted", func() bool { return r.metrics.Expired.Load("orders", "0") > 0 })
	if n := r.metrics.Expired.Load("orders", "0"); n != 1 {
		t.Errorf("%d were counted", n)
	}
}

// The queue's TTL is for messages that have none of their own; those of raw publishers count from when they were stored.
func TestTheQueuesTTL(t *testing.T) {
	r := newRig(t, func(q *config.Queue) { q.TTL = 200 * time.Millisecond })
	r.raw("p0.a", "raw")
	before := time.Now()
	m, err := r.wire.Read(within(t), "FL_Q_orders", wire.Look{Seq: r.publish(0, "a", "published").Seq})
	if at := expiryOf(m.Header.Get(headerExpires)); err != nil || at.Before(before.Add(r.q.TTL)) || at.After(time.Now().Add(r.q.TTL)) {
		t.Errorf("the published one says %v, %v: want what the queue's TTL was at the publish", at, err)
	}
	r.expiring(time.Hour, "own")
	r.raw("p0.a", "raw own", headerExpires, time.Now().Add(time.Hour).Format(time.RFC3339))
	r.raw("p0.a", "poison", headerExpires, "tomorrow")
	time.Sleep(250 * time.Millisecond)
	a := r.asker()
	if got := payloads(a.take(a.at(0, "a"), 2)); got != "own raw own " {
		t.Errorf("got %s", got)
	}
	until(t, "the others are removed", func() bool { a.ask(a.at(0, "a"), 5); return r.stored() == 2 })
	until(t, "they are counted", func() bool { return r.metrics.Expired.Load("orders", "0") == 3 })
}

// JetStream's own removal comes at least a day later, in whole seconds.
func TestTheBackstop(t *testing.T) {
	r := newRig(t, nil)
	r.expiring(1500*time.Millisecond, "x")
	m, err := r.wire.Read(within(t), "FL_Q_orders", wire.Look{Seq: 1, Filter: "fl.q.orders.>"})
	if err != nil {
		t.Fatal(err)
	}
	seconds, err := strconv.Atoi(m.Header.Get(headerTTL))
	if got := time.Duration(seconds) * time.Second; err != nil || got < 24*time.Hour+1500*time.Millisecond || got > 24*time.Hour+3*time.Second {
		t.Errorf("the backstop is %v, %v", got, err)
	}
	r.publish(0, "a", "for ever")
	m, err = r.wire.Read(within(t), "FL_Q_orders", wire.Look{Seq: m.Seq + 1, Filter: "fl.q.orders.>"})
	if err != nil || m.Header.Get(headerTTL) != "" || m.Header.Get(headerExpires) != "" {
		t.Errorf("a message without a TTL has one: %v, %v", m.Header, err)
	}
}

// A delayed message gets its backstop when it enters the queue: a day after it expires, and not while it is delayed.
func TestTheBackstopOfADelayedMessage(t *testing.T) {
	r := newRig(t, nil)
	r.delayed(100*time.Millisecond, Publication{Level: 0, Key: "a", TTL: time.Hour})
	r.mover()
	until(t, "it is in the queue", func() bool { return r.stored() == 1 })
	m, err := r.wire.Read(within(t), "FL_Q_orders", wire.Look{Seq: 1, Filter: "fl.q.orders.>"})
	if err != nil {
		t.Fatal(err)
	}
	seconds, err := strconv.Atoi(m.Header.Get(headerTTL))
	if got := time.Duration(seconds) * time.Second; err != nil || got < 24*time.Hour+59*time.Minute || got > 25*time.Hour {
		t.Errorf("the backstop is %v, %v", got, err)
	}
}

// A delayed message that has expired when it falls due, because it waited for room, never enters the queue.
func TestADelayedMessageExpires(t *testing.T) {
	r := newRig(t, nil)
	const ttl = 200 * time.Millisecond
	r.delayed(150*time.Millisecond, Publication{Level: 0, Key: "a", TTL: ttl})
	published := time.Now()
	r.due(1)
	until(t, "it has expired", func() bool { return time.Since(published) > ttl })
	r.mover()
	until(t, "it is gone", func() bool { return r.leftDelayed() == 0 })
	until(t, "it is counted", func() bool { return r.metrics.Expired.Load("orders", "0") == 1 })
	if r.stored() != 0 || r.metrics.DelayedMoved.Load() != 0 {
		t.Error("it was moved")
	}
}

// One that expires under a definition that does not have its level any more is counted at the lowest.
func TestADelayedMessageExpiresAtALevelThatIsGone(t *testing.T) {
	r := newRig(t, nil)
	const ttl = 150 * time.Millisecond
	for level := -1; level < 3; level++ {
		r.delayed(100*time.Millisecond, Publication{Level: level, Key: "a", TTL: ttl})
	}
	published := time.Now()
	q := r.q
	q.Levels, q.DefaultPriority = 2, 0
	r.define(q)
	r.due(4)
	until(t, "all have expired", func() bool { return time.Since(published) > ttl })
	r.mover()
	until(t, "they are counted as they would have been served", func() bool {
		return r.metrics.Expired.Load("orders", "0") == 2 && r.metrics.Expired.Load("orders", "1") == 2
	})
}
