package integration

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	yaml "go.yaml.in/yaml/v3"

	"github.com/fairlead/fairlead/agent/api/apitest"
	"github.com/fairlead/fairlead/integration/pages"
)

// mostNotRun is how many blocks of all pages may be for reading only. Each has its reason in the page. Lower it when you can;
// a new one is worth a second thought.
const mostNotRun = 12

// documented lists the pages whose blocks are run.
func documented(t *testing.T) []*pages.Page {
	t.Helper()
	files := []string{"../README.md"}
	for _, pattern := range []string{"../docs/*.md", "../examples/README.md", "../examples/*/README.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d pages, %v", pattern, len(found), err)
		}
		files = append(files, found...)
	}
	var all []*pages.Page
	for _, file := range files {
		p, err := pages.Read(file, strings.TrimPrefix(file, "../"))
		if err != nil {
			t.Error(err)
			continue
		}
		all = append(all, p)
	}
	return all
}

// Every block of every page runs, is compared or is checked, and the few that are for reading only say why.
func TestPages(t *testing.T) {
	t.Parallel()
	all := documented(t)
	var notRun []string
	for _, p := range all {
		for _, b := range p.Blocks {
			if b.NotRun != "" && !b.Output {
				notRun = append(notRun, fmt.Sprintf("%s:%d: %s", p.Name, b.Line, b.NotRun))
			}
		}
	}
	t.Logf("%d blocks are for reading only:\n%s", len(notRun), strings.Join(notRun, "\n"))
	if len(notRun) > mostNotRun {
		t.Errorf("%d blocks are not run, and at most %d may be", len(notRun), mostNotRun)
	}
	for _, p := range all {
		t.Run(strings.ReplaceAll(p.Name, "/", "_"), func(t *testing.T) {
			t.Parallel()
			read(t, p)
		})
	}
}

// A reader is somebody who types a page.
type reader struct {
	t       *testing.T
	page    *pages.Page
	dir     string
	shell   *pages.Shell
	replace *strings.Replacer
	env     []string
}

// read types a page from top to bottom.
func read(t *testing.T, p *pages.Page) {
	r := &reader{t: t, page: p, dir: folder(t)}
	// The names that pages use and a test cannot have. The folder stands for the repository's root.
	replaced := []string{
		"unix:///tmp/fairlead-…/agent.sock", "unix://" + r.dir + "/run/agent.sock",
		"/run/fairlead", r.dir + "/run",
		"/etc/fairlead", r.dir,
		"go run ./cmd/agent", "fairlead",
		"go run ../../cmd/agent", "fairlead",
		"bin/fairlead", fairlead,
		"127.0.0.1:9464", fmt.Sprintf("127.0.0.1:%d", freePort(t)),
		"127.0.0.1:9465", fmt.Sprintf("127.0.0.1:%d", freePort(t)),
	}
	url := ""
	for _, given := range p.Given {
		switch given {
		case "nats":
			url = startNATSWith(t, `server_name: "nats-0"`).url
			replaced = append(replaced, "nats://nats:4222", url)
		case "examples":
			if err := os.CopyFS(filepath.Join(r.dir, "examples"), os.DirFS("../examples")); err != nil {
				t.Fatal(err)
			}
		default:
			t.Fatalf("%s: there is no %q to be given", p.Name, given)
		}
	}
	r.replace = strings.NewReplacer(replaced...)
	r.env = pageEnvironment(t, r.dir, url)
	r.shell = pageShell(t, r.dir, url)
	t.Cleanup(func() {
		if t.Failed() {
			served, _ := os.ReadFile(filepath.Join(r.dir, ".pages", "served"))
			t.Logf("what the page's servers say:\n%s", tail(string(served)))
		}
	})
	printed := ""
	for _, b := range p.Blocks {
		if !r.block(b, &printed) {
			return
		}
	}
}

// pageEnvironment is the environment of whoever types a page in a folder.
func pageEnvironment(t *testing.T, dir, natsURL string) []string {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	return environment("PATH="+filepath.Dir(fairlead)+":"+os.Getenv("PATH"), "HOME="+dir, "POD_NAME=orders-7f9c", "NATS_URL="+natsURL, "REPOSITORY="+root,
		"FAIRLEAD_SOCKET=unix://"+dir+"/run/agent.sock", "GOCACHE="+goVariable(t, "GOCACHE"), "GOMODCACHE="+goVariable(t, "GOMODCACHE"))
}

