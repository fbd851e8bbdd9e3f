package pages

import (
	"os"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	text := "# Title\n\n<!-- doc: given nats -->\n<!-- doc: run\ntouch a\n-->\n```sh\nls\n```\n\n```text\na\n```\n\n" +
		"<!-- doc: exit 78 -->\n```sh\nfalse\n```\n\n```\na picture\n```\n- item\n  ```json\n  {\n  ```\n"
	if _, err := Parse("p", text); err == nil || !strings.Contains(err.Error(), "p:26: no block was run") {
		t.Errorf("json after a picture is taken for an output: %v", err)
	}
	p, err := Parse("p", strings.Replace(text, "```json", "```yaml", 1))
	if err != nil {
		t.Fatal(err)
	}
	want := []Block{
		{Line: 5, Lang: "sh", Text: "touch a\n", Hidden: true},
		{Line: 8, Lang: "sh", Text: "ls\n"},
		{Line: 12, Lang: "text", Text: "a\n", Output: true},
		{Line: 17, Lang: "sh", Text: "false\n", Exit: 78},
		{Line: 21, Text: "a picture\n"},
		{Line: 25, Lang: "yaml", Text: "{\n"},
	}
	if len(p.Given) != 1 || p.Given[0] != "nats" || len(p.Blocks) != len(want) {
		t.Fatalf("given %q, blocks %+v", p.Given, p.Blocks)
	}
	for i, b := range p.Blocks {
		if b != want[i] {
			t.Errorf("block %d is %+v, want %+v", i, b, want[i])
		}
	}
}

// Nothing is left out in silence.
func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"```bash\nls\n```\n":                              "language",
		"```\nfairlead status\n```\n":                     "has commands",
		"```\n  $ curl x\n```\n":                          "has commands",
		"```text\nx\n```\n":                               "no block was run",
		"```sh\nls\n":                                     "does not end",
		"<!-- doc: run\nls\n":                             "does not end",
		"<!-- doc: exit many -->\n```sh\nls\n```\n":       "no exit code",
		"<!-- doc: not run -->\n```sh\nls\n```\n":         "the reason",
		"<!-- doc: not run: -->\n```sh\nls\n```\n":        "the reason",
		"<!-- doc: hidden x -->\n```sh\nls\n```\n":        "no directive",
		"<!-- doc: exit 1\n```sh\nls\n```\n":              "ends with -->",
		"<!-- document -->\n":                             "cannot be read",
		"<!-- doc: exit 1 -->\n":                          "no block follows",
		"<<<<<<< HEAD\n":                                  "not merged",
		"<!-- doc: numbers differ -->\n```sh\nls\n```\n ": "numbers vary",
	} {
		if _, err := Parse("p", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want an error with %q", text, err, want)
		}
	}
}

func TestCompare(t *testing.T) {
	head := "HTTP/1.1 201 Created\nContent-Type: x\n\n"
	for _, c := range []struct {
		shown, printed string
		same           bool
	}{
		{"a\nb", "a\nb\n", true},
		{"a\nb", "a\n", false},
		{"a", "a\nb\n", false},
		{"a\n…\nd", "a\nb\nc\nd\n", true},
		{"a\n…\nd", "a\nb\nc\n", false},
		{"a … c", "a b b c", true},
		{"a … c", "a b b d", false},
		{"x   y", "x y", true},
		{`{"seq":1,"n":2}`, `{"seq":7,"n":2,"more":true}`, true},
		{`{"seq":1,"n":2}`, `{"seq":7,"n":3}`, false},
		{`{"seq":1}`, `{"seq":"1"}`, false},
		{`{"a":[1]}`, `{"a":[1,2]}`, false},
		{`{"a":"x…"}`, `{"a":"xyz"}`, true},
		{`{"a":"x"}`, `{"b":"x"}`, false},
		{"{\"a\":1,\n \"b\":2}", `{"a":1,"b":2}`, true},
		{"{\"a\":1,\n \"b\":2}", `{"a":1,"b":3}`, false},
		{head + "{}", "HTTP/1.1 201 Created\r\nDate: now\r\nContent-Type: x\r\n\r\n{}", true},
		{head + "{}", "HTTP/1.1 200 OK\r\nContent-Type: x\r\n\r\n{}", false},
		{head + `{"a":1}`, "HTTP/1.1 201 Created\r\nContent-Type: x\r\n\r\n{\"a\":2}", false},
	} {
		if problem := (Block{Text: c.shown}).Compare(c.printed); (problem == "") != c.same {
			t.Errorf("a page shows %q, %q is printed: %q", c.shown, c.printed, problem)
		}
	}
	status := Block{Text: "up 61s, version devel, pid 7", Like: true}
	for _, printed := range []string{"up 1s, version devel, pid 9", "up 1s, version v0.0.0-20261130082621-15463bc83a9e, pid 9", "up 1s, version v1.2.0+dirty, pid 9"} {
		if problem := status.Compare(printed); problem != "" {
			t.Error(problem)
		}
	}
	if status.Compare("up 1s, version unknown, pid 9") == "" {
		t.Error("any word is taken for a version")
	}
	if problem := (Block{Text: "up 61s, pid 7", Like: true}).Compare("up 1.5m, pid 234"); problem != "" {
		t.Error(problem)
	}
}

// A block keeps what it has set, fails when any of its commands fails, and does not outlive the shell.
func TestShell(t *testing.T) {
	dir := t.TempDir()
	s, err := NewShell(t.Context(), dir, os.Environ(), 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, b := range []Block{
		{Text: "x=1; cd /\n"},
		{Text: "exit 3\n", Exit: 3},
		{Text: "echo begun; sleep 1000\n", Until: "begun"},
	} {
		if _, err := s.Run(b); err != nil {
			t.Fatalf("%q: %v", b.Text, err)
		}
	}
	if out, err := s.Run(Block{Text: "echo $x $PWD\n"}); err != nil || out != "1 /\n" {
		t.Errorf("prints %q, %v; want 1 /", out, err)
	}
	if _, err := s.Run(Block{Text: "true\n", Exit: 1}); err == nil || !strings.Contains(err.Error(), "exit code 0, want 1") {
		t.Errorf("a block that had to fail and did not: %v", err)
	}
	if _, err := s.Run(Block{Text: "false | true\necho after\n"}); err == nil {
		t.Error("a command of a block failed, and the block did not")
	}
}
