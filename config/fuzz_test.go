package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzParse looks for panics, hangs, problems without a place, and accepted
// files whose queues do not survive being stored.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		f.Fatal("no seeds", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, seed := range []string{
		"", "null", minimal, bomb(), "\xef\xbb\xbf" + minimal, "a:\n\tb", "a: [\x00]", minimal + "---\n", "[[[[", "? [a]\n: b",
		"nats: &n {<<: *n}\n", "nats: {url: \"${URL:-nats://n}\"}\nqueues: [{name: q, ttl: 15}]\n", "queues:\n- &a {name: q}\n- *a\n", "%YAML 9.9\n---\n", "!!x a: !y b\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, warnings, err := Parse("f.yaml", data, env(map[string]string{"A": "1", "URL": "nats://n:4222"}))
		for _, w := range warnings {
			checkProblem(t, w, data)
		}
		if err != nil {
			var invalid *Invalid
			if !errors.As(err, &invalid) || len(invalid.Problems) == 0 || c != nil {
				t.Fatalf("%T with a configuration %v", err, c)
			}
			for _, p := range invalid.Problems {
				checkProblem(t, p, data)
			}
			return
		}
		for _, q := range c.Queues {
			roundTrip(t, q)
		}
	})
}

func checkProblem(t *testing.T, p Problem, data []byte) {
	t.Helper()
	// YAML also breaks lines at NEL, LS and PS and at a lone CR.
	lines := 1 + strings.Count(string(data), "\n") + strings.Count(string(data), "\r") +
		strings.Count(string(data), "\u0085") + strings.Count(string(data), "\u2028") + strings.Count(string(data), "\u2029")
	// A message that was put together wrongly shows as %!; one that repeats the file may hold it rightly.
	garbled := strings.Contains(p.Message, "%!") && !strings.Contains(string(data), "%")
	if p.File != "f.yaml" || p.Line < 1 || p.Line > lines || p.Column < 1 || p.Message == "" || garbled {
		t.Fatalf("a problem without a place or a message: %+v (%d lines)", p, lines)
	}
}

func FuzzQueueJSON(f *testing.F) {
	for _, seed := range []string{`{}`, `{"name":"q"}`, `null`, `[1]`, `{"name":"q","fair_share":{"weights":{"a":0.5}}}`, `{"name":"q","priority_levels":["a"],"default_priority":"a"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var q Queue
		if err := q.UnmarshalJSON(data); err != nil {
			if !errors.Is(err, ErrDefinition) {
				t.Fatal(err)
			}
			return
		}
		roundTrip(t, q)
	})
}
