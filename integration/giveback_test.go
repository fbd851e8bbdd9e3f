package integration

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/api"
)

func TestASessionThatEndsGivesEverythingBack(t *testing.T) {
	t.Parallel()
	a := startAgent(t, settings{yaml: threeLevels})
	const n = 1000
	a.batch("jobs", notes(n, "m", note{})...)
	session, holder := a.session(), a.app("main")
	holder.query = "&session=" + session.id
	var held []api.Delivery
	for len(held) < n {
		got := holder.pull(100, patience)
		if len(got) == 0 {
			t.Fatalf("nothing came after %d of %d", len(held), n)
		}
		held = append(held, got...)
	}
	other := a.app("main")
	if got := other.pull(1, 0); len(got) > 0 {
		t.Fatalf("%q came although everything is in flight", data(got))
	}
	dropped := ran()
	injected(t, "app crash", "a session with 1000 in flight")
	session.close()
	first := other.pull(1, patience)
	if took := ran() - dropped; len(first) != 1 || took > 3*time.Second { // their leases have a minute
		t.Errorf("%d messages after %v, want the first at once", len(first), took)
	}
	other.ack(first...)
	again := append(first, other.take(n-1, 100)...)
	for i, d := range again {
		if want := fmt.Sprintf("m%d", i); string(d.Payload()) != want || d.Attempt != 2 {
			t.Fatalf("delivery %d is %s at attempt %d, want %s at attempt 2", i, d.Payload(), d.Attempt, want)
		}
	}
	other.empty()
	verdict(t, "S5 S6", len(again) == n, "%d returned at once and redelivered, each once", len(again))
	if s := a.say(held[0], api.Settlement{Result: api.Ack}); s == api.StatusOK {
		t.Errorf("an ack of the session that ended: %s", s)
	}
}

func TestTheConnectionMayBeTheSession(t *testing.T) {
	t.Parallel()
	a := startAgent(t, settings{yaml: threeLevels})
	a.batch("jobs", notes(3, "m", note{})...)
	holder := a.app("main")
	holder.query = "&session=connection"
	holder.hold(3)
	other := a.app("main")
	equal(t, "others get", len(other.pull(3, 0)), 0)
	holder.client.CloseIdleConnections()
	other.take(3, 3)
}

func TestAnUnknownSessionIsRefused(t *testing.T) {
	t.Parallel()
	a := startAgent(t, settings{yaml: threeLevels})
	a.publish("jobs", "m")
	answer, text, err := a.call(a.http, "POST", "/v1/capsules/main/pull?session=nope", nil)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "error", a.refusal(answer, text).Code, api.CodeUnknownSession)
	answer, text, err = a.call(a.http, "POST", "/v1/capsules/nope/pull", nil)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "error", a.refusal(answer, text).Code, api.CodeUnknownCapsule)
	a.app("main").take(1, 1)
}

// A client that goes away while it waits, or before it has read its answer, loses nothing.
func TestAClientThatGoesAwayLosesNothing(t *testing.T) {
	t.Parallel()
	a := startAgent(t, settings{yaml: threeLevels})
	for range 20 {
		conn, err := net.Dial("unix", a.socket)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = fmt.Fprint(conn, "POST /v1/capsules/main/pull?max=5&wait=30s HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")
		eventually(t, "the pull waits", patience, func() bool { return a.capsule("main").Pulls > 0 })
		_ = conn.Close()
	}
	eventually(t, "no pull waits any more", patience, func() bool { return a.capsule("main").Pulls == 0 })
	a.batch("jobs", notes(50, "m", note{})...)
	for i, d := range a.app("main").take(50, 50) {
		equal(t, "order", string(d.Payload()), fmt.Sprintf("m%d", i))
	}
}

func TestAKilledAgentsWorkIsRedelivered(t *testing.T) {
	t.Parallel()
	server := startNATS(t)
	const ackWait = 2 * time.Second
	yaml := `
queues: [{name: jobs, ack_wait: 2s}]
capsules: [{name: main, queues: [jobs], concurrency: 100}]
`
	a := startAgent(t, settings{id: "first", nats: server.url, yaml: yaml})
	b := startAgent(t, settings{id: "second", nats: server.url, yaml: yaml})
	a.batch("jobs", notes(20, "m", note{})...)
	a.app("main").hold(20)
	a.kill()
	killed := ran()
	got := b.app("main").take(20, 20)
	if took := ran() - killed; took > ackWait+time.Second {
		t.Errorf("all 20 were back after %v, want %v", took, ackWait+time.Second)
	}
	texts := data(got)
	slices.Sort(texts)
	equal(t, "different messages", len(slices.Compact(texts)), 20)
	for _, d := range got {
		equal(t, "attempt of "+string(d.Payload()), d.Attempt, 2)
	}
}

