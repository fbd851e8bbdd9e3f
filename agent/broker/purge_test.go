package broker

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/broker/names"
	"github.com/fairlead/fairlead/config"
)

func (r *rig) purge(p Purge) Purged {
	r.t.Helper()
	got, err := r.Purge(within(r.t), r.q, p)
	if err != nil {
		r.t.Fatal(err)
	}
	return got
}

func (r *rig) purged(p Purge, want int) {
	r.t.Helper()
	if got := r.purge(p); got.Removed != want {
		r.t.Errorf("removed %d, want %d", got.Removed, want)
	}
}

// What waits goes, of all levels and kinds; what is in the hands of any agent stays, and can be finished or returned.
func TestPurgeLeavesWhatIsInHand(t *testing.T) {
	r := newRig(t, nil)
	other := r.another()
	mine, theirs := r.asker(), other.asker()
	for i := range 100 {
		r.publish(i%3, fmt.Sprint("k", i%7), "m")
		r.publish(-1, fmt.Sprint("k", i%7), "no priority")
	}
	var held []*Message
	for level := range 3 {
		held = append(held, mine.take(mine.at(level, "k0"), 2)...)
		held = append(held, theirs.take(theirs.at(level, "k1"), 2)...)
	}
	held = append(held, theirs.take(theirs.unprioritised("k3"), 3)...)
	r.raw("p07.k0", "on a subject that is not canonical")
	r.raw("p9.k0", "of a level that is no more")
	r.purged(Purge{}, 200-15+2)
	if n := r.stored(); n != 15 {
		t.Errorf("%d messages are left, want 15", n)
	}
	for i, m := range held {
		who := r
		if m.Lane.Key != "k0" {
			who = other
		}
		if i%2 == 0 {
			if f := who.finished(m); f != Finished {
				t.Errorf("%s of %s: finish said %d", m.Data, m.Lane.Name(), f)
			}
			continue
		}
		who.giveBack(m, Return{})
		again := mine
		got := again.take(again.Lane(r.layout(), m.Lane.Address), 1)
		if got[0].Seq != m.Seq {
			t.Errorf("%d came instead of %d", got[0].Seq, m.Seq)
		}
		r.finished(got[0])
	}
	r.purged(Purge{}, 0)
	if n := r.stored(); n != 0 {
		t.Errorf("%d messages are left", n)
	}
}

// One tenant's messages, whatever its name means to JetStream.
func TestPurgeOfAKey(t *testing.T) {
	r := newRig(t, nil)
	keys := []string{"", "_", "*", ">", "a.b", "a", " ", "\r\n", "$JS.API", "é"}
	for _, key := range keys {
		for level := -1; level < 3; level++ {
			r.publish(level, key, "m")
		}
	}
	for i, key := range keys {
		r.purged(Purge{Key: &key}, 4)
		if n, want := r.stored(), uint64(4*(len(keys)-i-1)); n != want {
			t.Errorf("%d messages are left after %q, want %d", n, key, want)
		}
	}
	bad := "\xff"
	if _, err := r.Purge(within(t), r.q, Purge{Key: &bad}); !errors.Is(err, names.ErrInvalidKey) {
		t.Error(err)
	}
}

// Without fair share lanes hold all tenants.
func TestPurgeWithoutFairShare(t *testing.T) {
	r := newRig(t, arrivalOrder)
	a := r.asker()
	for i := range 300 {
		r.publish(i%4-1, fmt.Sprint("k", i), "m")
	}
	held := a.take(a.at(1, ""), 5)
	r.purged(Purge{}, 295)
	for _, m := range held {
		if f := r.finished(m); f != Finished {
			t.Errorf("finish said %d", f)
		}
	}
}

// Messages that back off are waiting too. Their records go with them.
func TestPurgeOfWhatBacksOff(t *testing.T) {
	r := newRig(t, nil)
	a := r.asker()
	for _, key := range []string{"a", "b"} {
		for range 4 {
			r.publish(0, key, "m")
		}
		for i, m := range a.take(a.at(0, key), 4) {
			wait := []time.Duration{time.Hour, purgeMargin + time.Minute, 500 * time.Millisecond, 0}[i]
			r.giveBack(m, Return{Counts: AnAttempt, NotBefore: time.Now().Add(wait)})
		}
	}
	key := "a"
	r.purged(Purge{Key: &key}, 4)
	until(t, "its records are gone", func() bool { return len(r.attempts.of(r.q.Name)) == 4 })
	if n := r.stored(); n != 4 {
		t.Errorf("%d messages are left of the other tenant", n)
	}
	r.purged(Purge{}, 4)
	until(t, "the records are gone", func() bool { return len(r.attempts.of(r.q.Name)) == 0 })
	if n := r.stored(); n != 0 {
		t.Errorf("%d messages are left", n)
	}
}

