package config

import (
	"errors"
	"strings"
	"testing"
)

// Each setting that is parsed but not implemented is refused by Parse and
// accepted by ParseAll; beside it, what may be written all the same.
func TestUnavailableSettingsAreRefusedNotIgnored(t *testing.T) {
	for _, c := range []struct{ section, setting, want string }{
		{"root", `listen: {probes_http: ":9464"}`, ""},
		{"root", `listen: {dashboard_http: ":1"}`, "4:26: listen.dashboard_http: not available yet in this version; remove it"},
		{"root", `listen: {probes_http: "", dashboard_http: ""}`, ""},
		{"root", "listen: {allow_uids: [0], allow_gids: [0]}", ""},
		{"root", "metrics: {top_keys: 1}", ""},
		{"root", "metrics: {top_keys: 0}", ""},
		{"root", "readiness: {broker: false}", ""},
		{"root", "readiness: {broker: true}", ""},
		{"root", "coordination: {lease_ttl: 5s}", ""},
		{"queue", "single_active_consumer: true", ""},
		{"queue", "limits: {max_messages: 5, overflow: ring}", ""},
		{"queue", "limits: {max_messages: 5, max_bytes: 1GiB, max_messages_per_key: 2, max_payload: 1MiB, overflow: reject}", ""},
		{"queue", "limits: {overflow: none}", ""},
		{"queue", "dead_letters: {enabled: true, max_age: 720h, retry_priority: 0}", ""},
		{"queue", "dead_letters: {enabled: false}", ""},
		{"queue", "dead_letters: {evicted: false}", ""},
		{"queue", "dead_letters: {}", ""},
		{"queue", "ttl: 1s", ""},
		{"queue", "ttl: 0m", ""},
		{"queue", "compress: {}", ""},
		{"queue", "compress: {algorithm: gzip, min_bytes: 1KiB}", ""},
		{"queue", "compress:", ""},
		{"queue", "concurrency_per_key: 2", ""},
		{"queue", "ordered_keys: true", ""},
		{"queue", "sources: [{stream: S, subject: a.b}]", ""},
		{"queue", "sources: []", ""},
		{"queue", "fair_share: {key_from: {header: X}}", ""},
		{"queue", "fair_share: {key_from: {json: tenant.id}}", ""},
		{"queue", "fair_share: {weights: {a: 3}}", ""},
		{"capsule", "consumer_priority: 1", ""},
		{"capsule", "consumer_priority: 0", ""},
		{"capsule", "single_active_consumer: true", ""},
	} {
		text := at(t, c.section, c.setting)
		if _, _, err := ParseAll("f.yaml", []byte(text), nil); err != nil {
			t.Errorf("%s: ParseAll refuses it: %v", c.setting, err)
		}
		_, _, err := Parse("f.yaml", []byte(text), nil)
		if got := strings.Join(problemLines(t, err), "\n"); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.setting, got, c.want)
		}
	}
}

// A wrong value of such a setting is told as what it is, not twice.
func TestUnavailableSettingsAreStillChecked(t *testing.T) {
	_, _, err := Parse("f.yaml", []byte(at(t, "queue", "ttl: 15")), nil)
	diff(t, problemLines(t, err), []string{"4:8: queues[0].ttl: a time needs a unit: write 15s for seconds"})
	_, _, err = Parse("f.yaml", []byte(at(t, "queue", "dead_letters: {max_age: 15}")), nil)
	diff(t, problemLines(t, err), []string{"4:27: queues[0].dead_letters.max_age: a time needs a unit: write 15s for seconds"})
}

// A definition from another agent is judged by what it asks for.
func TestQueueUnavailable(t *testing.T) {
	if got := defaultQueue("q").Unavailable(); got != nil {
		t.Errorf("a default queue asks for %v", got)
	}
	defer func(all []pending[Queue]) { pendingQueue = all }(pendingQueue)
	pendingQueue = append(pendingQueue, pending[Queue]{"ttl", func(q *Queue) bool { return q.TTL > 0 }, "0s"})
	q := defaultQueue("q")
	q.TTL = 1
	diff(t, q.Unavailable(), []string{"ttl"})
}

// A line of the tables that names no setting would refuse nothing, in silence.
func TestPendingPathsExist(t *testing.T) {
	known := make(map[string]bool)
	for _, k := range rootTable.keys() {
		known[k] = true
	}
	for _, k := range queueTable.keys() {
		known["queue."+k] = true
	}
	var paths []string
	for _, s := range pendingAgent {
		paths = append(paths, s.path)
	}
	for _, s := range pendingQueue {
		paths = append(paths, "queue."+s.path)
	}
	for _, p := range paths {
		if !known[p] {
			t.Errorf("there is no setting %s", p)
		}
	}
}

func TestInvalidListsAllProblems(t *testing.T) {
	_, _, err := Parse("f.yaml", []byte("a: 1\nb: 2\n"+minimal), nil)
	var invalid *Invalid
	if !errors.As(err, &invalid) {
		t.Fatal(err)
	}
	if got, want := err.Error(), "config: 2 problems\nf.yaml:1:1: a: unknown key\nf.yaml:2:1: b: unknown key"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
