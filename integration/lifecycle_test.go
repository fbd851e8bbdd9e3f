package integration

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/api"
)

func TestSIGTERMDrains(t *testing.T) {
	t.Parallel()
	s := settings{dir: folder(t), yaml: threeLevels}
	a := startAgent(t, s)
	a.batch("jobs", notes(3, "m", note{})...)
	session, app := a.session(), a.app("main")
	app.query = "&session=" + session.id
	held := app.hold(2)
	a.signal(sigterm)
	select {
	case e := <-session.events:
		equal(t, "event", e.Event, "draining")
	case <-time.After(patience):
		t.Fatal("the session is not told that the agent drains")
	}
	other := a.app("main")
	asked := ran()
	if got := other.pull(1, 20*time.Second); len(got) > 0 {
		t.Errorf("a draining agent gave out %q", data(got))
	}
	if took := ran() - asked; took > 3*time.Second {
		t.Errorf("a pull was answered after %v while draining, want 1 s at most", took)
	}
	equal(t, "state", other.state, api.StateDraining)
	a.publish("jobs", "while draining")
	equal(t, "ack while draining", a.say(held[0], api.Settlement{Result: api.Ack}), api.StatusOK)
	if !a.running() {
		t.Fatal("the agent ended before its last delivery was settled")
	}
	equal(t, "last ack", a.say(held[1], api.Settlement{Result: api.Ack}), api.StatusOK)
	equal(t, "exit code", a.wait(patience), 0)
	for _, socket := range []string{a.socket, a.admin} {
		if _, err := os.Lstat(socket); !os.IsNotExist(err) {
			t.Errorf("%s is still there", socket)
		}
	}
	a = startAgent(t, s)
	app = a.app("main")
	equal(t, "next", string(app.take(1, 1)[0].Payload()), "m2")
	equal(t, "next", string(app.take(1, 1)[0].Payload()), "while draining")
	app.empty()
}

// What no app settles within drain_timeout goes back, uncounted.
func TestADrainThatTimesOutReturnsTheRest(t *testing.T) {
	t.Parallel()
	s := settings{dir: folder(t), yaml: "agent: {drain_timeout: 1s}\n" + threeLevels}
	a := startAgent(t, s)
	a.publish("jobs", "m")
	a.app("main").pull(1, patience)
	a.signal(sigterm)
	equal(t, "exit code", a.wait(10*time.Second), 0)
	a = startAgent(t, s)
	equal(t, "attempt after a drain", a.app("main").take(1, 1)[0].Attempt, 1)
}

func TestASecondSignalStopsAtOnce(t *testing.T) {
	t.Parallel()
	a := startAgent(t, settings{yaml: threeLevels})
	a.publish("jobs", "m")
	session := a.session()
	a.app("main").pull(1, patience)
	a.signal(sigterm)
	select {
	case <-session.events:
	case <-time.After(patience):
		t.Fatal("no event of the drain")
	}
	a.signal(sigterm)
	a.wait(5 * time.Second)
}

func TestAdminSocketDrains(t *testing.T) {
	t.Parallel()
	a := startAgent(t, settings{yaml: threeLevels})
	info, err := os.Lstat(a.admin)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "mode of the admin socket", info.Mode().Perm(), 0o600)
	info, err = os.Lstat(a.socket)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "mode of the app socket", info.Mode().Perm(), 0o660)
	a.publish("jobs", "m")
	if _, stderr, code := command(t, a, "drain"); code != 0 {
		t.Fatalf("drain: exit code %d: %s", code, stderr)
	}
	app := a.app("main")
	equal(t, "given out after a drain", len(app.pull(1, patience)), 0)
	equal(t, "state", app.state, api.StateDraining)
	a.publish("jobs", "publishing is accepted until the end")
	a.stop()
}

func TestALiveSocketIsRefusedAndAStaleOneTakenOver(t *testing.T) {
	t.Parallel()
	s := settings{dir: folder(t), yaml: threeLevels}
	a := startAgent(t, s)
	a.publish("jobs", "m")

	second := launchWithStore(t, s, "other")
	equal(t, "exit code of a second agent on the same socket", second.wait(patience), 1)
	if text := second.errs.String(); !strings.Contains(text, "already running") {
		t.Errorf("it says %q, want: already running", tail(text))
	}
	a.publish("jobs", "the first one still serves")

	a.kill()
	if _, err := os.Lstat(a.socket); err != nil {
		t.Fatalf("a killed agent leaves its socket: %v", err)
	}
	a = startAgent(t, s)
	a.app("main").take(2, 2)
}

// launchWithStore runs an agent as s says, but with another store.
func launchWithStore(t *testing.T, s settings, store string) *agent {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.dir, "fairlead.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(s.dir, store+".yaml")
	changed := strings.Replace(string(text), "jetstream}", store+"}", 1)
	if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	a := newAgent(t, s.dir, filepath.Join(s.dir, "agent.sock"))
	a.process = start(t, "agent with "+store, exec.Command(fairlead, "run", "--config", file))
	return a
}

