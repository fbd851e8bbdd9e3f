package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/fairlead/fairlead/integration/history"
)

// saysWhy waits until the status, as a table and as JSON, says in one line why an agent does not work on queue jobs: with
// these words. Without words: that it does.
func (a *agent) saysWhy(words ...string) {
	a.t.Helper()
	has := func(text string) bool {
		for _, w := range words {
			if !strings.Contains(text, w) {
				return false
			}
		}
		return true
	}
	var why string
	eventually(a.t, fmt.Sprintf("the status says %q", words), patience, func() bool {
		why = a.place().Why
		return has(why) && (len(words) > 0 || why == "")
	})
	if len(words) == 0 {
		return
	}
	eventually(a.t, fmt.Sprintf("a line of the table says %q", words), patience, func() bool {
		table, stderr, code := command(a.t, a, "status")
		if code != 0 {
			a.t.Fatalf("status: exit code %d: %s", code, stderr)
		}
		for line := range strings.Lines(table) {
			if strings.Contains(line, "jobs") && has(line) {
				return true
			}
		}
		return false
	})
}

// The status answers "why does this agent not work on this queue?" in one line.
func TestWhyAnAgentDoesNotWorkOnAQueue(t *testing.T) {
	t.Parallel()
	server, log := startNATS(t), history.New()
	a := join(t, log, calm(server, "a", "", ", consumer_priority: 5"), habits{})
	a.saysWhy()
	b := join(t, log, calm(server, "b", "", ""), habits{})
	holder, _ := rolesOf(t, a, b)
	equal(t, "holder", holder.name, a.name)
	b.saysWhy("stands by", "a/main", fmt.Sprintf("fence %d", a.place().Fence))
	a.saysWhy()
	standby := b.place()
	equal(t, "holder that the standby shows", standby.LeaseHolder, "a/main")
	if standby.Fence == 0 || standby.LeaseAgeSeconds <= 0 {
		t.Errorf("the standby shows fence %d, held for %v s", standby.Fence, standby.LeaseAgeSeconds)
	}
	for _, m := range []*member{a, b} { // paused by one, for all
		if _, stderr, code := command(t, a.agent, "pause", "jobs"); code != 0 {
			t.Fatalf("pause: exit code %d: %s", code, stderr)
		}
		m.saysWhy("paused by an operator")
	}
	if _, stderr, code := command(t, b.agent, "resume", "jobs"); code != 0 {
		t.Fatalf("resume: exit code %d: %s", code, stderr)
	}
	a.saysWhy()
	b.saysWhy("stands by")
	b.app.crash()
	b.saysWhy("no app")
	b.app = b.work(log, habits{})

	js, err := jetstream.New(server.connect())
	if err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteKeyValue(t.Context(), "fairlead"); err != nil {
		t.Fatal(err)
	}
	for _, m := range []*member{a, b} {
		m.saysWhy("bucket is gone", "setup")
	}
	server.kill()
	for _, m := range []*member{a, b} {
		m.saysWhy("NATS cannot be reached")
	}
}

func TestWhyAStandbyBacksOff(t *testing.T) {
	t.Parallel()
	server := startNATS(t)
	primary := startAgent(t, roleSettings(server, "primary", 10))
	standby := startAgent(t, roleSettings(server, "standby", 0))
	primary.busy()
	standby.busy()
	primary.saysWhy()
	standby.saysWhy("backs off", "capsule main of agent primary", "10")
	primary.signal(sigterm)
	eventually(t, "it does not back off any more", staleAfter+2*time.Second, func() bool { return standby.place().Why == "" })
}
