package integration

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/agent/api"
)

func TestDemoShowsOrderAndShares(t *testing.T) {
	t.Parallel()
	stdout, stderr, code := command(t, nil, "demo")
	if code != 0 || strings.Contains(stdout, "\x1b[") {
		t.Errorf("demo: exit code %d, %d bytes, %s; want 0, and no colour when it is no terminal", code, len(stdout), stderr)
	}
	for _, want := range []string{"acme", "high", "medium", "low", "weight", "0 inversions"} {
		if !strings.Contains(strings.ToLower(stdout), want) {
			t.Errorf("demo does not show %q:\n%s", want, stdout)
		}
	}
}

func TestDemoOfWeightsIsExactAtEveryPullSize(t *testing.T) {
	t.Parallel()
	for _, most := range []string{"1", "2", "8", "64"} {
		stdout, stderr, code := command(t, nil, "demo", "--weights", "3:1", "--pull", most)
		if code != 0 || !strings.Contains(stdout, "exact") {
			t.Errorf("demo --weights 3:1 --pull %s: exit code %d\n%s%s", most, code, stdout, stderr)
		}
	}
}

// Publish, pull and work, as one types them.
func TestPublishPullAndWork(t *testing.T) {
	t.Parallel()
	a := startDev(t)
	for _, args := range [][]string{
		{"publish", "default", "--priority", "low", "--key", "acme", "low"},
		{"publish", "default", "--priority", "high", "--key", "acme", "--weight", "2", "high"},
	} {
		if _, stderr, code := command(t, a, args...); code != 0 {
			t.Errorf("%q: exit code %d: %s", args, code, stderr)
		}
	}
	if _, stderr, code := commandWithInput(t, a, "from stdin", "publish", "default"); code != 0 {
		t.Errorf("publish from stdin: exit code %d: %s", code, stderr)
	}
	var got []string
	for len(got) < 3 { // one pull may bring fewer than there are
		stdout, stderr, code := command(t, a, "pull", "default", "--max", "10", "--wait", "30s", "--ack")
		if code != 0 || stdout == "" {
			t.Fatalf("pull after %q: exit code %d: %s", got, code, stderr)
		}
		for lines := bufio.NewScanner(strings.NewReader(stdout)); lines.Scan(); {
			var d api.Delivery
			if err := json.Unmarshal(lines.Bytes(), &d); err != nil {
				t.Fatalf("pull printed %q: %v", lines.Text(), err)
			}
			got = append(got, string(d.Payload()))
		}
	}
	equal(t, "pulled", strings.Join(got, ", "), "high, from stdin, low")
	a.app("default").empty()

	dir := t.TempDir()
	script := filepath.Join(dir, "handle")
	text := fmt.Sprintf("#!/bin/sh\nread -r line\n[ \"$line\" != bad ] || [ \"$FAIRLEAD_ATTEMPT\" -gt 1 ] || exit 3\n"+
		"echo \"$FAIRLEAD_QUEUE $FAIRLEAD_PRIORITY $FAIRLEAD_KEY $FAIRLEAD_ATTEMPT $line\" >>%s/log\n", dir)
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	a.batch("default", note{Data: "good\n", Key: "a", Priority: "high"}, note{Data: "other\n", Key: "b", Priority: 2})
	work := start(t, "work", exec.Command(fairlead, "work", "default", "--concurrency", "1", "--", script), a.env()...)
	logged := func() string { text, _ := os.ReadFile(filepath.Join(dir, "log")); return string(text) }
	eventually(t, "both are handled", patience, func() bool { return strings.Count(logged(), "\n") == 2 })
	equal(t, "log", logged(), "default 0 a 1 good\ndefault 2 b 1 other\n")
	work.signal(sigterm)
	equal(t, "exit code of work after SIGTERM", work.wait(patience), 0)
	a.app("default").empty()
}

// What work holds when it is killed goes to others at once.
func TestAKilledWorkGivesItsMessagesBack(t *testing.T) {
	t.Parallel()
	a := startDev(t)
	a.publish("default", "m")
	work := start(t, "work", exec.Command(fairlead, "work", "default", "--concurrency", "2", "--", "sh", "-c", "echo begun; exec sleep 600"), a.env()...)
	// What its agent has not written yet when it dies does not count as an attempt.
	eventually(t, "the message is worked on", patience, func() bool { return strings.Contains(work.out.String(), "begun") })
	work.kill()
	d := a.app("default").take(1, 1)[0]
	equal(t, "attempt", d.Attempt, 2)
}

