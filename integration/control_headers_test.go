package integration

import (
	"net/http"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/client"
)

// hostile are headers that the server takes as orders, or might, in all spellings, and one that is the application's own.
func hostile(id string, more ...string) []string {
	return append([]string{"Nats-Msg-Id", id, "nats-lower", "x", "NATS-UPPER", "x", "Fairlead-Unknown", "x", "X-Kept", "yes"}, more...)
}

// clean checks the headers of a message as somebody sees them.
func clean(t *testing.T, where string, headers map[string]string) {
	t.Helper()
	for name := range headers {
		lower := strings.ToLower(name)
		if strings.HasPrefix(lower, "nats-") || strings.HasPrefix(lower, "fairlead-") && !strings.HasPrefix(lower, "fairlead-source-") {
			t.Errorf("%s shows the header %s", where, name)
		}
	}
	if headers["x-kept"] != "yes" {
		t.Errorf("%s lacks the application's own header: %v", where, headers)
	}
}

// controlHeaders are the server's control headers of all messages in a stream, by payload.
func (s *natsServer) controlHeaders(stream string) map[string]string {
	s.t.Helper()
	js, err := jetstream.New(s.connect())
	if err != nil {
		s.t.Fatal(err)
	}
	st, err := js.Stream(s.t.Context(), stream)
	if err != nil {
		s.t.Fatal(err)
	}
	found := map[string]string{}
	for seq := st.CachedInfo().State.FirstSeq; seq <= st.CachedInfo().State.LastSeq; seq++ {
		m, err := st.GetMsg(s.t.Context(), seq)
		if err != nil {
			continue // deleted
		}
		for _, name := range []string{"Nats-Msg-Id", "nats-lower", "NATS-UPPER", "Nats-TTL", "Nats-Rollup"} {
			if v := m.Header[name]; len(v) > 0 {
				found[string(m.Data)] += name + "=" + v[0] + " "
			}
		}
	}
	return found
}

