package dispatch

import (
	"fmt"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/broker"
	"github.com/fairlead/fairlead/config"
	"github.com/fairlead/fairlead/fairshare"
)

// operator pauses and resumes in all agents at the same time, and forbids to ask for what is paused.
type operator struct {
	w      *world
	queues map[string]bool
	keys   map[string]bool
}

func (w *world) operator() *operator {
	o := &operator{w, map[string]bool{}, map[string]bool{}}
	w.forbidden = func(l *broker.Lane) bool { return o.queues[l.Queue()] || o.keys[l.Queue()+"/"+l.Key] }
	return o
}

func (o *operator) pause(queue string, on bool) {
	o.queues[queue] = on
	for _, a := range o.w.agents {
		a.core.pause(queue, on, o.w.now)
		a.step()
	}
}

func (o *operator) pauseKey(queue, key string, on bool) {
	o.keys[queue+"/"+key] = on
	for _, a := range o.w.agents {
		a.core.pauseKey(queue, key, on, o.w.now)
		a.step()
	}
}

func (w *world) pass(d time.Duration) { w.run(d, func() bool { return false }) }

// takenOf counts what was handed over of a queue since a time.
func (w *world) takenOf(queue string, since time.Time) (n int) {
	for _, d := range w.taken {
		if d.m.Queue == queue && d.at.After(since) {
			n++
		}
	}
	return n
}

// Nothing is taken from a paused queue, the queues behind it are served, and all of it is there when it is resumed: at
// once, and in order of level.
func TestAPausedQueueBlocksNobody(t *testing.T) {
	w := newWorld(t, 30)
	a := w.agent(4, def("first", 3, 0, false, nil), def("second", 1, 0, false, nil))
	o := w.operator()
	a.serve(1, time.Millisecond)
	for range 100 {
		w.publish("first", 2, "", 0)
	}
	w.run(time.Second, func() bool { return len(w.taken) == 50 }) // it knows well of the low ones
	o.pause("first", true)
	w.pass(5 * time.Millisecond) // what was under way
	paused, low := w.now, w.takenOf("first", time.Time{})
	for i := range 100 {
		w.publish("first", i%3, "", 0)
		w.publish("second", 0, "", 0)
	}
	w.pass(5 * time.Second)
	if n := w.takenOf("second", paused); n != 100 {
		t.Errorf("%d of the second queue's 100 were taken", n)
	}
	if n := w.takenOf("first", paused); n != 0 {
		t.Fatalf("%d were taken of the paused queue", n)
	}

	o.pause("first", false)
	resumed := w.now
	left := 200 - low
	w.run(time.Second, func() bool { return w.takenOf("first", resumed) == left })
	if n := w.takenOf("first", resumed); n != left {
		t.Fatalf("%d of %d were taken after it was resumed", n, left)
	}
	last := 0
	for i, d := range w.taken[len(w.taken)-left:] {
		if i == 0 && d.at.Sub(resumed) > 5*time.Millisecond {
			t.Errorf("the first one came %v after it was resumed", d.at.Sub(resumed))
		}
		if d.m.Level < last {
			t.Fatalf("level %d after level %d", d.m.Level, last)
		}
		last = d.m.Level
	}
}

// A paused queue costs nothing: no questions, no sweeps, no timers that run for nothing.
func TestAPausedQueueIsLeftAlone(t *testing.T) {
	w := newWorld(t, 31)
	a := w.agent(4, def("q", 1, 0, true, nil))
	w.operator().pause("q", true)
	a.serve(1, time.Millisecond)
	for i := range 50 {
		w.publish("q", 0, fmt.Sprint("k", i%5), 0)
	}
	w.pass(100 * time.Millisecond)
	pulls, sweeps := w.pulls, w.sweeps
	events := w.n
	w.pass(20 * time.Second) // 20 pulls of the app, of a second each
	if w.pulls != pulls || w.sweeps != sweeps {
		t.Errorf("%d questions and %d sweeps in 20 s", w.pulls-pulls, w.sweeps-sweeps)
	}
	if n := w.n - events; n > 200 {
		t.Errorf("%d events in 20 s", n)
	}
	for i := range 2000 {
		w.publish("q", 0, fmt.Sprint("tenant", i), 0)
	}
	w.pass(time.Second)
	if n := len(a.core.queueNamed("q").lanes); n != 0 {
		t.Errorf("%d tenants are kept in memory", n)
	}
}

