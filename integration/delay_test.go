package integration

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/api"
)

// cancelDelay cancels through the command, as an operator does, and returns its exit code and what it said on stderr.
func cancelDelay(t *testing.T, a *agent, queue string, handles ...string) (code int, stderr string) {
	t.Helper()
	_, stderr, code = command(t, a, append([]string{"delayed", "cancel", queue}, handles...)...)
	return code, stderr
}

// delayedList is what `delayed list -o json` prints.
func delayedList(t *testing.T, a *agent, queue string) api.DelayedList {
	t.Helper()
	out, stderr, code := command(t, a, "delayed", "list", queue, "-o", "json")
	var list api.DelayedList
	if err := json.Unmarshal([]byte(out), &list); code != 0 || err != nil {
		t.Fatalf("delayed list: exit code %d, %v: %s%s", code, err, out, stderr)
	}
	return list
}

// A delayed message comes at its time, although its agent was killed in between and another one has to move it.
func TestADelaySurvivesItsAgent(t *testing.T) {
	t.Parallel()
	server := startNATS(t)
	s := settings{nats: server.url, yaml: fairQueue, dir: folder(t)}
	a := startAgent(t, s)
	published := time.Now()
	stored := a.publish("jobs", "later", api.HeaderDelay, "3s", api.HeaderKey, "acme", api.HeaderWeight, "2", api.HeaderID, "i", api.HeaderPrefix+"X", "y")
	if stored.Delayed == "" || stored.Seq != 0 {
		t.Fatalf("the answer is %+v", stored)
	}
	due := delayedList(t, a, "jobs").Delayed[0].At
	a.publish("jobs", "now", api.HeaderKey, "acme")
	app := a.app("main")
	equal(t, "the others come first", string(app.take(1, 1)[0].Payload()), "now")
	app.empty()
	time.Sleep(time.Until(published.Add(time.Second)))
	a.kill()
	a = startAgent(t, s)
	app = a.app("main")
	d := app.pull(1, patience)
	took := time.Since(published)
	if len(d) != 1 || took < 3*time.Second {
		t.Fatalf("%d came after %v, want one after 3 s", len(d), took)
	}
	// When it joined the queue the server says: the test can be late to see it.
	if late := d[0].EnqueuedAt.Sub(due); late < 0 || late > 1600*time.Millisecond {
		t.Errorf("it joined the queue %v after it was due, want 1.6 s at most", late)
	}
	equal(t, "message", fmt.Sprint(string(d[0].Payload()), d[0].Key, d[0].ID, d[0].Headers, d[0].Attempt), fmt.Sprint("later", "acme", "i", map[string]string{"x": "y"}, 1))
	equal(t, "ack", a.say(d[0], api.Settlement{Result: api.Ack}), api.StatusOK)
	app.empty()
}

// The same when the server was killed and started again, before and after the time had come; and also while no agent runs.
func TestADelaySurvivesTheServer(t *testing.T) {
	t.Parallel()
	server := startNATS(t)
	s := settings{nats: server.url, yaml: threeLevels, dir: folder(t)}
	a := startAgent(t, s)
	published := time.Now()
	a.publish("jobs", "away", api.HeaderDelay, "1s")
	a.publish("jobs", "after", api.HeaderDelay, "5s")
	server.kill()
	time.Sleep(time.Until(published.Add(1500 * time.Millisecond)))
	server.start()
	app := a.app("main")
	equal(t, "first", string(app.take(1, 1)[0].Payload()), "away")
	a.stop()
	server.kill()
	server.start()
	a = startAgent(t, s)
	app = a.app("main")
	d := app.take(1, 1)[0]
	if took := time.Since(published); took < 5*time.Second {
		t.Errorf("the second came after %v", took)
	}
	equal(t, "second", string(d.Payload()), "after")
	app.empty()
}

