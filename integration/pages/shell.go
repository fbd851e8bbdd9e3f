package pages

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A Shell is a bash in which the blocks of a page are typed one after another. It is for one goroutine.
type Shell struct {
	dir     string // what the shell is for is kept in .pages in it
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers *bufio.Scanner
	patient time.Duration
	blocks  int
}

// prelude is what blocks can use. Each block is a file; its output and its exit code are files too.
//
//   - background FILE: runs a block as a process group of its own, until the shell is closed
//   - block CODE FILE: runs a block. One that has to fail runs in a subshell, so that the shell survives it.
const prelude = `set -eo pipefail
PATH=$PAGES/bin:$PATH
pages_block() {
  if [ "$1" = 0 ]; then eval "$(cat "$2.sh")"; else ( eval "$(cat "$2.sh")" ); fi
}
pages_background() { set -m; ( eval "$(cat "$1.sh")" ) >"$1.out" 2>"$1.err" </dev/null & set +m; echo $! >>"$PAGES/pids"; }
eventually() { # waits for a command to succeed; for hidden blocks
  local n; for n in $(seq 300); do if "$@" >/dev/null 2>&1; then return 0; fi; sleep 0.1; done; "$@"
}
stop() { # ends what was started last, and waits for its end: a worker that is still ending takes messages; for hidden blocks
  local group; group=$(tail -1 "$PAGES/pids"); sed -i '$d' "$PAGES/pids"
  kill -TERM -- "-$group"
  while kill -0 -- "-$group" 2>/dev/null; do sleep 0.05; done
}
serve() { # starts a server that goes on until the end of the page; for hidden blocks
  set -m; "$@" >>"$PAGES/served" 2>&1 </dev/null & set +m; served=$!; echo $served >>"$PAGES/pids"
}
`

// wrappers are commands that blocks meet in place of the real ones: an answer of curl's that is an error fails, unless
// ANY_ANSWER is set, and go works in the repository.
var wrappers = map[string]string{
	"curl": `if [ -n "$ANY_ANSWER" ]; then set -- curl "$@"; else case "$1" in -sf|-f) set -- curl "$@" ;; *) set -- curl --fail-with-body "$@" ;; esac; fi`,
	"go":   `set -- go -C "$REPOSITORY" "$@"`,
}

// NewShell starts a shell in dir with env. Each block may take patient.
func NewShell(ctx context.Context, dir string, env []string, patient time.Duration) (*Shell, error) {
	own := filepath.Join(dir, ".pages")
	if err := wrap(filepath.Join(own, "bin")); err != nil {
		return nil, err
	}
	s := &Shell{dir: dir, patient: patient, cmd: exec.CommandContext(ctx, "bash", "--noprofile", "--norc")}
	s.cmd.Dir, s.cmd.Env = dir, append(env, "PAGES="+own)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	answers, err := os.Create(filepath.Join(own, "shell"))
	if err != nil {
		return nil, err
	}
	defer answers.Close()
	s.cmd.Stderr = answers
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.answers = bufio.NewScanner(out)
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	_, err = io.WriteString(s.in, prelude)
	return s, err
}

// wrap writes the wrappers into a folder of their own.
func wrap(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for name, script := range wrappers {
		script = "#!/bin/sh\n" + script + "\nPATH=${PATH#\"$PAGES/bin:\"} exec \"$@\"\n"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o700); err != nil {
			return err
		}
	}
	return nil
}

// Close ends the shell and everything that was started in it.
func (s *Shell) Close() {
	_ = s.in.Close()
	pids, _ := os.ReadFile(filepath.Join(s.dir, ".pages", "pids"))
	for _, line := range strings.Fields(string(pids)) {
		if pid, err := strconv.Atoi(line); err == nil && pid > 1 {
			_ = syscall.Kill(-pid, syscall.SIGKILL)
		}
	}
	_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL)
	_ = s.cmd.Wait()
}

// Run types a block and returns what it printed. The error tells how it ended otherwise than it has to, with what it wrote to
// stderr. After an error the shell can only be closed.
func (s *Shell) Run(b Block) (stdout string, err error) {
	s.blocks++
	file := filepath.Join(s.dir, ".pages", strconv.Itoa(s.blocks))
	if err := os.WriteFile(file+".sh", []byte(b.Text), 0o600); err != nil {
		return "", err
	}
	if b.Until != "" {
		return s.begin(b, file)
	}
	line := fmt.Sprintf("pages_block %d '%s' >'%[2]s.out' 2>'%[2]s.err' </dev/null; echo pages: $?\n", b.Exit, file)
	if b.Exit != 0 {
		line = fmt.Sprintf("set +e; ( set -e; pages_block %d '%s' ) >'%[2]s.out' 2>'%[2]s.err' </dev/null; code=$?; set -e; echo pages: $code\n", b.Exit, file)
	}
	if _, err := io.WriteString(s.in, line); err != nil {
		return "", err
	}
	code, err := s.answer()
	out, _ := os.ReadFile(file + ".out")
	errs, _ := os.ReadFile(file + ".err")
	if err == nil && code != b.Exit {
		err = fmt.Errorf("exit code %d, want %d", code, b.Exit)
	}
	if err != nil {
		return string(out), fmt.Errorf("%w\n%s%s", err, out, errs)
	}
	if b.Exit != 0 { // what is wrong is said on stderr
		return string(out) + string(errs), nil
	}
	return string(out), nil
}

// answer waits for the shell to say with which exit code a block has ended. A shell that has ended itself failed in it.
func (s *Shell) answer() (int, error) {
	type said struct {
		code int
		err  error
	}
	answers := make(chan said, 1)
	go func() {
		for s.answers.Scan() {
			if code, ok := strings.CutPrefix(s.answers.Text(), "pages: "); ok {
				n, err := strconv.Atoi(code)
				answers <- said{n, err}
				return
			}
		}
		answers <- said{0, errors.New("a command failed")}
	}()
	select {
	case a := <-answers:
		return a.code, a.err
	case <-time.After(s.patient):
		return 0, fmt.Errorf("still runs after %v", s.patient)
	}
}

// begin starts a block that goes on, and waits until it has printed what it is to print.
func (s *Shell) begin(b Block, file string) (string, error) {
	if _, err := fmt.Fprintf(s.in, "pages_background '%s'; echo pages: 0\n", file); err != nil {
		return "", err
	}
	if _, err := s.answer(); err != nil {
		return "", err
	}
	for deadline := time.Now().Add(s.patient); ; time.Sleep(5 * time.Millisecond) {
		out, _ := os.ReadFile(file + ".out")
		errs, _ := os.ReadFile(file + ".err")
		if strings.Contains(string(out)+string(errs), b.Until) {
			return string(out), nil
		}
		if time.Now().After(deadline) {
			return string(out), fmt.Errorf("has not printed %q within %v:\n%s%s", b.Until, s.patient, out, errs)
		}
	}
}
