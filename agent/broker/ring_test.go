package broker

import (
	"errors"
	"fmt"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/broker/wire"
	"github.com/fairlead/fairlead/config"
)

// ringOf limits a queue to n messages, and has the oldest of the lowest level go.
func ringOf(n int64, more ...func(*config.Queue)) func(*config.Queue) {
	return func(q *config.Queue) {
		q.Limits = config.Limits{MaxMessages: n, Overflow: config.OverflowRing}
		for _, f := range more {
			f(q)
		}
	}
}

// both runs a test with fair share and without.
func both(t *testing.T, f func(t *testing.T, share func(*config.Queue))) {
	for name, share := range map[string]func(*config.Queue){"fair": func(*config.Queue) {}, "arrival order": arrivalOrder} {
		t.Run(name, func(t *testing.T) { f(t, share) })
	}
}

// offer publishes and says what became of it: "" or the reason of the refusal.
func (r *rig) offer(level int, key, data string) string {
	r.t.Helper()
	_, err := r.Publish(within(r.t), r.q, Publication{Level: level, Key: key, Data: []byte(data)})
	var full *FullError
	if err != nil && !errors.As(err, &full) {
		r.t.Fatalf("publish %s at %d: %v", data, level, err)
	}
	if full != nil {
		return full.Reason
	}
	return ""
}

// left lists what is stored, by sequence.
func (r *rig) left() string {
	r.t.Helper()
	var all []Peeked
	found, err := r.Peek(within(r.t), r.q, Peek{Max: 1000})
	if err != nil {
		r.t.Fatal(err)
	}
	all = append(all, found...)
	sort.Slice(all, func(i, j int) bool { return all[i].Seq < all[j].Seq })
	var names []string
	for _, p := range all {
		names = append(names, string(p.Data))
	}
	return strings.Join(names, " ")
}

func (r *rig) evicted() (n uint64) {
	r.metrics.Evicted.Each(func(_ Count, k uint64) { n += k })
	return n
}

// fill publishes messages named after their level and their place, and spreads them over tenants.
func (r *rig) fill(levels ...int) {
	r.t.Helper()
	for i, level := range levels {
		if reason := r.offer(level, fmt.Sprint("t", i%3), fmt.Sprintf("%d%c", level, 'a'+i)); reason != "" {
			r.t.Fatalf("no room for the first ones: %s", reason)
		}
	}
}

func (r *rig) wantLeft(want string) {
	r.t.Helper()
	if got := r.left(); got != want {
		r.t.Errorf("left is %q, want %q", got, want)
	}
}

func TestRingEvictsTheOldestOfTheLowest(t *testing.T) {
	both(t, func(t *testing.T, share func(*config.Queue)) {
		r := newRig(t, ringOf(5, share))
		r.fill(2, 2, 1, 1, 0)
		for _, step := range []struct {
			level      int
			data, want string
			refused    string
		}{
			{0, "new1", "2b 1c 1d 0e new1", ""},
			{1, "new2", "1c 1d 0e new1 new2", ""},
			{1, "new3", "1d 0e new1 new2 new3", ""}, // an equal level: the old one goes
			{2, "new4", "1d 0e new1 new2 new3", "lower_than_all"},
			{0, "new5", "0e new1 new2 new3 new5", ""},
			{0, "new6", "0e new1 new3 new5 new6", ""},
			{0, "new7", "0e new1 new5 new6 new7", ""},
			{1, "new8", "0e new1 new5 new6 new7", "lower_than_all"},
			{-1, "new9", "0e new1 new5 new6 new7", "lower_than_all"}, // without a priority: the default level, which is 1
			{0, "new10", "new1 new5 new6 new7 new10", ""},
		} {
			if reason := r.offer(step.level, "t1", step.data); reason != step.refused {
				t.Errorf("%s at %d: refused with %q, want %q", step.data, step.level, reason, step.refused)
			}
			r.wantLeft(step.want)
		}
		if n := r.evicted(); n != 7 {
			t.Errorf("%d were counted as evicted, want 7", n)
		}
		if n := r.metrics.Refused.Load("orders", "lower_than_all"); n != 3 {
			t.Errorf("%d were counted as refused, want 3", n)
		}
	})
}

// Messages without a priority are as low as the default level, those of levels that the queue does not have as the lowest.
func TestRingComparesLevelsAsServed(t *testing.T) {
	both(t, func(t *testing.T, share func(*config.Queue)) {
		r := newRig(t, ringOf(4, share))
		r.fill(1, -1)
		r.raw("p7.t1", "strange")
		r.fill(2)
		for _, want := range []string{"1a -1b 2a x0", "1a -1b x0 x1", "-1b x0 x1 x2", "x0 x1 x2 x3"} {
			i := strings.Count(want, "x") - 1
			if reason := r.offer(0, "t1", fmt.Sprint("x", i)); reason != "" {
				t.Fatal(reason)
			}
			r.wantLeft(want)
		}
	})
}

