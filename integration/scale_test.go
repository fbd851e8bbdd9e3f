package integration

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/api"
)

// A deep backlog on a separate server costs an agent neither time nor memory at its start.
func TestADeepBacklogCostsNothingAtTheStart(t *testing.T) {
	server := startNATS(t)
	s := settings{nats: server.url, dir: folder(t), yaml: rawQueue}
	startAgent(t, s).stop() // makes the stream
	const n, keys = 200_000, 50
	server.flood(n, func(i int) string { return fmt.Sprintf("fl.q.jobs.p%d.tenant%d", i%3, i/3%keys) },
		func(i int) string {
			return fmt.Sprintf("message %d of a backlog, with some more text to be a payload", i)
		})
	injected(t, "backlog", fmt.Sprint(n, " messages"))
	const starts = 3
	var a *agent
	var app *app
	var rounds []time.Duration
	for i := range starts {
		if i > 0 {
			a.stop()
		}
		began := ran()
		a = startAgent(t, s)
		app = a.app("main")
		first := app.pull(1, patience)
		rounds = append(rounds, ran()-began)
		equal(t, "deliveries", len(first), 1)
		equal(t, "level of the first", first[0].Priority, 0)
		app.ack(first...)
		app.flush()
	}
	within(t, "from the start of the agent to the first delivery", time.Second, rounds)
	if got := count(app.take(keys*4, 8)); len(got) != keys {
		t.Errorf("%d tenants among the next %d, want all %d", len(got), keys*4, keys)
	}
	app.take(2000, 64)
	resident := residentMiB(t, a)
	verdict(t, "S8", resident < 100, "first delivery of %d waiting after %v, %d MiB resident", n, median(rounds).Round(time.Millisecond), resident)
	if resident >= 100 {
		t.Errorf("%d MiB resident, want less than 100", resident)
	}
	equal(t, "waiting", a.queue("jobs").Waiting, n-2000-keys*4-starts)
}

// residentMiB reads how much memory the process has, from the kernel.
func residentMiB(t *testing.T, a *agent) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", a.cmd.Process.Pid))
	if err != nil {
		t.Skip("no /proc here: ", err)
	}
	for _, line := range strings.Split(string(text), "\n") {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")))
			if err != nil {
				t.Fatal(err)
			}
			return kib / 1024
		}
	}
	t.Fatal("no VmRSS in the process status")
	return 0
}

// cost is what deliveries cost.
type cost struct {
	rates         []float64     // a second, by round
	agent, server time.Duration // of the processor, in all
}

// measure takes n messages.
func (c *cost) measure(a *agent, server *natsServer, n int) {
	a.t.Helper()
	agent, broker := cpu(a.t, a.process), cpu(a.t, server.process)
	c.rates = append(c.rates, rate(a, n))
	c.agent += cpu(a.t, a.process) - agent
	c.server += cpu(a.t, server.process) - broker
}

// cpu is the processor time that a process has used, from the kernel.
func cpu(t *testing.T, p *process) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		t.Skip("no /proc here: ", err)
	}
	// What stands in brackets is the program's name, which can hold anything. utime and stime follow as numbers 12 and 13.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	ticks := 0
	for _, f := range fields[11:13] {
		n, err := strconv.Atoi(f)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond // the kernel shows hundredths everywhere
}

// Ten thousand tenants are served in turn, and cost nothing once they are idle.
func TestTenThousandTenants(t *testing.T) {
	slow(t)
	server := startNATS(t)
	s := settings{nats: server.url, dir: folder(t), yaml: rawQueue}
	startAgent(t, s).stop()
	const tenants = 10_000
	server.flood(2*tenants, func(i int) string { return fmt.Sprintf("fl.q.jobs.p1.tenant%d", i%tenants) },
		func(i int) string { return fmt.Sprint(i) })
	injected(t, "backlog", fmt.Sprint(tenants, " tenants"))
	a := startAgent(t, s)
	app := a.app("main")
	began := time.Now()
	got := count(app.take(tenants, 64))
	first := time.Since(began)
	if len(got) < tenants*99/100 {
		t.Errorf("%d tenants among the first %d deliveries", len(got), tenants)
	}
	app.take(tenants, 64)
	app.empty()
	c := a.capsule("main")
	t.Logf("first round %v, second %v; %d lane pulls, %d of them empty", first, time.Since(began)-first, c.LanePulls, c.EmptyPulls)
	equal(t, "lanes believed to have work", a.capsule("main").Queues[0].Lanes, 0)
}

