package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/fairlead/fairlead/agent/api"
)

// documentedRights are those that the operations page gives an agent with --no-setup for a queue "orders".
func documentedRights(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	rights := regexp.MustCompile("(?s)```\n(permissions: \\{.*?\n\\}\n)```").FindSubmatch(page)
	if rights == nil {
		t.Fatal("the page has no list of rights")
	}
	return string(rights[1])
}

// One identity makes the streams, and agents with no more than the documented rights work on them.
func TestSetupByOneIdentityAndWorkByAnother(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	server := startNATSWith(t, fmt.Sprintf(`authorization: {users: [
  {user: owner, password: s1}
  {user: worker, password: s2, %s}
]}`, documentedRights(t)), nats.UserInfo("owner", "s1"))
	address := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	file := func(user, password string) string {
		secret, path := filepath.Join(dir, password), filepath.Join(dir, user+".yaml")
		text := fmt.Sprintf(`nats: {url: "%s", user: %s, password_file: %s}
listen: {socket: %s, probes_http: "%s", dashboard_http: ""}
queues: [{name: orders, priority_levels: 2, fair_share: true, concurrency_per_key: 2}]
capsules: [{name: main, queues: [orders]}]
`, server.url, user, secret, filepath.Join(dir, "agent.sock"), address)
		for name, content := range map[string]string{secret: password, path: text} {
			if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return path
	}
	owner := file("owner", "s1")
	worker := file("worker", "s2")

	// The worker's identity can make nothing, and is told what it may not, at once.
	began := time.Now()
	_, stderr, code := command(t, nil, "setup", "--config", worker)
	if code == 0 || !strings.Contains(strings.ToLower(stderr), "permissions violation") {
		t.Errorf("setup without the right: exit code %d, %s", code, stderr)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v to say so", took)
	}
	for range 2 { // again changes nothing
		if _, stderr, code := command(t, nil, "setup", "--config", owner); code != 0 {
			t.Fatalf("setup: exit code %d, %s", code, stderr)
		}
	}
	if printed, stderr, code := command(t, nil, "permissions", "--config", worker); code != 0 || printed != documentedRights(t) {
		t.Errorf("the page is not what the command prints: exit code %d, %s%s", code, printed, stderr)
	}
	if _, stderr, code := command(t, nil, "validate", "--config", worker, "--connect"); code != 0 {
		t.Errorf("validate --connect: exit code %d, %s", code, stderr)
	}

	a := newAgent(t, dir, filepath.Join(dir, "agent.sock"))
	a.process = start(t, "agent", exec.Command(fairlead, "run", "--config", worker, "--no-setup"))
	a.ready()
	a.publish("orders", "low", api.HeaderPriority, "1", api.HeaderKey, "acme")
	a.publish("orders", "high", api.HeaderPriority, "0")
	a.publish("orders", "later", api.HeaderDelay, "1h")
	app := a.app("main")
	got := app.take(2, 1)
	equal(t, "order", strings.Join(data(got), " "), "high low")
	a.publish("orders", "again")
	d := app.pull(1, patience)
	equal(t, "nack", a.say(d[0], api.Settlement{Result: api.Nack, Delay: "50ms"}), api.StatusOK)
	equal(t, "attempt", app.take(1, 1)[0].Attempt, 2)
	equal(t, "left", len(app.pull(1, 0)), 0)
	a.publish("orders", "delayed", api.HeaderDelay, "200ms")
	equal(t, "delayed", string(app.take(1, 1)[0].Payload()), "delayed")
	if out, stderr, code := command(t, a, "delayed", "list", "orders"); code != 0 || !strings.Contains(out, "59m") && !strings.Contains(out, "1h0m0s") { // rounded to a second
		t.Errorf("list: exit code %d, %s%s", code, out, stderr)
	}
	for range 2 { // what is given up is kept, listed, shown, tried again, and purged
		dead := a.publish("orders", "dead")
		equal(t, "reject", a.say(app.pull(1, patience)[0], api.Settlement{Result: api.Reject}), api.StatusOK)
		equal(t, "dead letters", len(a.dead("orders")), 1)
		if _, err := a.operator().DeadLetter(t.Context(), "orders", dead.Seq); err != nil {
			t.Error(err)
		}
		if _, err := a.operator().RetryDead(t.Context(), "orders", api.DeadRetry{All: true}); err != nil {
			t.Error(err)
		}
		equal(t, "tried again", string(app.take(1, 1)[0].Payload()), "dead")
	}
	if _, err := a.operator().PurgeDead(t.Context(), "orders"); err != nil {
		t.Error(err)
	}
	a.shows(address, numbers{"fairlead_ready": 1, "fairlead_tenants{queue=orders}": 0, "fairlead_dead_letters{queue=orders}": 0, "fairlead_sample_failures_total": 0})
	a.stop()
	if log := a.errs.String(); strings.Contains(strings.ToLower(log), "permissions violation") {
		t.Errorf("a documented right is missing:\n%s", tail(log))
	}
}
