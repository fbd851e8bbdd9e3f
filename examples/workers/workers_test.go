// Package workers tests the example workers against a fake agent, which can be made to go away at a chosen moment. The
// same workers run against the real one in the integration tests.
package workers

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// An example is one worker, and how to give it another handler: its one line of work is replaced by one that does what
// the payload says: "fail …" fails, "slow …" takes three seconds.
type example struct {
	name    string
	tool    string
	files   []string
	line    string // of the handler
	handler string
	command func(dir string) []string
}

var examples = []example{
	{
		name: "bash", tool: "curl", files: []string{"worker.sh"},
		line: `echo "$queue p$priority ${key:--}: $(cat)"`,
		handler: `read -r payload; case $payload in fail*) return 3;; slow*) sleep 3;; esac
  echo "did $payload"`,
		command: func(dir string) []string { return []string{"bash", dir + "/worker.sh"} },
	},
	{
		name: "python", tool: "python3", files: []string{"worker.py"},
		line: `print(f"{message['queue']} p{message['priority']} {message['key'] or '-'}: {payload.decode()}", flush=True)`,
		handler: `if payload.startswith(b"fail"): raise ValueError("as asked")
    if payload.startswith(b"slow"): time.sleep(3)
    print("did", payload.decode(), flush=True)`,
		command: func(dir string) []string { return []string{"python3", dir + "/worker.py"} },
	},
	{
		name: "node", tool: "node", files: []string{"worker.mjs"},
		line: "console.log(`${message.queue} p${message.priority} ${message.key || '-'}: ${payload}`);",
		handler: "if (`${payload}`.startsWith('fail')) throw new Error('as asked');\n" +
			"if (`${payload}`.startsWith('slow')) await sleep(3000);\nconsole.log(`did ${payload}`);",
		command: func(dir string) []string { return []string{"node", dir + "/worker.mjs"} },
	},
	{
		name: "go", tool: "go", files: []string{"main.go", "agent.go", "session.go"},
		line: `_, err := fmt.Printf("%s p%d %s: %s%s\n", m.Queue, m.Priority, cmp.Or(m.Key, "-"), m.Data, m.Binary)`,
		handler: `if m.Data[:4] == "fail" { return fmt.Errorf("as asked") }
	if m.Data[:4] == "slow" { time.Sleep(3 * time.Second) }
	_, err := fmt.Printf("did %s\n", m.Data)`,
		command: func(dir string) []string { return []string{dir + "/worker"} },
	},
}

// A worker is a running example.
type worker struct {
	t      *testing.T
	cmd    *exec.Cmd
	exited chan struct{}

	mu     sync.Mutex
	output bytes.Buffer
}

func (w *worker) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.output.Write(p)
}

func (w *worker) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.output.String()
}

// copyOf lays a copy of the example, with the handler that obeys its payloads, into a folder and returns that.
func (e example) copyOf(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath(e.tool); err != nil {
		t.Skipf("no %s on this machine", e.tool)
	}
	dir, replaced := t.TempDir(), 0
	var sources []string
	for _, file := range e.files {
		text, err := os.ReadFile(filepath.Join(e.name, file))
		if err != nil {
			t.Fatal(err)
		}
		replaced += strings.Count(string(text), e.line)
		sources = append(sources, filepath.Join(dir, file))
		changed := strings.ReplaceAll(string(text), e.line, e.handler)
		if err := os.WriteFile(filepath.Join(dir, file), []byte(changed), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if replaced != 1 {
		t.Fatalf("the handler's line is in the example %d times, want once: %s", replaced, e.line)
	}
	if e.name == "go" {
		build := exec.Command("go", append([]string{"build", "-o", dir + "/worker"}, sources...)...)
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("go build: %v\n%s", err, out)
		}
	}
	return dir
}

func (e example) start(t *testing.T, f *fakeAgent) *worker {
	t.Helper()
	args := e.command(e.copyOf(t))
	w := &worker{t: t, cmd: exec.Command(args[0], args[1:]...), exited: make(chan struct{})}
	w.cmd.Env = append(os.Environ(), "FAIRLEAD_SOCKET=unix://"+f.socket, "WORKER_LEASE=3")
	w.cmd.Stdout, w.cmd.Stderr = w, w
	w.cmd.WaitDelay = time.Second
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = w.cmd.Wait(); close(w.exited) }()
	t.Cleanup(func() {
		_ = w.cmd.Process.Kill()
		<-w.exited
		if t.Failed() {
			t.Logf("%s printed:\n%s", e.name, w.text())
		}
	})
	return w
}