func TestTablesAndJSON(t *testing.T) {
	t.Parallel()
	a := startDev(t)
	a.batch("default", notes(3, "m", note{Key: "acme", Priority: "high"})...)
	for _, c := range []struct {
		want string
		args []string
	}{
		{"default", []string{"queues"}},
		{"high", []string{"queues", "default"}},
		{"default", []string{"status"}},
		{"m0", []string{"peek", "default"}},
		{"", []string{"health"}},
		{"", []string{"wait", "--timeout", "5s"}},
		{"fairlead", []string{"version"}},
		{"$schema", []string{"schema"}},
		{"fairlead", []string{"completion", "bash"}},
	} {
		stdout, stderr, code := command(t, a, c.args...)
		if code != 0 || !strings.Contains(stdout, c.want) {
			t.Errorf("%q: exit code %d, want %q in\n%s%s", c.args, code, c.want, stdout, stderr)
		}
	}
	for _, args := range [][]string{{"queues", "-o", "json"}, {"queues", "default", "-o", "json"}, {"status", "-o", "json"}} {
		stdout, stderr, code := command(t, a, args...)
		if code != 0 || !json.Valid([]byte(stdout)) {
			t.Errorf("%q: exit code %d, want JSON: %s%s", args, code, stdout, stderr)
		}
	}
	for _, args := range [][]string{{"publsh"}, {"publish"}, {"publish", "default", "--prio", "1", "x"}, {"pull", "default", "--max", "many"}} {
		if _, stderr, code := command(t, a, args...); code != 2 || stderr == "" {
			t.Errorf("%q: exit code %d, want 2 and a reason", args, code)
		}
	}
}

// publish --batch names the lines that failed, and its exit code says so.
func TestPublishBatchNamesBadLines(t *testing.T) {
	t.Parallel()
	a := startDev(t)
	file := filepath.Join(t.TempDir(), "batch.ndjson")
	if err := os.WriteFile(file, []byte("{\"data\":\"1\"}\n{\"data\":\"2\",\"priority\":9}\n{\"data\":\"3\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, stderr, code := command(t, a, "publish", "default", "--batch", file)
	if code != 1 || !strings.Contains(stderr, "line 2") && !strings.Contains(stderr, ":2") {
		t.Errorf("exit code %d, %q; want 1, and line 2 named", code, stderr)
	}
	app := a.app("default")
	app.take(2, 2)
	app.empty()
}

// A trial run shows its dashboard, without being asked, on loopback; two of them on one host each have their own.
func TestATrialRunHasADashboard(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 2 {
		a := startDev(t)
		var address string
		eventually(t, "run --dev says where its dashboard is", patience, func() bool {
			_, rest, found := strings.Cut(a.out.String(), "Its dashboard is at http://")
			if found {
				address, _, found = strings.Cut(rest, "/\n")
			}
			return found
		})
		if seen[address] || !strings.HasPrefix(address, "127.0.0.1:") {
			t.Errorf("the dashboard is at %s; others at %v", address, seen)
		}
		seen[address] = true
		if page := a.probes(address, "/", 200); !strings.Contains(page, "<title>") {
			t.Errorf("%s: %.100s", address, page)
		}
	}
}

// What run --dev says to type next works as it stands.
func TestTheLinesThatRunDevPrints(t *testing.T) {
	t.Parallel()
	a := startDev(t)
	eventually(t, "the hints are complete", patience, func() bool { return strings.Contains(a.out.String(), "/v1/settle\n") })
	hints, export := 0, ""
	for _, line := range strings.Split(a.out.String(), "\n") {
		hint, typed := strings.CutPrefix(line, "  ")
		switch {
		case !typed:
			continue
		case strings.HasPrefix(hint, "export "):
			export = hint + "\n"
		case strings.Contains(hint, " work "): // it ends only when it is told to
			hint = strings.Replace(hint, " work default ", " work default --exit-when-empty ", 1)
			a.publish("default", "for the worker", api.HeaderKey, "acme")
		}
		hints++
		shell := exec.Command("bash", "-e", "-c", export+hint)
		shell.Env = environment()
		if out, err := shell.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", hint, err, out)
		} else if strings.Contains(hint, " pull ") && !strings.Contains(string(out), "monthly report") {
			t.Errorf("%s printed %s, want what was published", hint, out)
		}
	}
	if hints < 6 {
		t.Errorf("%d lines to type in\n%s", hints, a.out.String())
	}
}
