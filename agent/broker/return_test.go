package broker

import (
	"fmt"
	"testing"
	"time"

	"github.com/fairlead/fairlead/config"
)

// hasRecord tells whether the bucket holds attempts of a message, as this agent sees it.
func (r *rig) hasRecord(seq uint64) bool {
	e, ok := r.Bucket().Get(attemptKey{r.q.Name, seq}.String())
	return ok && !e.Deleted
}

// Returned messages come back at once, ahead of new ones, in the order in which they were returned.
func TestReturnAtOnce(t *testing.T) {
	for name, change := range map[string]func(*config.Queue){"fair": nil, "arrival order": arrivalOrder} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, change)
			a := r.asker()
			lane := a.at(0, "a")
			for i := range 10 {
				r.publish(0, "a", fmt.Sprint(i))
			}
			got := a.take(lane, 6)
			for _, m := range got[1:4] {
				r.giveBack(m, Return{})
			}
			if again := payloads(a.take(lane, 5)); again != "1 2 3 6 7 " {
				t.Errorf("came back as %s", again)
			}
			if n := r.metrics.Returned.Load(); n != 3 {
				t.Errorf("counted %d returned", n)
			}
		})
	}
}

// A delay is never cut short: not by this lane, not by one that was made again, not by another agent.
func TestReturnLater(t *testing.T) {
	const delay = 2 * time.Second // another agent, and another message, come before that on a slow machine too
	for _, disturb := range []string{"nothing", "lane made again", "another agent"} {
		t.Run(disturb, func(t *testing.T) {
			t.Parallel() // it waits most of the time
			r := newRig(t, nil)
			a := r.asker()
			lane := a.at(0, "a")
			r.publish(0, "a", "delayed")
			m := a.take(lane, 1)[0]
			at := time.Now().Add(delay)
			r.giveBack(m, Return{Counts: AnAttempt, NotBefore: at, Reason: "boom"})
			r.publish(0, "a", "other")
			switch disturb {
			case "lane made again":
				if err := r.wire.JS.DeleteConsumer(within(t), lane.stream, lane.name); err != nil {
					t.Fatal(err)
				}
			case "another agent":
				if err := r.wire.JS.DeleteConsumer(within(t), lane.stream, lane.name); err != nil {
					t.Fatal(err)
				}
				a = r.another().asker()
			}
			if got := payloads(a.take(a.at(0, "a"), 1)); got != "other " {
				t.Fatalf("the delayed message's lane gave %s", got)
			}
			again := a.take(a.at(0, "a"), 1)[0]
			if early := time.Until(at); early > 0 {
				t.Errorf("came %v too early", early)
			}
			if again.Seq != m.Seq || again.Attempt != 2 {
				t.Errorf("%s came as attempt %d", again.Data, again.Attempt)
			}
		})
	}
}

// An agent that has just come learns of delays before it hands anything out of a lane that it makes.
func TestReturnLaterNewAgent(t *testing.T) {
	r := newRig(t, nil)
	a := r.asker()
	lane := a.at(0, "a")
	for i := range 20 {
		r.publish(0, "a", fmt.Sprint(i))
	}
	for _, m := range a.take(lane, 20) {
		r.giveBack(m, Return{Counts: AnAttempt, NotBefore: time.Now().Add(time.Hour)})
	}
	if err := r.wire.JS.DeleteConsumer(within(t), lane.stream, lane.name); err != nil {
		t.Fatal(err)
	}
	fresh := &rig{connect(t, config.NATS{URLs: []string{r.Connection().URL}, Prefix: "fl"}), t, r.q}
	b := fresh.asker()
	fresh.Bucket().Start() // and no waiting for it
	if answer := b.ask(lane, 20); len(answer.Messages) != 0 || answer.Held != 20 {
		t.Errorf("handed out %s, held %d, %v", payloads(answer.Messages), answer.Held, answer.Err)
	}
}