// terminate sends SIGTERM and wants a clean exit.
func (w *worker) terminate(within time.Duration) {
	w.t.Helper()
	_ = w.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-w.exited:
	case <-time.After(within):
		w.t.Fatalf("still running %v after SIGTERM", within)
	}
	if code := w.cmd.ProcessState.ExitCode(); code != 0 {
		w.t.Errorf("exit code %d, want 0", code)
	}
}

func eachExample(t *testing.T, test func(t *testing.T, e example)) {
	for _, e := range examples {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			test(t, e)
		})
	}
}

func TestWorkersHandleSettleAndRetry(t *testing.T) {
	eachExample(t, func(t *testing.T, e example) {
		f := newFakeAgent(t)
		var want []string
		for i := range 9 {
			want = append(want, fmt.Sprintf("job %d", i))
		}
		f.publish(append(slices.Clone(want), "fail once job 9")...)
		w := e.start(t, f)
		want = append(want, "job 9")
		f.await("ten acks", func() bool { return len(f.acked) == 10 })
		f.await("waiting pull", func() bool { return f.pulls == 1 })
		if !slices.Equal(f.nacked, []string{"fail once job 9"}) {
			t.Errorf("nacked %q, want the one that failed", f.nacked)
		}
		if !slices.Equal(f.acked, want) {
			t.Errorf("acked %q, want %q", f.acked, want)
		}
		if e.name != "bash" && f.inPull != 10 {
			t.Errorf("%d of 10 acks came in the body of a pull", f.inPull)
		}
		w.terminate(5 * time.Second)
		f.await("end of the session", func() bool { return f.sessions == 0 && f.pulls == 0 })
	})
}

// What is not known to be done is said again: nobody else gets the message before its lease ends.
func TestWorkersSayAgainWhatIsNotKnownToBeDone(t *testing.T) {
	eachExample(t, func(t *testing.T, e example) {
		f := newFakeAgent(t)
		f.change(func() { f.deaf = 2 })
		f.publish("job 1", "job 2")
		w := e.start(t, f)
		if e.name != "bash" { // which does not go on before that is known
			f.await("unheard acks", func() bool { return f.deaf == 0 })
			f.publish("job 3")
			f.await("acks", func() bool { return len(f.acked) == 3 && len(f.held) == 0 })
		}
		f.await("acks", func() bool { return len(f.acked) >= 2 && len(f.held) == 0 })
		w.terminate(5 * time.Second)
	})
}

func TestWorkersExtendALongJobAndFinishItOnSIGTERM(t *testing.T) {
	eachExample(t, func(t *testing.T, e example) {
		f := newFakeAgent(t)
		f.publish("slow job")
		w := e.start(t, f)
		f.await("extension of the running job", func() bool { return f.extended > 0 })
		w.terminate(10 * time.Second)
		if !slices.Equal(f.acked, []string{"slow job"}) || len(f.held) > 0 {
			t.Errorf("after SIGTERM: acked %q, held %v; want the running job finished and settled", f.acked, f.held)
		}
	})
}

func TestWorkersGoOnWhenTheAgentRestarts(t *testing.T) {
	eachExample(t, func(t *testing.T, e example) {
		f := newFakeAgent(t)
		f.publish("job 1")
		w := e.start(t, f)
		f.await("first ack", func() bool { return len(f.acked) == 1 && f.pulls == 1 })
		f.stop()
		f.await("end of all connections", func() bool { return f.pulls == 0 && f.sessions == 0 })
		f.publish("job 2", "job 3")
		f.start()
		f.await("acks of the new agent's messages", func() bool { return len(f.acked) == 3 })
		w.terminate(5 * time.Second)
	})
}

func TestWorkersSurviveAnAgentThatDiesDuringAJob(t *testing.T) {
	eachExample(t, func(t *testing.T, e example) {
		f := newFakeAgent(t)
		f.publish("slow job")
		w := e.start(t, f)
		f.await("message in hand", func() bool { return len(f.held) == 1 && f.pulls == 0 })
		f.stop()
		f.start()
		f.await("ack by the next agent", func() bool { return slices.Equal(f.acked, []string{"slow job"}) })
		w.terminate(10 * time.Second)
	})
}

func TestEveryWorkerFileIsShort(t *testing.T) {
	for _, e := range examples {
		for _, file := range e.files {
			text, err := os.ReadFile(filepath.Join(e.name, file))
			if err != nil {
				t.Fatal(err)
			}
			if lines := strings.Count(string(text), "\n"); lines >= 80 {
				t.Errorf("%s/%s has %d lines, want fewer than 80", e.name, file, lines)
			}
		}
	}
}
