package integration

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/agent/api"
)

// Publishers that know nothing of keys share fairly all the same: the queue finds the key in a field of what they
// publish, or in a header of it. The definition in force decides, also for agents that run.
func TestKeysAreTakenFromWhatIsPublished(t *testing.T) {
	t.Parallel()
	a := startAgent(t, settings{yaml: `
queues: [{name: jobs, fair_share: {key_from: {json: tenant.id}}, limits: {max_messages_per_key: 500}}]
capsules: [{name: main, queues: [jobs], concurrency: 100}]
`})
	var noisy strings.Builder
	for i := range 500 {
		fmt.Fprintf(&noisy, "{\"data\":{\"n\":%d,\"tenant\":{\"id\":\"noisy\"}}}\n", i)
	}
	for _, r := range a.batchText("jobs", []byte(noisy.String())) {
		if r.Error != nil {
			t.Fatal(r.Error)
		}
	}
	if _, refused := a.tryPublish("jobs", `{"tenant":{"id":"noisy"}}`); refused == nil || refused.Reason != "max_messages_per_key" {
		t.Errorf("the 501st of a key that was found: %v, want it refused by its own limit", refused)
	}
	for i := range 5 {
		equal(t, "key of the answer", a.publish("jobs", fmt.Sprintf(`{"tenant":{"id":"quiet"},"n":%d}`, i)).Key, "quiet")
	}
	app := a.app("main")
	got := count(app.take(14, 1))
	equal(t, "quiet ones among the first 14", got["quiet"], 5)

	equal(t, "a key that is given wins", a.publish("jobs", `{"tenant":{"id":"noisy"}}`, api.HeaderKey, "given").Key, "given")
	equal(t, "without the field it has none", a.publish("jobs", "plain text").Key, "")
	equal(t, "an id is one per key that was found", a.publish("jobs", `{"tenant":{"id":"x"}}`, api.HeaderID, "1").Duplicate, false)
	equal(t, "of another tenant", a.publish("jobs", `{"tenant":{"id":"y"}}`, api.HeaderID, "1").Duplicate, false)
	equal(t, "of the same", a.publish("jobs", `{"tenant":{"id":"x"}}`, api.HeaderID, "1").Duplicate, true)
	if _, refused := a.tryPublish("jobs", `{"tenant":{"id":"`+strings.Repeat("k", 129)+`"}}`); refused == nil || refused.Code != api.CodeInvalidKey ||
		!strings.Contains(refused.Message, "tenant.id") {
		t.Errorf("a key of 129 bytes: %v, want %s that names the field", refused, api.CodeInvalidKey)
	}

	a.reload("{json: tenant.id}", "{header: X-Tenant}", "reloaded")
	eventually(t, "the header is looked at", patience, func() bool {
		return a.publish("jobs", `{"tenant":{"id":"x"}}`, api.HeaderPrefix+"X-Tenant", "acme").Key == "acme"
	})
	equal(t, "the field is not any more", a.publish("jobs", `{"tenant":{"id":"x"}}`).Key, "")
	a.batchText("jobs", []byte(`{"data":"from a batch","headers":{"X-Tenant":"globex"}}`))
	for _, d := range app.take(int(a.queue("jobs").Waiting), 100) {
		if string(d.Payload()) == "from a batch" {
			equal(t, "key of a batch line", d.Key, "globex")
			equal(t, "the header is handed on", d.Headers["x-tenant"], "globex")
			return
		}
	}
	t.Error("the line of the batch was not delivered")
}
