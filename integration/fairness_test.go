package integration

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/api"
)

// One queue with one level and fair share.
const fairQueue = `
queues:
  - {name: jobs, fair_share: true}
capsules:
  - {name: main, queues: [jobs], concurrency: 10000}
`

// count tells how many of all belong to each key.
func count(all []api.Delivery) map[string]int {
	byKey := map[string]int{}
	for _, d := range all {
		byKey[d.Key]++
	}
	return byKey
}

func TestAFloodOfOneTenantDoesNotDelayAnother(t *testing.T) {
	a := startAgent(t, settings{yaml: fairQueue})
	a.batch("jobs", notes(30_000, "a", note{Key: "a"})...)
	app := a.app("main")
	app.take(100, 10)
	a.batch("jobs", notes(10, "b", note{Key: "b"})...)
	next := app.take(24, 8)
	equal(t, "messages of the small tenant among the next 24", count(next)["b"], 10)
}

func TestWeightsAreExactAtEveryPullSize(t *testing.T) {
	t.Parallel()
	for _, most := range []int{1, 2, 8, 64} {
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			t.Parallel()
			a := startAgent(t, settings{yaml: `
queues: [{name: jobs, fair_share: {enabled: true, weights: {heavy: 3}}}]
capsules: [{name: main, queues: [jobs], concurrency: 1000}]
`})
			a.batch("jobs", notes(400, "h", note{Key: "heavy"})...)
			a.batch("jobs", notes(400, "l", note{Key: "light"})...)
			app := a.app("main")
			got := letters(app.take(512, most))
			for from := 0; from+4 <= len(got); from += 4 {
				if window := got[from : from+4]; strings.Count(window, "h") != 3 {
					t.Fatalf("deliveries %d to %d are %s, want three heavy and one light", from, from+3, window)
				}
			}
		})
	}
}

// The weight may ride on the messages instead of standing in the file.
func TestWeightsOfMessages(t *testing.T) {
	t.Parallel()
	a := startAgent(t, settings{yaml: fairQueue})
	a.batch("jobs", notes(300, "x", note{Key: "half", Weight: 0.5})...)
	a.batch("jobs", notes(300, "x", note{Key: "one"})...)
	a.batch("jobs", notes(300, "x", note{Key: "two", Weight: 2})...)
	app := a.app("main")
	app.take(35, 7)
	for round := range 3 {
		got := count(app.take(70, 7))
		for key, want := range map[string]int{"half": 10, "one": 20, "two": 40} {
			if n := got[key]; n < want-1 || n > want+1 {
				t.Errorf("round %d: %s got %d of 70, want %d ± 1", round, key, n, want)
			}
		}
	}
}

func TestTwentyTenantsWithPullsOfEight(t *testing.T) {
	t.Parallel()
	a := startAgent(t, settings{yaml: fairQueue})
	for i := range 20 {
		a.batch("jobs", notes(40, "x", note{Key: fmt.Sprintf("tenant%d", i)})...)
	}
	got := count(a.app("main").take(400, 8))
	equal(t, "tenants served", len(got), 20)
	for key, n := range got {
		if n < 19 || n > 21 {
			t.Errorf("%s got %d of 400, want 20 ± 1", key, n)
		}
	}
}

func TestFairInsideEachLevel(t *testing.T) {
	t.Parallel()
	a := startAgent(t, settings{yaml: `
queues: [{name: jobs, priority_levels: 2, fair_share: true}]
capsules: [{name: main, queues: [jobs], concurrency: 1000}]
`})
	a.batch("jobs", notes(100, "x", note{Key: "a", Priority: 1})...)
	a.batch("jobs", notes(100, "x", note{Key: "b", Priority: 1})...)
	a.batch("jobs", notes(50, "x", note{Key: "a", Priority: 0})...)
	a.batch("jobs", notes(10, "x", note{Key: "b", Priority: 0})...)
	app := a.app("main")
	if got := count(app.take(20, 4)); got["b"] < 9 {
		t.Errorf("at level 0, b got %d of the first 20, want 10 ± 1", got["b"])
	}
	for _, d := range app.take(40, 8) {
		equal(t, "level before level 0 is empty", d.Priority, 0)
	}
	if got := count(app.take(20, 4)); got["a"] < 9 || got["b"] < 9 {
		t.Errorf("at level 1: %v of 20, want 10 ± 1 each", got)
	}
}