// Control headers do not come in over the sockets, do not go along when a message is moved, and do not go out to anybody.
func TestControlHeadersNeitherComeInNorGoOut(t *testing.T) {
	t.Parallel()
	server := startNATS(t)
	server.events("EVENTS", "events.>")
	a := startAgent(t, settings{nats: server.url, yaml: `
queues:
  - name: jobs
    priority_levels: 3
    fair_share: true
    sources: [{stream: EVENTS, subject: "events.*.>", key: "{{wildcard(1)}}", priority: 1}]
capsules: [{name: main, queues: [jobs], concurrency: 1000}]
`})
	publish := server.publisher()
	// Headers of the request itself are the connection's business.
	request := []string{"Nats-Msg-Id", "mine", "nats-lower", "x", "NATS-UPPER", "x", "Nats-TTL", "3600s", "Nats-Rollup", "all", api.HeaderPrefix + "X-Kept", "yes"}
	ways := map[string]func(payload string){
		"raw":     func(payload string) { publish("fl.q.jobs.p0.acme", payload, hostile(payload, "Nats-TTL", "3600s")...) },
		"odd":     func(payload string) { publish("fl.q.jobs.px.acme", payload, hostile(payload, "Nats-TTL", "3600s")...) },
		"sourced": func(payload string) { publish("events.acme.x", payload, hostile(payload)...) },
		"due":     func(payload string) { publish("fl.delay.jobs.due.p0.acme.x", payload, hostile(payload)...) },
		"http":    func(payload string) { a.publish("jobs", payload, request...) },
		"delayed": func(payload string) { a.publish("jobs", payload, append(request, api.HeaderDelay, "100ms")...) },
	}
	for name, way := range ways {
		way(name)
	}
	// On the sockets they are refused where somebody asks for them.
	if _, err := a.tryPublish("jobs", "x", api.HeaderPrefix+"nATS-msg-id", "1"); err == nil || err.Code != api.CodeInvalidHeader {
		t.Errorf("an application header with the server's prefix: %v", err)
	}
	for _, r := range a.batchText("jobs", []byte(`{"data":"x","headers":{"Nats-Rollup":"all"}}`+"\n"+`{"data":"x","headers":{"nats-x":"1"}}`)) {
		if r.Error == nil || r.Error.Code != api.CodeInvalidHeader {
			t.Errorf("the same in a batch: %+v", r)
		}
	}
	// Once by each way out. The app gives them back in between.
	for name, format := range map[string]client.Format{"lines": client.NDJSON, "frames": client.Frames} {
		for _, d := range a.pullAll(len(ways), format) {
			clean(t, string(d.Payload())+" in "+name, d.Headers)
			equal(t, "given back", a.say(d, api.Settlement{Result: api.Nack, Delay: "0s"}), api.StatusOK)
		}
	}
	var peeked api.PeekList
	a.get("/v1/queues/jobs/peek?max=100", &peeked)
	equal(t, "peeked", len(peeked.Messages), len(ways))
	for _, m := range peeked.Messages {
		clean(t, "peek of "+*m.Data, m.Headers)
	}
	for range ways {
		answer, body, err := a.call(a.http, "POST", "/v1/capsules/main/next?wait=30s", nil)
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("next: %v %s", err, status(answer))
		}
		headers := map[string]string{}
		for name := range answer.Header {
			if app, ok := strings.CutPrefix(name, api.HeaderPrefix); ok {
				headers[strings.ToLower(app)] = answer.Header.Get(name)
			}
		}
		clean(t, string(body)+" by next", headers)
		answer, body, err = a.call(a.http, "POST", "/v1/messages/"+answer.Header.Get(api.HeaderToken)+"/reject", nil)
		if err != nil || answer.StatusCode != http.StatusNoContent {
			t.Fatalf("reject: %v %s %s", err, status(answer), body)
		}
	}
	for _, d := range a.awaitDead("jobs", len(ways)) {
		clean(t, "the list of dead letters", d.Headers)
		shown, err := a.operator().DeadLetter(t.Context(), "jobs", d.Seq)
		if err != nil {
			t.Fatal(err)
		}
		clean(t, "the dead letter of "+string(shown.Payload()), shown.Headers)
	}
	for payload, control := range server.controlHeaders("FL_DEAD_jobs") {
		if fields := strings.Fields(control); len(fields) != 1 || strings.Contains(control, "="+payload+" ") {
			t.Errorf("the dead letter of %s is stored with %s", payload, control)
		}
	}
	if _, stderr, code := command(t, a, "dead", "retry", "jobs", "--all"); code != 0 {
		t.Fatalf("dead retry: exit code %d, %s", code, stderr)
	}
	stored := server.controlHeaders("FL_Q_jobs")
	equal(t, "tried again", len(stored), len(ways))
	for payload, control := range stored {
		if !strings.HasPrefix(control, "Nats-Msg-Id==dead:") || len(strings.Fields(control)) != 1 {
			t.Errorf("%s was put back with %s", payload, control)
		}
	}
	for _, d := range a.pullAll(len(ways), client.Frames) {
		clean(t, string(d.Payload())+" tried again", d.Headers)
	}
}

// pullAll takes n messages and settles none.
func (a *agent) pullAll(n int, format client.Format) (all []api.Delivery) {
	a.t.Helper()
	c := client.New(a.socket)
	a.t.Cleanup(c.Close)
	for len(all) < n {
		result, err := c.Pull(a.t.Context(), client.PullRequest{Capsule: "main", Max: n - len(all), Wait: patience, Format: format})
		if err != nil {
			a.t.Fatal(err)
		}
		if len(result.Deliveries) == 0 {
			a.t.Fatalf("%d of %d came", len(all), n)
		}
		all = append(all, result.Deliveries...)
	}
	return all
}
