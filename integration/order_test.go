package integration

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/api"
)

// One queue with three levels, without fair share.
const threeLevels = `
queues:
  - {name: jobs, priority_levels: [high, medium, low]}
capsules:
  - {name: main, queues: [jobs], concurrency: 10000}
`

func TestMixedEnqueueComesOutByLevel(t *testing.T) {
	t.Parallel()
	want := []string{"high1", "high2", "medium1", "low1", "low2"}
	for _, most := range []int{5, 1} {
		a := startAgent(t, settings{yaml: threeLevels})
		for _, n := range []note{{Data: "low1", Priority: "low"}, {Data: "high1", Priority: "high"}, {Data: "medium1"},
			{Data: "low2", Priority: 2}, {Data: "high2", Priority: 0}} {
			a.batch("jobs", n)
		}
		if got := data(a.app("main").take(5, most)); !slices.Equal(got, want) {
			t.Errorf("pulls of %d brought %q, want %q", most, got, want)
		}
	}
}

// With FAIRLEAD_SLOW=1 there are 15,000 in each level.
func TestFifteenThousandMessagesOverFiveLevelsWithoutInversion(t *testing.T) {
	t.Parallel()
	a := startAgent(t, settings{yaml: `
queues: [{name: jobs, priority_levels: 5}]
capsules: [{name: main, queues: [jobs], concurrency: 1000}]
`})
	each := 3000
	if os.Getenv("FAIRLEAD_SLOW") != "" {
		each = 15_000
	}
	var all []note
	for i := range each {
		for _, level := range []int{4, 1, 3, 0, 2} {
			all = append(all, notes(1, strings.Repeat("x", i%9), note{Priority: level})...)
		}
	}
	a.batch("jobs", all...)
	got := a.app("main").take(5*each, 64)
	for i := 1; i < len(got); i++ {
		before, d := got[i-1], got[i]
		if d.Priority < before.Priority {
			t.Fatalf("delivery %d of level %d came after one of level %d", i, d.Priority, before.Priority)
		}
		if d.Priority == before.Priority && d.Seq <= before.Seq {
			t.Fatalf("delivery %d: sequence %d came after %d in level %d", i, d.Seq, before.Seq, d.Priority)
		}
	}
}

func TestStarvationGuard(t *testing.T) {
	t.Parallel()
	want := strings.Repeat("H", 10) + "M" + strings.Repeat("H", 10) + "ML"
	for _, most := range []int{1, 64} {
		a := startAgent(t, settings{yaml: `
queues: [{name: jobs, priority_levels: [high, medium, low], starvation_guard: 10}]
capsules: [{name: main, queues: [jobs], concurrency: 100}]
`})
		a.batch("jobs", notes(1, "L", note{Priority: "low"})...)
		a.batch("jobs", notes(2, "M", note{Priority: "medium"})...)
		a.batch("jobs", notes(20, "H", note{Priority: "high"})...)
		app := a.app("main")
		got := app.take(23, most)
		equal(t, fmt.Sprintf("order with pulls of %d", most), letters(got), want)
		a.stop()
	}
}

// Under a flood of both higher levels the lowest gets one turn in 121.
func TestStarvationGuardHelpsEveryLevel(t *testing.T) {
	t.Parallel()
	a := startAgent(t, settings{yaml: `
queues: [{name: jobs, priority_levels: [high, medium, low], starvation_guard: 10}]
capsules: [{name: main, queues: [jobs], concurrency: 1000}]
`})
	for name, n := range map[string]int{"high": 1210, "medium": 200, "low": 100} {
		a.batch("jobs", notes(n, strings.ToUpper(name[:1]), note{Priority: name})...)
	}
	got := letters(a.app("main").take(1210, 8))
	for from := 0; from+121 <= len(got); from += 121 {
		window := got[from : from+121]
		if high, low := strings.Count(window, "H"), strings.Count(window, "L"); high != 110 || low != 1 {
			t.Fatalf("deliveries %d to %d have %d high and %d low, want 110 and 1: %s", from, from+120, high, low, window)
		}
	}
}

func TestLevelsSwitchedOnOverABacklog(t *testing.T) {
	t.Parallel()
	s := settings{dir: folder(t), yaml: `
queues: [{name: jobs}]
capsules: [{name: main, queues: [jobs], concurrency: 100}]
`}
	a := startAgent(t, s)
	a.batch("jobs", notes(10_000, "old", note{})...)
	first := a.app("main").take(1, 1)
	equal(t, "first delivery with one level", string(first[0].Payload()), "old0")
	a.stop()

	s.yaml = threeLevels
	a = startAgent(t, s)
	a.publish("jobs", "low", api.HeaderPriority, "2")
	a.publish("jobs", "high", api.HeaderPriority, "0")
	app := a.app("main")
	got := app.take(3, 1)
	equal(t, "next delivery after a publish of level 0", string(got[0].Payload()), "high")
	equal(t, "then the old ones, at the new default level", string(got[1].Payload())+string(got[2].Payload()), "old1old2")
	equal(t, "level of the old ones", got[1].Priority, 1)
	rest := app.take(9998, 500)
	equal(t, "last of the old ones", string(rest[9996].Payload()), "old9999")
	equal(t, "the low one is last", string(rest[9997].Payload()), "low")
	app.empty()
}

