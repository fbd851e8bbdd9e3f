package integration

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
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
	began := time.Now()
	a := startAgent(t, s)
	app := a.app("main")
	first := app.pull(1, patience)
	took := time.Since(began)
	equal(t, "deliveries", len(first), 1)
	equal(t, "level of the first", first[0].Priority, 0)
	if took > time.Second {
		t.Errorf("first delivery %v after the start of the agent, want a second at most", took)
	}
	app.ack(first...)
	if got := count(app.take(keys*4, 8)); len(got) != keys {
		t.Errorf("%d tenants among the next %d, want all %d", len(got), keys*4, keys)
	}
	app.take(2000, 64)
	resident := residentMiB(t, a)
	t.Logf("first delivery after %v, %d MiB resident", took, resident)
	verdict(t, "S8", resident < 100, "first delivery of %d waiting after %v, %d MiB resident", n, took.Round(time.Millisecond), resident)
	if resident >= 100 {
		t.Errorf("%d MiB resident, want less than 100", resident)
	}
	equal(t, "waiting", a.queue("jobs").Waiting, n-2000-keys*4-1)
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

// A take costs the same with 1,000 and with 300,000 waiting.
func TestATakeCostsTheSameWithADeepBacklog(t *testing.T) {
	slow(t)
	server := startNATS(t)
	shallow := startAgent(t, settings{nats: server.url, yaml: rawQueue})
	deep := startAgent(t, settings{nats: server.url, yaml: strings.ReplaceAll(rawQueue, "jobs", "deep")})
	server.flood(300_000, func(i int) string { return fmt.Sprintf("fl.q.deep.p%d.t%d", i%3, i%10) }, func(int) string { return "x" })
	var few, many []float64
	for range 5 {
		server.flood(4000, func(i int) string { return fmt.Sprintf("fl.q.jobs.p%d.t%d", i%3, i%10) }, func(int) string { return "x" })
		few = append(few, rate(shallow, 3000))
		many = append(many, rate(deep, 3000))
	}
	t.Logf("%.0f/s with a few waiting, %.0f/s with 300,000", median(few), median(many))
	if ratio := median(many) / median(few); ratio < 0.7 {
		t.Errorf("with a deep backlog the speed is %.2f of that with a shallow one", ratio)
	}
}

// rate takes n messages with pulls of 64 and returns messages per second.
func rate(a *agent, n int) float64 {
	began := time.Now()
	a.app("main").take(n, 64)
	return float64(n) / time.Since(began).Seconds()
}
