package running

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain is the process that is stopped, too.
func TestMain(m *testing.M) {
	if os.Getenv("RUN_CLOCK") == "" {
		os.Exit(m.Run())
	}
	c, began := Start(), time.Now()
	line := make([]byte, 1)
	for {
		if _, err := os.Stdin.Read(line); err != nil {
			return
		}
		_, _ = os.Stdout.WriteString(strconv.FormatInt(int64(c.Now()), 10) + " " + strconv.FormatInt(int64(time.Since(began)), 10) + "\n")
	}
}

// A second in which the process is stopped is none; the rest counts.
func TestTheClockStandsStillWithTheProcess(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := exec.Command(self)
	p.Env = append(os.Environ(), "RUN_CLOCK=1")
	in, err := p.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close(); _ = p.Wait() }()
	ask := func() (ran, passed time.Duration) {
		if _, err := in.Write([]byte("?")); err != nil {
			t.Fatal(err)
		}
		answer := make([]byte, 100)
		n, err := out.Read(answer)
		if err != nil {
			t.Fatal(err)
		}
		f := strings.Fields(string(answer[:n]))
		a, _ := strconv.ParseInt(f[0], 10, 64)
		b, _ := strconv.ParseInt(f[1], 10, 64)
		return time.Duration(a), time.Duration(b)
	}
	time.Sleep(500 * time.Millisecond)
	ran, passed := ask()
	if ran > passed || ran == 0 {
		t.Errorf("ran for %v of %v", ran, passed)
	}
	if err := p.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	if err := p.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	later, end := ask()
	if stood := (end - passed) - (later - ran); stood < 900*time.Millisecond {
		t.Errorf("of %v with a second's stop the clock left out %v", end-passed, stood)
	}
}
