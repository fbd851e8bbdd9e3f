package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/fairlead/fairlead/config"
)

// maxSocketPath is how long the path of a socket may be, see config.
const maxSocketPath = 107

// devFolder makes a temporary folder for a trial run. The caller removes it.
func devFolder() (string, error) {
	dir, err := os.MkdirTemp("", "fairlead-")
	if err == nil && len(filepath.Join(dir, "agent.sock")) > maxSocketPath {
		_ = os.Remove(dir)
		dir, err = os.MkdirTemp("/tmp", "fairlead-")
	}
	if err != nil {
		return "", fmt.Errorf("no temporary folder: %w", err)
	}
	return dir, nil
}

// trial is what can be chosen of a trial run.
type trial struct {
	listen    string // host:port for NATS clients; "" is none
	dashboard string // host:port; "" is none
}

// trialDashboard is where a trial run shows its dashboard: at the usual address, or, when that is taken, at a free port. When
// somebody takes it in between, there is no dashboard, and the log says so.
func trialDashboard() string {
	l, err := net.Listen("tcp", config.DefaultDashboardHTTP)
	if err != nil {
		return "127.0.0.1:0"
	}
	_ = l.Close()
	return config.DefaultDashboardHTTP
}

// runDev runs an agent without a file until a signal, and leaves nothing behind.
func (a *app) runDev(ctx context.Context, t trial) error {
	if t.listen != "" {
		if _, _, err := net.SplitHostPort(t.listen); err != nil {
			return usagef("--listen %s: %w: write HOST:PORT, for instance 127.0.0.1:4222", quote(t.listen), err)
		}
	}
	dir, err := devFolder()
	if err != nil {
		return err
	}
	defer func() {
		if err := os.RemoveAll(dir); err != nil {
			a.complainf("warning: %s stays: %v", dir, err)
		}
	}()
	cfg := config.Dev(dir)
	cfg.NATS.Embedded.Listen, cfg.Listen.DashboardHTTP = t.listen, t.dashboard
	cfg.Log = config.Log{Level: "warn", Format: "text"}
	r := runner{
		app: a, cfg: cfg, options: options{logger: a.logger(cfg.Log)},
		ready: func(running instance) error { return a.welcome(cfg, running.DashboardURL()) },
	}
	return r.run(ctx)
}

// welcome says where the agent is, in a line that scripts read, and what to type next.
func (a *app) welcome(cfg *config.Config, dashboard string) error {
	address := "unix://" + cfg.Listen.Socket
	socket, me := shellQuote(cfg.Listen.Socket), selfName()
	var nats string
	if listen := cfg.NATS.Embedded.Listen; listen != "" {
		nats = fmt.Sprintf("  nats -s nats://%s pub fl.q.default.p0.acme 'from a plain NATS client'\n", listen)
	}
	if dashboard != "" {
		dashboard = "\nIts dashboard is at " + dashboard
	}
	_, err := fmt.Fprintf(a.out, `FAIRLEAD_SOCKET=%[1]s

Fairlead runs. Queue "default" has the levels high, medium and low and a fair share by key; capsule "default" reads it.
Everything is in %[2]s, and gone after Ctrl-C.%[7]s

In another terminal:

  export FAIRLEAD_SOCKET=%[3]s
  %[4]s publish default --priority low --key acme 'monthly report'
  %[4]s publish default --priority high --key globex 'an order'
  %[4]s queues default
  %[4]s pull default --max 10 --ack
  %[4]s work default --concurrency 4 -- sh -c 'cat; echo " for $FAIRLEAD_KEY"'
%[6]s
The same with curl:

  curl --unix-socket %[5]s -H 'Fairlead-Key: acme' -d 'hello' http://localhost/v1/queues/default/messages
  curl --unix-socket %[5]s -X POST 'http://localhost/v1/capsules/default/pull?max=10'
  curl --unix-socket %[5]s -d '[{"token":"TOKEN","result":"ack"}]' http://localhost/v1/settle
`, address, filepath.Dir(cfg.Listen.Socket), shellQuote(address), me, socket, nats, dashboard)
	return err
}

// goRun matches where "go run" puts a binary: a temporary folder, or, since Go 1.24, the build cache.
var goRun = regexp.MustCompile(`/(go-build[0-9]+/b[0-9]+/exe|[0-9a-f]{2}/[0-9a-f]{64}-d)/[^/]+$`)

// selfName returns what to type to run this binary again.
func selfName() string {
	path, err := os.Executable()
	if err != nil {
		return "fairlead"
	}
	return selfNameOf(path, os.Args[0])
}

func selfNameOf(executable, typed string) string {
	if goRun.MatchString(filepath.ToSlash(executable)) {
		return "go run ./cmd/agent"
	}
	if typed == "" {
		typed = executable
	}
	return shellQuote(typed)
}

var shellSafe = regexp.MustCompile(`^[A-Za-z0-9_./:=@%+,-]+$`)

// shellQuote returns s as one word of a POSIX shell.
func shellQuote(s string) string {
	if shellSafe.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
