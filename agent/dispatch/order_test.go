package dispatch

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/broker"
	"github.com/fairlead/fairlead/config"
	"github.com/fairlead/fairlead/fairshare"
)

const long = time.Hour

// drain runs one agent with one worker until everything was handed over.
func drain(t *testing.T, w *world, a *simAgent, pull int) {
	t.Helper()
	total := w.backlog()
	a.worker(pull, time.Second, 0)
	w.run(long, func() bool { return len(w.taken) == total })
	if len(w.taken) != total {
		t.Fatalf("%d of %d messages were handed over", len(w.taken), total)
	}
}

func levels(w *world) string {
	var b strings.Builder
	for _, d := range w.taken {
		b.WriteByte("HMLXYZ"[d.m.Level])
	}
	return b.String()
}

func TestStarvationGuardAsSinglesAndAsOnePull(t *testing.T) {
	want := strings.Repeat("H", 10) + "M" + strings.Repeat("H", 10) + "ML"
	for _, pull := range []int{1, 2, 8, 64} {
		w := newWorld(t, 1)
		for range 20 {
			w.publish("q", 0, "", 0)
		}
		w.publish("q", 1, "", 0)
		w.publish("q", 1, "", 0)
		w.publish("q", 2, "", 0)
		drain(t, w, w.agent(100, def("q", 3, 10, false, nil)), pull)
		if got := levels(w); got != want {
			t.Errorf("pulls of %d: %s, want %s", pull, got, want)
		}
	}
}

func TestWeightsAreExactInEveryWindowAtEveryPullSize(t *testing.T) {
	for _, header := range []bool{false, true} {
		for _, pull := range []int{1, 2, 8, 64} {
			w := newWorld(t, 2)
			weights := map[string]config.Weight{"heavy": 3000}
			var own fairshare.Weight
			if header {
				weights, own = nil, 3000 // the agent cannot know before it has seen one
			}
			for range 300 {
				w.publish("q", 0, "heavy", own)
				w.publish("q", 0, "light", 0)
			}
			a := w.agent(1000, def("q", 1, 0, true, weights))
			a.worker(pull, time.Second, 0)
			w.run(long, func() bool { return len(w.taken) >= 400 })
			for i := 0; i+4 <= 400; i += 4 {
				heavy := 0
				for _, d := range w.taken[i : i+4] {
					if d.m.Key == "heavy" {
						heavy++
					}
				}
				if heavy != 3 {
					t.Fatalf("header %v, pulls of %d: %d of deliveries %d to %d went to the heavy tenant", header, pull, heavy, i, i+3)
				}
			}
		}
	}
}

// TestBatchIsWhatSinglesWouldBe compares whole orders for random backlogs.
func TestBatchIsWhatSinglesWouldBe(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 7))
		nlevels, guard, keys := 1+rng.IntN(4), rng.IntN(3)*3, 1+rng.IntN(12)
		weights := map[string]config.Weight{}
		for k := range keys {
			if rng.IntN(2) == 0 {
				weights[fmt.Sprint("k", k)] = config.Weight(1 + rng.IntN(5000))
			}
		}
		type msg struct {
			level int
			key   string
		}
		var backlog []msg
		for range 50 + rng.IntN(300) {
			backlog = append(backlog, msg{rng.IntN(nlevels+1) - 1, fmt.Sprint("k", rng.IntN(keys))})
		}
		var singles []string
		for _, pull := range []int{1, 2, 8, 64} {
			w := newWorld(t, 3)
			queues := []config.Queue{def("a", nlevels, guard, true, weights), def("b", nlevels, 0, true, nil)}
			w.defaultLevel = queues[0].DefaultPriority
			for i, m := range backlog {
				w.publish([]string{"a", "b"}[i%2], m.level, m.key, fairshare.Weight(weights[m.key]))
			}
			drain(t, w, w.agent(1000, queues...), pull)
			if pull == 1 {
				singles = w.order()
			} else if got := w.order(); !reflect.DeepEqual(got, singles) {
				t.Fatalf("seed %d, pulls of %d:\n%v\nsingles:\n%v", seed, pull, got, singles)
			}
		}
	}
}