// A take costs the same with 10,000 and with a million waiting, the agent needs as much memory, and begins as fast.
func TestAMillionWaiting(t *testing.T) {
	slow(t)
	const few, many, rounds, taken = 10_000, 1_000_000, 7, 4000
	server := startNATS(t)
	s := settings{nats: server.url, dir: folder(t), yaml: strings.ReplaceAll(rawQueue, "jobs", "deep")}
	shallow := startAgent(t, settings{nats: server.url, yaml: rawQueue})
	startAgent(t, s).stop() // makes the stream
	subject := func(queue string) func(int) string {
		return func(i int) string { return fmt.Sprintf("fl.q.%s.p%d.t%d", queue, i%3, i%10) }
	}
	x := func(int) string { return "x" }
	for range many / 50_000 { // what is not confirmed yet is kept in memory
		server.flood(50_000, subject("deep"), x)
	}
	injected(t, "backlog", fmt.Sprint(many, " messages"))
	server.flood(few, subject("jobs"), x)
	var deep *agent
	var first []time.Duration
	for range 3 {
		if deep != nil {
			deep.stop()
		}
		began := time.Now()
		deep = startAgent(t, s)
		deep.app("main").take(1, 1)
		first = append(first, time.Since(began))
	}
	var withFew, withMany cost
	for range rounds {
		withFew.measure(shallow, server, taken)
		withMany.measure(deep, server, taken)
		server.flood(taken, subject("jobs"), x) // it stays as deep as it was
	}
	var ratios []float64 // of rounds side by side: whatever else the machine does slows both
	for i := range rounds {
		ratios = append(ratios, withMany.rates[i]/withFew.rates[i])
	}
	verdict(t, "S8", median(ratios) > 0.7, "with a million waiting the rate of deliveries is %.2f of that with 10,000, the median of %.2f", median(ratios), ratios)
	verdict(t, "S8", withMany.agent < withFew.agent*13/10, "for %d deliveries the agent needs %v with a million waiting, %v with 10,000; the server %v and %v",
		rounds*taken, withMany.agent, withFew.agent, withMany.server, withFew.server)
	verdict(t, "S8", median(first) < time.Second, "the first of a million comes %v after the start of the agent", first)
	a, b := residentMiB(t, shallow), residentMiB(t, deep)
	verdict(t, "S8", b <= a+20, "%d MiB with a million waiting, %d MiB with 10,000", b, a)
	equal(t, "waiting", deep.queue("deep").Waiting, many-3-rounds*taken)
}

// The leases of ten thousand deliveries end at the same moment: all of them come again, once, nobody else is held up, and
// the memory of the agent does not grow from one time to the next.
func TestTenThousandLeasesEndAtOnce(t *testing.T) {
	slow(t)
	const n = 10_000
	server := startNATS(t)
	a := startAgent(t, settings{nats: server.url, yaml: `
queues:
  - {name: jobs, fair_share: true, retry: {max_attempts: 0}}
  - {name: other}
capsules:
  - {name: main, queues: [jobs], concurrency: 10000, lease: 20s}
  - {name: beside, queues: [other]}
`})
	server.flood(n, func(i int) string { return fmt.Sprint("fl.q.jobs.d.tenant", i%100) }, func(i int) string { return fmt.Sprint(i) })
	app, beside := a.app("main"), a.app("beside")
	var memory []int
	worst := time.Duration(0)
	for attempt := 1; attempt <= 3; attempt++ {
		var held []api.Delivery
		seen := map[string]bool{}
		for len(held) < n {
			held = append(held, app.pull(n-len(held), patience)...)
		}
		extend := make([]api.Settlement, 0, n)
		for _, d := range held {
			if d.Attempt != attempt || seen[string(d.Payload())] {
				t.Fatalf("message %s came at attempt %d, want each one once at attempt %d", d.Payload(), d.Attempt, attempt)
			}
			seen[string(d.Payload())] = true
			extend = append(extend, api.Settlement{Token: d.Token, Result: api.Extend, Lease: "3s"})
		}
		for _, r := range a.settle(extend...) { // from now on all end at the same time
			equal(t, "extend", r.Status, api.StatusOK)
		}
		ends := time.Now().Add(3 * time.Second)
		injected(t, "leases end", fmt.Sprint(n, " deliveries"))
		for back := false; !back; back = a.capsule("main").InFlight == 0 {
			asked := time.Now()
			a.publish("other", "x")
			beside.take(1, 1)
			if took := time.Since(asked); time.Now().After(ends) {
				worst = max(worst, took)
			}
			if time.Since(ends) > patience {
				t.Fatalf("%d are still in flight %v after their leases ended", a.capsule("main").InFlight, time.Since(ends))
			}
			time.Sleep(5 * time.Millisecond)
		}
		memory = append(memory, residentMiB(t, a))
	}
	equal(t, "what comes at last", len(app.take(n, 1000)), n)
	app.empty()
	verdict(t, "S6", true, "%d leases ended at once, three times: each message came again once each time", n)
	verdict(t, "L2", worst < time.Second, "what another app asked for meanwhile took %v at most", worst.Round(time.Millisecond))
	verdict(t, "S8", memory[2] <= memory[0]*3/2+20, "%v MiB after each time", memory)
}

// rate takes n messages with pulls of 64 and returns messages per second.
func rate(a *agent, n int) float64 {
	began := time.Now()
	a.app("main").take(n, 64)
	return float64(n) / time.Since(began).Seconds()
}
