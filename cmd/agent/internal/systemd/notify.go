package systemd

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// sendTime bounds how long a line may wait for a manager that reads nothing.
const sendTime = time.Second

// Notifier tells the service manager. The nil Notifier tells nobody. It is safe for several goroutines.
type Notifier struct {
	conn     *net.UnixConn
	watchdog time.Duration
}

// New returns the notifier that the environment asks for: nil when the process was not started by a service manager that
// wants to be told. Close it at the end.
func New(lookup func(name string) (string, bool)) (*Notifier, error) {
	path, _ := lookup("NOTIFY_SOCKET")
	switch {
	case path == "":
		return nil, nil
	case path[0] != '/' && path[0] != '@':
		return nil, fmt.Errorf("systemd: NOTIFY_SOCKET is %q: only Unix sockets are known", path)
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"}) // Go takes @ for an abstract one
	if err != nil {
		return nil, fmt.Errorf("systemd: NOTIFY_SOCKET: %w", err)
	}
	return &Notifier{conn: conn, watchdog: watchdog(lookup)}, nil
}

// watchdog is how often the manager wants to hear that the service lives; 0: not at all.
func watchdog(lookup func(name string) (string, bool)) time.Duration {
	if pid, ok := lookup("WATCHDOG_PID"); ok && pid != strconv.Itoa(os.Getpid()) {
		return 0 // somebody else's
	}
	text, _ := lookup("WATCHDOG_USEC")
	n, err := strconv.ParseInt(text, 10, 63)
	if err != nil || n <= 0 || n > int64(24*time.Hour/time.Microsecond) {
		return 0
	}
	return time.Duration(n) * time.Microsecond
}

// Close ends the notifier.
func (n *Notifier) Close() {
	if n != nil {
		_ = n.conn.Close()
	}
}

func (n *Notifier) send(lines ...string) {
	if n == nil {
		return
	}
	_ = n.conn.SetWriteDeadline(time.Now().Add(sendTime))
	_, _ = n.conn.Write([]byte(strings.Join(lines, "\n")))
}

// status is a line for people. It must not begin another line.
func status(text string) string { return "STATUS=" + strings.Join(strings.Fields(text), " ") }

// Status says in a line how the service is.
func (n *Notifier) Status(text string) { n.send(status(text)) }

// Ready says that the service has started, or has ended a reload.
func (n *Notifier) Ready(text string) { n.send("READY=1", status(text)) }

// Reloading says that the service begins to read its configuration again. Ready ends it.
func (n *Notifier) Reloading() {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) != nil {
		return
	}
	n.send("RELOADING=1", "MONOTONIC_USEC="+strconv.FormatInt(now.Nano()/int64(time.Microsecond), 10))
}

// Stopping says that the service ends, and that it may take this long.
func (n *Notifier) Stopping(text string, within time.Duration) {
	n.send("STOPPING=1", "EXTEND_TIMEOUT_USEC="+strconv.FormatInt(within.Microseconds(), 10), status(text))
}

// Watch tells the manager that the service lives, for as long as alive says so, until ctx ends. It returns at once when the
// manager does not want to be told. alive gets a ctx that ends when an answer comes too late.
func (n *Notifier) Watch(ctx context.Context, alive func(context.Context) bool) {
	if n == nil || n.watchdog == 0 {
		return
	}
	every := time.NewTicker(n.watchdog / 3)
	defer every.Stop()
	for {
		asked, cancel := context.WithTimeout(ctx, n.watchdog/3)
		if alive(asked) {
			n.send("WATCHDOG=1")
		}
		cancel()
		select {
		case <-every.C:
		case <-ctx.Done():
			return
		}
	}
}