// The agent extends what an app is still working on, so a short ack_wait does not cut long jobs.
func TestALongJobOutlastsAckWait(t *testing.T) {
	t.Parallel()
	server := startNATS(t)
	// Of three reports in one ack_wait, two can be lost to a moment in which the agent stands still.
	yaml := `
queues: [{name: jobs, ack_wait: 3s}]
capsules: [{name: main, queues: [jobs], concurrency: 100}]
`
	a := startAgent(t, settings{id: "first", nats: server.url, yaml: yaml})
	b := startAgent(t, settings{id: "second", nats: server.url, yaml: yaml})
	a.publish("jobs", "long")
	app := a.app("main")
	job := app.pull(1, patience)
	if got := b.app("main").pull(1, 8*time.Second); len(got) > 0 {
		t.Fatalf("handed out a second time while it runs: %q", data(got))
	}
	app.ack(job...)
	app.flush()
	app.empty()
}

func TestALeaseThatEnds(t *testing.T) {
	t.Parallel()
	a := startAgent(t, settings{yaml: threeLevels})
	a.publish("jobs", "m")
	session, app := a.session(), a.app("main")
	const lease = 3 * time.Second // long enough for all that is said before it ends
	app.query = "&lease=3s&session=" + session.id
	began := time.Now()
	first := app.pull(1, patience)[0]
	if early, left := first.Deadline.Sub(began), time.Until(first.Deadline); early < lease || left > lease {
		t.Errorf("the deadline is in %v, and %v after the pull began, want a lease of %v", left, early, lease)
	}
	again := app.pull(1, patience)[0]
	if took := time.Since(began); took < lease {
		t.Errorf("given out again after %v, before its lease of %v ended", took, lease)
	}
	equal(t, "attempt", again.Attempt, 2)
	equal(t, "late ack", a.say(first, api.Settlement{Result: api.Ack}), api.StatusExpired)
	select {
	case e := <-session.events:
		equal(t, "event", e, api.Event{Event: "revoked", Token: first.Token, Reason: "expired"})
	case <-time.After(patience):
		t.Error("the session was not told that the delivery was revoked")
	}
	equal(t, "extension", a.say(again, api.Settlement{Result: api.Extend, Lease: "60s"}), api.StatusOK)
	if got := app.pull(1, lease+time.Second); len(got) > 0 {
		t.Error("given out again although its lease was extended")
	}
	equal(t, "ack", a.say(again, api.Settlement{Result: api.Ack}), api.StatusOK)
	equal(t, "second ack", a.say(again, api.Settlement{Result: api.Ack}), api.StatusAlreadySettled)
	equal(t, "unknown token", a.settle(api.Settlement{Token: "nope", Result: api.Ack})[0].Status, api.StatusUnknown)
	app.empty()
}

// Failures of the settlements in a pull's body are its first line.
func TestSettlementsInAPullThatFail(t *testing.T) {
	t.Parallel()
	a := startAgent(t, settings{yaml: threeLevels})
	a.batch("jobs", notes(2, "m", note{})...)
	app := a.app("main")
	first := app.pull(1, patience)
	app.ack(first...)
	app.flush()
	app.ack(first...)
	app.settle = append(app.settle, api.Settlement{Token: "nope", Result: api.Ack})
	second := app.pull(1, patience)
	equal(t, "message after the failures", string(second[0].Payload()), "m1")
	want := []api.SettleResult{{Token: first[0].Token, Status: api.StatusAlreadySettled}, {Token: "nope", Status: api.StatusUnknown}}
	if !slices.Equal(app.failed, want) {
		t.Errorf("settle_failed %v, want %v", app.failed, want)
	}
}

// A pull waits through an outage of NATS, and so do the settlements in its body: where the slot of the next message depends on
// them, nothing else would come before the lease of the finished one ends.
func TestSettlementsInAPullWaitThroughAnOutage(t *testing.T) {
	t.Parallel()
	server := startNATS(t)
	a := startAgent(t, settings{nats: server.url, yaml: `
queues: [{name: jobs}]
capsules: [{name: main, queues: [jobs], concurrency: 1}]
`})
	a.batch("jobs", notes(2, "m", note{})...)
	app := a.app("main")
	got := app.pull(1, patience)
	server.kill()
	eventually(t, "the agent notices", patience, func() bool {
		var s api.AgentStatus
		a.get("/v1/status", &s)
		return !s.Broker.Connected
	})
	app.ack(got...)
	next := make(chan []api.Delivery, 1)
	go func() {
		all, _ := app.tryPull(1, patience)
		next <- all
	}()
	eventually(t, "the pull waits", patience, func() bool { return a.capsule("main").Pulls == 1 })
	server.start()
	second := <-next
	equal(t, "next", strings.Join(data(second), " "), "m1")
	equal(t, "settlements that failed", fmt.Sprint(app.failed), "[]")
	equal(t, "waiting and in flight", a.queue("jobs").Waiting+a.queue("jobs").InFlight, 1)
}

