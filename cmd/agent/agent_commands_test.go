package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/fairlead/fairlead/cmd/agent/internal/bench"
	"github.com/fairlead/fairlead/config"
)

// writeConfig writes a file, with sockets in its own folder.
func writeConfig(t *testing.T, text string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "fl")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "fairlead.yaml")
	if err := os.WriteFile(path, fmt.Appendf(nil, text, dir+"/agent.sock"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const goodConfig = `
agent: {drain_timeout: 20s}
nats: {url: "nats://127.0.0.1:4222"}
listen: {socket: %s}
queues: [{name: orders}]
capsules: [{name: primary, queues: [orders]}]
`

// background runs a command line until the agent has started.
func (s *shell) background(args ...string) <-chan int {
	s.t.Helper()
	code := make(chan int, 1)
	go func() { code <- s.run(args...) }()
	waitFor(s.t, "the start", func() bool { return strings.Contains(s.agents.log(), "start") || len(code) > 0 })
	return code
}

func TestRunDrainsOnASignal(t *testing.T) {
	for _, signal := range []os.Signal{syscall.SIGTERM, syscall.SIGINT} {
		s := newShell(t, nil)
		code := s.background("run", "--config", writeConfig(t, goodConfig), "--no-setup")
		s.signals <- signal
		if got := <-code; got != 0 || s.agents.log() != "new(no-setup) start drain stop" {
			t.Errorf("%v: exit code %d, %s\n%s", signal, got, s.agents.log(), s.errs.String())
		}
	}
}

func TestASecondSignalStopsAtOnce(t *testing.T) {
	s := newShell(t, nil)
	s.agents.slowDrain = true
	code := s.background("run", "--config", writeConfig(t, goodConfig))
	s.startedUp()
	s.signals <- syscall.SIGTERM
	waitFor(t, "the drain", func() bool { return strings.HasSuffix(s.agents.log(), "drain") })
	s.signals <- syscall.SIGHUP
	s.signals <- syscall.SIGTERM
	if got := <-code; got != exitFailure || s.agents.log() != "new start drain stop" {
		t.Errorf("exit code %d, %s", got, s.agents.log())
	}
	if !strings.Contains(s.errs.String(), "fairlead: stopped at once") {
		t.Errorf("stderr: %s", s.errs.String())
	}
}

// startedUp waits until the agent's socket is there.
func (s *shell) startedUp() {
	s.t.Helper()
	waitFor(s.t, "the socket", func() bool {
		s.agents.mu.Lock()
		defer s.agents.mu.Unlock()
		_, err := os.Stat(s.agents.last.cfg.Listen.Socket)
		return err == nil
	})
}

func TestADrainThatTakesTooLongIsNoFailure(t *testing.T) {
	s := newShell(t, nil)
	s.agents.drainErr = errTest
	code := s.background("run", "--config", writeConfig(t, goodConfig))
	s.startedUp()
	s.signals <- syscall.SIGTERM
	if got := <-code; got != 0 {
		t.Errorf("exit code %d", got)
	}
	if !strings.Contains(s.errs.String(), "not drained, the rest is given back") {
		t.Errorf("stderr: %s", s.errs.String())
	}
}

func TestASignalEndsAStartThatHangs(t *testing.T) {
	s := newShell(t, nil)
	s.agents.slowStart = true
	code := s.background("run", "--config", writeConfig(t, goodConfig))
	s.signals <- syscall.SIGTERM
	if got := <-code; got != 0 || s.agents.log() != "new start stop" {
		t.Errorf("exit code %d, %s", got, s.agents.log())
	}
}

func TestRunFails(t *testing.T) {
	for name, row := range map[string]struct {
		change func(*fakeAgents)
		code   int
	}{
		"no broker": {func(f *fakeAgents) { f.startErr = fmt.Errorf("agent: %w", errBrokerTest) }, exitUnavailable},
		"else":      {func(f *fakeAgents) { f.startErr = errTest }, exitFailure},
		"new":       {func(f *fakeAgents) { f.newErr = errTest }, exitFailure},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShell(t, nil)
			row.change(s.agents)
			s.must(row.code, "run", "--config", writeConfig(t, goodConfig))
			if !strings.HasPrefix(s.errs.String(), "fairlead: ") {
				t.Errorf("stderr: %s", s.errs.String())
			}
		})
	}
}

