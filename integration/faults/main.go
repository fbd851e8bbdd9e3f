package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	only := flag.String("only", "", "run the rows whose name contains this `word`")
	seed := flag.Uint64("seed", 1, "what chance begins with")
	long := flag.Duration("soak", 0, "run random faults for this `long` instead of the matrix")
	list := flag.Bool("list", false, "list the rows and do nothing")
	verbose := flag.Bool("v", false, "show what the scenarios log")
	flag.Parse()
	rows := chosen(*only, *long)
	if *list {
		for _, r := range rows {
			fmt.Printf("%-16s %s\n", r.name, r.fault)
		}
		return
	}
	if len(rows) == 0 {
		fmt.Fprintf(os.Stderr, "faults: no row has %q in its name; --list shows them\n", *only)
		os.Exit(2)
	}
	held, err := run(rows, *seed, *long, *verbose)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if !held {
		os.Exit(1)
	}
}

// chosen are the rows to run.
func chosen(only string, long time.Duration) []row {
	all := matrix
	if long > 0 {
		if all = soaks; only == "" {
			return all[:1]
		}
	}
	var rows []row
	for _, r := range all {
		if strings.Contains(r.name, only) {
			rows = append(rows, r)
		}
	}
	return rows
}

// run runs the scenarios of the rows and prints the table.
func run(rows []row, seed uint64, long time.Duration, verbose bool) (held bool, err error) {
	dir, err := os.MkdirTemp("", "faults")
	if err != nil {
		return false, fmt.Errorf("faults: %w", err)
	}
	log := filepath.Join(dir, "events.jsonl")
	began := time.Now()
	fmt.Printf("seed %d; events go to %s\n", seed, log)
	env := append(os.Environ(), "FAIRLEAD_FAULT_LOG="+log, "FAIRLEAD_SLOW=1", fmt.Sprint("FAIRLEAD_SEED=", seed), "FAIRLEAD_SOAK="+long.String())
	var lines []line
	for _, r := range rows {
		passed, err := test(r, env, long, verbose)
		if err != nil {
			return false, err
		}
		events, err := events(log)
		if err != nil {
			return false, err
		}
		l := judge(r, passed, events)
		lines = append(lines, l)
		fmt.Printf("%6s  %-16s held %v\n", time.Since(began).Round(time.Second), r.name, l.held)
	}
	fmt.Println()
	return table(os.Stdout, lines), nil
}

func events(log string) ([]event, error) {
	file, err := os.Open(log)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("faults: %w", err)
	}
	defer file.Close()
	return readEvents(file)
}

// test runs the scenarios of a row, and returns which have passed. A test that was skipped has not.
func test(r row, env []string, long time.Duration, verbose bool) (map[string]bool, error) {
	pkg := r.pkg
	if pkg == "" {
		pkg = "./integration"
	}
	cmd := exec.Command("go", "test", "-json", "-count=1", "-timeout", (20*time.Minute + 2*long).String(),
		"-run", "^("+strings.Join(r.tests, "|")+")$", "github.com/fairlead/fairlead/"+strings.TrimPrefix(pkg, "./"))
	cmd.Env, cmd.Stderr = env, os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("faults: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("faults: go test: %w", err)
	}
	passed := results(out, os.Stdout, verbose)
	_ = cmd.Wait() // what failed is not among those that passed
	return passed, nil
}

// results reads the output of go test -json. What a failing test says is shown, and all of it when verbose.
func results(out io.Reader, show io.Writer, verbose bool) map[string]bool {
	passed := map[string]bool{}
	said := map[string]*strings.Builder{}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e struct{ Action, Test, Output string }
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			continue
		}
		if said[e.Test] == nil {
			said[e.Test] = new(strings.Builder)
		}
		switch e.Action {
		case "output":
			said[e.Test].WriteString(e.Output)
			if verbose {
				_, _ = io.WriteString(show, e.Output)
			}
		case "pass":
			passed[e.Test] = true
		case "fail":
			if !verbose {
				_, _ = io.WriteString(show, said[e.Test].String())
			}
		}
	}
	return passed
}
