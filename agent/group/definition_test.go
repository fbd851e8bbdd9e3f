package group

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/config"
)

func TestDefinitionIsReadAsWritten(t *testing.T) {
	q := queue("orders", 3, 500)
	q.FairShare.Weights = map[string]config.Weight{"acme": 3000, "b.c": 125}
	value, err := writeDefinition(q, "agent-1")
	if err != nil {
		t.Fatal(err)
	}
	f := readDefinition("orders", value, 9)
	if f.problem != "" || f.setBy != "agent-1" || f.record != 9 || f.stamp != stampOf(q) || f.queue.Hash() != q.Hash() {
		t.Errorf("read %+v", f)
	}
	if !f.same(stampOf(q)) || !f.carriedBy(stampOf(q)) || f.same(stampOf(queue("orders", 3, 501))) || f.carriedBy(stamp{}) {
		t.Error("a definition is only the same as itself")
	}
}

func TestWhatThisVersionCannotUse(t *testing.T) {
	value, _ := writeDefinition(queue("orders", 3, 500), "agent-1")
	edit := func(old, new string) string {
		if !strings.Contains(string(value), old) {
			t.Fatalf("%s is not in %s", old, value)
		}
		return strings.Replace(string(value), old, new, 1)
	}
	for _, c := range []struct{ name, value, want string }{
		{"no JSON", "{", "not readable"},
		{"nothing", "", "not readable"},
		{"another type", `[]`, "not readable"},
		{"no definition", `{"revision":1,"hash":"x"}`, "no definition"},
		{"an unknown setting", edit(`"ttl":"0s"`, `"ttl":"0s","shards":4`), "unknown settings: shards"},
		{"an unknown setting inside", edit(`"overflow":"reject"`, `"overflow":"reject","max_age":"1h"`), "limits.max_age"},
		{"an unknown value", edit(`"overflow":"reject"`, `"overflow":"spill"`), "overflow"},
		{"another queue's", edit(`"name":"orders"`, `"name":"other"`), `"other"`},
		{"two revisions", edit(`{"revision":3`, `{"revision":4`), "contradicts"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := readDefinition("orders", []byte(c.value), 1)
			if !strings.Contains(f.problem, c.want) || f.problem == "" {
				t.Errorf("problem %q, want something about %q", f.problem, c.want)
			}
		})
	}
	if f := readDefinition("orders", []byte(edit(`"ttl":"0s"`, `"ttl":"0s","sources":[],"compress":null`)), 1); f.problem != "" {
		t.Errorf("settings that say nothing are a problem: %s", f.problem)
	}
}

// An older agent's definition lacks what a newer version writes. It says the same, so nobody is told otherwise.
func TestDefinitionOfAnOlderVersion(t *testing.T) {
	q := queue("orders", 0, 500)
	full, _ := json.Marshal(q)
	older := strings.Replace(string(full), `"dedup_window":"2m",`, "", 1)
	if older == string(full) {
		t.Fatal("nothing was left out")
	}
	value, _ := json.Marshal(definition{Hash: "0123", Definition: json.RawMessage(older), SetBy: "old"})
	f := readDefinition("orders", value, 1)
	if f.problem != "" || !f.same(stampOf(q)) || !f.carriedBy(stamp{Hash: "0123"}) || !f.carriedBy(stampOf(q)) {
		t.Errorf("read %+v", f)
	}
}

func TestDifferencesNameTheSettings(t *testing.T) {
	base := queue("orders", 1, 500)
	for _, c := range []struct {
		name string
		edit func(*config.Queue)
		want []string
	}{
		{"none", func(*config.Queue) {}, nil},
		{"a limit", func(q *config.Queue) { q.Limits.MaxMessages = 9 }, []string{"limits.max_messages"}},
		{"a tenant's weight", func(q *config.Queue) { q.FairShare.Weights = map[string]config.Weight{"acme": 3000} }, []string{"fair_share.weights.acme"}},
		{"several", func(q *config.Queue) { q.AckWait *= 2; q.Retry.Backoff = q.Retry.Backoff[:1]; q.Revision = 8 }, []string{"ack_wait", "retry.backoff"}},
		{"what is absent here", func(q *config.Queue) { q.Compress = &config.Compress{Algorithm: "gzip", MinBytes: 1} }, []string{"compress.algorithm", "compress.min_bytes"}},
		{"only the revision", func(q *config.Queue) { q.Revision = 8 }, []string{"revision"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			other := base
			c.edit(&other)
			if got := differences(base, other); !reflect.DeepEqual(got, c.want) {
				t.Errorf("differences = %v, want %v", got, c.want)
			}
			if got := differences(other, base); !reflect.DeepEqual(got, c.want) {
				t.Errorf("the other way round: %v, want %v", got, c.want)
			}
		})
	}
}
