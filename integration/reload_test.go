package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/fairlead/fairlead/agent/api"
)

// reload writes the agent's file anew and sends SIGHUP; it waits until the log says what came of it.
func (a *agent) reload(old, new, says string) {
	a.t.Helper()
	file := filepath.Join(a.dir, "fairlead.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		a.t.Fatal(err)
	}
	if !strings.Contains(string(text), old) {
		a.t.Fatalf("%q is not in the file", old)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(text), old, new, 1)), 0o600); err != nil {
		a.t.Fatal(err)
	}
	before := strings.Count(a.errs.String(), says)
	a.signal(syscall.SIGHUP)
	eventually(a.t, "the log says "+says, patience, func() bool { return strings.Count(a.errs.String(), says) > before })
}

// Levels are switched on in a running agent, over a backlog and with work in hand; a wrong file changes nothing.
func TestReload(t *testing.T) {
	t.Parallel()
	a := startAgent(t, settings{yaml: `
queues: [{name: jobs, priority_levels: 1}]
capsules: [{name: main, queues: [jobs], concurrency: 4}]
`})
	a.batch("jobs", notes(1000, "old", note{})...)
	held := a.app("main").hold(2)
	if _, refused := a.tryPublish("jobs", "x", api.HeaderPriority, "2"); refused == nil || refused.Code != api.CodePriority {
		t.Fatalf("level 2 with one level: %v", refused)
	}

	a.reload("priority_levels: 1", "priority_levels: 3", "reloaded")
	eventually(t, "there are three levels", patience, func() bool { return a.queue("jobs").Levels == 3 })
	a.publish("jobs", "low", api.HeaderPriority, "2")
	a.publish("jobs", "high", api.HeaderPriority, "0")
	for i, d := range held {
		equal(t, fmt.Sprintf("ack of delivery %d from before", i), a.say(d, api.Settlement{Result: api.Ack}), api.StatusOK)
	}
	app := a.app("main")
	got := app.take(4, 1)
	equal(t, "order", strings.Join(data(got), " "), "high old2 old3 old4")
	equal(t, "level of what has none", got[1].Priority, 1)

	a.reload("priority_levels: 3", "priority_levels: 3, colour: red", "was not reloaded")
	a.reload("priority_levels: 3, colour: red", "priority_levels: 3", "reloaded")
	a.reload("concurrency: 4", "concurrency: 500", "reloaded")
	all := app.take(996, 500)
	equal(t, "the low one comes last", string(all[995].Payload()), "low")
	app.empty()
	a.reload("name: jobs", "name: other", "was not reloaded")
	a.publish("jobs", "still served")
	app.take(1, 1)
}

// A pull that waits sees the new levels too.
func TestReloadWhileAPullWaits(t *testing.T) {
	t.Parallel()
	a := startAgent(t, settings{yaml: `
queues: [{name: jobs, priority_levels: 1}]
capsules: [{name: main, queues: [jobs]}]
`})
	type result struct {
		all []api.Delivery
		err error
	}
	waiting := make(chan result, 1)
	go func() {
		all, err := a.app("main").tryPull(1, patience)
		waiting <- result{all, err}
	}()
	eventually(t, "a pull waits", patience, func() bool { return a.capsule("main").Pulls > 0 })
	a.reload("priority_levels: 1", "priority_levels: 3", "the definition of a queue has changed")
	eventually(t, "level 2 is accepted", patience, func() bool {
		_, refused := a.tryPublish("jobs", "x", api.HeaderPriority, "2")
		return refused == nil
	})
	if got := <-waiting; got.err != nil || len(got.all) != 1 || got.all[0].Priority != 2 {
		t.Errorf("the waiting pull got %q %v", data(got.all), got.err)
	}
}

// What was published before an agent's start comes in order of level, whatever is published right after it.
func TestABacklogIsNotOvertakenAtTheStart(t *testing.T) {
	t.Parallel()
	s := settings{dir: folder(t), yaml: threeLevels}
	a := startAgent(t, s)
	a.batch("jobs", notes(5, "high", note{Priority: 0})...)
	a.stop()
	a = startAgent(t, s)
	a.publish("jobs", "low", api.HeaderPriority, "2")
	equal(t, "order", strings.Join(data(a.app("main").take(6, 1)), " "), "high0 high1 high2 high3 high4 low")
}