// Every time is kept to, whatever agents and server go through: killed again and again, they lose no delayed message, deliver
// none twice, and none early.
func TestDelayedMessagesComeOnceThroughCrashes(t *testing.T) {
	t.Parallel()
	server := startNATS(t)
	dirs := []string{folder(t), folder(t)}
	run := func(i int) *agent {
		return startAgent(t, settings{id: fmt.Sprint("agent-", i), nats: server.url, yaml: threeLevels, dir: dirs[i]})
	}
	agents := []*agent{run(0), run(1)}
	const n = 300
	var lines []string
	due := map[string]time.Time{}
	for i := range n {
		at := time.Now().Add(2500*time.Millisecond + time.Duration(i)*10*time.Millisecond)
		name := fmt.Sprint("m", i)
		due[name] = at
		lines = append(lines, fmt.Sprintf(`{"data":%q,"at":%q}`, name, at.Format(time.RFC3339Nano)))
	}
	for _, r := range agents[0].batchText("jobs", []byte(strings.Join(lines, "\n"))) {
		if r.Error != nil || r.Delayed == "" {
			t.Fatalf("%+v", r)
		}
	}
	for i := range 6 {
		time.Sleep(400 * time.Millisecond)
		if i == 2 {
			server.kill()
			server.start()
			continue
		}
		agents[i%2].kill()
		agents[i%2] = run(i % 2)
	}
	came := map[string]int{}
	app := agents[0].app("main")
	for len(came) < n {
		got := app.pull(64, patience)
		if len(got) == 0 {
			t.Fatalf("%d of %d came", len(came), n)
		}
		app.ack(got...)
		for _, d := range got {
			name := string(d.Payload())
			came[name]++
			if early := due[name].Sub(d.EnqueuedAt); early > 5*time.Millisecond {
				t.Errorf("%s came %v early", name, early)
			}
		}
	}
	app.flush()
	app.empty()
	for name, times := range came {
		if times != 1 {
			t.Errorf("%s came %d times", name, times)
		}
	}
	equal(t, "left", delayedList(t, agents[0], "jobs").Total, 0)
}

func TestDelayedMessagesAreListedAndCancelled(t *testing.T) {
	t.Parallel()
	a := startAgent(t, settings{yaml: threeLevels})
	at := time.Now().Add(2 * time.Hour).UTC().Truncate(time.Millisecond)
	second := a.publish("jobs", "second", api.HeaderAt, at.Format(time.RFC3339Nano), api.HeaderPriority, "low", api.HeaderKey, "acme", api.HeaderID, "i2")
	first := a.publish("jobs", "first", api.HeaderDelay, "1h")
	past := a.publish("jobs", "past", api.HeaderAt, "2020-01-01T00:00:00Z")
	if past.Delayed != "" || past.Seq == 0 {
		t.Errorf("a time that has passed: %+v, want a message for now", past)
	}
	list := delayedList(t, a, "jobs")
	if len(list.Delayed) != 2 || list.Total != 2 || list.Delayed[0].Handle != first.Delayed || list.Delayed[1].Handle != second.Delayed {
		t.Fatalf("listed %+v", list)
	}
	got := list.Delayed[1]
	if !got.At.Equal(at) || got.Priority != 2 || got.Key != "acme" || got.ID != "i2" || got.Bytes != len("second") || got.Due {
		t.Errorf("listed %+v", got)
	}
	q := a.queue("jobs")
	equal(t, "counted by level", fmt.Sprint(q.LevelStats[0].Delayed, q.LevelStats[1].Delayed, q.LevelStats[2].Delayed, q.Delayed, q.Waiting), "0 1 1 2 1")
	if out, _, _ := command(t, a, "delayed", "list", "jobs", "--max", "1"); !strings.Contains(out, first.Delayed) || strings.Contains(out, second.Delayed) || !strings.Contains(out, "and 1 more of 2") {
		t.Errorf("the table is\n%s", out)
	}
	if code, stderr := cancelDelay(t, a, "jobs", first.Delayed); code != 0 {
		t.Errorf("cancel: exit code %d, %s", code, stderr)
	}
	for _, handle := range []string{first.Delayed, "nonsense", "*"} {
		if code, stderr := cancelDelay(t, a, "jobs", handle); code != 1 || !strings.Contains(stderr, "unknown_handle") {
			t.Errorf("cancel %s: exit code %d, %s", handle, code, stderr)
		}
	}
	equal(t, "left", delayedList(t, a, "jobs").Total, 1)
	if code, stderr := cancelDelay(t, a, "jobs", "nonsense", second.Delayed); code != 1 || !strings.Contains(stderr, "nonsense") {
		t.Errorf("cancel of several: exit code %d, %s", code, stderr)
	}
	equal(t, "left", delayedList(t, a, "jobs").Total, 0)
	app := a.app("main")
	equal(t, "what waits", string(app.take(1, 1)[0].Payload()), "past")
	app.empty()
}

