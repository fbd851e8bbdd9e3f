package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// run and validate read the same file with the same loader, so hostile files go through both.
func rejected(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var said [2]string
	for i, verb := range []string{"validate", "run"} {
		stdout, stderr, code := command(t, nil, verb, "--config", file)
		if code != 78 {
			t.Errorf("%s of %s: exit code %d, want 78: %s", verb, name, code, tail(stderr))
		}
		said[i] = stdout + stderr
		if strings.Contains(said[i], "goroutine ") || strings.Contains(said[i], "panic") {
			t.Errorf("%s of %s: a stack trace: %s", verb, name, tail(said[i]))
		}
		if len(said[i]) > 64<<10 {
			t.Errorf("%s of %s: %d bytes of complaints", verb, name, len(said[i]))
		}
	}
	return said[0]
}

func TestSevenMistakesAreAllNamedWithTheirPositions(t *testing.T) {
	t.Parallel()
	said := rejected(t, "seven.yaml", `nats:
  url: nats://127.0.0.1:4222
agent:
  drain_timeout: 30
queues:
  - name: orders
    priority_levels: 0
    starvation_gard: 10
    ack_wait: -1s
  - name: orders
  - name: "bad name"
capsules:
  - name: main
    queues: [orders, nowhere]
`)
	for what, position := range map[string]string{
		"a duration without a unit":   "4:18",
		"no levels":                   "7:22",
		"an unknown key":              "8:5",
		"a negative duration":         "9:15",
		"a name twice":                "10:11",
		"a name with a space":         "11:11",
		"a queue that does not exist": "14:22",
	} {
		if !regexp.MustCompile(`seven\.yaml:` + position + `: \S+: .+`).MatchString(said) {
			t.Errorf("%s at %s is not named in\n%s", what, position, said)
		}
	}
	if n := strings.Count(said, "seven.yaml:"); n != 7 {
		t.Errorf("%d problems are named, want 7:\n%s", n, said)
	}
}

func TestHostileFiles(t *testing.T) {
	t.Parallel()
	good := "nats: {url: nats://127.0.0.1:4222}\nlisten: {socket: /tmp/x.sock}\n" + threeLevels
	bomb := "a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
	for i := 1; i < 12; i++ {
		previous := fmt.Sprintf("*a%d", i-1)
		bomb += fmt.Sprintf("a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(previous+", ", 9), ", "))
	}
	for name, text := range map[string]string{
		"empty.yaml":       "",
		"null.yaml":        "null\n",
		"list.yaml":        "- 1\n- 2\n",
		"scalar.yaml":      "hello\n",
		"tabs.yaml":        "queues:\n\t- name: jobs\n",
		"bomb.yaml":        bomb,
		"deep.yaml":        strings.Repeat("[", 20_000),
		"deep-map.yaml":    strings.Repeat("{a: ", 5_000) + "1" + strings.Repeat("}", 5_000),
		"binary.yaml":      "\x00\x01\x02\xff\xfe",
		"latin1.yaml":      "queues: [{name: caf\xe9}]\n",
		"two.yaml":         good + "---\n" + good,
		"twice.yaml":       good + "queues: []\n",
		"unknown.yaml":     good + "quues: []\n",
		"types.yaml":       good + "log: 5\nagent: [1, 2]\n",
		"self.yaml":        "a: &a [*a]\n",
		"variable.yaml":    good + "coordination: {bucket: '${FL_TEST_UNSET}'}\n",
		"both.yaml":        strings.Replace(good, "nats: {", "nats: {embedded: {store_dir: x}, ", 1),
		"ttl.yaml":         strings.Replace(good, "name: jobs", "name: jobs, ttl: 15", 1),
		"long-socket.yaml": strings.Replace(good, "/tmp/x.sock", "/tmp/"+strings.Repeat("s", 103), 1),
		"ring.yaml":        strings.Replace(good, "name: jobs", "name: jobs, limits: {overflow: ring}", 1),
		"huge.yaml":        "# " + strings.Repeat("x", 2<<20) + "\n" + good,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			injected(t, "hostile file", name)
			said := rejected(t, name, text)
			if !strings.Contains(said, name) {
				t.Errorf("the file is not named: %q", tail(said))
			}
		})
	}
}

func TestFilesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for _, file := range []string{t.TempDir(), filepath.Join(t.TempDir(), "none.yaml")} {
		if _, stderr, code := command(t, nil, "validate", "--config", file); code != 78 || !strings.Contains(stderr, file) {
			t.Errorf("validate %s: exit code %d: %s", file, code, stderr)
		}
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	server := startNATS(t)
	file := filepath.Join(t.TempDir(), "good.yaml")
	text := "nats: {url: " + server.url + "}\nlisten: {socket: /tmp/x.sock}\n" + threeLevels
	if err := os.WriteFile(file, []byte("\ufeff"+text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"validate", "--config", file}, {"validate", "--config", file, "--connect"}} {
		if _, stderr, code := command(t, nil, args...); code != 0 {
			t.Errorf("%q: exit code %d: %s", args, code, stderr)
		}
	}
	server.kill()
	if _, stderr, code := command(t, nil, "validate", "--config", file, "--connect", "--timeout", "1s"); code != 69 || !strings.Contains(stderr, "no connection within 1") {
		t.Errorf("validate --connect without a server: exit code %d: %s", code, stderr)
	}
}