func TestAnAgentThatEndsByItself(t *testing.T) {
	s := newShell(t, nil)
	code := s.background("run", "--config", writeConfig(t, goodConfig))
	s.startedUp()
	s.agents.last.err = errTest
	close(s.agents.last.done)
	if got := <-code; got != exitFailure || s.agents.log() != "new start stop" || !strings.Contains(s.errs.String(), "something broke") {
		t.Errorf("exit code %d, %s\n%s", got, s.agents.log(), s.errs.String())
	}
}

func TestReload(t *testing.T) {
	s := newShell(t, nil)
	path := writeConfig(t, goodConfig)
	code := s.background("run", "--config", path)
	s.startedUp()
	id := s.agents.last.cfg.Agent.ID
	s.signals <- syscall.SIGHUP
	waitFor(t, "the reload", func() bool { return strings.Contains(s.errs.String(), "reloaded") })
	if want := "new start reload(" + id + ")"; s.agents.log() != want {
		t.Errorf("%s, want %s: the made-up id has to stay", s.agents.log(), want)
	}
	if err := os.WriteFile(path, []byte("queues: 3"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.signals <- syscall.SIGHUP
	waitFor(t, "the refusal", func() bool { return strings.Contains(s.errs.String(), "the old configuration stays") })
	s.signals <- syscall.SIGTERM
	if got := <-code; got != 0 {
		t.Errorf("exit code %d", got)
	}
}

func TestBadConfigurationIs78(t *testing.T) {
	bad := writeConfig(t, "nats: {url: x, urll: y}\nlisten: {socket: %s}\nqueues: [{name: 'a b', priority_levels: 0}]\n")
	for _, args := range [][]string{
		{"run", "--config", bad}, {"validate", "--config", bad}, {"setup", "--config", bad}, {"validate", "--config", bad + ".none"},
		{"run", "--config", filepath.Dir(bad)},
	} {
		s := newShell(t, nil)
		s.must(exitConfig, args...)
		errs := s.errs.String()
		if !strings.HasPrefix(errs, "fairlead: bad configuration, ") || !regexp.MustCompile(`(?m)^/.+:\d+:\d+: `).MatchString(errs) {
			t.Errorf("%v: %s", args, errs)
		}
	}
}

func TestValidateWarns(t *testing.T) {
	s := newShell(t, nil)
	s.agents.warnings = []string{"queue orders: another definition is in force"}
	out := s.must(0, "validate", "--config", writeConfig(t, goodConfig), "--connect")
	if errs := s.errs.String(); errs != "fairlead: warning: queue orders: another definition is in force\n" || !strings.Contains(out, "is valid") {
		t.Errorf("%s, stderr: %s", out, errs)
	}
}

func TestValidate(t *testing.T) {
	s := newShell(t, nil)
	path := writeConfig(t, goodConfig)
	if out := s.must(0, "validate", "--config", path); out != path+" is valid: 1 queue, 1 capsule\n" || s.agents.log() != "" {
		t.Errorf("%s, %s", out, s.agents.log())
	}
	s.must(0, "validate", "--config", path, "--connect")
	s.agents.problems = []string{"queue orders: may not publish", "the bucket is missing"}
	out := s.must(exitFailure, "validate", "--config", path, "--connect")
	if s.agents.log() != "check check" || s.errs.String() != "fairlead: queue orders: may not publish\nfairlead: the bucket is missing\n" || out != "" {
		t.Errorf("%s, %s, %s", s.agents.log(), s.errs.String(), out)
	}
	embedded := writeConfig(t, strings.Replace(goodConfig, `url: "nats://127.0.0.1:4222"`, "embedded: {store_dir: /nowhere}", 1))
	s.must(0, "validate", "--config", embedded, "--connect")
	if s.agents.log() != "check check" {
		t.Error("an embedded server was checked: that would start it")
	}
	s.must(exitUsage, "setup", "--config", embedded)
	s.agents.checkErr = errBrokerTest
	s.must(exitUnavailable, "validate", "--config", path, "--connect")
	unread := writeConfig(t, strings.Replace(goodConfig, "capsules: [{name: primary, queues: [orders]}]", "capsules: []", 1))
	s.must(0, "validate", "--config", unread)
	if !strings.HasPrefix(s.errs.String(), "fairlead: warning: "+unread+":") {
		t.Errorf("stderr: %s", s.errs.String())
	}
}

func TestSetup(t *testing.T) {
	s := newShell(t, nil)
	path := writeConfig(t, goodConfig)
	if out := s.must(0, "setup", "--config", path); out != path+": 1 queue set up\n" || s.agents.log() != "setup" {
		t.Errorf("%s, %s", out, s.agents.log())
	}
	s.agents.setupErr = errBrokerTest
	s.must(exitUnavailable, "setup", "--config", path)
}

func TestDevSaysWhatToTypeAndLeavesNothing(t *testing.T) {
	s := newShell(t, nil)
	code := s.background("run", "--dev", "--listen", "127.0.0.1:4222")
	waitFor(t, "the welcome", func() bool { return strings.Contains(s.out.String(), "/v1/settle\n") })
	out := s.out.String()
	match := regexp.MustCompile(`^FAIRLEAD_SOCKET=unix://(/\S+)\n`).FindStringSubmatch(out)
	if match == nil {
		t.Fatalf("the first line of\n%s", out)
	}
	for _, want := range []string{"export FAIRLEAD_SOCKET=unix://" + match[1], "curl --unix-socket " + match[1], " publish default ", "nats -s nats://127.0.0.1:4222 pub"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if got := s.agents.last.cfg.NATS.Embedded.Listen; got != "127.0.0.1:4222" {
		t.Errorf("listen %q", got)
	}
	// The lines that it says to type work.
	t.Setenv("FAIRLEAD_SOCKET", "")
	other := newShell(t, nil)
	other.env["FAIRLEAD_SOCKET"] = "unix://" + match[1]
	other.must(0, "publish", "default", "--priority", "high", "--key", "globex", "an order")
	if got := other.must(0, "pull", "default", "--max", "10", "--ack"); !strings.Contains(got, "an order") {
		t.Errorf("pull: %s", got)
	}
	s.signals <- syscall.SIGTERM
	if got := <-code; got != 0 {
		t.Errorf("exit code %d", got)
	}
	if _, err := os.Stat(filepath.Dir(match[1])); !os.IsNotExist(err) {
		t.Errorf("the folder: %v", err)
	}
}

func TestDemo(t *testing.T) {
	s := newShell(t, nil)
	if out := s.must(0, "demo"); !strings.Contains(out, "0 inversions") {
		t.Errorf("demo:\n%s", out)
	}
	for _, pull := range []string{"1", "2", "8", "64"} {
		out := s.must(0, "demo", "--weights", "3:1", "--pull", pull)
		if !strings.Contains(out, "exact: every window of 4 has 3:1") {
			t.Errorf("pull %s:\n%s", pull, out)
		}
	}
	if log := s.agents.log(); strings.Count(log, "start") != 5 || strings.Count(log, "stop") != 5 {
		t.Errorf("agents: %s", log)
	}
	if _, err := os.Stat(filepath.Dir(s.agents.last.cfg.Listen.Socket)); !os.IsNotExist(err) {
		t.Errorf("the folder: %v", err)
	}
	s.agents.startErr = errBrokerTest
	s.must(exitUnavailable, "demo")
}

func TestBenchTable(t *testing.T) {
	r := &bench.Report{
		Messages: 20000, Bytes: 256, Pull: 64, Rounds: 2,
		Rows: []bench.Row{
			{Name: "bare JetStream loop", Cells: []bench.Cell{{Connections: 1, PerSecond: 33456.7, OfBare: 1}, {Connections: 4, PerSecond: 45000, OfBare: 1}}},
			{Name: "3 levels × 10 keys", Cells: []bench.Cell{{Connections: 1, PerSecond: 999.9, OfBare: 0.0299}, {Connections: 4, PerSecond: 1234567, OfBare: 27.4}}},
		},
		Delivery: bench.Times{Count: 500, P50: 412.4, P99: 2004},
		Takes:    []bench.Takes{{Waiting: 1000, Times: bench.Times{Count: 300, P50: 100, P99: 250}}, {Waiting: 1000000, Times: bench.Times{Count: 300, P50: 101, P99: 251}}},
	}
	var out safeBuffer
	if err := printBench(&out, r); err != nil {
		t.Fatal(err)
	}
	golden(t, "bench.txt", out.String())
}

func TestBench(t *testing.T) {
	s := newShell(t, nil)
	profile := filepath.Join(t.TempDir(), "cpu.prof")
	out := s.must(0, "bench", "--messages", "100", "--connections", "1", "--rounds", "1", "--waiting", "10", "--cpuprofile", profile, "-o", "json")
	var r bench.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || len(r.Rows) != 4 || r.Rows[3].Cells[0].PerSecond <= 0 {
		t.Errorf("%v: %s", err, out)
	}
	if info, err := os.Stat(profile); err != nil || info.Size() == 0 {
		t.Errorf("profile: %v", err)
	}
}

func TestBenchListsItsProfiles(t *testing.T) {
	out := newShell(t, nil).must(0, "bench", "--list")
	for _, p := range bench.Profiles {
		if !strings.Contains(out, p.Name) || !strings.Contains(out, p.Shows) {
			t.Errorf("%s is not in\n%s", p.Name, out)
		}
	}
	s := newShell(t, nil)
	s.must(exitUsage, "bench", "--profile", "noisy")
	if errs := s.errs.String(); !strings.Contains(errs, `there is no "noisy"`) || !strings.Contains(errs, "noisy-neighbour") {
		t.Errorf("stderr: %s", errs)
	}
}

// A run is written, and the next is compared with it.
func TestBenchCompares(t *testing.T) {
	dir := t.TempDir()
	report, memory := filepath.Join(dir, "then.json"), filepath.Join(dir, "mem.prof")
	args := []string{"bench", "--profile", "one-tenant", "--messages", "100", "--connections", "1", "--rounds", "3"}
	newShell(t, nil).must(0, append(args, "--json", report, "--memprofile", memory)...)
	if info, err := os.Stat(memory); err != nil || info.Size() == 0 {
		t.Errorf("profile: %v", err)
	}
	out := newShell(t, nil).must(0, append(args, "--compare", report)...)
	if !strings.Contains(out, "Compared with ") || !strings.Contains(out, "1 level, no keys, connections: 1") || !strings.Contains(out, "of any two rounds") {
		t.Errorf("%s", out)
	}
	var r struct {
		bench.Report
		Compared *bench.Comparison `json:"compared"`
	}
	out = newShell(t, nil).must(0, append(args, "--compare", report, "-o", "json")...)
	if err := json.Unmarshal([]byte(out), &r); err != nil || r.Compared == nil || len(r.Compared.Changes) != 1 || len(r.Rows) != 2 {
		t.Errorf("%v: %s", err, out)
	}
	for _, wrong := range []string{filepath.Join(dir, "none.json"), memory} {
		s := newShell(t, nil)
		s.must(exitFailure, append(args, "--compare", wrong)...)
		if errs := s.errs.String(); !strings.Contains(errs, "--compare") {
			t.Errorf("stderr: %s", errs)
		}
	}
}

// A trial run shows its dashboard, and says where: at the usual address, or at a free port of loopback when that is taken; or
// none, when that is asked for.
func TestDevSaysWhereItsDashboardIs(t *testing.T) {
	l, err := net.Listen("tcp", config.DefaultDashboardHTTP)
	if err == nil {
		defer l.Close()
	} // else somebody else has it, which is as good
	for _, c := range []struct {
		args    []string
		address string
	}{
		{[]string{"run", "--dev"}, "127.0.0.1:0"},
		{[]string{"run", "--dev", "--no-dashboard"}, ""},
	} {
		s := newShell(t, nil)
		code := s.background(c.args...)
		waitFor(t, "the welcome", func() bool { return strings.Contains(s.out.String(), "/v1/settle\n") })
		if got := s.agents.last.cfg.Listen.DashboardHTTP; got != c.address {
			t.Errorf("%v: address %q, want %q", c.args, got, c.address)
		}
		if said := strings.Contains(s.out.String(), "Its dashboard is at http://"+c.address+"/\n"); said != (c.address != "") || c.address == "" && strings.Contains(s.out.String(), "dashboard") {
			t.Errorf("%v:\n%s", c.args, s.out.String())
		}
		s.signals <- syscall.SIGTERM
		<-code
	}
}

// A trial run whose terminal was closed gets SIGHUP, and has no file to read again.
func TestDevEndsWithItsTerminal(t *testing.T) {
	s := newShell(t, nil)
	code := s.background("run", "--dev")
	waitFor(t, "the welcome", func() bool { return strings.Contains(s.out.String(), "/v1/settle\n") })
	s.signals <- syscall.SIGHUP
	if got := <-code; got != 0 || !strings.HasSuffix(s.agents.log(), "drain stop") {
		t.Errorf("exit code %d, %s", got, s.agents.log())
	}
	if dir := filepath.Dir(s.agents.last.cfg.Listen.Socket); dir == "" || exists(dir) {
		t.Errorf("%s is left", dir)
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
