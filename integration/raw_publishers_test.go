package integration

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/agent/api"
)

const rawQueue = `
queues:
  - {name: jobs, priority_levels: [high, medium, low], fair_share: true}
capsules:
  - {name: main, queues: [jobs], concurrency: 10000}
`

// A plain NATS client needs no agent to publish: the subject says level and key.
func TestPlainNATSClientsPublish(t *testing.T) {
	t.Parallel()
	server := startNATS(t)
	s := settings{nats: server.url, yaml: rawQueue, dir: folder(t)}
	a := startAgent(t, s)
	publish := server.publisher()
	publish("fl.q.jobs.p2.acme", "low of acme")
	publish("fl.q.jobs.d.acme", "default of acme")
	publish("fl.q.jobs.p0._", "high, unkeyed", "Content-Type", "text/plain", "X-Trace", "abc", "Fairlead-Id", "id 1")
	got := map[string]api.Delivery{}
	for _, d := range a.app("main").take(3, 3) {
		got[string(d.Payload())] = d
	}
	for payload, want := range map[string]struct {
		level int
		key   string
	}{"high, unkeyed": {0, ""}, "default of acme": {1, "acme"}, "low of acme": {2, "acme"}} {
		equal(t, "level of "+payload, got[payload].Priority, want.level)
		equal(t, "key of "+payload, got[payload].Key, want.key)
	}
	high := got["high, unkeyed"]
	equal(t, "content type", high.ContentType, "text/plain")
	equal(t, "header", high.Headers["x-trace"], "abc")
	equal(t, "id", high.ID, "id 1")

	a.stop()
	publish("fl.q.jobs.p1.acme", "while no agent ran")
	a = startAgent(t, s)
	equal(t, "delivered", string(a.app("main").take(1, 1)[0].Payload()), "while no agent ran")
}

// Subjects that no agent would write: each message is delivered all the same, once, and nobody else is disturbed.
func TestOddSubjectsAreRepaired(t *testing.T) {
	t.Parallel()
	server := startNATS(t)
	a := startAgent(t, settings{nats: server.url, yaml: rawQueue})
	publish := server.publisher()
	odd := map[string]struct {
		level int
		key   string
	}{
		"fl.q.jobs.p0.=ZZ":                         {0, ""},
		"fl.q.jobs.p0.=2e":                         {0, ""},
		"fl.q.jobs.p0.=41":                         {0, ""},
		"fl.q.jobs.p0.=FF":                         {0, ""},
		"fl.q.jobs.px.acme":                        {2, "acme"},
		"fl.q.jobs.p00.acme":                       {2, "acme"},
		"fl.q.jobs.p9.acme":                        {2, "acme"},
		"fl.q.jobs.p-1.acme":                       {2, "acme"},
		"fl.q.jobs.urgent.ac":                      {2, "ac"},
		"fl.q.jobs.p0":                             {0, ""},
		"fl.q.jobs.p0.a.b":                         {0, ""},
		"fl.q.jobs.d":                              {1, ""},
		"fl.q.jobs.x":                              {2, ""},
		"fl.q.jobs.p1." + strings.Repeat("k", 400): {1, ""},
	}
	for subject := range odd {
		publish(subject, subject, "X-Kept", "yes")
	}
	publish("fl.q.jobs.p1.acme", "plain")
	app := a.app("main")
	seen := map[string]bool{}
	for range len(odd) + 1 {
		d := app.take(1, 1)[0]
		subject := string(d.Payload())
		if seen[subject] {
			t.Errorf("%.60s was delivered twice", subject)
		}
		seen[subject] = true
		if want, isOdd := odd[subject]; isOdd {
			if d.Priority != want.level || d.Headers["x-kept"] != "yes" {
				t.Errorf("%.60s came at level %d with %v, want level %d and its header", subject, d.Priority, d.Headers, want.level)
			}
			// A key in another spelling may be understood; what cannot be is unkeyed.
			if d.Key != want.key && !(d.Key == "." && strings.HasSuffix(subject, "=2e")) && !(d.Key == "A" && strings.HasSuffix(subject, "=41")) {
				t.Errorf("%.60s came with the key %.40q, want %q", subject, d.Key, want.key)
			}
		}
	}
	app.empty()
	eventually(t, "the queue is empty", patience, func() bool { return a.queue("jobs").Waiting == 0 })
}

// A poison weight counts as 1, for its own message only.
func TestPoisonWeightsAffectTheirOwnMessageOnly(t *testing.T) {
	t.Parallel()
	server := startNATS(t)
	a := startAgent(t, settings{nats: server.url, yaml: rawQueue})
	publish := server.publisher()
	for i, weight := range []string{"0", "-1", "NaN", "Inf", "1e-9", "1e9", "abc", strings.Repeat("9", 1000)} {
		for n := range 20 {
			publish(fmt.Sprintf("fl.q.jobs.p0.poison%d", i), fmt.Sprint(n), api.HeaderWeight, weight)
		}
	}
	for n := range 20 {
		publish("fl.q.jobs.p0.good", fmt.Sprint(n))
	}
	got := count(a.app("main").take(90, 9))
	for key, n := range got {
		if n < 9 || n > 11 {
			t.Errorf("%s got %d of 90, want 10 ± 1", key, n)
		}
	}
	equal(t, "tenants served", len(got), 9)
}

// Control headers of raw publishers do no harm, and do not reach the app as its own.
func TestControlHeadersOfRawPublishers(t *testing.T) {
	t.Parallel()
	server := startNATS(t)
	a := startAgent(t, settings{nats: server.url, yaml: rawQueue})
	publish := server.publisher()
	publish("fl.q.jobs.p0.acme", "\xff\x00binary", "Nats-Msg-Id", "once", "Fairlead-Attempt", "7", "Fairlead-Token", "mine", "X-Ok", "1")
	got := a.app("main").take(1, 1)[0]
	equal(t, "payload", string(got.Payload()), "\xff\x00binary")
	equal(t, "attempt", got.Attempt, 1)
	equal(t, "application header", got.Headers["x-ok"], "1")
	for name := range got.Headers {
		if strings.HasPrefix(name, "nats-") || strings.HasPrefix(name, "fairlead-") {
			t.Errorf("the app sees the header %s", name)
		}
	}
}