func TestRingLeavesAloneWhatIsInFlight(t *testing.T) {
	both(t, func(t *testing.T, share func(*config.Queue)) {
		r := newRig(t, ringOf(5, share))
		worker := r.another()
		a := worker.asker()
		r.fill(1, 1, 1, 1, 1)
		// Two of five are in flight: the third oldest goes.
		held := append(a.take(a.at(1, "t0"), 1), a.take(a.at(1, "t1"), 1)...)
		if got := payloads(held); !r.q.FairShare.Enabled && got != "1a 1b " {
			t.Fatalf("in flight are %s", got)
		}
		if reason := r.offer(1, "t2", "new1"); reason != "" {
			t.Fatal(reason)
		}
		r.wantLeft("1a 1b 1d 1e new1")
		if reason := r.offer(0, "t2", "new2"); reason != "" {
			t.Fatal(reason)
		}
		r.wantLeft("1a 1b 1e new1 new2")
		// One is given back: it is the oldest again.
		r.giveBackOf(worker, held[1])
		if reason := r.offer(1, "t2", "new3"); reason != "" {
			t.Fatal(reason)
		}
		r.wantLeft("1a 1e new1 new2 new3")
		// All are in flight.
		for range 4 {
			held = append(held, worker.anything(a))
		}
		for level := range 3 {
			if reason := r.offer(level, "t1", "refused"); reason != "max_messages" {
				t.Errorf("all in flight, level %d: refused with %q", level, reason)
			}
		}
		r.wantLeft("1a 1e new1 new2 new3")
		// One is finished: there is room.
		if worker.finished(held[0]) != Finished {
			t.Fatal("running work was lost")
		}
		if reason := r.offer(2, "t1", "new4"); reason != "" {
			t.Error(reason)
		}
		if n := r.evicted(); n != 3 {
			t.Errorf("%d were evicted, want 3", n)
		}
	})
}

// giveBackOf gives a message back through the agent that has it, and waits until this one has heard of it.
func (r *rig) giveBackOf(worker *rig, m *Message) {
	r.t.Helper()
	worker.giveBack(m, Return{Counts: AnAttempt})
	until(r.t, "the return is known", func() bool { _, ok := r.attempts.lookup(m.Queue, m.Seq); return ok })
}

// anything takes one message from any lane that has some.
func (r *rig) anything(a *asker) *Message {
	r.t.Helper()
	for range 200 {
		s, err := r.Sweep(within(r.t), r.layout())
		if err != nil {
			r.t.Fatal(err)
		}
		for _, f := range s.Lanes {
			if answer := a.ask(a.Lane(r.layout(), f.Address), 1); len(answer.Messages) > 0 {
				return answer.Messages[0]
			}
		}
	}
	r.t.Fatal("nothing waits")
	return nil
}

// What backs off does not wait: it is not evicted, and once its time has come it is.
func TestRingLeavesAloneWhatBacksOff(t *testing.T) {
	t.Parallel() // it waits for seconds
	both(t, func(t *testing.T, share func(*config.Queue)) {
		r := newRig(t, ringOf(3, share))
		a := r.asker()
		r.fill(1, 1, 1)
		m := a.take(a.at(1, "t0"), 1)[0]
		at := time.Now().Add(2 * time.Second)
		r.giveBack(m, Return{Counts: AnAttempt, NotBefore: at})
		if reason := r.offer(1, "t1", "new1"); reason != "" {
			t.Fatal(reason)
		}
		r.wantLeft("1a 1c new1")
		until(t, "its time has come", func() bool {
			if reason := r.offer(1, "t1", "x"); reason != "" {
				t.Fatal(reason)
			}
			return !strings.HasPrefix(r.left(), "1a")
		})
		if early := time.Until(at); early > 0 {
			t.Errorf("it was evicted %v before its time", early)
		}
	})
}

// A flood of publishers over two agents: the highest are left, and nobody went in vain.
func TestRingFlood(t *testing.T) {
	both(t, func(t *testing.T, share func(*config.Queue)) {
		r := newRig(t, ringOf(200, share))
		agents := []*rig{r, r.another()}
		var publishers sync.WaitGroup
		var mu sync.Mutex
		accepted, refused := 0, 0
		for p := range 4 {
			publishers.Go(func() {
				for i := range 150 {
					reason := agents[p%2].offer(i%3, fmt.Sprint("t", i%7), fmt.Sprint(i%3))
					mu.Lock()
					if reason == "" {
						accepted++
					} else {
						refused++
					}
					mu.Unlock()
				}
			})
		}
		publishers.Wait()
		s, err := r.Stats(within(t), r.layout(), 0)
		if err != nil {
			t.Fatal(err)
		}
		evicted := int(agents[0].evicted() + agents[1].evicted())
		if s.Stored != 200 || s.Levels[0].Stored != 200 {
			t.Errorf("%d are stored, of which %d are of level 0, %d of 1, %d of 2", s.Stored, s.Levels[0].Stored, s.Levels[1].Stored, s.Levels[2].Stored)
		}
		if evicted != accepted-200 || evicted+refused != 400 {
			t.Errorf("%d were accepted, %d refused, %d evicted", accepted, refused, evicted)
		}
	})
}

