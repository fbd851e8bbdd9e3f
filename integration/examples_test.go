package integration

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// exampleWorkers are the workers that people copy, as they stand.
func exampleWorkers(t *testing.T) map[string]func() *exec.Cmd {
	t.Helper()
	root, err := filepath.Abs("../examples/workers")
	if err != nil {
		t.Fatal(err)
	}
	built := filepath.Join(t.TempDir(), "worker")
	if out, err := exec.Command("go", "build", "-o", built, root+"/go").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return map[string]func() *exec.Cmd{
		"bash":   func() *exec.Cmd { return exec.Command("bash", root+"/bash/worker.sh", "default") },
		"python": func() *exec.Cmd { return exec.Command("python3", root+"/python/worker.py", "default") },
		"node":   func() *exec.Cmd { return exec.Command("node", root+"/node/worker.mjs", "default") },
		"go":     func() *exec.Cmd { return exec.Command(built, "default") },
	}
}

// Each worker handles a mixed backlog in order, goes on when the agent is killed and started again, and drains.
func TestExampleWorkers(t *testing.T) {
	t.Parallel()
	workers := exampleWorkers(t)
	for name, worker := range workers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := worker()
			if _, err := exec.LookPath(cmd.Args[0]); err != nil {
				t.Skipf("no %s on this machine", cmd.Args[0])
			}
			s := settings{dir: folder(t), yaml: strings.NewReplacer("main", "default").Replace(rawQueue)}
			a := startAgent(t, s)
			a.batch("jobs", notes(5, "low", note{Priority: "low", Key: "acme"})...)
			a.batch("jobs", notes(5, "high", note{Priority: "high", Key: "acme"})...)
			p := start(t, name, cmd, a.env()...)
			var want []string
			for _, level := range []string{"high", "low"} {
				for i := range 5 {
					want = append(want, fmt.Sprintf("jobs p%d acme: %s%d", map[string]int{"high": 0, "low": 2}[level], level, i))
				}
			}
			lines := func() []string { return strings.Split(strings.TrimSpace(p.out.String()), "\n") }
			eventually(t, "ten messages are handled", patience, func() bool { return len(lines()) >= 10 })
			if !slices.Equal(lines(), want) {
				t.Errorf("handled %q, want %q", lines(), want)
			}
			eventually(t, "all are settled", patience, func() bool {
				q := a.queue("jobs")
				return q.Waiting == 0 && q.InFlight == 0
			})

			a.kill()
			a = startAgent(t, s)
			a.publish("jobs", "after the restart", "Fairlead-Key", "acme")
			eventually(t, "the worker is back", patience, func() bool { return slices.Contains(lines(), "jobs p1 acme: after the restart") })
			eventually(t, "it waits again", patience, func() bool { return a.capsule("default").Pulls == 1 && a.queue("jobs").InFlight == 0 })
			p.signal(syscall.SIGTERM)
			equal(t, "exit code after SIGTERM", p.wait(patience), 0)
			equal(t, "messages handled", len(lines()), 11)
		})
	}
}

// Who has the promise of 100 ms waits for a worker, and not for the backlog.
func TestServiceLevels(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "../examples/service-levels/run")
	cmd.Env = environment("PATH=" + filepath.Dir(fairlead) + ":" + os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	jobs, median := map[string]string{}, map[string]int{}
	for _, row := range regexp.MustCompile(`(?m)^(\w+) +(?:\d+ m\w+|none) +(\d+) +(\d+) +\d+ +\d+$`).FindAllStringSubmatch(string(out), -1) {
		jobs[row[1]] = row[2]
		median[row[1]], _ = strconv.Atoi(row[3])
	}
	if want := map[string]string{"interactive": "10", "minutes": "30", "best_effort": "60"}; !maps.Equal(jobs, want) {
		t.Errorf("jobs %v, want %v\n%s", jobs, want, out)
	}
	if median["interactive"] > median["minutes"] || median["minutes"] > median["best_effort"] {
		t.Errorf("half of each class waited longer than %v ms", median)
	}
}

// reportLine finds a row of the report's table: name, orders, and positions at p50 and p99 in both runs.
var reportLine = regexp.MustCompile(`(?m)^(\S+) +(\d+) +(\d+) \([\d.]+ s\) +(\d+) \([\d.]+ s\) +(\d+) \([\d.]+ s\) +(\d+) \([\d.]+ s\)$`)

// Small tenants do not wait behind the big one's orders, and high orders behind nobody's low ones.
func TestDayOfOrders(t *testing.T) {
	args := []string{"run", "./orders/report", "-fairlead", fairlead, "-orders", "orders/orders.ndjson", "-handler", "orders/handler"}
	orders := 10_000
	if os.Getenv("FAIRLEAD_SLOW") == "" {
		orders = 1500
		// The end of the big tenant's nightly import, and the morning of all.
		args[5] = partOfTheDay(t, 5500, orders)
	}
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Env = "../examples", environment()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
	rows := reportLine.FindAllStringSubmatch(string(out), -1)
	tenants, sum := 0, 0
	for _, row := range rows {
		n := make([]int, len(row))
		for i := 2; i < len(row); i++ {
			n[i], _ = strconv.Atoi(row[i])
		}
		name, fair50, fair99, plain50, plain99 := row[1], n[3], n[4], n[5], n[6]
		switch name {
		case "high":
			if fair99 > n[2]+8 {
				t.Errorf("level high has %d orders, and its p99 waits for %d", n[2], fair99)
			}
		case "medium", "low":
		default:
			tenants, sum = tenants+1, sum+n[2]
			if name != "megamart" && (fair50 >= plain50 || fair99 >= plain99) {
				t.Errorf("%s waits for %d and %d orders through Fairlead, for %d and %d through a plain consumer", name, fair50,
					fair99, plain50, plain99)
			}
		}
	}
	if tenants != 12 || sum != orders {
		t.Errorf("%d tenants with %d orders in the report, want 12 with %d", tenants, sum, orders)
	}
}

// partOfTheDay writes n orders from the given one on into a file of their own.
func partOfTheDay(t *testing.T, from, n int) string {
	t.Helper()
	text, err := os.ReadFile("../examples/orders/orders.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(text), "\n")
	file := filepath.Join(t.TempDir(), "orders.ndjson")
	if err := os.WriteFile(file, []byte(strings.Join(lines[from:from+n], "")), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
