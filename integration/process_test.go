package integration

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is how long tests wait for what has no promised time.
const patience = 30 * time.Second

// A process is something that a test started. It is killed when the test ends, and its output printed if that failed.
type process struct {
	t      *testing.T
	name   string
	cmd    *exec.Cmd
	exited chan struct{} // closed when it has ended

	out, errs output
}

// output is a buffer that can be read while it grows.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// start runs cmd. Its environment is the test's, without the variables that lead to some other agent or collector, and extra.
func start(t *testing.T, name string, cmd *exec.Cmd, extra ...string) *process {
	t.Helper()
	p := &process{t: t, name: name, cmd: cmd, exited: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.out, &p.errs
	cmd.WaitDelay = 2 * time.Second
	cmd.Env = environment(extra...)
	if err := cmd.Start(); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	go func() { _ = cmd.Wait(); close(p.exited) }()
	t.Cleanup(func() {
		p.end()
		if t.Failed() {
			t.Logf("%s: stdout\n%s\nstderr\n%s", name, tail(p.out.String()), tail(p.errs.String()))
		}
	})
	return p
}

func environment(extra ...string) []string {
	var env []string
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "FAIRLEAD_") && !strings.HasPrefix(e, "OTEL_") {
			env = append(env, e)
		}
	}
	return append(env, extra...)
}

// tail keeps a failed test's log readable.
func tail(text string) string {
	const most = 8000
	if len(text) > most {
		return "[…]" + text[len(text)-most:]
	}
	return text
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("%s: %v: %v", p.name, s, err)
	}
	if s != syscall.SIGCONT && s != syscall.SIGHUP {
		injected(p.t, s.String(), p.name)
	}
}

// kill is a kill -9, and waits until the process is gone.
func (p *process) kill() {
	if p.running() {
		injected(p.t, "kill -9", p.name)
	}
	p.end()
}

// end ends it, if it still runs, and waits until it is gone.
func (p *process) end() {
	_ = p.cmd.Process.Kill()
	<-p.exited
}

// wait waits until it ends and returns the exit code.
func (p *process) wait(within time.Duration) int {
	p.t.Helper()
	select {
	case <-p.exited:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(within):
		p.t.Fatalf("%s still runs after %v", p.name, within)
		return -1
	}
}

// running tells whether it has not ended yet.
func (p *process) running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// command runs fairlead to its end, against a's socket unless a is nil, and returns stdout, stderr and the exit code.
func command(t *testing.T, a *agent, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	return commandWithInput(t, a, "", args...)
}

func commandWithInput(t *testing.T, a *agent, input string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), fairlead, args...)
	cmd.Env, cmd.Stdin = environment(), strings.NewReader(input)
	if a != nil {
		cmd.Env = append(cmd.Env, a.env()...)
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		t.Fatalf("fairlead %q: %v", args, err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// eventually waits until condition holds. What is asked last is asked when the time is over, and times in which this process
// stood still are none.
func eventually(t *testing.T, what string, within time.Duration, condition func() bool) {
	t.Helper()
	for end := ran() + within; ; time.Sleep(2 * time.Millisecond) {
		over := ran() > end
		if condition() {
			return
		}
		if over {
			t.Fatalf("not within %v: %s", within, what)
		}
	}
}