// It can be done piece by piece, and what is published meanwhile is not touched: neither in between nor during a piece.
func TestPurgePieceByPiece(t *testing.T) {
	r := newRig(t, nil)
	for i := range 1000 {
		r.publish(i%3, fmt.Sprint("k", i%5), "old")
	}
	p, sum, calls := Purge{Max: 64}, 0, 0
	for more := true; more; calls++ {
		got := r.purge(p)
		if got.Removed > p.Max {
			t.Errorf("removed %d, more than %d", got.Removed, p.Max)
		}
		sum, more, p.Until = sum+got.Removed, got.More, got.Until
		r.publish(0, "k1", "new")
	}
	if sum != 1000 || calls < 15 || calls > 17 {
		t.Errorf("removed %d in %d calls", sum, calls)
	}
	a := r.asker()
	for _, m := range a.take(a.at(0, "k1"), calls) {
		if string(m.Data) != "new" || m.Attempt != 1 {
			t.Errorf("%s was left, attempt %d", m.Data, m.Attempt)
		}
	}
}

func TestPurgeEnds(t *testing.T) {
	r := newRig(t, nil)
	for i := range 200 {
		r.publish(0, fmt.Sprint("k", i), "m")
	}
	listeners := len(r.listeners)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if got, err := r.Purge(ctx, r.q, Purge{}); !errors.Is(err, context.Canceled) || got.Removed != 0 {
		t.Errorf("removed %d: %v", got.Removed, err)
	}
	r.purged(Purge{}, 200)
	if n := len(r.listeners); n != listeners {
		t.Errorf("%d listen to the connection, %d before", n, listeners)
	}
	if err := r.wire.JS.DeleteStream(within(t), r.names.Stream(r.q.Name)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Purge(within(t), r.q, Purge{}); err == nil {
		t.Error("a queue without a stream was purged")
	}
}

// A delayed message whose mover died after it had stored the copy: what is purged does not come back from the original, also where
// messages are deleted without being taken.
func TestPurgeOfAMovedMessage(t *testing.T) {
	t.Parallel() // it waits for seconds
	for name, more := range map[string]func(*config.Queue){
		"taken": func(*config.Queue) {}, "serial": func(q *config.Queue) { q.OrderedKeys = true }, "backing off": func(*config.Queue) {},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(q *config.Queue) { more(q); q.DedupWindow = 100 * time.Millisecond })
			r.delayed(150*time.Millisecond, Publication{Level: 0, Key: "a", Data: []byte("once")})
			r.halfMove()
			r.publish(0, "b", "another")
			if name == "backing off" {
				a := r.asker()
				r.giveBack(a.take(a.at(0, "a"), 1)[0], Return{Counts: AnAttempt, NotBefore: time.Now().Add(time.Hour)})
			}
			r.purged(Purge{}, 2)
			if n := r.leftDelayed(); n != 0 {
				t.Errorf("%d are left among the delayed ones", n)
			}
			time.Sleep(200 * time.Millisecond) // the window is over
			stop := r.mover()
			r.delayed(500*time.Millisecond, Publication{Level: 0, Key: "b", Data: []byte("behind")})
			until(t, "what was published later is there", func() bool { return r.stored() > 0 })
			stop()
			if n := r.stored(); n != 1 {
				t.Errorf("%d are stored, want 1: it came back", n)
			}
		})
	}
}

// Where lanes give out one message at a time, what is in hand stays, at each of them, and so does what is newer than the purge.
func TestPurgeOfOrderedKeys(t *testing.T) {
	r := newRig(t, func(q *config.Queue) { q.OrderedKeys = true })
	other := r.another()
	mine, theirs := r.asker(), other.asker()
	var until uint64
	for i := range 12 {
		until = r.publish(1, fmt.Sprint("k", i%3), fmt.Sprint(i)).Seq
	}
	take := func(a *asker, key string) *Message {
		t.Helper()
		for end := time.Now().Add(patience); time.Now().Before(end); { // a question ends unanswered if the server stands still for so long
			a.Ask(a.at(1, key), 1, 50*time.Millisecond)
			if got := wait(t, a.answers, "an answer").Messages; len(got) == 1 {
				return got[0]
			}
		}
		t.Fatalf("nothing of %s came", key)
		return nil
	}
	held := map[*rig]*Message{r: take(mine, "k0"), other: take(theirs, "k1")}
	back := take(mine, "k2")
	r.giveBack(back, Return{Counts: AnAttempt, NotBefore: time.Now().Add(time.Hour)})
	r.publish(1, "k0", "newer")
	r.purged(Purge{Until: until}, 12-2)
	r.wantLeft("0 1 newer")
	for who, m := range held {
		if f := who.finished(m); f != Finished {
			t.Errorf("%s: finish said %d", m.Data, f)
		}
	}
	if m := take(mine, "k0"); string(m.Data) != "newer" {
		t.Errorf("then came %s", m.Data)
	}
}
