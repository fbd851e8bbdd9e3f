package integration

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// serviceManager is the socket on which systemd hears from a service.
type serviceManager struct {
	t    *testing.T
	path string
	conn *net.UnixConn
}

func newServiceManager(t *testing.T) *serviceManager {
	t.Helper()
	path := filepath.Join(folder(t), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &serviceManager{t, path, conn}
}

// hears returns the next message that begins with a line, passing over signs of life.
func (m *serviceManager) hears(first string) string {
	m.t.Helper()
	buffer := make([]byte, 4096)
	for {
		if err := m.conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
			m.t.Fatal(err)
		}
		n, err := m.conn.Read(buffer)
		if err != nil {
			m.t.Fatalf("waiting for %s: %v", first, err)
		}
		said := string(buffer[:n])
		if line, _, _ := strings.Cut(said, "\n"); line == first {
			return said
		} else if line != "WATCHDOG=1" {
			m.t.Fatalf("the agent says %q, want %s", said, first)
		}
	}
}

// The agent tells systemd that it is ready, reloads, lives and stops, as a unit of Type=notify-reload expects.
func TestTheServiceManagerIsTold(t *testing.T) {
	t.Parallel()
	server := startNATS(t)
	manager := newServiceManager(t)
	dir := folder(t)
	a := newAgent(t, dir, filepath.Join(dir, "agent.sock"))
	file := filepath.Join(dir, "fairlead.yaml")
	write := func(more string) {
		t.Helper()
		text := "agent: {id: a, drain_timeout: 7s}\nnats: {url: " + server.url + "}\nlisten: {socket: " + a.socket + ", probes_http: \"\"}\n" + threeLevels + more
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("")
	a.process = start(t, "agent", exec.Command(fairlead, "run", "--config", file), "NOTIFY_SOCKET="+manager.path, "WATCHDOG_USEC=300000")
	if said := manager.hears("READY=1"); !strings.Contains(said, "\nSTATUS=serving 1 queue and 1 capsule") {
		t.Errorf("ready: %q", said)
	}
	if _, err := net.Dial("unix", a.socket); err != nil {
		t.Errorf("ready, and the socket does not answer: %v", err)
	}
	manager.hears("WATCHDOG=1")

	reloading := regexp.MustCompile(`^RELOADING=1\nMONOTONIC_USEC=[1-9][0-9]{5,}$`)
	for more, status := range map[string]string{"": "STATUS=serving 1 queue", "nonsense: 1\n": "the changed file was refused"} {
		write(more)
		a.signal(syscall.SIGHUP)
		if said := manager.hears("RELOADING=1"); !reloading.MatchString(said) {
			t.Errorf("reloading: %q", said)
		}
		if said := manager.hears("READY=1"); !strings.Contains(said, status) {
			t.Errorf("after a reload: %q, want %s", said, status)
		}
	}
	a.signal(sigterm)
	if said := manager.hears("STOPPING=1"); !strings.Contains(said, "\nEXTEND_TIMEOUT_USEC=27000000\n") {
		t.Errorf("stopping: %q", said)
	}
	if code := a.wait(patience); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// An agent that stands still gives no sign of life, so that systemd can start it again.
func TestAStoppedAgentGivesNoSignOfLife(t *testing.T) {
	t.Parallel()
	manager := newServiceManager(t)
	p := start(t, "run --dev", exec.Command(fairlead, "run", "--dev"), "NOTIFY_SOCKET="+manager.path, "WATCHDOG_USEC=150000")
	a := p.devAgent(t)
	manager.hears("READY=1")
	manager.hears("WATCHDOG=1")
	a.signal(syscall.SIGSTOP)
	buffer := make([]byte, 4096)
	eventually(t, "the agent falls silent", patience, func() bool {
		_ = manager.conn.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
		_, err := manager.conn.Read(buffer)
		return err != nil
	})
	a.signal(syscall.SIGCONT)
	manager.hears("WATCHDOG=1")
}

// Somebody else's NOTIFY_SOCKET that cannot be used is told, and is no reason not to run.
func TestANotifySocketThatIsNotThere(t *testing.T) {
	t.Parallel()
	p := start(t, "run --dev", exec.Command(fairlead, "run", "--dev"), "NOTIFY_SOCKET=/nowhere/notify")
	a := p.devAgent(t)
	if log := a.errs.String(); !strings.Contains(log, "NOTIFY_SOCKET") {
		t.Errorf("the log says %s", log)
	}
	a.stop()
}