// Messages with the default priority and without one are of one level: they come in the order in which they were stored.
func TestMessagesWithoutAPriorityKeepTheirPlaceInTheLevel(t *testing.T) {
	for seed := range uint64(40) {
		for _, pull := range []int{1, 2, 8, 64} {
			w := newWorld(t, seed)
			w.defaultLevel = 1
			d := def("q", 3, 0, true, map[string]config.Weight{"k0": 2500})
			publish := func(n int) {
				for range n {
					w.publish("q", w.rng.IntN(4)-1, fmt.Sprint("k", w.rng.IntN(3)), 0)
				}
			}
			publish(100)
			w.events = nil
			a := w.agent(100, d)
			a.worker(pull, time.Second, 0)
			w.run(long, func() bool { return len(w.taken) >= 50 })
			publish(100) // while it works: told by wake-ups
			w.run(long, func() bool { return len(w.taken) == 200 })
			if len(w.taken) != 200 {
				t.Fatalf("seed %d, pulls of %d: %d of 200 were handed over", seed, pull, len(w.taken))
			}
			last := map[string]uint64{}
			for i, d := range w.taken {
				lane := fmt.Sprint(d.m.Level, "/", d.m.Key)
				if d.m.Seq < last[lane] {
					t.Fatalf("seed %d, pulls of %d: delivery %d of %s has sequence %d after %d", seed, pull, i, lane, d.m.Seq, last[lane])
				}
				last[lane] = d.m.Seq
			}
		}
	}
}

// Where only one kind is there, as in most queues, nothing is looked up.
func TestHeadsAreLookedUpOnlyWhereBothKindsWait(t *testing.T) {
	w := newWorld(t, 1)
	w.defaultLevel = 1
	for i := range 300 {
		w.publish("q", []int{-1, 0, 2}[i%3], fmt.Sprint("k", i%7), 0)
	}
	drain(t, w, w.agent(100, def("q", 3, 0, true, nil)), 8)
	if w.heads > 0 {
		t.Errorf("%d heads were looked up", w.heads)
	}
}

func TestQueuesAreStrictInListOrder(t *testing.T) {
	w := newWorld(t, 4)
	for range 50 {
		w.publish("second", 0, "x", 0)
		w.publish("first", 2, "y", 0)
	}
	drain(t, w, w.agent(10, def("first", 3, 0, true, nil), def("second", 3, 0, true, nil)), 7)
	for i, d := range w.taken {
		if want := []string{"first", "second"}[i/50]; d.m.Queue != want {
			t.Fatalf("delivery %d is of %s", i, d.m.Queue)
		}
	}
}

func TestNoInversionOverFiveLevels(t *testing.T) {
	w := newWorld(t, 5)
	rng := rand.New(rand.NewPCG(1, 1))
	for range 15000 {
		w.publish("q", rng.IntN(5), "", 0)
	}
	drain(t, w, w.agent(64, def("q", 5, 0, false, nil)), 64)
	last := uint64(0)
	for i, d := range w.taken {
		if i > 0 && d.m.Level < w.taken[i-1].m.Level {
			t.Fatalf("delivery %d is of level %d after level %d", i, d.m.Level, w.taken[i-1].m.Level)
		}
		if i > 0 && d.m.Level == w.taken[i-1].m.Level && d.m.Seq < last {
			t.Fatalf("delivery %d has sequence %d after %d", i, d.m.Seq, last)
		}
		last = d.m.Seq
	}
}

func TestTwentyTenantsWithPullsOfEight(t *testing.T) {
	w := newWorld(t, 6)
	for i := range 2000 {
		w.publish("q", 0, fmt.Sprint("t", i%20), 0)
	}
	w.agent(100, def("q", 1, 0, true, nil)).worker(8, time.Second, 0)
	w.run(long, func() bool { return len(w.taken) >= 400 })
	for key, n := range shares(w.taken[:400]) {
		if n < 19 || n > 21 {
			t.Errorf("%s had %d of 400", key, n)
		}
	}
}

func shares(taken []delivered) map[string]int {
	n := map[string]int{}
	for _, d := range taken {
		n[d.m.Key]++
	}
	return n
}

