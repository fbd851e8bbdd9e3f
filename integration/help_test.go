package integration

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/integration/pages"
)

// helpScene is what the examples of the commands' help take for granted.
const helpScene = `
cat >agent.yaml <<'END'
agent: {drain_timeout: 1s}
nats: {url: NATS}
listen: {socket: DIR/run/agent.sock, probes_http: ""}
queues:
  - {name: orders, priority_levels: [high, medium, low], fair_share: true}
  - {name: default}
capsules:
  - {name: default, queues: [default]}
  - {name: orders, queues: [orders]}
END
sed 's,DIR/run,DIR/other,; s/name: default/name: spare/; s/queues: .default./queues: [spare]/' agent.yaml >fairlead.yaml
serve fairlead run --config agent.yaml
eventually fairlead wait
mkdir -p out .config/fish/completions
fpath=(none "$PWD")
echo '{"order":17}' >order.json
printf '{"data":"a"}\n{"data":"b","key":"acme"}\n' >orders.ndjson
printf '#!/bin/sh\necho "worked on $(cat)"\n' >handler
printf '#!/bin/sh\ncat orders.ndjson\n' >.pages/bin/generate
chmod +x handler .pages/bin/generate
S=DIR/run/agent.sock
die() {
  curl -s --unix-socket $S -H 'Fairlead-Key: acme' -d '{"order":17}' http://agent/v1/queues/orders/messages >/dev/null
  local token=$(curl -s --unix-socket $S -X POST 'http://agent/v1/capsules/orders/pull?wait=5s' | sed 's/^{"token":"\([^"]*\)".*/\1/')
  curl -s --unix-socket $S -X POST "http://agent/v1/messages/$token/reject"
}
`

// helpBefore is done before an example that begins with the words.
var helpBefore = map[string]string{
	"fairlead dead":    "die; die; set -- $(curl -s --unix-socket run/admin.sock http://agent/v1/queues/orders/dead | grep -o '\"seq\": *[0-9]*' | grep -o '[0-9]*'); FIRST=$1 SECOND=$2\n",
	"fairlead delayed": "HANDLE=$(fairlead publish orders --delay 1h x | sed 's/.*\"delayed\":\"\\([^\"]*\\)\".*/\\1/')\n",
	"fairlead work":    "fairlead publish default 'a message'\n",
	"fairlead wait":    "fairlead publish default 'a message'\n",
	"fairlead pull":    "fairlead publish default 'a message'\n",
}

// helpUntil says what an example prints that goes on until it is stopped.
var helpUntil = []struct{ begins, prints string }{
	{"fairlead run --dev", "FAIRLEAD_SOCKET="},
	{"fairlead run --config", `"@message":"ready"`},
	{"fairlead wait && fairlead work", "worked on a message"},
	{"fairlead work default -- ./handler", "worked on a message"},
	{"fairlead work default --concurrency 4 -- ./handler", "worked on a message"},
	{"fairlead work default --concurrency 4 -- sh", ""},
}

// helpTexts returns the help of every command by its words.
func helpTexts(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	var visit func(words []string)
	visit = func(words []string) {
		out, err := exec.CommandContext(t.Context(), fairlead, append(words, "--help")...).CombinedOutput()
		if err != nil {
			t.Fatalf("%q --help: %v", words, err)
		}
		all[strings.Join(words, " ")] = string(out)
		_, list, _ := strings.Cut(string(out), "Available Commands:\n")
		list, _, _ = strings.Cut(list, "\n\n")
		for line := range strings.Lines(list) {
			if fields := strings.Fields(line); len(fields) > 0 {
				visit(append(words[:len(words):len(words)], fields[0]))
			}
		}
	}
	visit(nil)
	return all
}

// remark is what the help says of an example behind it.
var remark = regexp.MustCompile(` {3,}.*$| {2}(try it|store a|run a) .*$`)

// Every command's help has examples, and every one of them works as it stands.
func TestHelpExamplesWork(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	server := startNATS(t)
	scene := strings.NewReplacer("DIR", dir, "NATS", server.url).Replace(helpScene)
	shell := pageShell(t, dir, server.url)
	if _, err := shell.Run(pages.Block{Text: scene}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			served, _ := os.ReadFile(filepath.Join(dir, ".pages", "served"))
			t.Logf("the agent says\n%s", tail(string(served)))
		}
	})
	names := strings.NewReplacer("1796000000000017", "$FIRST", "1796000000000018", "$SECOND", "0o5ji9wo9m8-9f3c2a7be104", "$HANDLE",
		"127.0.0.1:4222", strings.TrimPrefix(server.url, "nats://"), "--listen 127.0.0.1:4222", "--listen 127.0.0.1:0", "/run/fairlead", dir+"/run")
	seen := map[string]bool{}
	var last []string
	texts := helpTexts(t)
	for _, words := range slices.Sorted(maps.Keys(texts)) {
		_, list, ok := strings.Cut(texts[words], "\nExamples:\n")
		if !ok {
			t.Errorf("the help of fairlead %s has no examples", words)
		}
		list, _, _ = strings.Cut(list, "\n\n")
		for line := range strings.Lines(list) {
			example := strings.TrimSpace(remark.ReplaceAllString(strings.TrimSpace(line), ""))
			switch {
			case seen[example] || example == "":
			case strings.HasPrefix(example, "fairlead pause"), strings.HasPrefix(example, "fairlead drain"): // nothing is taken after it
				last = append([]string{example}, last...)
			default:
				helpExample(t, shell, example, names)
			}
			seen[example] = true
		}
	}
	for _, example := range last {
		helpExample(t, shell, example, names)
	}
	if len(seen) < 60 || len(last) < 2 {
		t.Errorf("%d examples, %d of them of drain", len(seen), len(last))
	}
}

// helpExample types one example.
func helpExample(t *testing.T, shell *pages.Shell, example string, names *strings.Replacer) {
	t.Helper()
	if strings.HasPrefix(example, "fairlead bench") {
		return // takes minutes: the command's own tests run it with few messages
	}
	if _, err := exec.LookPath("jq"); err != nil && strings.Contains(example, "| jq") {
		t.Logf("not run, there is no jq on this machine: %s", example)
		return
	}
	b := pages.Block{Text: names.Replace(example) + "\n"}
	for _, u := range helpUntil {
		if strings.HasPrefix(example, u.begins) {
			b.Until = u.prints
			if u.prints == "" {
				b.Text = "timeout --preserve-status 3 " + b.Text // it prints nothing, and ends well when it is asked to, once it has begun
			}
			break
		}
	}
	begins := strings.Join(strings.Fields(example)[:2], " ")
	if before, ok := helpBefore[begins]; ok {
		if _, err := shell.Run(pages.Block{Text: before}); err != nil {
			t.Fatalf("before %s: %v", example, err)
		}
	}
	started := time.Now()
	defer func() {
		if took := time.Since(started); took > 2*time.Second {
			t.Logf("%s: took %v", example, took)
		}
	}()
	if out, err := shell.Run(b); err != nil {
		t.Fatalf("%s\n%s%v", example, out, err)
	}
	if b.Until != "" {
		if _, err := shell.Run(pages.Block{Text: "stop\n"}); err != nil {
			t.Fatal(err)
		}
	}
}