// A tenant that comes with one message, goes, and comes back when that was delivered gets no more than its share.
func TestATenantThatComesAndGoesGetsNoMoreThanItsShare(t *testing.T) {
	t.Parallel()
	a := startAgent(t, settings{yaml: fairQueue})
	a.batch("jobs", notes(600, "steady", note{Key: "steady"})...)
	app := a.app("main")
	flapping, published := 0, 0
	publish := func() {
		published++
		a.publish("jobs", fmt.Sprint(published), api.HeaderKey, "flapping")
	}
	publish()
	for i := 1; i <= 600; i++ {
		got := app.pull(1, patience)
		if len(got) != 1 {
			t.Fatalf("nothing came although %d messages wait", 600-i)
		}
		app.ack(got...)
		if got[0].Key == "flapping" {
			flapping++
			app.flush()
			publish()
		}
		if steady := i - flapping; flapping > steady+2 {
			t.Fatalf("after %d deliveries the flapping tenant has %d, the steady one %d", i, flapping, steady)
		}
	}
	if flapping < 200 {
		t.Errorf("the flapping tenant got %d of 600: it had a message waiting nearly always", flapping)
	}
}

// A tenant that slept while another was served gets no more than its share when it is back.
func TestATenantThatSleptGetsNoBurst(t *testing.T) {
	t.Parallel()
	a := startAgent(t, settings{yaml: fairQueue})
	a.batch("jobs", notes(2000, "busy", note{Key: "busy"})...)
	a.batch("jobs", notes(10, "sleeper", note{Key: "sleeper"})...)
	app := a.app("main")
	app.take(520, 8)
	a.batch("jobs", notes(100, "sleeper", note{Key: "sleeper"})...)
	for round := range 5 {
		if n := count(app.take(20, 4))["sleeper"]; n < 9 || n > 11 {
			t.Errorf("round %d: the tenant that slept got %d of 20, want 10 ± 1", round, n)
		}
	}
}

func TestALoneTenantGetsEverything(t *testing.T) {
	t.Parallel()
	a := startAgent(t, settings{yaml: fairQueue})
	a.batch("jobs", notes(100, "x", note{Key: "lone", Weight: 0.001})...)
	app, got, pulls := a.app("main"), 0, 0
	for ; got < 100; pulls++ {
		got += len(app.pull(100-got, patience))
	}
	if pulls > 5 { // one, unless a machine that stands still makes an answer of a part
		t.Errorf("100 messages needed %d pulls of as many as there are", pulls)
	}
}

func TestUnkeyedMessagesAreOneTenant(t *testing.T) {
	t.Parallel()
	a := startAgent(t, settings{yaml: fairQueue})
	a.batch("jobs", notes(50, "x", note{})...)
	a.batch("jobs", notes(50, "x", note{Key: "_"})...)
	a.batch("jobs", notes(50, "x", note{Key: "keyed"})...)
	got := count(a.app("main").take(60, 6))
	for _, key := range []string{"", "_", "keyed"} {
		if n := got[key]; n < 19 || n > 21 {
			t.Errorf("key %q got %d of 60, want 20 ± 1", key, n)
		}
	}
}