// pageShell starts a shell for such a reader, and ends it, and all that was started in it, with the test.
func pageShell(t *testing.T, dir, natsURL string) *pages.Shell {
	t.Helper()
	shell, err := pages.NewShell(t.Context(), dir, pageEnvironment(t, dir, natsURL), 4*patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(shell.Close)
	return shell
}

// block types one block, or looks at it. It is false when going on makes no sense.
func (r *reader) block(b pages.Block, printed *string) bool {
	at := fmt.Sprintf("%s:%d", r.page.Name, b.Line)
	b.Text, b.Until = r.replace.Replace(b.Text), r.replace.Replace(b.Until)
	switch {
	case b.NotRun != "":
	case b.Lang == "sh" && natsLine.MatchString(b.Text) && !natsCommand(r.t):
		r.t.Logf("%s: not run, there is no nats command on this machine: go install github.com/nats-io/natscli/nats@v0.5.1", at)
	case b.Lang == "sh":
		started := time.Now()
		out, err := r.shell.Run(b)
		if err != nil {
			r.t.Errorf("%s: %v\nof\n%s", at, err, b.Text)
			return false
		}
		if took := time.Since(started); took > 3*time.Second {
			r.t.Logf("%s: took %v", at, took)
		}
		*printed = out
	case b.Output:
		if problem := b.Compare(*printed); problem != "" {
			r.t.Errorf("%s: what is printed %s", at, problem)
		}
	case b.Schema != "":
		r.follows(at, b)
	case b.Lang == "yaml":
		r.validate(at, b.Text)
	}
	return true
}

// openAPI opens the description of the socket API.
var openAPI = sync.OnceValues(func() (*apitest.Document, error) { return apitest.Open("../docs/openapi.yaml") })

// follows checks JSON against a schema of the API; where the page has …, members may be missing.
func (r *reader) follows(at string, b pages.Block) {
	d, err := openAPI()
	if err != nil {
		r.t.Fatal(err)
	}
	err = d.CheckSchema(b.Schema, b.Lang == "text", []byte(b.Text))
	if invalid := new(jsonschema.ValidationError); err != nil && !(strings.Contains(b.Text, "…") && errors.As(err, &invalid) && onlyLeftOut(invalid)) {
		r.t.Errorf("%s: %v", at, err)
	}
}

// onlyLeftOut tells whether nothing is wrong but members that are missing, or that stand for others.
func onlyLeftOut(e *jsonschema.ValidationError) bool {
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		return true
	case *kind.Format:
		return k.Got == "…"
	case *kind.AdditionalProperties:
		return slices.Equal(k.Properties, []string{"…"})
	}
	return len(e.Causes) > 0 && !slices.ContainsFunc(e.Causes, func(c *jsonschema.ValidationError) bool { return !onlyLeftOut(c) })
}

// validate checks a file, or a part of one after what it lacks was added.
func (r *reader) validate(at, text string) {
	var parts map[string]yaml.Node
	if err := yaml.Unmarshal([]byte(text), &parts); err != nil {
		r.t.Errorf("%s: %v", at, err)
		return
	}
	if _, ok := parts["nats"]; !ok {
		text += "nats: {url: nats://nats:4222}\n"
	}
	if _, ok := parts["queues"]; !ok {
		text += "queues:\n" + missingQueues(parts["capsules"])
	}
	file := filepath.Join(r.dir, ".pages", "part.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
	cmd := exec.CommandContext(r.t.Context(), fairlead, "validate", "--config", file)
	cmd.Env = r.env
	if out, err := cmd.CombinedOutput(); err != nil {
		r.t.Errorf("%s: %v\n%s\nof\n%s", at, err, out, text)
	}
}

// missingQueues writes the queues that capsules name.
func missingQueues(capsules yaml.Node) string {
	names := map[string]bool{"orders": true}
	var list []struct {
		Queues []string `yaml:"queues"`
	}
	_ = capsules.Decode(&list) // what is wrong with it, validate says
	for _, c := range list {
		for _, name := range c.Queues {
			names[name] = true
		}
	}
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(names)) {
		text.WriteString("  - name: " + name + "\n")
	}
	return text.String()
}

// natsLine finds the command line of NATS in a block.
var natsLine = regexp.MustCompile(`(?m)^nats `)

// natsCommand tells whether it is on this machine. In CI it has to be.
func natsCommand(t *testing.T) bool {
	t.Helper()
	_, err := exec.LookPath("nats")
	if err != nil && os.Getenv("CI") != "" {
		t.Fatal("no nats on the PATH: .ci/run installs it")
	}
	return err == nil
}

// goVariable keeps go's caches where they are, whatever HOME says.
func goVariable(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command("go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}
