package integration

import (
	"strings"
	"testing"
)

// top on a real terminal: it shows what waits, live, sorts and filters, stands a restart of the agent and a resize, and gives the
// screen back.
func TestTopOnATerminal(t *testing.T) {
	t.Parallel()
	server := startNATS(t)
	a := startAgent(t, settings{nats: server.url, yaml: threeLevels})
	for range 12 {
		a.publish("jobs", "x", "Fairlead-Key", "acme")
	}
	a.publish("jobs", "x", "Fairlead-Key", "evil%1B%5B2J%1B]0;o%07")
	top := onTerminal(t, a, 170, 20, "top", "--interval", "100ms")
	top.shows(0, "live")
	top.shows(0, "13 waiting")

	top.shows(top.press("3"), "acme (noisy)")
	top.shows(0, `evil\x1b[2J\x1b]0;o\a`)
	if said := top.written(); strings.Contains(said, "\x1b]0;o") || strings.Contains(said, "\x1b[2J\x1b]0") {
		t.Errorf("a key wrote an escape sequence: %q", said)
	}
	top.shows(top.press("/evil\r"), "filter: evil")
	at := top.press("\x1b")
	top.shows(at, "acme")
	at = len(top.written()) // only what has changed is written anew
	a.publish("jobs", "x", "Fairlead-Key", "newcomer")
	top.shows(at, "newcomer")

	at = len(top.written())
	top.resize(60, 10)
	top.shows(at, "…")

	at = len(top.written())
	a.kill()
	top.shows(at, "reconnecting")
	at = len(top.written())
	startAgent(t, settings{nats: server.url, yaml: threeLevels, dir: a.dir})
	top.shows(at, "live")

	at = top.press("q")
	<-top.ended
	if err := top.process.Wait(); err != nil {
		t.Errorf("q: %v", err)
	}
	if !strings.Contains(top.written()[at:], "\x1b[?1049l") {
		t.Error("the screen is not given back")
	}
}

// Into a pipe, everything is printed once, without escape sequences.
func TestTopIntoAPipe(t *testing.T) {
	t.Parallel()
	a := startDev(t)
	a.publish("default", "x", "Fairlead-Key", "acme")
	stdout, stderr, code := command(t, a, "top", "--interval", "200ms")
	if code != 0 || strings.Contains(stdout, "\x1b") || !strings.Contains(stdout, "1 waiting") || !strings.Contains(stdout, "acme") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
	a.stop()
	if _, _, code := command(t, a, "top"); code != 69 {
		t.Errorf("without an agent: exit code %d", code)
	}
}
