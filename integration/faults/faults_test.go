package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Every scenario that a row names exists, and names and rows are there once.
func TestTheMatrixNamesTestsThatExist(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range slices.Concat(matrix, soaks) {
		if seen[r.name] || r.name == "" || r.fault == "" || r.promises == "" || len(r.tests) == 0 {
			t.Errorf("row %+v", r)
		}
		seen[r.name] = true
		dir := ".."
		if r.pkg != "" {
			dir = filepath.Join("../..", r.pkg)
		}
		files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", dir, err)
		}
		var text []byte
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			text = append(text, b...)
		}
		for _, name := range r.tests {
			if !regexp.MustCompile(`(?m)^func ` + name + `\(t \*testing\.T\)`).Match(text) {
				t.Errorf("row %s names %s, which does not exist", r.name, name)
			}
		}
	}
}

// The documentation lists every row, as it is.
func TestTheDocumentationListsAllRows(t *testing.T) {
	text, err := os.ReadFile("../../docs/reliability.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range matrix {
		if line := "| `" + r.name + "` | " + r.fault + " | " + r.promises + " |\n"; !strings.Contains(string(text), line) {
			t.Errorf("docs/reliability.md does not have\n%s", line)
		}
	}
	for _, r := range soaks {
		if !strings.Contains(string(text), "`"+r.name+"`") {
			t.Errorf("docs/reliability.md does not have row %s", r.name)
		}
	}
}

// A row is held only when its tests passed, its verdicts are good, and its faults are in the log.
func TestARowIsJudgedByTheLog(t *testing.T) {
	r := row{"r", "f", "S5", []string{"kill -9"}, "agent", []string{"TestA", "TestB"}, ""}
	both := map[string]bool{"TestA": true, "TestB": true}
	kill := event{Test: "TestA/x", Fault: "kill -9", Target: "agent a"}
	good := event{Test: "TestB", Promise: "S5", Held: true, Figures: "10 stored"}
	for _, c := range []struct {
		name   string
		passed map[string]bool
		events []event
		want   bool
		says   string
	}{
		{"all well", both, []event{kill, kill, good}, true, "2 × kill -9"},
		{"a test failed", map[string]bool{"TestA": true}, []event{kill, good}, false, "TestB did not pass"},
		{"nothing was injected", both, []event{good}, false, "kill -9 was not injected"},
		{"injected by another row's test", both, []event{{Test: "TestC", Fault: "kill -9", Target: "agent a"}, good}, false, "not injected"},
		{"it hit something else", both, []event{{Test: "TestA", Fault: "kill -9", Target: "nats-server"}, good}, false, "nothing hit agent"},
		{"a promise was not held", both, []event{kill, {Test: "TestA", Promise: "S5", Figures: "1 lost"}}, false, "1 lost"},
	} {
		l := judge(r, c.passed, c.events)
		var out bytes.Buffer
		if held := table(&out, []line{l}); held != c.want || !strings.Contains(out.String(), c.says) {
			t.Errorf("%s: held %v, want %v: %s", c.name, held, c.want, out.String())
		}
	}
}

// A test that was skipped has not passed, and an event that cannot be read is an error.
func TestResults(t *testing.T) {
	passed := results(strings.NewReader(`{"Action":"pass","Test":"TestA"}
{"Action":"skip","Test":"TestB"}
{"Action":"output","Test":"TestC","Output":"why\n"}
{"Action":"fail","Test":"TestC"}
not JSON
`), new(bytes.Buffer), false)
	if !passed["TestA"] || passed["TestB"] || passed["TestC"] {
		t.Errorf("passed: %v", passed)
	}
	if _, err := readEvents(strings.NewReader("{\"fault\":\"x\"}\nhalf a li")); err == nil {
		t.Error("half a line was read")
	}
}