func TestDelayAndTTLAreChecked(t *testing.T) {
	t.Parallel()
	a := startAgent(t, settings{yaml: strings.Replace(threeLevels, "name: jobs", "name: jobs, ttl: 1h", 1)})
	for _, headers := range [][]string{
		{api.HeaderDelay, "5"}, {api.HeaderDelay, "-5s"}, {api.HeaderDelay, "9000h"}, {api.HeaderAt, "noon"}, {api.HeaderAt, "2999-01-01T00:00:00Z"},
		{api.HeaderDelay, "5s", api.HeaderAt, "2030-01-01T00:00:00Z"}, {api.HeaderTTL, "0s"}, {api.HeaderTTL, "-1s"}, {api.HeaderTTL, "soon"},
		{api.HeaderDelay, "10s", api.HeaderTTL, "5s"}, {api.HeaderDelay, "2h"},
	} {
		if _, err := a.tryPublish("jobs", "x", headers...); err == nil || err.Code != api.CodeBadRequest {
			t.Errorf("%q: %v", headers, err)
		}
	}
	if got := a.publish("jobs", "x", api.HeaderDelay, "2h", api.HeaderTTL, "3h"); got.Delayed == "" {
		t.Errorf("%+v", got)
	}
}

// A message whose time to live is over is gone, and so is one that was to be tried again; what an app has in hand stays its own.
func TestTTL(t *testing.T) {
	t.Parallel()
	a := startAgent(t, settings{yaml: threeLevels})
	app := a.app("main")
	const ttl = 4 * time.Second // enough to take it, on any machine
	running := a.publish("jobs", "running", api.HeaderTTL, seconds(ttl), api.HeaderPriority, "high")
	a.publish("jobs", "retried", api.HeaderTTL, seconds(ttl), api.HeaderPriority, "high")
	published := time.Now()
	held := app.hold(2)
	if held[0].Seq != running.Seq {
		t.Fatalf("held %q", data(held))
	}
	a.publish("jobs", "gone", api.HeaderTTL, "1s")
	a.publish("jobs", "stays", api.HeaderTTL, "1h")
	for _, r := range a.batchText("jobs", []byte(`{"data":"gone too","ttl":"900ms","priority":"low"}`)) {
		if r.Error != nil {
			t.Fatal(r.Error)
		}
	}
	equal(t, "nack", a.say(held[1], api.Settlement{Result: api.Nack, Delay: seconds(ttl)}), api.StatusOK)
	time.Sleep(time.Until(published.Add(ttl + 1500*time.Millisecond))) // past what JetStream would have rounded the seconds to
	equal(t, "what is left", string(app.take(1, 1)[0].Payload()), "stays")
	app.empty()
	equal(t, "running work", a.say(held[0], api.Settlement{Result: api.Ack}), api.StatusOK)
	eventually(t, "all are gone", patience, func() bool {
		app.pull(10, 0)
		q := a.queue("jobs")
		return q.Waiting+q.InFlight+q.Delayed == 0
	})
}

func TestADelayedIDIsStoredOnce(t *testing.T) {
	t.Parallel()
	a := startAgent(t, settings{yaml: fairQueue})
	first := a.publish("jobs", "1", api.HeaderID, "i", api.HeaderKey, "a", api.HeaderDelay, "3s")
	again := a.publish("jobs", "2", api.HeaderID, "i", api.HeaderKey, "a", api.HeaderDelay, "3s")
	if !again.Duplicate || again.Delayed != first.Delayed {
		t.Errorf("the second is %+v, the first was %+v", again, first)
	}
	equal(t, "another tenant's", a.publish("jobs", "3", api.HeaderID, "i", api.HeaderKey, "b", api.HeaderDelay, "1s").Duplicate, false)
	app := a.app("main")
	got := data(app.take(2, 2))
	slices.Sort(got)
	equal(t, "came", strings.Join(got, ""), "13")
	app.empty()
}

// In a full queue a message whose time has come waits until there is room.
func TestADelayedMessageWaitsForRoom(t *testing.T) {
	t.Parallel()
	a := startAgent(t, settings{yaml: strings.Replace(threeLevels, "name: jobs", "name: jobs, limits: {max_messages: 1}", 1)})
	a.publish("jobs", "first")
	a.publish("jobs", "delayed", api.HeaderDelay, "2s") // while it is looked at it must not be due
	eventually(t, "it is due", patience, func() bool {
		list := delayedList(t, a, "jobs")
		return len(list.Delayed) == 1 && list.Delayed[0].Due
	})
	if _, err := a.tryPublish("jobs", "refused"); err == nil || err.Code != api.CodeQueueFull {
		t.Errorf("a publish into the full queue: %v", err)
	}
	app := a.app("main")
	equal(t, "in order", strings.Join(data(app.take(2, 1)), " "), "first delayed")
	app.empty()
}