// Levels taken away: what was published at them is served at what is now the lowest.
func TestLevelsSwitchedOffOverABacklog(t *testing.T) {
	t.Parallel()
	s := settings{dir: folder(t), yaml: threeLevels}
	a := startAgent(t, s)
	a.batch("jobs", note{Data: "0", Priority: 0}, note{Data: "2", Priority: 2}, note{Data: "d"}, note{Data: "1", Priority: 1})
	a.stop()
	s.yaml = `
queues: [{name: jobs, priority_levels: 2}]
capsules: [{name: main, queues: [jobs]}]
`
	a = startAgent(t, s)
	app := a.app("main")
	got := app.take(4, 4)
	levels := map[string]int{}
	for _, d := range got {
		levels[string(d.Payload())] = d.Priority
	}
	for payload, want := range map[string]int{"0": 0, "1": 1, "2": 1, "d": 0} {
		equal(t, "level of "+payload, levels[payload], want)
	}
	app.empty()
}

func TestQueuesOfACapsuleAreStrictInListOrder(t *testing.T) {
	t.Parallel()
	a := startAgent(t, settings{yaml: `
queues:
  - {name: critical}
  - {name: bulk, priority_levels: 2}
capsules:
  - {name: main, queues: [critical, bulk], concurrency: 100}
`})
	a.batch("bulk", notes(3, "top", note{Priority: 0})...)
	a.batch("critical", notes(3, "critical", note{})...)
	app := a.app("main")
	var got []api.Delivery
	for len(got) < 4 { // one pull may bring fewer than there are
		got = append(got, app.pull(4-len(got), patience)...)
	}
	a.batch("critical", note{Data: "late"})
	app.ack(got...)
	got = append(got, app.take(3, 1)...)
	want := []string{"critical0", "critical1", "critical2", "top0", "late", "top1", "top2"}
	if !slices.Equal(data(got), want) {
		t.Errorf("got %q, want %q", data(got), want)
	}
}

func TestAReturnedMessageComesFirst(t *testing.T) {
	t.Parallel()
	a := startAgent(t, settings{yaml: threeLevels})
	a.batch("jobs", notes(5, "m", note{})...)
	app := a.app("main")
	got := app.hold(2)
	if s := a.say(got[1], api.Settlement{Result: api.Nack, Delay: "0s"}); s != api.StatusOK {
		t.Fatal(s)
	}
	if s := a.say(got[0], api.Settlement{Result: api.Nack, Delay: "0s", Reason: "not today"}); s != api.StatusOK {
		t.Fatal(s)
	}
	again := app.take(5, 5)
	texts := data(again)
	slices.Sort(texts[:2])
	if want := []string{"m0", "m1", "m2", "m3", "m4"}; !slices.Equal(texts, want) {
		t.Errorf("after two came back: %q, want those two first", data(again))
	}
	for i, want := range []int{2, 2, 1, 1, 1} {
		equal(t, "attempt of "+string(again[i].Payload()), again[i].Attempt, want)
		equal(t, "level of "+string(again[i].Payload()), again[i].Priority, 1)
	}
}

// While 50 messages a second arrive at the top, a deep lower level keeps four fifths of its speed, and the first pull that
// begins after such a message was stored brings it.
func TestTopLevelMessagesNeitherWaitNorSlowTheRest(t *testing.T) {
	server := startNATS(t)
	a := startAgent(t, settings{nats: server.url, yaml: threeLevels})
	low := &steady{app: a.app("main"), top: map[string]time.Time{}, seen: map[string]bool{}, behind: map[string]int{}}
	fill := func() {
		const n = 10_000
		server.flood(n, func(int) string { return "fl.q.jobs.p2._" }, func(int) string { return "low" })
		low.left += n
	}
	fill()
	low.run(500 * time.Millisecond) // warm up
	block := 12
	if testing.Short() {
		block = 4
	}
	// Many short windows side by side, in turns first and second: what else the machine does slows both kinds alike.
	const window = 400 * time.Millisecond
	var alone, beside, ratios []float64
	measure := map[bool]func(){
		false: func() {
			fill()
			alone = append(alone, low.run(window))
		},
		true: func() {
			fill()
			stop := make(chan struct{})
			stopped := low.publishTop(stop, 20*time.Millisecond)
			beside = append(beside, low.run(window))
			close(stop)
			<-stopped
		},
	}
	// Where the windows differ a lot among themselves, more of them decide, and all count.
	rounds := 0
	for ; rounds < block || rounds < 3*block && median(ratios) < 0.8; rounds++ {
		first := rounds%2 == 1
		measure[first]()
		measure[!first]()
		ratios = append(ratios, beside[rounds]/alone[rounds])
	}
	low.run(50 * time.Millisecond) // the last of the top
	t.Logf("low level: %.0f/s alone, %.0f/s beside 50/s at the top, in %d rounds; %d of the top", median(alone), median(beside), rounds, low.delivered)
	if ratio := median(ratios); ratio < 0.8 {
		t.Errorf("the lower level keeps %.2f of its speed, want 0.8 or more", ratio)
	}
	if low.published < rounds*8 || low.delivered < low.published-1 {
		t.Errorf("%d messages of the top level were published and %d delivered, want about %d", low.published, low.delivered, rounds*20)
	}
	if low.late > 0 {
		t.Errorf("%d of %d messages of the top level were not in the first pull that began after they were stored, up to %d pulls late", low.late, low.delivered, low.latest)
	}
}

func median[T cmp.Ordered](of []T) T {
	sorted := slices.Sorted(slices.Values(of))
	return sorted[len(sorted)/2]
}