// A queue that is resumed is looked over at once, however short the pause was, and again if a look was under way.
func TestAShortPauseHidesNothing(t *testing.T) {
	w := newWorld(t, 39)
	w.faults = faults{latency: 20 * time.Millisecond, loseWake: 1}
	a := w.agent(4, def("q", 1, 0, false, nil))
	o := w.operator()
	a.serve(1, time.Millisecond)
	for i := range 20 {
		w.run(time.Second, func() bool { return a.core.queueNamed("q").sweeping })
		w.pass(time.Duration(i) * 3 * time.Millisecond) // before, in and after the look
		o.pause("q", true)
		w.publish("q", 0, "", 0)
		w.pass(10 * time.Millisecond)
		o.pause("q", false)
		resumed, before := w.now, len(w.taken)
		w.run(time.Second, func() bool { return len(w.taken) > before })
		if took := w.now.Sub(resumed); took > 130*time.Millisecond { // two looks and a question
			t.Errorf("round %d: the message came %v after the queue was resumed", i, took)
		}
	}
}

// A pause holds before a queue is defined, and through other definitions of it.
func TestAPauseOutlivesDefinitions(t *testing.T) {
	w := newWorld(t, 32)
	a := w.agent(4, def("other", 1, 0, false, nil))
	a.core.order = []string{"q", "other"}
	o := w.operator()
	o.pause("q", true)
	for _, d := range []config.Queue{def("q", 1, 0, false, nil), def("q", 3, 0, true, nil)} {
		a.core.define(definition(d), w.now)
		a.serve(1, time.Millisecond)
		w.publish("q", 0, "", 0)
		w.pass(time.Second)
		if len(w.taken) > 0 {
			t.Fatal("it was taken from")
		}
	}
	o.pause("q", false)
	w.pass(time.Second)
	if len(w.taken) != 2 {
		t.Errorf("%d of 2 were taken", len(w.taken))
	}
}

// A pull that does not wait sees that there is nothing, and does not wait for the paused queue.
func TestAPullThatDoesNotWaitPassesOverAPausedQueue(t *testing.T) {
	w := newWorld(t, 33)
	a := w.agent(4, def("q", 1, 0, false, nil))
	o := w.operator()
	o.pause("q", true)
	w.publish("q", 0, "", 0)
	w.pass(time.Second)
	began, answered, sweeps := w.now, time.Time{}, w.sweeps
	a.pull(1, 0, func([]*broker.Message) { answered = w.now })
	w.run(5*time.Second, func() bool { return !answered.IsZero() })
	if answered.IsZero() || answered.Sub(began) > 10*time.Millisecond || len(w.taken) > 0 || w.sweeps > sweeps {
		t.Errorf("answered after %v with %d messages and %d sweeps", answered.Sub(began), len(w.taken), w.sweeps-sweeps)
	}
	o.pause("q", false)
	a.pull(1, 0, func([]*broker.Message) {})
	w.pass(10 * time.Millisecond)
	if len(w.taken) != 1 {
		t.Error("the next pull did not find the message")
	}
}

// turns are the keys in the order in which they were served.
func turns(taken []delivered) (keys []string) {
	for _, d := range taken {
		keys = append(keys, d.m.Key)
	}
	return keys
}

// ahead is how far one key was ever ahead of another one, in turns.
func ahead(keys []string, a, b string) (most int) {
	lead := 0
	for _, k := range keys {
		switch k {
		case a:
			lead++
		case b:
			lead--
		}
		most = max(most, lead)
	}
	return most
}

