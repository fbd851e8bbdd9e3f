package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/cmd/agent/internal/bench"
)

// These tests run commands with the agent itself, in this process.

func realShell(t *testing.T) *shell {
	t.Helper()
	s := newShell(t, nil)
	s.app.agents = realAgents{}
	return s
}

func TestDemoOnTheRealAgent(t *testing.T) {
	s := realShell(t)
	if out := s.must(0, "demo"); !strings.Contains(out, "0 inversions") {
		t.Errorf("demo:\n%s", out)
	}
	for _, pull := range []string{"1", "2", "8", "64"} {
		out := s.must(0, "demo", "--weights", "3:1", "--pull", pull)
		if !strings.HasSuffix(out, "exact: every window of 4 has 3:1\n") {
			t.Errorf("pull %s:\n%s", pull, out)
		}
	}
	if out := s.must(0, "demo", "--weights", "7:5", "--messages", "240"); !strings.HasSuffix(out, "exact: every window of 12 has 7:5\n") {
		t.Errorf("7:5:\n%s", out)
	}
}

func TestBenchOnTheRealAgent(t *testing.T) {
	out := realShell(t).must(0, "bench", "--messages", "600", "--connections", "2", "--rounds", "1", "--waiting", "50", "-o", "json")
	var r bench.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || len(r.Rows) != 4 || r.Delivery.Count == 0 || r.Takes[0].Count != 50 {
		t.Errorf("%v: %s", err, out)
	}
}

// What the other profiles show does not depend on how fast the machine is: who is served, and what share each gets.
func TestBenchProfilesOnTheRealAgent(t *testing.T) {
	dir := t.TempDir()
	report, chart := filepath.Join(dir, "report.json"), filepath.Join(dir, "chart.svg")
	args := []string{"bench", "--profile", "noisy-neighbour,many-agents", "--rounds", "1", "--messages", "1200", "--pull", "8", "--agents", "1,3"}
	realShell(t).must(0, append(args, "--json", report, "--svg", chart)...)
	text, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	var r bench.Report
	if err := json.Unmarshal(text, &r); err != nil || r.Neighbour == nil || len(r.Agents) != 2 {
		t.Fatalf("%v: %s", err, text)
	}
	plain, ours := r.Neighbour.Systems[0], r.Neighbour.Systems[1]
	if plain.Overtaken < 100 || ours.Overtaken > 4 {
		t.Errorf("quiet tenants: plain %+v, ours %+v", plain, ours)
	}
	for _, a := range r.Agents {
		if a.ShareError > 0.02 || a.EmptyPulls > 0.05 {
			t.Errorf("%+v", a)
		}
	}
	if picture, err := os.ReadFile(chart); err != nil || !strings.HasPrefix(string(picture), "<svg ") || !strings.Contains(string(picture), "3 agents") {
		t.Errorf("%v: %s", err, picture)
	}
}