func TestNackWithADelayAndByBackoff(t *testing.T) {
	t.Parallel()
	a := startAgent(t, settings{yaml: `
queues: [{name: jobs, retry: {backoff: [300ms, 2s], jitter: 0.1}}]
capsules: [{name: main, queues: [jobs], concurrency: 100}]
`})
	a.publish("jobs", "m")
	app := a.app("main")
	d := app.pull(1, patience)[0]
	for i, c := range []struct {
		delay    string
		earliest time.Duration
	}{{"1700ms", 1700 * time.Millisecond}, {"", 2 * time.Second}, {"", 2 * time.Second}, {"0s", 0}} {
		said := time.Now()
		equal(t, "nack", a.say(d, api.Settlement{Result: api.Nack, Delay: c.delay}), api.StatusOK)
		if c.earliest > 0 { // there is time enough to have another one before it is back
			a.publish("jobs", "other")
			equal(t, "served meanwhile", string(app.take(1, 1)[0].Payload()), "other")
		}
		d = app.pull(1, patience)[0]
		if took := time.Since(said); took < c.earliest || took > c.earliest+2*time.Second {
			t.Errorf("nack %d with delay %q: back after %v, want %v or a little later", i, c.delay, took, c.earliest)
		}
		equal(t, "attempt", d.Attempt, i+2)
		equal(t, "payload", string(d.Payload()), "m")
	}
}

// Delays and attempts outlive the agent: never sooner than asked, never counted anew.
func TestDelaysAndAttemptsSurviveARestart(t *testing.T) {
	t.Parallel()
	s := settings{dir: folder(t), yaml: threeLevels}
	a := startAgent(t, s)
	a.batch("jobs", notes(2, "m", note{})...)
	app := a.app("main")
	got := app.hold(2)
	said := time.Now()
	for _, d := range got {
		equal(t, "nack", a.say(d, api.Settlement{Result: api.Nack, Delay: "4s", Reason: "no"}), api.StatusOK)
	}
	a.stop()
	a = startAgent(t, s)
	app = a.app("main")
	again := app.take(1, 1)
	again = append(again, app.take(1, 1)...)
	if took := time.Since(said); took < 4*time.Second {
		t.Errorf("back after %v, want no sooner than 4 s", took)
	}
	for _, d := range again {
		equal(t, "attempt of "+string(d.Payload()), d.Attempt, 2)
	}
	app.empty()
}

// With max_attempts 0 a message stays, at the last backoff: nothing is given up.
func TestNothingIsGivenUpWithoutALastAttempt(t *testing.T) {
	t.Parallel()
	a := startAgent(t, settings{yaml: `
queues: [{name: jobs, retry: {max_attempts: 0, backoff: [50ms], jitter: 0}}]
capsules: [{name: main, queues: [jobs]}]
`})
	a.publish("jobs", "m")
	app := a.app("main")
	for attempt := 1; attempt <= 4; attempt++ {
		d := app.pull(1, patience)[0]
		equal(t, "attempt", d.Attempt, attempt)
		equal(t, "nack", a.say(d, api.Settlement{Result: api.Nack}), api.StatusOK)
	}
	app.take(1, 1)
}

// The shell verbs, with curl's eyes: one message, its payload as the body, the rest in headers.
func TestNextAndTheShellVerbs(t *testing.T) {
	t.Parallel()
	a := startAgent(t, settings{yaml: threeLevels})
	a.publish("jobs", "\x00\xffbinary", api.HeaderPriority, "high", api.HeaderKey, "%E2%82%AC", api.HeaderID, "id-1",
		api.HeaderPrefix+"X-Shop", "17", "Content-Type", "image/png", "traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	answer, body, err := a.call(a.http, "POST", "/v1/capsules/main/next?wait=5s", nil)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "payload", string(body), "\x00\xffbinary")
	for header, want := range map[string]string{
		api.HeaderQueue: "jobs", api.HeaderPriority: "0", api.HeaderAttempt: "1", api.HeaderID: "id-1", api.HeaderFence: "0",
		api.HeaderPrefix + "X-Shop": "17", "Content-Type": "image/png", api.HeaderState: api.StateActive,
		"Traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "Content-Length": "8",
	} {
		equal(t, header, answer.Header.Get(header), want)
	}
	token := answer.Header.Get(api.HeaderToken)
	verb := func(path string, want int) {
		t.Helper()
		answer, text, err := a.call(a.http, "POST", "/v1/messages/"+path, nil)
		if err != nil || answer.StatusCode != want {
			t.Errorf("%s: %v %s %s, want %d", strings.ReplaceAll(path, token, "TOKEN"), err, status(answer), text, want)
		}
	}
	verb(token+"/extend?lease=30s", 204)
	verb(token+"/ack", 204)
	verb(token+"/ack", 409)
	verb("nope/ack", 404)
	answer, _, err = a.call(a.http, "POST", "/v1/capsules/main/next", nil)
	if err != nil || answer.StatusCode != 204 {
		t.Errorf("next with nothing to do: %v %s, want 204", err, status(answer))
	}
}