// Workers of two agents take and finish while publishers flood the queue through both: nothing that was handed out is
// evicted, and everything that was accepted is finished, evicted or still there.
func TestRingWithWorkers(t *testing.T) {
	both(t, func(t *testing.T, share func(*config.Queue)) {
		r := newRig(t, ringOf(30, share))
		agents := []*rig{r, r.another()}
		var mu sync.Mutex
		accepted, finished := 0, 0
		stop := make(chan struct{})
		var publishers, workers sync.WaitGroup
		for w, agent := range agents {
			a := agent.asker()
			workers.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					default:
					}
					var held []*Message
					for k := range 6 {
						answer := a.ask(a.at((i+k)%3, fmt.Sprint("t", (i+w)%3)), 2)
						held = append(held, answer.Messages...)
					}
					for j, m := range held {
						if (i+j)%5 == 0 {
							agent.giveBack(m, Return{})
							continue
						}
						if outcome := agent.finished(m); outcome != Finished {
							t.Errorf("%s was taken, and finished by somebody else (%d)", m.Data, outcome)
						}
						mu.Lock()
						finished++
						mu.Unlock()
					}
				}
			})
		}
		for p := range 4 {
			publishers.Go(func() {
				for i := range 150 {
					if agents[p%2].offer((p+i)%3, fmt.Sprint("t", i%3), fmt.Sprint(p, "-", i)) == "" {
						mu.Lock()
						accepted++
						mu.Unlock()
					}
				}
			})
		}
		publishers.Wait()
		close(stop)
		workers.Wait()
		evicted := int(agents[0].evicted() + agents[1].evicted())
		if left := int(r.stored()); accepted != finished+evicted+left || left > 30 {
			t.Errorf("%d were accepted, %d finished, %d evicted, %d are left", accepted, finished, evicted, left)
		}
		if evicted == 0 || finished == 0 {
			t.Errorf("%d were evicted and %d finished: nothing was tried", evicted, finished)
		}
	})
}

// An agent that dies in its turn holds the others up for a second, and no longer.
func TestRingTakesTheTurnOfTheDead(t *testing.T) {
	r := newRig(t, ringOf(1))
	r.fill(1)
	written := make(chan error, 1)
	r.Bucket().Put(turnPrefix+"orders", []byte("dead"), func(_ uint64, err error) { written <- err })
	if err := wait(t, written, "the record of the dead agent's turn"); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if reason := r.offer(1, "a", "new"); reason != "" {
		t.Fatal(reason)
	}
	if took := time.Since(begin); took < turnStale {
		t.Errorf("the turn was taken over after %v, while its holder may have lived", took)
	}
	r.wantLeft("new")
	// It is given back, so that the next one does not wait.
	until(t, "the turn is given back", func() bool { e, ok := r.Bucket().Get(turnPrefix + "orders"); return ok && len(e.Value) == 0 })
}

// A newcomer that has waited while the queue got other lanes is made room for through the new ones: those of before would give
// out what somebody has in hand.
func TestRingFollowsTheDefinition(t *testing.T) {
	r := newRig(t, ringOf(3))
	old := r.q
	q := old
	q.Levels, q.DefaultPriority = 4, 1
	r.define(q)
	r.Followed = func(string) (config.Queue, bool) { return r.q, true }
	r.fill(2, 2, 2)
	worker := r.another().asker()
	inHand := worker.take(worker.at(2, "t0"), 1)[0]
	if string(inHand.Data) != "2a" {
		t.Fatalf("in hand is %s", inHand.Data)
	}
	if _, err := r.Publish(within(t), old, Publication{Level: 0, Key: "x", Data: []byte("new")}); err != nil {
		t.Fatal(err)
	}
	r.wantLeft("2a 2c new")

	// A queue that does not make room any more refuses.
	r.q.Limits.Overflow = config.OverflowReject
	var full *FullError
	if _, err := r.Publish(within(t), old, Publication{Level: 0, Key: "x"}); !errors.As(err, &full) || full.Reason != wire.FullMessages {
		t.Errorf("under a definition that rejects: %v", err)
	}
	r.wantLeft("2a 2c new")
}

// A mirror of the bucket that has fallen silent shows a record that is not there any more. Publishers do not wait for it for ever.
func TestRingWithASilentMirror(t *testing.T) {
	r := newRig(t, ringOf(2))
	other := r.another()
	r.fill(2, 2)
	r.bucket.Stop()
	if reason := other.offer(2, "b", "other"); reason != "" { // writes the record of the turn
		t.Fatal(reason)
	}
	if reason := r.offer(2, "a", "new"); reason != "" {
		t.Fatal(reason)
	}
	r.wantLeft("other new")
}
