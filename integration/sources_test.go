package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/fairlead/fairlead/agent/api"
)

// events makes a plain stream, as any application has them.
func (s *natsServer) events(name string, subjects ...string) {
	s.t.Helper()
	js, err := jetstream.New(s.connect())
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := js.CreateStream(s.t.Context(), jetstream.StreamConfig{Name: name, Subjects: subjects}); err != nil {
		s.t.Fatal(err)
	}
}

const eventQueue = `
queues:
  - name: jobs
    priority_levels: 3
    fair_share: true
    sources: [{stream: EVENTS, subject: "events.*.>", key: "{{wildcard(1)}}", priority: 1}]
capsules: [{name: main, queues: [jobs], concurrency: 1000}]
`

// A plain stream with 500 noisy and 5 quiet events: the quiet ones are among the first 14. Nobody but the queue knows of
// keys, levels or agents.
func TestEventStreamsAreSharedFairly(t *testing.T) {
	t.Parallel()
	server := startNATS(t)
	server.events("EVENTS", "events.>")
	server.flood(500, func(int) string { return "events.noisy.order.created" }, func(i int) string { return fmt.Sprint(i) })
	server.flood(5, func(int) string { return "events.quiet.order.created" }, func(i int) string { return fmt.Sprint(i) })
	a := startAgent(t, settings{nats: server.url, yaml: eventQueue})
	eventually(t, "all events are in the queue", patience, func() bool { return a.queue("jobs").Waiting == 505 })
	app := a.app("main")
	first := app.take(14, 1)
	equal(t, "quiet ones among the first 14", count(first)["quiet"], 5)
	for _, d := range first {
		equal(t, "level", d.Priority, 1)
		equal(t, "stream of "+string(d.Payload()), d.Headers["fairlead-source-stream"], "EVENTS")
		equal(t, "subject of "+string(d.Payload()), d.Headers["fairlead-source-subject"], "events."+d.Key+".order.created")
	}
	noisy := slices.DeleteFunc(append(first, app.take(491, 100)...), func(d api.Delivery) bool { return d.Key != "noisy" })
	for i, d := range noisy {
		if string(d.Payload()) != fmt.Sprint(i) {
			t.Fatalf("noisy event %d is %s", i, d.Payload())
		}
	}
	app.empty()

	// An event that comes while a pull waits wakes it.
	begin := ran()
	server.publisher()("events.late.x", "now", "Traceparent", "00-1", "X-Kept", "yes")
	d := app.pull(1, patience)[0]
	equal(t, "late event", string(d.Payload())+" "+d.Key+" "+d.Headers["x-kept"]+" "+d.Headers["traceparent"], "now late yes 00-1")
	if took := ran() - begin; took > 2*time.Second {
		t.Errorf("it took %v", took)
	}
	// The shell sees where it came from too.
	app.ack(d)
	app.flush()
	server.publisher()("events.late.y", "then")
	answer, _, err := a.call(a.http, "POST", "/v1/capsules/main/next?wait=10s", nil)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "subject for shells", answer.Header.Get("Fairlead-Header-Fairlead-Source-Subject"), "events.late.y")
}

// Sources are changed while the agent runs: another level and key go on where the queue is, an added one begins with its
// oldest event, a removed one brings nothing more. A tenant whose name is no key as it stands is a tenant all the same.
func TestSourcesChangeLive(t *testing.T) {
	t.Parallel()
	server := startNATS(t)
	server.events("EVENTS", "events.>")
	server.events("OTHER", "other.*")
	publish := server.publisher()
	publish("other.acme", "other 1")
	publish("events.acme.x", "1")
	a := startAgent(t, settings{nats: server.url, yaml: eventQueue})
	app := a.app("main")
	equal(t, "level at first", app.take(1, 1)[0].Priority, 1)

	a.reload("priority: 1}", "priority: 0}", "stream changed to its definition")
	publish("events.user@example.x", "2")
	d := app.take(1, 1)[0]
	equal(t, "after a change of level", fmt.Sprint(string(d.Payload()), " ", d.Priority, " ", d.Key), "2 0 user@example")

	a.reload("priority: 0}", `priority: 0}, {stream: OTHER, subject: "other.*", key: all}`, "stream changed to its definition")
	d = app.take(1, 1)[0]
	equal(t, "of an added source", fmt.Sprint(string(d.Payload()), " ", d.Priority, " ", d.Key), "other 1 1 all")

	a.reload(`{stream: EVENTS, subject: "events.*.>", key: "{{wildcard(1)}}", priority: 0}, `, "", "stream changed to its definition")
	publish("events.acme.x", "3")
	publish("other.acme", "other 2")
	equal(t, "of the source that is left", string(app.take(1, 1)[0].Payload()), "other 2")
	app.empty()
}