// A paused tenant leaves the others their fair turns, and has no burst afterwards: what it did not get is gone. What it had
// got too much of before is not forgotten.
func TestAPausedKeyHasNoBurst(t *testing.T) {
	w := newWorld(t, 34)
	for range 600 {
		for _, key := range []string{"a", "b", "c"} {
			w.publish("q", 0, key, 0)
		}
	}
	a := w.agent(1, def("q", 1, 0, true, nil))
	o := w.operator()
	a.serve(1, 0)
	served := func(n int) []delivered {
		before := len(w.taken)
		w.run(long, func() bool { return len(w.taken) >= before+n })
		return w.taken[before:]
	}
	served(30)
	o.pauseKey("q", "b", true)
	served(1) // what was under way
	during := turns(served(400))
	for _, k := range during {
		if k == "b" {
			t.Fatal("the paused tenant was served")
		}
	}
	if ahead(during, "a", "c") > 1 || ahead(during, "c", "a") > 1 {
		t.Error("the others did not take turns while one was paused")
	}
	o.pauseKey("q", "b", false)
	served(1)
	after := turns(served(300))
	for _, other := range []string{"a", "c"} {
		if n := ahead(after, "b", other); n > 1 {
			t.Errorf("the resumed tenant was %d turns ahead of %s", n, other)
		}
		if n := ahead(after, other, "b"); n > 1 {
			t.Errorf("the resumed tenant was %d turns behind %s", n, other)
		}
	}

	// The check can fail: a scheduler that keeps the place in line of whoever is away would serve the resumed tenant alone.
	pass, naive := map[string]int{}, []string(nil)
	for i := range 700 {
		next := ""
		for _, key := range []string{"a", "b", "c"} {
			if away := key == "b" && i < 400; !away && (next == "" || pass[key] < pass[next]) {
				next = key
			}
		}
		pass[next]++
		naive = append(naive, next)
	}
	if ahead(naive[400:], "b", "a") < 100 {
		t.Error("the check finds nothing wrong with a burst")
	}
}

// While a tenant is paused its lanes are neither asked nor lost from sight.
func TestAPausedKeyCostsSweepsOnly(t *testing.T) {
	w := newWorld(t, 35)
	a := w.agent(4, def("q", 1, 0, true, nil))
	o := w.operator()
	a.serve(4, time.Millisecond)
	o.pauseKey("q", "b", true)
	for range 100 {
		w.publish("q", 0, "b", 0)
	}
	w.pass(time.Second)
	pulls, sweeps := w.pulls, w.sweeps
	w.pass(90 * time.Second) // longer than an empty lane is remembered
	if w.pulls != pulls {
		t.Errorf("%d questions while there was nothing to ask for", w.pulls-pulls)
	}
	if n := w.sweeps - sweeps; n < 200 || n > 500 {
		t.Errorf("%d sweeps in 90 s", n)
	}
	o.pauseKey("q", "b", false)
	resumed := w.now
	w.run(time.Second, func() bool { return len(w.taken) == 100 })
	if len(w.taken) != 100 || w.taken[0].at.Sub(resumed) > 5*time.Millisecond {
		t.Errorf("%d of 100 came, the first %v after it was resumed", len(w.taken), w.taken[0].at.Sub(resumed))
	}
}

// Without fair share one lane has the messages of all tenants: the pause of a tenant has no effect, and above all none on
// everybody. With fair share switched on it has.
func TestAPausedKeyWithoutFairShare(t *testing.T) {
	w := newWorld(t, 36)
	a := w.agent(4, def("q", 1, 0, false, nil))
	a.core.pauseKey("q", "", true, w.now)
	a.serve(4, time.Millisecond)
	w.publish("q", 0, "", 0)
	w.pass(time.Second)
	if len(w.taken) != 1 {
		t.Error("the queue stands still")
	}
	a.core.define(definition(def("q", 1, 0, true, nil)), w.now)
	w.publish("q", 0, "", 0)
	w.publish("q", 0, "b", 0)
	w.pass(time.Second)
	if len(w.taken) != 2 || w.taken[1].m.Key != "b" {
		t.Errorf("got %v", w.order())
	}
}