// Four agents with an app each on one queue: shares as one agent gives them, no app sent away empty, few empty pulls.
func TestFourAgentsShareOneQueue(t *testing.T) {
	server := startNATS(t)
	weights := []int{4, 3, 2, 1}
	agents := make([]*agent, 4)
	for i := range agents {
		agents[i] = startAgent(t, settings{id: fmt.Sprintf("agent%d", i), nats: server.url, yaml: `
queues: [{name: jobs, fair_share: {enabled: true, weights: {w4: 4, w3: 3, w2: 2}}}]
capsules: [{name: main, queues: [jobs], concurrency: 100}]
`})
	}
	for i, w := range weights {
		agents[i].batch("jobs", notes(2500, "x", note{Key: fmt.Sprintf("w%d", w)})...)
	}
	const total = 5000
	all, empty := shared(t, agents, total)
	got := count(all)
	for _, w := range weights {
		share := float64(got[fmt.Sprintf("w%d", w)]) / float64(len(all))
		if want := float64(w) / 10; share < want-0.015 || share > want+0.015 {
			t.Errorf("weight %d got %.3f of %d, want %.3f ± 0.015", w, share, len(all), want)
		}
	}
	equal(t, "empty answers to apps while work waits", empty, 0)
	var pulls, emptyPulls uint64
	for i, a := range agents {
		c := a.capsule("main")
		t.Logf("agent%d: %d delivered, %d lane pulls, %d empty", i, c.Delivered, c.LanePulls, c.EmptyPulls)
		pulls, emptyPulls = pulls+c.LanePulls, emptyPulls+c.EmptyPulls
		if c.Delivered < total/40 {
			t.Errorf("agent%d delivered %d of %d only", i, c.Delivered, total)
		}
	}
	if float64(emptyPulls) > 0.05*float64(pulls) {
		t.Errorf("%d of %d lane pulls were empty, want at most 5 %%", emptyPulls, pulls)
	}
	seen := map[uint64]bool{}
	for _, d := range all {
		if seen[d.Seq] || d.Attempt != 1 {
			t.Fatalf("sequence %d was delivered twice, attempt %d", d.Seq, d.Attempt)
		}
		seen[d.Seq] = true
	}
}

// shared has one app at each agent work, with pulls of 8, until total messages were delivered together. It returns these
// and how many pulls were answered with nothing.
func shared(t *testing.T, agents []*agent, total int) (all []api.Delivery, empty int) {
	t.Helper()
	var mu sync.Mutex
	var apps sync.WaitGroup
	for _, a := range agents {
		apps.Go(func() {
			app := a.app("main")
			for {
				got, err := app.tryPull(8, time.Second)
				mu.Lock()
				if err != nil {
					t.Errorf("pull: %v", err)
				}
				if len(got) == 0 {
					empty++
				}
				all = append(all, got...)
				done := len(all) >= total || err != nil
				mu.Unlock()
				app.ack(got...)
				if done {
					app.flush()
					return
				}
			}
		})
	}
	apps.Wait()
	return all, empty
}

// A lone message goes to exactly one of several waiting apps, soon.
func TestOneMessageForManyWaitingAgents(t *testing.T) {
	t.Parallel()
	server := startNATS(t)
	const n = 3
	type arrival struct {
		agent int
		all   []api.Delivery
	}
	arrivals := make(chan arrival, n*100)
	var agents []*agent
	for i := range n {
		a := startAgent(t, settings{id: fmt.Sprintf("agent%d", i), nats: server.url, yaml: fairQueue})
		agents = append(agents, a)
		go func() {
			for app := a.app("main"); ; {
				got, err := app.tryPull(8, patience)
				if err != nil {
					return
				}
				app.ack(got...)
				arrivals <- arrival{i, got}
			}
		}()
	}
	eventually(t, "all apps wait", patience, func() bool {
		return !slices.ContainsFunc(agents, func(a *agent) bool { return a.capsule("main").Pulls == 0 })
	})
	for i := range 20 {
		a := agents[i%n]
		a.publish("jobs", fmt.Sprint(i), api.HeaderKey, fmt.Sprintf("tenant%d", i))
		select {
		case got := <-arrivals:
			if want := fmt.Sprint(i); len(got.all) != 1 || string(got.all[0].Payload()) != want {
				t.Fatalf("agent%d got %q, want %s once", got.agent, data(got.all), want)
			}
		case <-time.After(patience):
			t.Fatalf("message %d reached nobody", i)
		}
	}
}
