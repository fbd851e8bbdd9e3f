package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fairlead/fairlead/agent/client/clienttest"
	"github.com/fairlead/fairlead/config"
)

var update = flag.Bool("update", false, "write the golden files")

// A connection that net/http closes is waited for, by a goroutine of its own, for half a second.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

// shell runs command lines in a test.
type shell struct {
	t       *testing.T
	app     *app
	out     safeBuffer
	errs    safeBuffer
	env     map[string]string
	signals chan os.Signal
	agents  *fakeAgents
}

// newShell returns a shell whose FAIRLEAD_SOCKET is that of agent; nil: of nobody.
func newShell(t *testing.T, agent *clienttest.Agent) *shell {
	t.Helper()
	s := &shell{t: t, env: map[string]string{"FAIRLEAD_SOCKET": filepath.Join(t.TempDir(), "none")}, signals: make(chan os.Signal, 4), agents: &fakeAgents{}}
	if agent != nil {
		s.env["FAIRLEAD_SOCKET"] = "unix://" + agent.Socket
		s.env["FAIRLEAD_ADMIN_SOCKET"] = agent.Socket
	}
	s.app = &app{
		in: strings.NewReader(""), out: &s.out, errs: &s.errs,
		lookup:    func(name string) (string, bool) { v, ok := s.env[name]; return v, ok },
		subscribe: func() (<-chan os.Signal, func()) { return s.signals, func() {} },
		agents:    s.agents,
	}
	return s
}

// run runs one command line and returns its exit code.
func (s *shell) run(args ...string) int {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 2*time.Minute)
	defer cancel()
	s.app.started = false
	return s.app.run(ctx, args)
}

// must runs one command line that has to end with code, and returns stdout.
func (s *shell) must(code int, args ...string) string {
	s.t.Helper()
	s.out.reset()
	s.errs.reset()
	if got := s.run(args...); got != code {
		s.t.Fatalf("fairlead %s: exit code %d, want %d\nstdout: %s\nstderr: %s", strings.Join(args, " "), got, code, s.out.String(), s.errs.String())
	}
	return s.out.String()
}

// golden compares got with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", path, got, want)
	}
}

// safeBuffer is a buffer for several goroutines.
type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func (b *safeBuffer) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.buf.Reset()
}

// fakeAgents builds agents in memory and notes what was asked of them.
type fakeAgents struct {
	newErr, startErr, drainErr, setupErr, checkErr, reloadErr error
	problems, warnings                                        []string
	slowStart, slowDrain                                      bool // until their context ends

	mu    sync.Mutex
	calls []string
	last  *fakeAgent
}

func (f *fakeAgents) note(call string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, call)
}

func (f *fakeAgents) log() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.calls, " ")
}

func (f *fakeAgents) New(cfg *config.Config, o options) (instance, error) {
	call := "new"
	if o.noSetup {
		call += "(no-setup)"
	}
	f.note(call)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = &fakeAgent{f: f, cfg: cfg, done: make(chan struct{})}
	return f.last, f.newErr
}

func (f *fakeAgents) Setup(context.Context, *config.Config, options) error {
	f.note("setup")
	return f.setupErr
}

func (f *fakeAgents) Check(context.Context, *config.Config) (problems, warnings []string, err error) {
	f.note("check")
	return f.problems, f.warnings, f.checkErr
}

type fakeAgent struct {
	f    *fakeAgents
	cfg  *config.Config
	mem  *clienttest.Agent
	done chan struct{}
	err  error
}

func (a *fakeAgent) Start(ctx context.Context) error {
	a.f.note("start")
	if a.f.slowStart {
		<-ctx.Done()
		return ctx.Err()
	}
	if a.f.startErr != nil {
		return a.f.startErr
	}
	var err error
	a.mem, err = clienttest.Start(a.cfg.Listen.Socket)
	return err
}

func (a *fakeAgent) Drain(ctx context.Context) error {
	a.f.note("drain")
	if a.f.slowDrain {
		<-ctx.Done()
		return ctx.Err()
	}
	return a.f.drainErr
}

func (a *fakeAgent) Stop(context.Context) error {
	a.f.note("stop")
	if a.mem != nil {
		a.mem.Stop()
	}
	return nil
}

func (a *fakeAgent) RefusedReload(error) {}

func (a *fakeAgent) Reload(cfg *config.Config) error {
	a.f.note("reload(" + cfg.Agent.ID + ")")
	return a.f.reloadErr
}

func (a *fakeAgent) Done() <-chan struct{} { return a.done }
func (a *fakeAgent) Err() error            { return a.err }

func (a *fakeAgent) DashboardURL() string {
	if a.cfg.Listen.DashboardHTTP == "" {
		return ""
	}
	return "http://" + a.cfg.Listen.DashboardHTTP + "/"
}

var errTest = errors.New("something broke")

// waitFor waits for what only output can tell.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for tick := time.NewTicker(2 * time.Millisecond); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("waited too long for %s", what)
		}
	}
}
