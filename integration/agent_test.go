package integration

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// An agent is a running binary and a client of its app socket.
type agent struct {
	*process
	t      *testing.T
	dir    string // short, since a socket's path is; holds the socket, the configuration and the embedded store
	socket string
	admin  string
	http   *http.Client
}

// folder is a temporary folder with a short path.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "fl")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// settings is an agent's configuration: where NATS is ("" is embedded) and the rest of the file.
type settings struct {
	id   string
	nats string // several are separated by commas
	yaml string // queues, capsules and what else
	dir  string // of an agent that ran before; "" is a new one
	// probes is the address of /livez, /readyz and /metrics; "" is none.
	probes string
	// dashboard is the address of the dashboard; "" is none.
	dashboard string
	env       []string // NAME=value, beside the test's own
	binary    string   // another one than the binary under test; "" is that
}

// startAgent runs an agent and waits until its socket answers.
func startAgent(t *testing.T, s settings) *agent {
	t.Helper()
	a := launch(t, s)
	a.ready()
	return a
}

// launch runs an agent and does not wait.
func launch(t *testing.T, s settings) *agent {
	t.Helper()
	if s.dir == "" {
		s.dir = folder(t)
	}
	broker := "embedded: {store_dir: " + filepath.Join(s.dir, "jetstream") + "}"
	if s.nats != "" {
		broker = "url: [" + strings.ReplaceAll(s.nats, ",", ", ") + "]"
	}
	var text strings.Builder
	if s.id != "" {
		text.WriteString("agent: {id: " + s.id + "}\n")
	}
	a := newAgent(t, s.dir, filepath.Join(s.dir, "agent.sock"))
	text.WriteString("nats: {" + broker + "}\nlisten: {socket: " + a.socket + ", probes_http: \"" + s.probes + "\", dashboard_http: \"" + s.dashboard + "\"}\nlog: {format: text}\n" + s.yaml)
	file := filepath.Join(s.dir, "fairlead.yaml")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	a.process = start(t, "agent "+s.id, exec.Command(cmp.Or(s.binary, fairlead), "run", "--config", file), s.env...)
	return a
}

// startDev runs an agent as run --dev does.
func startDev(t *testing.T, args ...string) *agent {
	t.Helper()
	p := start(t, "run --dev", exec.Command(fairlead, append([]string{"run", "--dev"}, args...)...))
	return p.devAgent(t)
}

// devAgent waits until p, a run --dev, has said where its socket is.
func (p *process) devAgent(t *testing.T) *agent {
	t.Helper()
	var socket string
	eventually(t, "run --dev prints FAIRLEAD_SOCKET=unix:///…", patience, func() bool {
		_, after, _ := strings.Cut(p.out.String(), "FAIRLEAD_SOCKET=unix://")
		line, _, complete := strings.Cut(after, "\n")
		socket = strings.TrimSpace(line)
		return complete || !p.running()
	})
	a := newAgent(t, filepath.Dir(socket), socket)
	a.process = p
	a.ready()
	return a
}

func newAgent(t *testing.T, dir, socket string) *agent {
	a := &agent{t: t, dir: dir, socket: socket, admin: filepath.Join(filepath.Dir(socket), "admin.sock")}
	a.http = a.client()
	return a
}

// client returns an HTTP client of the app socket with connections of its own.
func (a *agent) client() *http.Client {
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", a.socket)
		},
		MaxIdleConnsPerHost: 64,
		DisableCompression:  true,
	}
	a.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// env leads commands and workers to this agent.
func (a *agent) env() []string { return []string{"FAIRLEAD_SOCKET=unix://" + a.socket} }

// ready waits until the socket answers.
func (a *agent) ready() {
	a.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		answer, err := a.http.Get("http://agent/v1/status")
		if err == nil {
			_ = answer.Body.Close()
			return
		}
		if !a.running() || time.Now().After(deadline) {
			a.t.Fatalf("the agent's socket does not answer: %v", err)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// stop drains the agent with SIGTERM and wants exit code 0.
func (a *agent) stop() {
	a.t.Helper()
	a.signal(sigterm)
	if code := a.wait(patience); code != 0 {
		a.t.Fatalf("exit code %d after SIGTERM, want 0", code)
	}
}