// A file that is no socket is never removed.
func TestAFileInTheSocketsPlaceIsLeftAlone(t *testing.T) {
	t.Parallel()
	s := settings{dir: folder(t), yaml: threeLevels}
	path := filepath.Join(s.dir, "agent.sock")
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	a := launch(t, s)
	if code := a.wait(patience); code == 0 {
		t.Error("exit code 0 although a file is in the socket's place")
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "precious" {
		t.Errorf("the file: %q %v", text, err)
	}
}

// While NATS is away, publishers are told and pulls wait; when it is back, everything goes on alone.
func TestTheBrokerGoesAndComesBack(t *testing.T) {
	t.Parallel()
	server := startNATS(t)
	a := startAgent(t, settings{nats: server.url, yaml: threeLevels})
	a.batch("jobs", notes(3, "m", note{})...)
	app := a.app("main")
	held := app.pull(1, patience)
	server.kill()
	eventually(t, "the agent notices", patience, func() bool {
		var s api.AgentStatus
		a.get("/v1/status", &s)
		return !s.Broker.Connected
	})
	_, refused := a.tryPublish("jobs", "lost?")
	if refused == nil || refused.Code != api.CodeBroker && refused.Code != api.CodeOutcomeUnknown {
		t.Errorf("publish without a broker: %v, want %s", refused, api.CodeBroker)
	}
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
	server.start()
	got := <-waiting
	if got.err != nil || len(got.all) != 1 || string(got.all[0].Payload()) != "m1" {
		t.Fatalf("the pull that waited through the outage: %q %v, want m1", data(got.all), got.err)
	}
	eventually(t, "an ack from before the outage is taken", patience, func() bool {
		s := a.say(held[0], api.Settlement{Result: api.Ack})
		return s == api.StatusOK || s == api.StatusAlreadySettled
	})
	equal(t, "ack", a.say(got.all[0], api.Settlement{Result: api.Ack}), api.StatusOK)
	a.publish("jobs", "after")
	equal(t, "next", string(app.take(1, 1)[0].Payload()), "m2")
	equal(t, "next", string(app.take(1, 1)[0].Payload()), "after")
	app.empty()
}

// An agent that starts before NATS does waits for it, or says so; it does not serve half.
func TestCommandsWithoutAnAgent(t *testing.T) {
	t.Parallel()
	nowhere := newAgent(t, "", filepath.Join(folder(t), "none.sock"))
	for _, args := range [][]string{{"health"}, {"status"}, {"publish", "jobs", "x"}, {"pull", "main"}, {"queues"}, {"drain"}, {"peek", "jobs"}} {
		_, stderr, code := command(t, nowhere, args...)
		if code != 69 || stderr == "" {
			t.Errorf("%q without an agent: exit code %d, %q; want 69 and a reason", args, code, stderr)
		}
	}
	if conn, err := net.Dial("unix", nowhere.socket); err == nil {
		_ = conn.Close()
		t.Error("somebody listens")
	}
}

// An agent that is started before NATS waits for it: publishers are told, and work goes on when it is there.
func TestAnAgentStartsBeforeNATS(t *testing.T) {
	t.Parallel()
	server := startNATS(t)
	server.kill()
	a := startAgent(t, settings{nats: server.url, yaml: threeLevels})
	if _, refused := a.tryPublish("jobs", "x"); refused == nil || refused.Code != api.CodeBroker {
		t.Errorf("publish without a broker: %v, want %s", refused, api.CodeBroker)
	}
	server.start()
	eventually(t, "publishing works", patience, func() bool {
		_, refused := a.tryPublish("jobs", "m")
		return refused == nil
	})
	a.app("main").take(1, 1)
}

// Two live agents with one id would be taken for one: one of them is told, and stops.
func TestTwoLiveAgentsWithTheSameID(t *testing.T) {
	t.Parallel()
	server := startNATS(t)
	first := startAgent(t, settings{id: "same", nats: server.url, yaml: threeLevels})
	second := launch(t, settings{id: "same", nats: server.url, yaml: threeLevels})
	eventually(t, "one of them stops", patience, func() bool { return !first.running() || !second.running() })
	gone, stays := second, first
	if !first.running() {
		gone, stays = first, second
	}
	if code := gone.wait(patience); code == 0 || !strings.Contains(gone.errs.String()+gone.out.String(), "same") {
		t.Errorf("exit code %d, want a failure that names the id: %s", code, tail(gone.errs.String()))
	}
	stays.publish("jobs", "m")
	stays.app("main").take(1, 1)

	// One that crashed is no live agent: its successor serves at once.
	stays.kill()
	began := ran()
	next := startAgent(t, settings{id: "same", nats: server.url, yaml: threeLevels})
	next.publish("jobs", "m")
	next.app("main").take(1, 1)
	if took := ran() - began; took > 4*time.Second {
		t.Errorf("the successor of a crashed agent served after %v", took)
	}
}