// How often a message was tried is told truly, whatever happens between the tries.
func TestAttempts(t *testing.T) {
	type step struct {
		do   string
		want int // the attempt that comes next
	}
	for name, steps := range map[string][]step{
		"nacks":                          {{"nack", 2}, {"nack", 3}, {"nack", 4}},
		"clean hand-overs do not count":  {{"hand over", 1}, {"hand over", 1}, {"nack", 2}, {"hand over", 2}},
		"crashes count":                  {{"crash", 2}, {"crash", 3}},
		"crash, then nack":               {{"crash", 2}, {"nack", 3}, {"hand over", 3}},
		"nack, then crashes":             {{"nack", 2}, {"crash", 3}, {"crash", 4}, {"nack", 5}},
		"hand-over, then crash":          {{"hand over", 1}, {"crash", 2}},
		"the lane is made again":         {{"nack", 2}, {"nack", 3}, {"remake", 3}, {"nack", 4}, {"crash", 5}},
		"the lane is made again at once": {{"hand over", 1}, {"remake", 1}, {"nack", 2}},
		"another agent":                  {{"nack", 2}, {"nack", 3}, {"elsewhere", 3}, {"nack", 4}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(q *config.Queue) { q.AckWait = 300 * time.Millisecond })
			a := r.asker()
			lane := a.at(0, "a")
			r.publish(0, "a", "x")
			m := a.take(lane, 1)[0]
			if m.Attempt != 1 {
				t.Fatalf("began with attempt %d", m.Attempt)
			}
			for i, s := range steps {
				switch s.do {
				case "nack":
					a.r.giveBack(m, Return{Counts: AnAttempt, Reason: "boom"})
				case "hand over":
					a.r.giveBack(m, Return{})
				case "crash": // its acknowledgement wait passes in silence
				case "remake":
					a.r.giveBack(m, Return{})
					if err := r.wire.JS.DeleteConsumer(within(t), lane.stream, lane.name); err != nil {
						t.Fatal(err)
					}
				case "elsewhere":
					a.r.giveBack(m, Return{})
					other := r.another()
					if err := other.Bucket().Sync(within(t)); err != nil {
						t.Fatal(err)
					}
					a = other.asker()
				}
				if m = a.take(lane, 1)[0]; m.Attempt != s.want {
					t.Fatalf("after step %d (%s) came attempt %d, want %d", i+1, s.do, m.Attempt, s.want)
				}
			}
		})
	}
}

// Attempts and delays outlive the server, which forgets lanes when it stops.
func TestReturnThroughARestart(t *testing.T) {
	s := newOutside(t)
	r := s.rig(nil)
	a := r.asker()
	lane := a.at(0, "a")
	r.publish(0, "a", "counted")
	r.publish(0, "a", "delayed")
	both := a.take(lane, 2)
	r.giveBack(both[0], Return{Counts: AnAttempt})
	at := time.Now().Add(time.Second)
	r.giveBack(both[1], Return{Counts: AnAttempt, NotBefore: at})
	s.stop()
	s.start()
	r.reconnected()

	fresh := s.rig(nil) // an agent that has seen nothing of it
	b := fresh.asker()
	got := b.take(lane, 1)[0]
	if string(got.Data) != "counted" || got.Attempt != 2 {
		t.Errorf("%s came as attempt %d", got.Data, got.Attempt)
	}
	later := b.take(lane, 1)[0]
	if early := time.Until(at); early > 0 || later.Attempt != 2 {
		t.Errorf("%s came as attempt %d, %v too early", later.Data, later.Attempt, early)
	}
}