func TestTenAfterThirtyThousand(t *testing.T) {
	w := newWorld(t, 7)
	for range 30000 {
		w.publish("q", 0, "big", 0)
	}
	a := w.agent(100, def("q", 1, 0, true, nil))
	a.worker(8, time.Second, time.Millisecond)
	w.run(long, func() bool { return len(w.taken) >= 1000 })
	from := len(w.taken)
	for range 10 {
		w.publish("q", 0, "small", 0)
	}
	w.run(long, func() bool { return shares(w.taken)["small"] == 10 })
	// The pull under way when they came may hold eight of the big tenant's.
	if n := len(w.taken) - from; n > 24+8 {
		t.Errorf("the ten were done after %d deliveries", n)
	}
}

// TestTopLevelDoesNotSlowADeepLowerLevel publishes 50 top-level messages a second beside a deep lower level.
func TestTopLevelDoesNotSlowADeepLowerLevel(t *testing.T) {
	run := func(top bool) (lower int, worst int) {
		w := newWorld(t, 8)
		for i := range 300000 {
			w.publish("q", 2, fmt.Sprint("t", i%10), 0)
		}
		w.events = nil // the agent comes after the backlog
		a := w.agent(64, def("q", 3, 0, true, nil))
		a.worker(64, time.Second, 0)
		var publish func()
		started := map[uint64]int{}
		publish = func() {
			m := w.publish("q", 0, "urgent", 0)
			started[m.Seq] = len(w.taken)
			w.after(20*time.Millisecond, publish)
		}
		if top {
			w.after(0, publish)
		}
		w.run(time.Second, func() bool { return false })
		for i, d := range w.taken {
			if d.m.Level == 2 {
				lower++
			} else {
				worst = max(worst, i-started[d.m.Seq])
			}
		}
		return lower, worst
	}
	alone, _ := run(false)
	beside, worst := run(true)
	if beside < alone*4/5 {
		t.Errorf("%d of the lower level beside urgent work, %d without it", beside, alone)
	}
	// Two pulls of 64 can be on their way when it is published: the one being answered, and the one being asked.
	if worst > 128 {
		t.Errorf("an urgent message was delivered %d deliveries after it was published", worst)
	}
}

// aHundredBelow is an agent with a hundred messages of the lowest level, and lanes that say "nothing" only when told to.
func aHundredBelow(t *testing.T, seed uint64) (*world, *simAgent) {
	w := newWorld(t, seed)
	w.faults.wrongEmpty = 0
	for range 100 {
		w.publish("q", 2, "", 0)
	}
	w.events = nil
	return w, w.agent(100, def("q", 3, 0, false, nil))
}

// JetStream can say "nothing" for a moment after it stored a message. The urgent one is the next delivery all the same, at
// every pull size and however long the moment is.
func TestAWrongEmptyAnswerLetsNobodyOvertake(t *testing.T) {
	for _, pull := range []int{1, 8} {
		for seed := range uint64(50) {
			w, a := aHundredBelow(t, seed)
			a.worker(pull, 0, 0)
			w.run(long, func() bool { return len(w.taken) >= 16 })
			urgent := w.publish("q", 0, "", 0)
			w.hidden, w.hiddenUntil = urgent.Seq, w.now.Add(time.Duration(w.rng.Int64N(int64(insistence))))
			from := len(w.taken)
			w.run(long, func() bool { return len(w.taken) == 101 })
			for i, d := range w.taken[from:] {
				// Pulls that were on their way when it was stored come first.
				if d.m.Seq == urgent.Seq && i > 2*pull {
					t.Fatalf("seed %d, pulls of %d: it was overtaken by %d", seed, pull, i)
				}
			}
		}
	}
}