func TestADayWithTheRealAgent(t *testing.T) {
	agent := realShell(t)
	code := make(chan int, 1)
	go func() { code <- agent.run("run", "--dev") }()
	waitFor(t, "the welcome", func() bool { return strings.Contains(agent.out.String(), "/v1/settle\n") || len(code) > 0 })
	match := regexp.MustCompile(`^FAIRLEAD_SOCKET=(unix://(/\S+))\n`).FindStringSubmatch(agent.out.String())
	if match == nil {
		t.Fatalf("stdout: %s\nstderr: %s", agent.out.String(), agent.errs.String())
	}
	s := realShell(t)
	s.env["FAIRLEAD_SOCKET"] = match[1]
	s.must(0, "wait")
	s.must(0, "health")
	s.must(0, "publish", "default", "--priority", "low", "--key", "acme", "report")
	s.must(0, "publish", "default", "--priority", "high", "--key", "globex", "--header", "Region=eu", "order")
	if out := s.must(0, "queues", "default"); !strings.Contains(out, "queue default: 2 waiting, 0 in flight") || !strings.Contains(out, "globex") {
		t.Errorf("queues:\n%s", out)
	}
	if out := s.must(0, "peek", "default"); !strings.Contains(out, "report") || !strings.Contains(out, "order") {
		t.Errorf("peek:\n%s", out)
	}
	var d api.Delivery
	if err := json.Unmarshal([]byte(s.must(0, "pull", "default", "--ack")), &d); err != nil || *d.Data != "order" || d.Headers["region"] != "eu" {
		t.Errorf("%+v, %v", d, err)
	}
	if out := s.must(0, "work", "default", "--exit-when-empty", "--", "sh", "-c", `cat; echo " $FAIRLEAD_PRIORITY $FAIRLEAD_KEY $FAIRLEAD_ATTEMPT"`); out != "report 2 acme 1\n" {
		t.Errorf("work: %s", out)
	}
	s.app.in = strings.NewReader(strings.Repeat("{\"data\":\"x\",\"key\":\"k\"}\n", 500) + "{\"data\":\"x\",\"priority\":9}\n")
	if out := s.must(exitFailure, "publish", "default", "--batch", "-"); out != `{"stored":500,"duplicates":0,"failed":1}`+"\n" {
		t.Errorf("batch: %s", out)
	}
	if errs := s.errs.String(); !strings.HasPrefix(errs, "fairlead: line 501: priority_out_of_range") {
		t.Errorf("batch: %s", errs)
	}
	out := s.must(0, "work", "default", "--concurrency", "4", "--max-messages", "20", "--", "true")
	if errs := s.errs.String(); out != "" || !strings.Contains(errs, "20 messages: 20 acked, 0 nacked, 0 lost, 0 killed") {
		t.Errorf("work: %s", errs)
	}
	if out := s.must(0, "status"); !strings.Contains(out, "active") || !strings.Contains(out, "embedded") {
		t.Errorf("status:\n%s", out)
	}
	if out := s.must(0, "drain", "--admin-socket", filepath.Join(filepath.Dir(match[2]), "admin.sock")); out != "drained\n" {
		t.Errorf("drain: %s", out)
	}
	if out := s.must(0, "health"); out != "healthy, draining\n" {
		t.Errorf("health: %s", out)
	}
	agent.signals <- syscall.SIGTERM
	if got := <-code; got != 0 {
		t.Errorf("exit code %d\n%s", got, agent.errs.String())
	}
	s.must(exitUnavailable, "health")
}

func TestASecondAgentOnTheSameSocket(t *testing.T) {
	path := writeConfig(t, `
nats: {embedded: {store_dir: "${STORE}"}}
listen: {socket: %s, probes_http: "", dashboard_http: ""}
queues: [{name: orders}]
capsules: [{name: primary, queues: [orders]}]
`)
	t.Setenv("STORE", t.TempDir())
	first := realShell(t)
	first.env["FAIRLEAD_SOCKET"] = filepath.Join(filepath.Dir(path), "agent.sock")
	code := make(chan int, 1)
	go func() { code <- first.run("run", "--config", path) }()
	waiting := realShell(t)
	waiting.env["FAIRLEAD_SOCKET"] = first.env["FAIRLEAD_SOCKET"]
	if waiting.run("wait", "--timeout", "20s") != 0 {
		t.Fatalf("it does not start: exit code %d\n%s", <-code, first.errs.String())
	}
	second := realShell(t)
	second.must(exitFailure, "run", "--config", path)
	if errs := second.errs.String(); !strings.Contains(errs, "fairlead: agent: app socket: ") {
		t.Errorf("stderr: %s", errs)
	}
	waiting.must(0, "health") // the first is not disturbed
	first.signals <- syscall.SIGTERM
	if got := <-code; got != 0 {
		t.Errorf("exit code %d\n%s", got, first.errs.String())
	}
}
