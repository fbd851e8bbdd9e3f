package dispatch

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/broker"
)

// Idle agents wait a random moment before they ask for a message that all of them have heard of. What is more important and
// known by then is not overtaken by that, however the moments fall; and the moments there are.
func TestRandomDelaysLetNobodyOvertake(t *testing.T) {
	var waited time.Duration
	const seeds = 200
	for seed := range uint64(seeds) {
		w := newWorld(t, seed)
		a := w.agent(10, def("first", 3, 0, true, nil), def("second", 2, 0, false, nil))
		a.core.rng = rand.New(rand.NewPCG(seed, 1))
		a.core.setRivals(map[string]Rivals{"first": {All: 15}, "second": {All: 15}})
		a.serve(1+w.rng.IntN(3), time.Millisecond)
		w.run(time.Second, func() bool { return len(a.core.queues) == 2 && !a.core.queues[0].unseen && !a.core.queues[1].unseen })
		published := w.now
		places := []func(){
			func() { w.publish("first", 0, "a", 0) }, func() { w.publish("first", 1, "b", 0) }, func() { w.publish("first", 2, "c", 0) },
			func() { w.publish("second", 0, "", 0) }, func() { w.publish("second", 1, "", 0) },
		}
		w.rng.Shuffle(len(places), func(i, j int) { places[i], places[j] = places[j], places[i] })
		for _, publish := range places {
			publish()
		}
		w.run(time.Second, func() bool { return len(w.taken) == len(places) })
		got := ""
		for _, d := range w.taken {
			got += fmt.Sprint(d.m.Queue, d.m.Level, " ")
		}
		if want := "first0 first1 first2 second0 second1 "; got != want {
			t.Errorf("seed %d: %s, want %s", seed, got, want)
		}
		waited += w.taken[0].at.Sub(published)
	}
	// The first of five moments, each up to 15 × 400 µs, is a sixth of that on average.
	if mean := waited / seeds; mean < 500*time.Microsecond {
		t.Errorf("the first message was taken after %v on average: idle agents do not wait for each other", mean)
	}
}

// Free credit and a message that was heard of never stay side by side for long, whenever the wake-up comes: before its lane is
// asked, while it is, or with an answer on its way. Sweeps are not needed for that.
func TestWhatIsHeardOfIsTakenAtOnce(t *testing.T) {
	for seed := range uint64(200) {
		w := newWorld(t, seed)
		w.faults.jitter = 2 * time.Millisecond
		a := w.agent(100, def("q", 2, 0, true, nil))
		a.serve(1+w.rng.IntN(4), time.Microsecond)
		a.serve(1+w.rng.IntN(4), time.Microsecond)
		w.run(time.Second, func() bool { return !a.core.queues[0].unseen })
		const n = 100
		for range n {
			w.after(time.Duration(w.rng.Int64N(int64(200*time.Millisecond))), func() { w.publish("q", w.rng.IntN(2), fmt.Sprint("k", w.rng.IntN(2)), 0) })
		}
		w.run(5*time.Second, func() bool { return len(w.taken) == n })
		if len(w.taken) != n {
			t.Fatalf("seed %d: %d of %d were taken", seed, len(w.taken), n)
		}
		for _, d := range w.taken {
			if took := d.at.Sub(d.m.EnqueuedAt); took > 100*time.Millisecond {
				t.Fatalf("seed %d: %d was taken %v after it was stored", seed, d.m.Seq, took)
			}
		}
	}
}

// What a capsule has heard of counts when it picks, also when it hears of the message and of the pull at the same time.
func TestAPullKnowsWhatWasHeardBefore(t *testing.T) {
	q := stored(def("q", 3, 0, false, nil))
	r := newRig(t, q)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	publish := func(level int, data string) {
		t.Helper()
		receipt, err := r.client.Publish(ctx, q, broker.Publication{Level: level, Data: []byte(data)})
		if err != nil {
			t.Fatal(err)
		}
		r.capsule.Stored("q", level, "", 0, receipt.Seq)
	}
	pull := func() string {
		messages, err := r.capsule.Pull(ctx, Request{Max: 1, Wait: patience})
		if err != nil || len(messages) != 1 {
			t.Fatalf("%d messages, %v", len(messages), err)
		}
		return string(messages[0].Data)
	}
	publish(1, "before") // with it the queue is seen
	if got := pull(); got != "before" {
		t.Fatal(got)
	}
	publish(2, "low")
	for r.capsule.Status().Queues[0].Lanes == 0 {
		time.Sleep(time.Millisecond)
	}
	busy, gate := make(chan struct{}), make(chan struct{})
	r.capsule.box.put(func(*core, time.Time) { close(busy); <-gate })
	<-busy
	got := make(chan string, 1)
	go func() { got <- pull() }()
	heard := func() (events int) {
		r.capsule.box.mu.Lock()
		defer r.capsule.box.mu.Unlock()
		return len(r.capsule.box.events)
	}
	for heard() == 0 {
		time.Sleep(time.Millisecond)
	}
	publish(0, "high") // told of after the pull, and in the same turn
	close(gate)
	if first := <-got; first != "high" {
		t.Errorf("the pull got %s", first)
	}
}