// A queue at its limit holds its sources up, and loses nothing.
func TestAFullQueueHoldsItsSourcesUp(t *testing.T) {
	t.Parallel()
	server := startNATS(t)
	server.events("EVENTS", "events.>")
	server.flood(60, func(i int) string { return fmt.Sprintf("events.t%d.x", i%3) }, func(i int) string { return fmt.Sprint(i) })
	a := startAgent(t, settings{nats: server.url, yaml: strings.Replace(eventQueue, "fair_share: true", "limits: {max_messages: 25}", 1)})
	eventually(t, "the queue is full", patience, func() bool { return a.queue("jobs").Waiting == 25 })
	if _, refused := a.tryPublish("jobs", "x"); refused == nil || refused.Code != api.CodeQueueFull {
		t.Errorf("a publish into the full queue: %v", refused)
	}
	for i, d := range a.app("main").take(60, 10) {
		if string(d.Payload()) != fmt.Sprint(i) {
			t.Fatalf("delivery %d is event %s", i, d.Payload())
		}
	}
	equal(t, "waiting", a.queue("jobs").Waiting, 0)
}

// A source that does not exist is told by validate --connect, in the status and in the log; work goes on, and the source is
// read when it is there.
func TestAMissingSourceIsToldAndAwaited(t *testing.T) {
	t.Parallel()
	server := startNATS(t)
	file := filepath.Join(t.TempDir(), "fairlead.yaml")
	text := "nats: {url: " + server.url + "}\nlisten: {socket: /tmp/x.sock}\n" + eventQueue
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, stderr, code := command(t, nil, "validate", "--config", file, "--connect"); code == 0 || !strings.Contains(stderr, "queue jobs: source stream EVENTS does not exist") {
		t.Errorf("validate --connect: exit code %d: %s", code, stderr)
	}
	a := startAgent(t, settings{nats: server.url, yaml: eventQueue})
	warned := func() bool {
		var s api.AgentStatus
		a.get("/v1/status", &s)
		return strings.Contains(strings.Join(s.Warnings, "\n"), "source stream EVENTS does not exist")
	}
	eventually(t, "the status warns", patience, warned)
	equal(t, "the queue warns", strings.Contains(strings.Join(a.queue("jobs").Warnings, "\n"), "source stream EVENTS does not exist"), true)
	app := a.app("main")
	a.publish("jobs", "published meanwhile")
	equal(t, "meanwhile", string(app.take(1, 1)[0].Payload()), "published meanwhile")

	server.events("EVENTS", "events.>")
	server.publisher()("events.acme.x", "there at last")
	equal(t, "the source is read", string(app.take(1, 1)[0].Payload()), "there at last")
	eventually(t, "the warning goes", patience, func() bool { return !warned() })
	if _, stderr, code := command(t, nil, "validate", "--config", file, "--connect"); code != 0 {
		t.Errorf("validate --connect: exit code %d: %s", code, stderr)
	}
}

// A crash of the server loses nothing that a source brought or has yet to bring. What was finished shortly before can come
// again: JetStream knows how far it was only as of its last note of it.
func TestSourcesSurviveACrashOfTheServer(t *testing.T) {
	t.Parallel()
	server := startNATS(t)
	server.events("EVENTS", "events.>")
	a := startAgent(t, settings{nats: server.url, yaml: eventQueue})
	emit := func(from, to int) {
		publish := server.publisher()
		for i := from; i < to; i++ {
			publish("events.acme.x", fmt.Sprint(i))
		}
	}
	emit(0, 20)
	app := a.app("main")
	times := map[string]int{}
	for _, d := range app.take(10, 10) { // take acknowledges them
		times[string(d.Payload())]++
	}
	server.kill()
	server.start()
	emit(20, 25)
	eventually(t, "everything has come", patience, func() bool {
		ds := app.pull(100, time.Second)
		for _, d := range ds {
			times[string(d.Payload())]++
		}
		app.ack(ds...)
		app.flush()
		return len(times) == 25
	})
	for i := range 25 {
		if n := times[fmt.Sprint(i)]; n < 1 || n > 2 || i >= 20 && n > 1 {
			t.Errorf("event %d came %d times", i, n)
		}
	}
	t.Logf("times: %v", times)
}
