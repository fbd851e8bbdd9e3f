package integration

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal is a program on a pseudo-terminal.
type terminal struct {
	t       *testing.T
	master  *os.File
	process *exec.Cmd
	ended   chan struct{}

	mu   sync.Mutex
	text strings.Builder // all that was written, escape sequences included
}

// onTerminal runs a command on a terminal of a size. It is killed when the test ends.
func onTerminal(t *testing.T, a *agent, columns, rows uint16, args ...string) *terminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	term := &terminal{t: t, master: master, ended: make(chan struct{})}
	term.resize(columns, rows)
	term.process = exec.Command(fairlead, args...)
	term.process.Env = append(os.Environ(), append(a.env(), "TERM=xterm-256color")...)
	term.process.Stdin, term.process.Stdout, term.process.Stderr = slave, slave, slave
	term.process.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := term.process.Start(); err != nil {
		t.Fatal(err)
	}
	slave.Close()
	go term.read()
	t.Cleanup(func() {
		_ = term.process.Process.Kill()
		<-term.ended
		master.Close()
	})
	return term
}

func (m *terminal) read() {
	defer close(m.ended)
	buf := make([]byte, 64<<10)
	for {
		n, err := m.master.Read(buf)
		m.mu.Lock()
		m.text.Write(buf[:n])
		m.mu.Unlock()
		if err != nil {
			return // the last one that had it open has gone
		}
	}
}

func (m *terminal) resize(columns, rows uint16) {
	m.t.Helper()
	if err := unix.IoctlSetWinsize(int(m.master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns}); err != nil {
		m.t.Fatal(err)
	}
	if m.process != nil {
		_ = m.process.Process.Signal(syscall.SIGWINCH)
	}
}

func (m *terminal) written() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.text.String()
}

// press types keys, and returns how much was written before.
func (m *terminal) press(keys string) int {
	m.t.Helper()
	before := len(m.written())
	if _, err := m.master.WriteString(keys); err != nil {
		m.t.Fatal(err)
	}
	return before
}

// shows waits until a text was written after a position.
func (m *terminal) shows(after int, text string) {
	m.t.Helper()
	eventually(m.t, fmt.Sprintf("%q on the terminal", text), patience, func() bool { return strings.Contains(m.written()[after:], text) })
}
