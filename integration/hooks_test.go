package integration

import (
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/api"
)

// timed runs a command and says how long it took.
func timed(t *testing.T, a *agent, args ...string) (stdout, stderr string, code int, took time.Duration) {
	t.Helper()
	began := time.Now()
	stdout, stderr, code = command(t, a, args...)
	return stdout, stderr, code, time.Since(began)
}

// between checks that something took no less than it was told to wait, and little more: a pod's hook has a limit of its own.
func between(t *testing.T, what string, took, least, most time.Duration) {
	t.Helper()
	if took < least || took > most {
		t.Errorf("%s took %v, want %v to %v", what, took, least, most)
	}
}

// wait: 0 as soon as the socket answers, 69 when it does not in time.
func TestWaitHoldsUpUntilTheSocketAnswers(t *testing.T) {
	t.Parallel()
	s := settings{dir: folder(t), yaml: threeLevels}
	nobody := newAgent(t, s.dir, s.dir+"/agent.sock")
	_, stderr, code, took := timed(t, nobody, "wait", "--timeout", "700ms")
	if code != 69 || stderr == "" {
		t.Errorf("nobody came: exit code %d, %q", code, stderr)
	}
	between(t, "waiting in vain", took, 700*time.Millisecond, 6*time.Second)

	waiting := start(t, "wait", exec.Command(fairlead, "wait", "--timeout", "60s"), nobody.env()...)
	time.Sleep(300 * time.Millisecond) // it has found nobody yet
	if !waiting.running() {
		t.Fatalf("it did not wait: %s", waiting.errs.String())
	}
	a := startAgent(t, s)
	equal(t, "exit code once the agent is there", waiting.wait(patience), 0)
	_, _, code, took = timed(t, a, "wait")
	equal(t, "exit code when it is there already", code, 0)
	between(t, "not having to wait", took, 0, 5*time.Second)
	if _, stderr, code := command(t, a, "wait", "--timeout", "-1s"); code != 2 {
		t.Errorf("a negative time limit: exit code %d, %s", code, stderr)
	}
}

// health: 0 while the agent has its broker, also while it drains; 69 while NATS is away, and when the agent stands still.
func TestHealthIsToldByTheExitCode(t *testing.T) {
	t.Parallel()
	server := startNATS(t)
	a := startAgent(t, settings{nats: server.url, yaml: threeLevels})
	check := func(what, want string, code int) {
		t.Helper()
		stdout, stderr, got := command(t, a, "health", "--timeout", "10s")
		if got != code || !strings.Contains(stdout+stderr, want) {
			t.Errorf("%s: exit code %d, %s%s; want %d, %s", what, got, stdout, stderr, code, want)
		}
	}
	check("all is well", "healthy\n", 0)
	server.kill()
	eventually(t, "the agent notices", patience, func() bool {
		var s api.AgentStatus
		a.get("/v1/status", &s)
		return !s.Broker.Connected
	})
	check("NATS is away", "its broker is away", 69)
	server.start()
	eventually(t, "the agent has NATS again", patience, func() bool { _, _, code := command(t, a, "health"); return code == 0 })

	a.signal(syscall.SIGSTOP)
	_, stderr, code, took := timed(t, a, "health", "--timeout", "600ms")
	if code != 69 || stderr == "" {
		t.Errorf("the agent stands still: exit code %d, %q", code, stderr)
	}
	between(t, "a probe of an agent that stands still", took, 600*time.Millisecond, 6*time.Second)
	a.signal(syscall.SIGCONT)

	a.publish("jobs", "m")
	held := a.app("main").pull(1, patience)
	equal(t, "held", len(held), 1)
	if _, _, code := command(t, a, "drain", "--wait", "0s"); code != 0 {
		t.Errorf("drain: exit code %d", code)
	}
	check("it drains", "healthy, draining", 0)
}

// drain: 0 when apps have settled what they hold, 1 when they have not in time, at once when it is not to wait.
func TestDrainWaitsForWhatAppsHold(t *testing.T) {
	t.Parallel()
	a := startAgent(t, settings{yaml: threeLevels})
	a.publish("jobs", "m")
	held := a.app("main").pull(1, patience)
	equal(t, "held", len(held), 1)
	stdout, _, code, took := timed(t, a, "drain", "--wait", "0s")
	equal(t, "only asked for", stdout, "draining\n")
	equal(t, "exit code when it is only asked for", code, 0)
	between(t, "only asking", took, 0, 5*time.Second)

	_, stderr, code, took := timed(t, a, "drain", "--wait", "700ms")
	if code != 1 || !strings.Contains(stderr, "still draining") {
		t.Errorf("an app holds on: exit code %d, %s", code, stderr)
	}
	between(t, "a drain in vain", took, 700*time.Millisecond, 6*time.Second)

	waiting := start(t, "drain", exec.Command(fairlead, "drain", "--wait", "60s"), a.env()...)
	time.Sleep(300 * time.Millisecond) // it has asked
	if !waiting.running() {
		t.Fatalf("it did not wait: %s", waiting.errs.String())
	}
	equal(t, "ack", a.say(held[0], api.Settlement{Result: api.Ack}), api.StatusOK)
	equal(t, "exit code once it is settled", waiting.wait(patience), 0)
	equal(t, "what it says", waiting.out.String(), "drained\n")
	if !a.running() {
		t.Error("the agent ended: it is to stay until it is told to end")
	}
	if _, stderr, code := command(t, a, "drain", "--wait", "-1s"); code != 2 {
		t.Errorf("a negative time limit: exit code %d, %s", code, stderr)
	}
}