// What is given back while the server is away counts, and waits, all the same: for this agent at once, and for others as
// soon as the server is there again.
func TestReturnWhileTheServerIsAway(t *testing.T) {
	s := newOutside(t)
	r := s.rig(nil)
	a := r.asker()
	lane := a.at(0, "a")
	for _, data := range []string{"here", "delayed", "finished", "elsewhere"} {
		r.publish(0, "a", data)
	}
	got := a.take(lane, 4)
	s.stop()
	at := time.Now().Add(6 * time.Second) // until then all the others come, on a slow machine too
	for i, m := range got {
		how := Return{Counts: AnAttempt, Reason: "boom"}
		if i == 1 {
			how.NotBefore = at
		}
		done := make(chan error, 1)
		r.Return(m, how, func(err error) { done <- err })
		wait(t, done, "the return")
	}
	s.start()
	r.reconnected()
	for _, data := range []string{"here", "finished"} {
		m := a.take(lane, 1)[0]
		if string(m.Data) != data || m.Attempt != 2 {
			t.Errorf("%s came as attempt %d, want %s as the second", m.Data, m.Attempt, data)
		}
		r.finished(m)
	}
	until(t, "the records that are left are in the bucket", func() bool {
		r.attempts.flush()
		return r.hasRecord(got[1].Seq) && r.hasRecord(got[3].Seq) && r.attempts.count.Load() == 2 && !r.hasRecord(got[0].Seq) && !r.hasRecord(got[2].Seq)
	})
	b := s.rig(nil).asker()
	if m := b.take(lane, 1)[0]; string(m.Data) != "elsewhere" || m.Attempt != 2 {
		t.Errorf("to another agent came %s, attempt %d", m.Data, m.Attempt)
	}
	m := b.take(lane, 1)[0]
	if early := time.Until(at); early > 0 || string(m.Data) != "delayed" || m.Attempt != 2 {
		t.Errorf("%s came as attempt %d, %v too early", m.Data, m.Attempt, early)
	}
}

// Records last as long as their messages, and cost nothing for messages that never failed.
func TestAttemptsForgotten(t *testing.T) {
	r := newRig(t, nil)
	other := r.another()
	a := r.asker()
	failing := r.publish(0, "a", "failing").Seq
	fine := r.publish(0, "a", "fine").Seq
	got := a.take(a.at(0, "a"), 2)
	r.giveBack(got[0], Return{Counts: AnAttempt, Reason: "boom"})
	r.finished(got[1])
	if !r.hasRecord(failing) || r.hasRecord(fine) {
		t.Errorf("records: failing %t, fine %t", r.hasRecord(failing), r.hasRecord(fine))
	}
	until(t, "the other agent knows", func() bool { return other.hasRecord(failing) })
	r.finished(a.take(a.at(0, "a"), 1)[0])
	for _, agent := range []*rig{r, other} {
		until(t, "the record is gone", func() bool { return !agent.hasRecord(failing) })
		if n := agent.attempts.count.Load(); n != 0 {
			t.Errorf("%d records are held", n)
		}
	}
}

// Without the bucket a message is given back all the same. Its owner must not be told that it is not known to have gone
// back: it would be kept in the app's hands while somebody else gets it.
func TestReturnWithoutBucket(t *testing.T) {
	r := newRig(t, nil)
	a := r.asker()
	r.publish(0, "a", "x")
	m := a.take(a.at(0, "a"), 1)[0]
	if err := r.wire.JS.DeleteStream(within(t), "KV_fairlead"); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	r.Return(m, Return{Counts: AnAttempt}, func(err error) { done <- err })
	if err := wait(t, done, "the return"); err != nil {
		t.Errorf("the message was given back, and its owner told %v", err)
	}
	// Its lane's consumer has counted: an attempt all the same.
	if again := a.take(a.at(0, "a"), 1)[0]; again.Seq != m.Seq || again.Attempt != 2 {
		t.Errorf("%s came as attempt %d", again.Data, again.Attempt)
	}
}

// A message that its agent keeps extending stays with it beyond the acknowledgement wait; a silent one does not.
func TestExtend(t *testing.T) {
	t.Parallel() // it waits for seconds
	r := newRig(t, func(q *config.Queue) { q.AckWait = 2 * time.Second })
	a := r.asker()
	lane := a.at(0, "a")
	r.publish(0, "a", "extended")
	r.publish(0, "a", "silent")
	both := a.take(lane, 2)
	stop := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				r.Extend(both[0])
			case <-stop:
				return
			}
		}
	}()
	defer func() { close(stop); <-stopped }()
	for range 2 { // twice the wait, at least
		if got := a.take(lane, 1)[0]; got.Seq != both[1].Seq {
			t.Errorf("%s came although it is being worked on", got.Data)
		}
	}
}