// A message that arrives late for something that was paused meanwhile goes back at once, and is not handed out.
func TestALateMessageOfWhatIsPausedGoesBack(t *testing.T) {
	for _, ofKey := range []bool{false, true} {
		w := newWorld(t, 37)
		a := w.agent(4, def("q", 1, 0, true, nil))
		o := w.operator()
		w.publish("q", 0, "b", 0)
		w.faults.hang = 1
		a.pull(4, time.Minute, func([]*broker.Message) {})
		w.pass(700 * time.Millisecond) // the round was given up
		w.faults.hang = 0
		set := func(on bool) {
			if ofKey {
				o.pauseKey("q", "b", on)
			} else {
				o.pause("q", on)
			}
		}
		set(true)
		w.pass(1400 * time.Millisecond) // the answer comes after two seconds
		if len(w.taken) != 0 || w.backlog() != 1 {
			t.Errorf("of key %v: %d handed over, %d waiting", ofKey, len(w.taken), w.backlog())
		}
		set(false)
		w.pass(time.Second)
		if len(w.taken) != 1 {
			t.Errorf("of key %v: %d handed over after it was resumed", ofKey, len(w.taken))
		}
	}
}

// An overridden weight flips the shares of what is waiting, from the next turn on; taken back, the definition's and then
// the messages' own weights count again.
func TestWeightOverridesActOnWhatIsWaiting(t *testing.T) {
	for _, pull := range []int{1, 2, 8, 64} {
		w := newWorld(t, 38)
		for range 2000 {
			w.publish("q", 0, "a", 3000) // its messages say 3
			w.publish("q", 0, "b", 0)
		}
		a := w.agent(1000, def("q", 1, 0, true, map[string]config.Weight{"b": 500}))
		a.serve(pull, 0)
		check := func(what string, shareA, shareB int) {
			t.Helper()
			w.run(long, func() bool { return len(w.taken)%pull == 0 })
			from := len(w.taken) + 2*(shareA+shareB) + pull // what was picked before, and a turn of the old price
			whole := shareA + shareB
			w.run(long, func() bool { return len(w.taken) >= from+20*whole })
			for i := from; i+whole <= from+20*whole; i += whole {
				n := 0
				for _, d := range w.taken[i : i+whole] {
					if d.m.Key == "a" {
						n++
					}
				}
				if n != shareA {
					t.Fatalf("pulls of %d: %s: %d of %d turns went to a, want %d", pull, what, n, whole, shareA)
				}
			}
		}
		set := func(key string, weight fairshare.Weight) { a.core.setWeight("q", key, weight, w.now); a.step() }
		check("as the messages and the definition say", 6, 1)
		set("a", 500)
		check("a overridden", 1, 1)
		set("b", 1500)
		check("b too", 1, 3)
		set("a", 0)
		check("a taken back", 2, 1)
		set("b", 0)
		check("b taken back", 6, 1)
	}
}

// Whatever is paused and resumed in whatever order, nothing that is paused is asked for, and in the end nothing is left.
func TestPausesOverManySeeds(t *testing.T) {
	seeds := uint64(400)
	if testing.Short() {
		seeds = 40
	}
	for seed := range seeds {
		w := newWorld(t, seed+1000)
		w.faults = faults{latency: 200 * time.Microsecond, jitter: time.Millisecond, loseWake: 0.2, wrongEmpty: 0.05, err: 0.02, hang: 0.002}
		for range 2 {
			w.agent(5, def("first", 3, 0, true, nil), def("second", 1, 0, false, nil)).serve(3, 2*time.Millisecond)
		}
		o := w.operator()
		keys := []string{"", "a", "b"}
		published := 0
		for range 40 {
			switch w.rng.IntN(6) {
			case 0:
				queue := []string{"first", "second"}[w.rng.IntN(2)]
				o.pause(queue, !o.queues[queue])
			case 1:
				key := keys[w.rng.IntN(3)]
				o.pauseKey("first", key, !o.keys["first/"+key])
			default:
				for range w.rng.IntN(10) {
					w.publish("first", w.rng.IntN(3), keys[w.rng.IntN(3)], 0)
					w.publish("second", 0, "", 0)
					published += 2
				}
			}
			w.pass(time.Duration(w.rng.IntN(50)) * time.Millisecond)
		}
		for _, queue := range []string{"first", "second"} {
			o.pause(queue, false)
		}
		for _, key := range keys {
			o.pauseKey("first", key, false)
		}
		w.run(time.Minute, func() bool { return len(w.taken) >= published })
		if len(w.taken) != published || w.backlog() != 0 {
			t.Fatalf("seed %d: %d of %d were handed over, %d are waiting", seed, len(w.taken), published, w.backlog())
		}
	}
}
