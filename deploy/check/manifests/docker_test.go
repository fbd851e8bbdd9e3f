package manifests

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// stages are those of the Dockerfile, as BuildKit reads them.
func stages(t *testing.T) []instructions.Stage {
	t.Helper()
	parsed, err := parser.Parse(strings.NewReader(read(t, "docker/Dockerfile")))
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range parsed.Warnings {
		t.Errorf("BuildKit warns: %s", w.Short)
	}
	all, _, err := instructions.Parse(parsed.AST, nil)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// The image has no shell, runs as nobody in particular, and says whether it is healthy.
func TestTheImage(t *testing.T) {
	all := stages(t)
	last := all[len(all)-1]
	if len(all) != 2 || last.BaseName != "scratch" {
		t.Fatalf("%d stages, the last one from %s", len(all), last.BaseName)
	}
	found := map[string]string{}
	for _, c := range last.Commands {
		switch c := c.(type) {
		case *instructions.UserCommand:
			found["user"] = c.User
		case *instructions.EntrypointCommand:
			found["entrypoint"] = strings.Join(c.CmdLine, " ")
		case *instructions.CmdCommand:
			found["cmd"] = strings.Join(c.CmdLine, " ")
		case *instructions.HealthCheckCommand:
			found["health"] = strings.Join(c.Health.Test, " ")
		case *instructions.RunCommand:
			t.Error("a command runs where there is no shell")
		}
	}
	for what, want := range map[string]string{
		"user": "65532:65532", "entrypoint": "/usr/local/bin/fairlead", "cmd": "run --config /etc/fairlead/fairlead.yaml",
		"health": "CMD /usr/local/bin/fairlead health --timeout 5s",
	} {
		if found[what] != want {
			t.Errorf("%s is %q, want %q", what, found[what], want)
		}
	}
}

// The build command of the Dockerfile makes a static binary that knows its version.
func TestTheBuildOfTheImage(t *testing.T) {
	if os.Getenv("FAIRLEAD_SLOW") == "" {
		t.Skip("it compiles all anew; set FAIRLEAD_SLOW=1 to run it")
	}
	text := strings.ReplaceAll(read(t, "docker/Dockerfile"), "\\\n", " ")
	build := regexp.MustCompile(`CGO_ENABLED=0 .* \./cmd/agent`).FindString(text)
	if build == "" {
		t.Fatal("there is no build command")
	}
	binary := filepath.Join(t.TempDir(), "fairlead")
	build = strings.ReplaceAll(build, "/out/usr/local/bin/fairlead", binary)
	build = strings.ReplaceAll(build, "GOOS=${TARGETOS} GOARCH=${TARGETARCH}", "")
	cmd := exec.CommandContext(t.Context(), "sh", "-c", build)
	cmd.Dir, cmd.Env = root, append(os.Environ(), "VERSION=v1.2.3-check")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", build, err, out)
	}
	file, err := elf.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("the binary is not static")
		}
	}
	if said := must(t, nil, binary, "version"); !strings.Contains(said, "v1.2.3-check") {
		t.Errorf("version says %q", said)
	}
}
