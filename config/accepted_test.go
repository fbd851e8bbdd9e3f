package config

import "testing"

// One setting of each feature, on and off: nothing that the tables have is refused by its name.
func TestSettingsOfFeaturesAreAccepted(t *testing.T) {
	for _, c := range []struct{ section, setting string }{
		{"root", `listen: {probes_http: ":9464"}`},
		{"root", `listen: {dashboard_http: ":1"}`},
		{"root", `listen: {probes_http: "", dashboard_http: ""}`},
		{"root", "listen: {allow_uids: [0], allow_gids: [0]}"},
		{"root", "metrics: {top_keys: 1}"},
		{"root", "metrics: {top_keys: 0}"},
		{"root", "readiness: {broker: false}"},
		{"root", "readiness: {broker: true}"},
		{"root", "coordination: {lease_ttl: 5s}"},
		{"queue", "single_active_consumer: true"},
		{"queue", "limits: {max_messages: 5, overflow: ring}"},
		{"queue", "limits: {max_messages: 5, max_bytes: 1GiB, max_messages_per_key: 2, max_payload: 1MiB, overflow: reject}"},
		{"queue", "limits: {overflow: none}"},
		{"queue", "dead_letters: {enabled: true, max_age: 720h, retry_priority: 0}"},
		{"queue", "dead_letters: {enabled: false}"},
		{"queue", "dead_letters: {evicted: false}"},
		{"queue", "dead_letters: {}"},
		{"queue", "ttl: 1s"},
		{"queue", "ttl: 0m"},
		{"queue", "compress: {}"},
		{"queue", "compress: {algorithm: gzip, min_bytes: 1KiB}"},
		{"queue", "compress:"},
		{"queue", "concurrency_per_key: 2"},
		{"queue", "ordered_keys: true"},
		{"queue", "sources: [{stream: S, subject: a.b}]"},
		{"queue", "sources: []"},
		{"queue", "fair_share: {key_from: {header: X}}"},
		{"queue", "fair_share: {key_from: {json: tenant.id}}"},
		{"queue", "fair_share: {weights: {a: 3}}"},
		{"capsule", "consumer_priority: 1"},
		{"capsule", "consumer_priority: 0"},
		{"capsule", "single_active_consumer: true"},
	} {
		if _, _, err := Parse("f.yaml", []byte(at(t, c.section, c.setting)), nil); err != nil {
			t.Errorf("%s: %v", c.setting, err)
		}
	}
}

// A wrong value of one is told as what it is, once.
func TestSettingsAreStillChecked(t *testing.T) {
	_, _, err := Parse("f.yaml", []byte(at(t, "queue", "ttl: 15")), nil)
	diff(t, problemLines(t, err), []string{"4:8: queues[0].ttl: a time needs a unit: write 15s for seconds"})
	_, _, err = Parse("f.yaml", []byte(at(t, "queue", "dead_letters: {max_age: 15}")), nil)
	diff(t, problemLines(t, err), []string{"4:27: queues[0].dead_letters.max_age: a time needs a unit: write 15s for seconds"})
}
