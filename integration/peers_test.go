//go:build linux

package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The web app publishes, the worker pulls, and neither can do what the other does; somebody else can only look at counts.
func TestUsersDoWhatTheyMay(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can be several users")
	}
	const web, worker, stranger, outsider = 12001, 12002, 12003, 12004
	dir := folder(t)
	a := newAgent(t, dir, filepath.Join(dir, "agent.sock"))
	file := filepath.Join(dir, "fairlead.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, `nats: {embedded: {store_dir: %s}}
listen: {socket: %s, mode: "0666", probes_http: "", dashboard_http: "", allow_uids: [0, %d, %d, %d], publish_uids: [%d]}
queues: [{name: jobs}]
capsules: [{name: work, queues: [jobs], allow_gids: [%d]}]
`, filepath.Join(dir, "jetstream"), a.socket, web, worker, stranger, web, worker), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	a.process = start(t, "agent", exec.Command(fairlead, "run", "--config", file))
	a.ready()

	const publish, next, peek, status = "POST /v1/queues/jobs/messages", "POST /v1/capsules/work/next", "GET /v1/queues/jobs/peek", "GET /v1/queues/jobs"
	as := func(user uint32, call string) (code, body string) {
		t.Helper()
		method, path, _ := strings.Cut(call, " ")
		c := exec.Command("curl", "-sS", "--unix-socket", a.socket, "-X", method, "-w", "\n%{http_code}", "http://agent"+path)
		if call == publish {
			c.Args = append(c.Args, "-d", "hello")
		}
		c.Dir = "/"
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("curl as %d: %v %s", user, err, out)
		}
		cut := strings.LastIndexByte(string(out), '\n')
		return string(out[cut+1:]), string(out[:cut])
	}
	for _, c := range []struct {
		user       uint32
		call, code string
		says       string
	}{
		{web, publish, "201", ""}, {web, peek, "403", "allow_gids of capsule work"}, {web, next, "403", "allow_gids of capsule work"},
		{worker, peek, "200", "hello"}, {worker, publish, "403", "publish_uids"}, {worker, next, "200", "hello"},
		{stranger, status, "200", ""}, {stranger, publish, "403", "12003"}, {stranger, next, "403", "12003"},
		{outsider, status, "403", "listen.allow_uids"},
	} {
		if code, body := as(c.user, c.call); code != c.code || !strings.Contains(body, c.says) {
			t.Errorf("%d, %s: %s %s, want %s and %q", c.user, c.call, code, body, c.code, c.says)
		}
	}
}
