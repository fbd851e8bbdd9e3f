package broker

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/fairlead/fairlead/agent/broker/bucket"
	"github.com/fairlead/fairlead/config"
)

func (r *rig) stats() Stats {
	r.t.Helper()
	s, err := r.Stats(within(r.t), r.layout(), 100)
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

func (d Depth) String() string {
	return fmt.Sprintf("%d=%d+%d+%d", d.Stored, d.Waiting, d.InFlight, d.BackingOff)
}

func (s Stats) summary() string {
	out := s.Depth.String()
	for _, l := range s.Levels {
		out += fmt.Sprintf(" %d:%v", l.Level, l.Depth)
	}
	for _, k := range s.Keys {
		out += fmt.Sprintf(" %q:%v", k.Key, k.Depth)
	}
	return out
}

func TestStats(t *testing.T) {
	r := newRig(t, nil)
	expect := func(when, want string) Stats {
		t.Helper()
		s := r.stats()
		if got := s.summary(); got != want {
			t.Errorf("%s: got\n%s, want (stored=waiting+in flight+backing off)\n%s", when, got, want)
		}
		return s
	}
	expect("empty", "0=0+0+0 0:0=0+0+0 1:0=0+0+0 2:0=0+0+0")
	for i := range 4 {
		r.publish(0, "a", fmt.Sprint(i))
	}
	r.publish(-1, "b", "m")
	r.publish(1, "", "m")
	r.raw("p9.a", "gone level")
	r.raw("px.a", "odd")
	s := expect("published", `7=7+0+0 0:4=4+0+0 1:2=2+0+0 2:1=1+0+0 "a":5=5+0+0 "":1=1+0+0 "b":1=1+0+0`)
	if s.Odd != 1 || s.KeysTotal != 3 || s.Lanes != 0 || s.Partial || s.Bytes == 0 || s.FirstSeq < bucket.MinFence {
		t.Errorf("%+v", s)
	}

	a := r.asker()
	lane := a.at(0, "a")
	got := a.take(lane, 3)
	expect("3 taken", `7=4+3+0 0:4=1+3+0 1:2=2+0+0 2:1=1+0+0 "a":5=2+3+0 "":1=1+0+0 "b":1=1+0+0`)
	r.giveBack(got[0], Return{})
	expect("1 returned at once", `7=5+2+0 0:4=2+2+0 1:2=2+0+0 2:1=1+0+0 "a":5=3+2+0 "":1=1+0+0 "b":1=1+0+0`)
	r.giveBack(got[1], Return{Counts: AnAttempt, NotBefore: time.Now().Add(time.Hour)})
	expect("1 backing off", `7=5+1+1 0:4=2+1+1 1:2=2+0+0 2:1=1+0+0 "a":5=3+1+1 "":1=1+0+0 "b":1=1+0+0`)
	again := a.take(lane, 1)
	if again[0].Seq != got[0].Seq {
		t.Fatalf("%d came, not the returned %d", again[0].Seq, got[0].Seq)
	}
	expect("the returned one taken again", `7=4+2+1 0:4=1+2+1 1:2=2+0+0 2:1=1+0+0 "a":5=2+2+1 "":1=1+0+0 "b":1=1+0+0`)
	r.giveBack(again[0], Return{Counts: AnAttempt})
	expect("and returned again", `7=5+1+1 0:4=2+1+1 1:2=2+0+0 2:1=1+0+0 "a":5=3+1+1 "":1=1+0+0 "b":1=1+0+0`)
	again = a.take(lane, 1)
	expect("and taken a third time", `7=4+2+1 0:4=1+2+1 1:2=2+0+0 2:1=1+0+0 "a":5=2+2+1 "":1=1+0+0 "b":1=1+0+0`)
	r.finished(again[0])
	r.finished(got[2])
	// JetStream takes finished messages off its lanes' accounts a moment after the confirmation.
	until(t, "the lane has let go of them", func() bool { return r.stats().InFlight == 0 && !r.hasRecord(again[0].Seq) })
	expect("2 finished", `5=4+0+1 0:2=1+0+1 1:2=2+0+0 2:1=1+0+0 "a":3=2+0+1 "":1=1+0+0 "b":1=1+0+0`)
}

func TestStatsKeys(t *testing.T) {
	r := newRig(t, nil)
	for i := range 5 {
		for range i + 1 {
			r.publish(0, fmt.Sprint("k", i), "x")
		}
	}
	s, err := r.Stats(within(t), r.layout(), 2)
	if err != nil || len(s.Keys) != 2 || s.Keys[0].Key != "k4" || s.Keys[1].Key != "k3" || s.KeysTotal != 5 {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err = r.Stats(within(t), r.layout(), -1); err != nil || len(s.Keys) != 0 || s.Stored != 15 {
		t.Errorf("%+v, %v", s, err)
	}
}

// Without fair share tenants are told apart in what is stored, and levels in everything.
func TestStatsArrivalOrder(t *testing.T) {
	r := newRig(t, arrivalOrder)
	r.publish(0, "a", "1")
	r.publish(0, "b", "2")
	r.raw("p0.=ZZ", "3")
	a := r.asker()
	a.take(a.at(0, ""), 2)
	if got, want := r.stats().summary(), `3=1+2+0 0:3=1+2+0 1:0=0+0+0 2:0=0+0+0 "":1=1+0+0 "a":1=1+0+0 "b":1=1+0+0`; got != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
}

// The age of a level is that of its oldest message, in hand or not, and goes when the message does.
func TestStatsAges(t *testing.T) {
	r := newRig(t, nil)
	r.raw("d.a", "first")
	firstIn := time.Now()
	time.Sleep(30 * time.Millisecond) // ages are what is tested
	secondDue := time.Now()
	r.publish(1, "a", "second")
	r.publish(0, "b", "third")
	a := r.asker()
	first := a.take(a.unprioritised("a"), 1)[0]

	least := time.Since(firstIn)
	s := r.stats()
	if s.Levels[1].OldestAge < least || s.OldestAge != s.Levels[1].OldestAge {
		t.Errorf("ages are %v and %v, of a message that is %v old", s.Levels[1].OldestAge, s.OldestAge, least)
	}
	if most := time.Since(secondDue); s.Levels[0].OldestAge <= 0 || s.Levels[0].OldestAge > most || s.Levels[2].OldestAge != 0 {
		t.Errorf("ages are %v, of a message younger than %v, and %v, of none", s.Levels[0].OldestAge, most, s.Levels[2].OldestAge)
	}
	r.finished(first)
	s = r.stats()
	if most := time.Since(secondDue); s.Levels[1].OldestAge > most || s.Levels[1].OldestAge <= 0 {
		t.Errorf("with the oldest finished the age is %v, of a message younger than %v", s.Levels[1].OldestAge, most)
	}
}

// Lanes of another layout do not count, and more lanes than fit one page do.
func TestStatsLanes(t *testing.T) {
	r := newRig(t, nil)
	a := r.asker()
	const lanes = 300
	for i := range lanes {
		key := fmt.Sprintf("k%03d", i)
		r.publish(0, key, "x")
		a.take(a.at(0, key), 1)
	}
	s := r.stats()
	if s.Lanes != lanes || s.InFlight != lanes || s.Waiting != 0 {
		t.Errorf("%d lanes, %v", s.Lanes, s.Depth)
	}
	r.define(definition(func(q *config.Queue) { q.Levels = 2 }))
	if s := r.stats(); s.Lanes != 0 || s.Waiting != lanes {
		t.Errorf("in another layout: %d lanes, %v", s.Lanes, s.Depth)
	}
	if _, err := r.Stats(within(t), NewLayout(definition(func(q *config.Queue) { q.Name = "missing" })), 1); !errors.Is(err, ErrStreamMissing) {
		t.Errorf("no stream: %v", err)
	}
}

// A server that does not answer is told as away: whoever asks does not wait for ever.
func TestStatsOfASilentServer(t *testing.T) {
	t.Parallel() // it waits for seconds
	s := newOutside(t, func(o *server.Options) { o.JetStream = false })
	c := connect(t, config.NATS{URLs: []string{s.url()}, Prefix: "fl"})
	asked := make(chan struct{}, 10)
	if _, err := c.wire.NC.Subscribe("$JS.API.>", func(*nats.Msg) { asked <- struct{}{} }); err != nil {
		t.Fatal(err)
	}
	if err := c.wire.NC.Flush(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := c.Stats(ctx, NewLayout(definition(nil)), 10)
	if !errors.Is(err, ErrUnavailable) || ctx.Err() != nil {
		t.Errorf("Stats: %v", err)
	}
	wait(t, asked, "the request")
}
