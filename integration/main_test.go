package integration

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
)

// What is built once per run.
var (
	fairlead   string // the binary under test
	natsBinary string // nats-server
)

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	sideBySide()
	dir, err := os.MkdirTemp("", "fl-bin")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	fairlead, natsBinary = filepath.Join(dir, "fairlead"), filepath.Join(dir, "nats-server")
	for file, pkg := range map[string]string{
		fairlead:   "github.com/fairlead/fairlead/cmd/agent",
		natsBinary: "github.com/nats-io/nats-server/v2",
	} {
		if out, err := exec.Command("go", "build", "-o", file, pkg).CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "go build %s: %v\n%s", pkg, err, out)
			return 1
		}
	}
	return m.Run()
}

// sideBySide runs half as many tests again at a time as there are cores, unless the command line says how many: most of them wait
// most of the time, for leases and delays to end.
func sideBySide() {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", strconv.Itoa((runtime.GOMAXPROCS(0)*3+1)/2)) // the name is go test's own
	}
}

// slow skips a test unless the slower layer was asked for.
func slow(t *testing.T) {
	t.Helper()
	if os.Getenv("FAIRLEAD_SLOW") == "" {
		t.Skip("takes long; set FAIRLEAD_SLOW=1 to run it")
	}
}
