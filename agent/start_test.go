package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fairlead/fairlead/agent/socket"
	"github.com/fairlead/fairlead/agent/tcp"
	"github.com/fairlead/fairlead/config"
)

// A connection that net/http closes is waited for, by a goroutine of its own, for half a second.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

// settings is a file for an agent in a folder, with NATS as the line says.
func settings(t *testing.T, dir, nats string) *config.Config {
	t.Helper()
	text := fmt.Sprintf(`
agent: {id: test, drain_timeout: 1s}
nats: {%s}
listen: {socket: %[2]s/a.sock, admin_socket: %[2]s/b.sock, probes_http: "", dashboard_http: ""}
queues: [{name: orders, fair_share: true}]
capsules: [{name: primary, queues: [orders]}]
`, nats, dir)
	cfg, _, err := config.Parse("test.yaml", []byte(text), os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// shortDir is a folder whose name is short enough for a socket.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "fl")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func embedded(dir string) string { return "embedded: {store_dir: " + filepath.Join(dir, "store") + "}" }

// An agent that fails half-way leaves nothing behind: no goroutine, no socket, no lock on the store. The next one starts.
func TestStartFailsHalfWay(t *testing.T) {
	for name, test := range map[string]struct {
		spoil  func(t *testing.T, cfg *config.Config, dir string)
		is     error
		cancel time.Duration // 0: never
	}{
		"admin socket's folder is a file": {spoil: func(t *testing.T, cfg *config.Config, dir string) {
			if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			cfg.Listen.AdminSocket = filepath.Join(dir, "file", "b.sock")
		}},
		"probes' address is in use": {is: tcp.ErrInUse, spoil: func(t *testing.T, cfg *config.Config, _ string) {
			l, err := tcp.Listen("127.0.0.1:0", tcp.Setting{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
			cfg.Listen.ProbesHTTP = l.Addr().String()
		}},
		"dashboard's address is in use": {is: tcp.ErrInUse, spoil: func(t *testing.T, cfg *config.Config, _ string) {
			l, err := tcp.Listen("127.0.0.1:0", tcp.Setting{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
			cfg.Listen.DashboardHTTP = l.Addr().String()
		}},
		"credentials cannot be read": {is: ErrBroker, spoil: func(_ *testing.T, cfg *config.Config, dir string) {
			cfg.NATS.Creds = filepath.Join(dir, "none.creds")
			cfg.NATS.NKey = cfg.NATS.Creds
		}},
		"store is a file": {is: ErrBroker, spoil: func(t *testing.T, _ *config.Config, dir string) {
			if err := os.WriteFile(filepath.Join(dir, "store"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}},
		"cancelled while NATS is away": {is: context.Canceled, cancel: 50 * time.Millisecond, spoil: func(_ *testing.T, cfg *config.Config, _ string) {
			cfg.NATS.Embedded, cfg.NATS.URLs = nil, []string{"nats://127.0.0.1:1"}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := shortDir(t)
			cfg := settings(t, dir, embedded(dir))
			test.spoil(t, cfg, dir)
			a, err := New(cfg, Options{})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			if test.cancel > 0 {
				time.AfterFunc(test.cancel, cancel)
			}
			if err = a.Start(ctx); err == nil || test.is != nil && !errors.Is(err, test.is) {
				t.Errorf("Start: %v", err)
			}
			if err := a.Drain(context.Background()); err != nil {
				t.Errorf("Drain afterwards: %v", err)
			}
			if err := a.Stop(context.Background()); err != nil {
				t.Errorf("Stop afterwards: %v", err)
			}
			_ = os.Remove(filepath.Join(dir, "file"))
			if info, err := os.Stat(filepath.Join(dir, "store")); err == nil && !info.IsDir() {
				_ = os.Remove(filepath.Join(dir, "store"))
			}
			run(t, settings(t, dir, embedded(dir)))
		})
	}
}

// run starts an agent, drains and stops it.
func run(t *testing.T, cfg *config.Config) {
	t.Helper()
	a, err := New(cfg, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	second, err := New(cfg, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Start(context.Background()); !errors.Is(err, socket.ErrAlreadyRunning) {
		t.Errorf("a second agent on the same sockets: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := a.Drain(ctx); err != nil {
		t.Error(err)
	}
	if err := a.Stop(ctx); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(cfg.Listen.Socket); !os.IsNotExist(err) {
		t.Error("the socket is there still")
	}
}

// The default addresses are nobody's wish: an agent that finds one taken works without, and says so.
func TestADefaultAddressIsTaken(t *testing.T) {
	for _, c := range []struct {
		setting, address string
		put              func(*config.Listen, string)
	}{
		{"listen.probes_http", config.DefaultProbesHTTP, func(l *config.Listen, s string) { l.ProbesHTTP = s }},
		{"listen.dashboard_http", config.DefaultDashboardHTTP, func(l *config.Listen, s string) { l.DashboardHTTP = s }},
	} {
		t.Run(c.setting, func(t *testing.T) {
			if taken, err := net.Listen("tcp", c.address); err == nil { // else somebody else has it
				defer taken.Close()
			}
			dir := shortDir(t)
			cfg := settings(t, dir, embedded(dir))
			c.put(&cfg.Listen, c.address)
			a, err := New(cfg, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if err := a.Start(context.Background()); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = a.Stop(context.Background()) }()
			if all := strings.Join(a.warnings(), "\n"); !strings.Contains(all, c.address) || !strings.Contains(all, c.setting) {
				t.Errorf("warnings: %q", all)
			}
		})
	}
}

func TestStopWithoutStart(t *testing.T) {
	dir := shortDir(t)
	a, err := New(settings(t, dir, embedded(dir)), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := a.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	}
	if err := a.Start(context.Background()); !errors.Is(err, ErrStopped) {
		t.Errorf("Start after Stop: %v", err)
	}
}
