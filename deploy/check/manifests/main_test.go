package manifests

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// root is the repository's.
const root = "../../.."

// What is built once per run.
var fairlead, natsServer string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "fl-check")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	fairlead, natsServer = filepath.Join(dir, "fairlead"), filepath.Join(dir, "nats-server")
	for file, pkg := range map[string]string{fairlead: "./cmd/agent", natsServer: "github.com/nats-io/nats-server/v2"} {
		build := exec.Command("go", "build", "-o", file, pkg)
		build.Dir = root
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "go build %s: %v\n%s", pkg, err, out)
			return 1
		}
	}
	return m.Run()
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "deploy", file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// must runs a command to its end and returns what it prints.
func must(t *testing.T, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", filepath.Base(name), strings.Join(args, " "), err, out)
	}
	return string(out)
}

// valid runs a file through the agent's own loader.
func valid(t *testing.T, text string, env ...string) {
	t.Helper()
	must(t, env, fairlead, "validate", "--config", write(t, t.TempDir(), "fairlead.yaml", text))
}