// A message that was heard of and is gone holds up what is below it for a trip to the server where others may have taken it,
// and only once in a while for longer where nobody can have.
func TestWhatIsGoneHoldsNobodyUp(t *testing.T) {
	for _, rivals := range []int{0, 1} {
		for seed := range uint64(50) {
			w, a := aHundredBelow(t, seed)
			a.core.setRivals(map[string]Rivals{"q": {All: rivals}})
			a.worker(1, 0, 0)
			w.run(long, func() bool { return len(w.taken) >= 16 })
			from, empty := len(w.taken), w.empty
			const gone = 4
			for i := range gone {
				w.publish("q", 0, "", 0)
				w.lane("q", broker.Address{Class: "p0"}).messages = nil
				w.run(long, func() bool { return len(w.taken) == from+(i+1)*10 })
			}
			waits, last := 0, w.taken[from-1].at
			for _, d := range w.taken[from:] {
				switch gap := d.at.Sub(last); {
				case gap >= 2*insistence:
					t.Fatalf("seed %d, %d rivals: nothing was delivered for %s", seed, rivals, gap)
				case gap >= insistence/2:
					waits++
				}
				last = d.at
			}
			if waits > max(1-rivals, 0) {
				t.Fatalf("seed %d, %d rivals: deliveries waited %d times", seed, rivals, waits)
			}
			if asked := w.empty - empty; asked < gone || asked > 4*gone {
				t.Fatalf("seed %d, %d rivals: the lane was asked %d times in vain", seed, rivals, asked)
			}
		}
	}
}

func TestFlappingTenantGetsNoMoreThanItsShare(t *testing.T) {
	w := newWorld(t, 9)
	for range 3000 {
		w.publish("q", 0, "steady", 0)
	}
	a := w.agent(100, def("q", 1, 0, true, nil))
	// It has one message at a time, and publishes the next as soon as it was served.
	w.publish("q", 0, "flap", 0)
	seen := 0
	a.worker(1, time.Second, 0)
	for len(w.taken) < 2000 {
		w.run(time.Millisecond, func() bool { return len(w.taken) > seen })
		for ; seen < len(w.taken); seen++ {
			if w.taken[seen].m.Key == "flap" {
				w.publish("q", 0, "flap", 0)
			}
		}
	}
	n := shares(w.taken)
	if n["flap"] > n["steady"]+1 {
		t.Errorf("the flapping tenant had %d, the steady one %d", n["flap"], n["steady"])
	}
	if n["flap"] < 500 {
		t.Errorf("the flapping tenant had %d only: the test shows nothing", n["flap"])
	}
}

func TestSleeperGetsNoBurst(t *testing.T) {
	w := newWorld(t, 10)
	for range 3000 {
		w.publish("q", 0, "steady", 0)
	}
	w.publish("q", 0, "sleeper", 0)
	a := w.agent(100, def("q", 1, 0, true, nil))
	a.worker(1, time.Second, 0)
	w.run(long, func() bool { return len(w.taken) >= 1000 })
	from := len(w.taken)
	for range 500 {
		w.publish("q", 0, "sleeper", 0)
	}
	w.run(long, func() bool { return len(w.taken) >= from+100 })
	if n := shares(w.taken[from:])["sleeper"]; n > 51 {
		t.Errorf("the sleeper had %d of the 100 after it woke", n)
	}
}

// However many agents share a queue, the shares hold, nobody's pull comes back empty while work waits, and few questions to
// lanes are in vain.
func TestManyAgentsShareOneQueue(t *testing.T) {
	for _, agents := range []int{1, 2, 4, 8} {
		w := newWorld(t, 11)
		w.faults.jitter = 100 * time.Microsecond
		q := def("q", 1, 0, true, map[string]config.Weight{"t0": 4000, "t1": 2000})
		for i := range 20000 {
			w.publish("q", 0, fmt.Sprint("t", i%5), 0)
		}
		w.events = nil
		for range agents {
			a := w.agent(64, q)
			for range 2 {
				a.worker(8, time.Second, 300*time.Microsecond)
			}
		}
		w.run(long, func() bool { return len(w.taken) >= 5000 })
		n := shares(w.taken[:5000])
		for key, weight := range map[string]int{"t0": 4, "t1": 2, "t2": 1, "t3": 1, "t4": 1} {
			if got, want := float64(n[key])/5000, float64(weight)/9; got < want-0.015 || got > want+0.015 {
				t.Errorf("%d agents: %s had a share of %.3f, want %.3f", agents, key, got, want)
			}
		}
		if w.emptyTo > 0 {
			t.Errorf("%d agents: %d pulls came back empty while work was waiting", agents, w.emptyTo)
		}
		if w.empty*20 > w.pulls {
			t.Errorf("%d agents: %d of %d questions to lanes were in vain", agents, w.empty, w.pulls)
		}
	}
}

