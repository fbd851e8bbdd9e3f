package manifests

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is how long a test waits for what must happen.
const patience = 30 * time.Second

// output can be read while it grows.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// goes starts a command that goes on until the test ends.
func goes(t *testing.T, env []string, name string, args ...string) (*exec.Cmd, *output) {
	t.Helper()
	said := new(output)
	cmd := exec.Command(name, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = append(os.Environ(), env...), said, said, 2*time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s says\n%s", filepath.Base(name), said)
		}
	})
	return cmd, said
}

// What the Kubernetes manifests describe, without containers: nats-server with the permissions, the setup with its identity, the
// agent with the file in the ConfigMap and its identity, and the worker. A message is worked on, and a drain ends it all in peace.
func TestTheManifestsWorkTogether(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("there is no curl here")
	}
	dir, err := os.MkdirTemp("", "fl") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	port := freePort(t)
	goes(t, []string{"AGENT_PASSWORD=a", "SETUP_PASSWORD=s", "POD_NAME=nats-0"}, natsServer, "-c", serverFiles(t, "kubernetes/nats"), "-a", "127.0.0.1", "-p", fmt.Sprint(port))

	text := strings.NewReplacer("nats://nats:4222", fmt.Sprintf("nats://127.0.0.1:%d", port), "/run/fairlead", dir, "/run/secrets/nats", dir,
		`":9464"`, fmt.Sprintf("127.0.0.1:%d", freePort(t))).Replace(agentFile(t, "try"))
	file := write(t, dir, "fairlead.yaml", text)
	write(t, dir, "password", "s")
	eventually(t, "the setup succeeds", func() bool { // as the Job is tried again until NATS is there
		setup := exec.CommandContext(t.Context(), fairlead, "setup", "--config", file)
		setup.Env = append(os.Environ(), "NATS_USER=setup", "POD_NAME=setup")
		return setup.Run() == nil
	})
	write(t, dir, "password", "a")
	env := []string{"NATS_USER=agent", "POD_NAME=orders-7f9c", "FAIRLEAD_SOCKET=unix://" + dir + "/agent.sock", "SOCKET=" + dir + "/agent.sock", "CAPSULE=primary", "TMPDIR=" + dir}
	agent, log := goes(t, env, fairlead, "run", "--config", file, "--no-setup")
	must(t, env, fairlead, "wait")
	must(t, env, fairlead, "health")
	must(t, env, fairlead, "validate", "--config", file, "--connect")
	worker, worked := goes(t, env, "sh", filepath.Join(root, "deploy/kubernetes/base/worker.sh"))
	must(t, env, fairlead, "publish", "orders", "--priority", "high", "--key", "acme", "an order")
	eventually(t, "the worker works on it", func() bool { return strings.Contains(worked.String(), "working on: an order") })

	// The end of the pod: the hook of the sidecar and SIGTERM of the app, then SIGTERM of the sidecar.
	_ = worker.Process.Signal(syscall.SIGTERM)
	if said := must(t, env, fairlead, "drain", "--wait", "30s"); said != "drained\n" {
		t.Errorf("drain says %q", said)
	}
	if err := worker.Wait(); err != nil {
		t.Errorf("the worker: %v", err)
	}
	_ = agent.Process.Signal(syscall.SIGTERM)
	if err := agent.Wait(); err != nil {
		t.Errorf("the agent: %v", err)
	}
	if strings.Contains(strings.ToLower(log.String()), "permissions violation") {
		t.Errorf("a permission is missing:\n%s", log)
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !condition(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}
