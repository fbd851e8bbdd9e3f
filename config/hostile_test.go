package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// bomb is nine levels of nine aliases each: 9^9 values in 400 bytes.
func bomb() string {
	var b strings.Builder
	b.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x]\n")
	for i := 1; i < 9; i++ {
		fmt.Fprintf(&b, "a%d: &a%d [*a%d%s]\n", i, i, i-1, strings.Repeat(fmt.Sprintf(", *a%d", i-1), 8))
	}
	return b.String()
}

// Files that are wrong as files. Each says where and what, and none hangs.
func TestHostileFiles(t *testing.T) {
	const empty = "1:1: is empty: write at least nats and queues, such as\nnats: {url: nats://HOST:4222}\nqueues: [{name: orders}]"
	for name, c := range map[string]struct{ text, want string }{
		"empty":                    {"", empty},
		"null":                     {"null\n", empty},
		"tilde":                    {"---\n~\n", empty},
		"comments only":            {"# nothing\n", empty},
		"text null":                {"'null'\n", `1:1: wants a mapping, not the text "null"`},
		"tab":                      {"nats:\n\turl: nats://n\n", "2:1: a tab cannot indent YAML: use spaces"},
		"tab after spaces":         {"nats:\n  url: nats://n\n  \tprefix: x\n", "3:3: a tab cannot indent YAML: use spaces"},
		"NUL":                      {"nats:\n  url: \"é\x00\"\n", "2:10: the control character 0x00 is not allowed in YAML: remove it"},
		"escape":                   {"a: \x1b[31m\n", "1:4: the control character 0x1B is not allowed in YAML: remove it"},
		"invalid UTF-8":            {"nats: {}\nx: \xff\n", "2:4: the byte 0xFF is not UTF-8: save the file as UTF-8"},
		"UTF-16":                   {"\xff\xfen\x00", "1:1: is UTF-16: save it as UTF-8"},
		"two documents":            {minimal + "---\n" + minimal, "4:1: a second document begins here: one file is one document"},
		"an empty second document": {minimal + "---\n", "4:1: a second document begins here: one file is one document"},
		"a broken second document": {minimal + "---\na: [\n", "5:1: is not YAML: did not find expected node content"},
		"unclosed list":            {"nats:\n  url: [a\nqueues: []\n", "2:3: is not YAML: did not find expected ',' or ']'"},
		"two colons":               {"a: 1\nnats: url: b\n", "2:1: is not YAML: mapping values are not allowed in this context"},
		"indentation":              {"nats: x\n  url: b\n", "2:3: is not YAML: mapping values are not allowed in this context"},
		"variable in a flow":       {"agent: {id: ${POD}}\n", "1:1: is not YAML: did not find expected ',' or '}' (inside {…} and […], put \"${VAR}\" in quotes)"},
		"unknown anchor":           {"nats:\n  url: *nowhere\n", "2:8: there is no anchor &nowhere before this alias"},
		"deep flow":                {strings.Repeat("[", 100_000), "1:1: is not YAML: exceeded max depth of 10000"},
		"deep block":               {strings.Repeat("- ", 100_000), "1:1: is not YAML: exceeded max depth of 10000"},
		"key is a list":            {"? [a]\n: b\n" + minimal, "1:3: a key must be plain text, not a list or a mapping"},
		"duplicate key":            {minimal + "nats: {}\n", "4:1: nats: is there twice, first on line 1: keep one"},
		"a merge of nothing":       {minimal + "<<: 3\n", "4:5: a merge (<<) wants a mapping"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := strings.Join(problems(t, c.text), "\n"); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestByteOrderMarkAndLineEndsAreAccepted(t *testing.T) {
	diff(t, mustParse(t, "\xef\xbb\xbf"+strings.ReplaceAll(minimal, "\n", "\r\n")), defaultConfig())
	// The mark is no column.
	diff(t, problems(t, "\xef\xbb\xbfx: 1\n"+minimal), []string{"1:1: x: unknown key"})
	diff(t, problems(t, "\xef\xbb\xbfa: \x00"), []string{"1:4: the control character 0x00 is not allowed in YAML: remove it"})
}

func TestAliases(t *testing.T) {
	c := mustParse(t, `nats: {url: nats://n:4222}
queues:
- &base
  name: a
  priority_levels: [high, low]
  retry: &retry {max_attempts: 9}
- {<<: *base, name: b, ack_wait: 9s}
- {name: c, retry: *retry}
- <<: [*base, {ttl: 1h}]
  name: d
capsules: [{name: c, queues: [a, b, c, d]}]
`)
	for i, want := range []string{"a 2 9 30s 0s", "b 2 9 9s 0s", "c 1 9 30s 0s", "d 2 9 30s 1h0m0s"} {
		q := c.Queues[i]
		if got := fmt.Sprint(q.Name, " ", q.Levels, " ", q.Retry.MaxAttempts, " ", q.AckWait, " ", q.TTL); got != want {
			t.Errorf("queue %d is %s, want %s", i, got, want)
		}
	}
	// A mistake under an anchor is told where it stands, for each use.
	diff(t, problems(t, "nats: {url: nats://n}\nqueues:\n- {name: a, retry: &r {max_attempts: x}}\n- {name: b, retry: *r}\n"), []string{
		`3:38: queues[0].retry.max_attempts: wants a whole number, not the text "x"`,
		`3:38: queues[1].retry.max_attempts: wants a whole number, not the text "x"`,
	})
}

func TestAliasesAreBounded(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"unknown keys are not unfolded": {bomb() + minimal, "1:1: a0: unknown key"},
		"in a known place":              {strings.Replace(bomb(), "a0:", "queues:", 1) + "capsules: *a8\n", `1:14: queues[0]: wants a mapping, not the text "x"`},
		"wide": {
			"nats: {url: nats://n}\nqueues:\n- &q {name: q, retry: {backoff: [" + strings.Repeat("1s, ", 99) + "1s]}}\n" + strings.Repeat("- *q\n", 900),
			"aliases unfold into more than 10000 values",
		},
		"a value inside itself": {"nats: &n {url: nats://n, tls: *n}\nqueues: [{name: q}]\n", "1:11: nats.tls.url: unknown key"},
		"a merge of itself":     {"nats: &n {url: nats://n, <<: *n}\nqueues: [{name: q}]\n", "merges (<<) are nested too deep"},
		"merges of merges": {
			"nats: {<<: &a {<<: &b {<<: &c {<<: [{x: 1}, {x: 1}, {x: 1}]}}}, url: nats://n}\nqueues:\n- {<<: [" +
				strings.Repeat("*a, ", 5000) + "*a], name: q}\n",
			"aliases unfold into more than 10000 values",
		},
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			got := strings.Join(problems(t, c.text), "\n")
			if !strings.Contains(got, c.want) {
				t.Errorf("got  %.2000s\nwant %s", got, c.want)
			}
			// Unfolded, the bomb would take hours; the bound is far from both.
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}

func TestProblemsAreBounded(t *testing.T) {
	var text strings.Builder
	text.WriteString(minimal)
	for i := range 50_000 {
		fmt.Fprintf(&text, "x%d: 1\n", i)
	}
	_, _, err := Parse("f.yaml", []byte(text.String()), nil)
	var invalid *Invalid
	if !errors.As(err, &invalid) || len(invalid.Problems) != maxProblems+1 {
		t.Fatalf("got %d problems, want %d and one that says there are more", len(invalid.Problems), maxProblems)
	}
	if last := invalid.Problems[maxProblems]; last.Message != "and more problems than can be listed" {
		t.Errorf("the last one is %v", last)
	}
}