func TestSixteenAgentsDoNotCollideRoundAfterRound(t *testing.T) {
	w := newWorld(t, 12)
	for i := range 1000 {
		w.publish("q", 0, fmt.Sprint("t", i), 0)
	}
	w.events = nil
	for range 16 {
		w.agent(8, def("q", 1, 0, true, nil)).worker(8, time.Second, time.Millisecond)
	}
	w.run(long, func() bool { return len(w.taken) == 1000 })
	if len(w.taken) != 1000 {
		t.Fatalf("%d of 1000 were handed over", len(w.taken))
	}
	// Whoever finds the last message asks many lanes that others have emptied. With one order of ties for all agents, all of
	// them would ask all lanes: 16,000 questions.
	if w.pulls > 8000 {
		t.Errorf("%d questions were needed for 1000 messages", w.pulls)
	}
}

// TestFaultsLoseNothing lets everything go wrong that can, and expects every message to be handed over once.
func TestFaultsLoseNothing(t *testing.T) {
	for seed := range uint64(150) {
		w := newWorld(t, seed)
		w.faults = faults{latency: 50 * time.Microsecond, jitter: 2 * time.Millisecond, loseWake: 0.3, wrongEmpty: 0.1, hang: 0.03, err: 0.05}
		queues := []config.Queue{def("a", 1+w.rng.IntN(4), w.rng.IntN(4), w.rng.IntN(2) == 0, nil), def("b", 2, 0, true, nil)}
		const total = 300
		published := 0
		for range 1 + w.rng.IntN(3) {
			w.agent(1+w.rng.IntN(20), queues...)
		}
		for _, a := range w.agents {
			for range 1 + w.rng.IntN(2) {
				w.simApp(a)
			}
		}
		var publish func()
		publish = func() {
			q := queues[w.rng.IntN(2)]
			key := ""
			if q.FairShare.Enabled {
				key = fmt.Sprint("k", w.rng.IntN(6))
			}
			w.defaultLevel = q.DefaultPriority
			level := w.rng.IntN(q.Levels)
			if q.FairShare.Enabled {
				level = w.rng.IntN(q.Levels+1) - 1
			}
			w.publish(q.Name, level, key, fairshare.Weight(w.rng.IntN(3)*1500))
			if published++; published < total {
				w.after(time.Duration(w.rng.Int64N(int64(3*time.Millisecond))), publish)
			}
		}
		publish()
		if w.rng.IntN(2) == 0 {
			w.after(100*time.Millisecond, func() {
				for _, a := range w.agents {
					changed := queues[0]
					changed.Levels, changed.StarvationGuard = changed.Levels+1, 5
					a.core.define(definition(changed), w.now)
					a.step()
				}
			})
		}
		w.run(2*time.Minute, func() bool { return len(w.taken) == total })
		seen := map[uint64]bool{}
		for _, d := range w.taken {
			if seen[d.m.Seq] {
				t.Fatalf("seed %d: message %d was handed over twice", seed, d.m.Seq)
			}
			seen[d.m.Seq] = true
		}
		if len(seen) != total {
			t.Fatalf("seed %d: %d of %d messages were handed over", seed, len(seen), total)
		}
		for _, a := range w.agents {
			if a.core.free() != a.core.concurrency-a.core.inFlight || a.core.inFlight < 0 {
				t.Fatalf("seed %d: %d in flight of %d", seed, a.core.inFlight, a.core.concurrency)
			}
		}
	}
}

// simApp pulls for ever, with random sizes and waits, and sometimes goes away in the middle of it.
func (w *world) simApp(a *simAgent) {
	var p *pull
	wait := time.Duration(w.rng.IntN(3)) * 300 * time.Millisecond
	p = a.pull(1+w.rng.IntN(12), wait, func(got []*broker.Message) {
		w.after(time.Duration(w.rng.Int64N(int64(5*time.Millisecond))), func() {
			for _, m := range got {
				m.Lane.InHand.Add(-1)
			}
			a.release(got)
			a.step()
			w.simApp(a)
		})
	})
	if w.rng.IntN(10) == 0 {
		w.after(time.Duration(w.rng.Int64N(int64(time.Millisecond))), func() {
			a.core.cancel(p, w.now)
			a.step()
		})
	}
}
