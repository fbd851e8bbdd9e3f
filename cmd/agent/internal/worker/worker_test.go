package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/client"
	"github.com/fairlead/fairlead/agent/client/clienttest"
)

// output collects what is written by several goroutines.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// job is a worker in a test.
type job struct {
	t          *testing.T
	agent      *clienttest.Agent
	out, errs  output
	stop, kill context.CancelFunc
	done       chan struct{}
	worker     *Worker
	sum        Summary
	err        error
}

// start runs script for each message of agent.
func start(t *testing.T, agent *clienttest.Agent, script string, change func(*Options)) *job {
	t.Helper()
	j := &job{t: t, agent: agent, done: make(chan struct{})}
	c := client.New(agent.Socket)
	o := Options{
		Client: c, Capsule: "default", Concurrency: 1, Command: []string{"sh", "-c", script},
		Environ: []string{"PATH=" + os.Getenv("PATH"), "FAIRLEAD_HEADER_OLD=x"}, Stdout: &j.out, Stderr: &j.errs,
	}
	if change != nil {
		change(&o)
	}
	w, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	j.worker = w
	pulling, stop := context.WithCancel(t.Context())
	running, kill := context.WithCancel(context.Background())
	j.stop, j.kill = stop, kill
	go func() {
		defer close(j.done)
		j.sum, j.err = w.Run(pulling, running)
	}()
	t.Cleanup(func() { kill(); stop(); <-j.done; c.Close() })
	return j
}

// wait waits for the worker's end.
func (j *job) wait() Summary {
	j.t.Helper()
	select {
	case <-j.done:
	case <-time.After(20 * time.Second):
		j.t.Fatalf("the worker does not end\n%s", j.errs.String())
	}
	return j.sum
}

func untilEmpty(o *Options) { o.ExitWhenEmpty = true }

func TestExitCodesSettle(t *testing.T) {
	agent := clienttest.New(t)
	agent.Put(0, "acme", "good")
	agent.Put(1, "acme", "bad")
	j := start(t, agent, `read x; echo "did $x"; echo "some
 words " >&2; echo >&2; [ "$x" = good ] || exit 3`, func(o *Options) { o.MaxMessages = 2 })
	sum := j.wait()
	if want := (Summary{Acked: 1, Nacked: 1}); sum != want || j.err != nil {
		t.Fatalf("got %+v, %v; want %+v", sum, j.err, want)
	}
	if got := j.out.String(); got != "did good\ndid bad\n" {
		t.Errorf("stdout %q", got)
	}
	settled := agent.Settled()
	if len(settled) != 2 || settled[0].Result != api.Ack || settled[1].Result != api.Nack {
		t.Fatalf("settled %+v", settled)
	}
	if got, want := settled[1].Reason, "exit status 3: words"; got != want {
		t.Errorf("reason %q, want %q", got, want)
	}
	if settled[1].Delay != "" {
		t.Errorf("delay %q: the queue's backoff should decide", settled[1].Delay)
	}
}

func TestMetadataIsInTheEnvironment(t *testing.T) {
	agent := clienttest.New(t)
	c := client.New(agent.Socket)
	defer c.Close()
	if _, err := c.Publish(t.Context(), "default", client.Message{
		Data: []byte("x"), Priority: "low", Key: "te nant=ü\n", ID: "i 1", ContentType: "text/plain", Headers: map[string]string{"X-Re.gion": "e u"},
	}); err != nil {
		t.Fatal(err)
	}
	j := start(t, agent, `env | grep ^FAIRLEAD_ | sort`, untilEmpty)
	j.wait()
	got := regexp.MustCompile(`ENQUEUED_AT=20[-0-9:.TZ]+`).ReplaceAllString(j.out.String(), "ENQUEUED_AT=now")
	got = regexp.MustCompile(`TOKEN=t[0-9]+`).ReplaceAllString(got, "TOKEN=token")
	want := `
FAIRLEAD_ATTEMPT=1
FAIRLEAD_CONTENT_TYPE=text/plain
FAIRLEAD_ENQUEUED_AT=now
FAIRLEAD_FENCE=0
FAIRLEAD_HEADER_X_RE_GION=e u
FAIRLEAD_ID=i 1
FAIRLEAD_KEY=te nant=ü
FAIRLEAD_PRIORITY=2
FAIRLEAD_QUEUE=default
FAIRLEAD_SEQ=1
FAIRLEAD_TOKEN=token
`
	if strings.TrimLeft(got, "\n") != strings.TrimLeft(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestANulByteInAKeyIsToldInsteadOfChanged(t *testing.T) {
	agent := clienttest.New(t)
	agent.Put(0, "a\x00b", "x")
	j := start(t, agent, "exit 0", func(o *Options) { o.MaxMessages = 1 })
	if sum := j.wait(); sum.Nacked != 1 {
		t.Fatalf("got %+v", sum)
	}
	if got := agent.Settled()[0].Reason; !strings.Contains(got, "NUL") {
		t.Errorf("reason %q", got)
	}
}

func TestNoMoreThanConcurrencyRun(t *testing.T) {
	agent := clienttest.New(t)
	for range 30 {
		agent.Put(0, "k", "x")
	}
	dir := t.TempDir()
	// mkdir is atomic: each run takes one of three places, and fails if there is none.
	script := fmt.Sprintf(`for i in 1 2 3; do if mkdir %[1]s/$i 2>/dev/null; then sleep 0.01; rmdir %[1]s/$i; exit 0; fi; done; exit 1`, dir)
	j := start(t, agent, script, func(o *Options) { o.Concurrency = 3; o.ExitWhenEmpty = true })
	if sum := j.wait(); sum.Acked != 30 || sum.Nacked != 0 {
		t.Fatalf("got %+v: more than three ran at a time", sum)
	}
}

func TestItReallyRunsSeveralAtATime(t *testing.T) {
	agent := clienttest.New(t)
	for range 3 {
		agent.Put(0, "k", "x")
	}
	dir := t.TempDir()
	// Each waits for the two others.
	script := fmt.Sprintf(`touch %[1]s/$FAIRLEAD_SEQ; until [ $(ls %[1]s | wc -l) = 3 ]; do sleep 0.01; done`, dir)
	j := start(t, agent, script, func(o *Options) { o.Concurrency = 3; o.ExitWhenEmpty = true })
	if sum := j.wait(); sum.Acked != 3 {
		t.Fatalf("got %+v", sum)
	}
}

// What is tried again at once waits, although the pull that told so brought nothing.
func TestUntilEmptyWaitsForWhatWasJustGivenBack(t *testing.T) {
	agent := clienttest.New(t)
	agent.SettleLate = true
	agent.Put(0, "k", "x")
	j := start(t, agent, `[ "$FAIRLEAD_ATTEMPT" = 3 ]`, untilEmpty)
	if sum, want := j.wait(), (Summary{Acked: 1, Nacked: 2}); sum != want {
		t.Errorf("got %+v, want %+v", sum, want)
	}
}

func TestMaxMessages(t *testing.T) {
	agent := clienttest.New(t)
	for range 10 {
		agent.Put(0, "k", "x")
	}
	j := start(t, agent, "true", func(o *Options) { o.Concurrency = 4; o.MaxMessages = 6 })
	if sum := j.wait(); sum.Acked != 6 {
		t.Fatalf("got %+v", sum)
	}
	if waiting, inFlight := agent.Waiting(); waiting != 4 || inFlight != 0 {
		t.Errorf("%d wait and %d are in flight", waiting, inFlight)
	}
}

func TestEmptyAnswersDoNotCountAsMessages(t *testing.T) {
	agent := clienttest.New(t)
	agent.Put(0, "k", "1")
	j := start(t, agent, "true", func(o *Options) { o.MaxMessages = 2 })
	agent.Await(t, "the first ack", func() bool { return len(agent.Settled()) == 1 })
	before := agent.Requests()
	agent.Await(t, "an empty answer and another pull", func() bool { return agent.Requests() > before })
	agent.Put(0, "k", "2")
	if sum := j.wait(); sum.Acked != 2 {
		t.Fatalf("got %+v", sum)
	}
}

func TestChildrenOfACommandAreMeantToo(t *testing.T) {
	agent := clienttest.New(t)
	agent.Put(0, "k", "x")
	// The shell itself ignores SIGTERM, and ends when its child does.
	script := `sh -c 'trap "echo child ends; exit 0" TERM; echo "started $FAIRLEAD_TOKEN"; while :; do sleep 0.02; done' & trap "" TERM; wait`
	j := start(t, agent, script, func(o *Options) { o.MaxMessages = 1 })
	waitFor(t, "the command", func() bool { return strings.Contains(j.out.String(), "started") })
	begin := time.Now()
	agent.Revoke(strings.Fields(j.out.String())[1], "expired")
	j.wait()
	if !strings.Contains(j.out.String(), "child ends") || time.Since(begin) >= termGrace {
		t.Errorf("the child was not told: %q", j.out.String())
	}
}

func TestStopLetsTheRunningOnesFinish(t *testing.T) {
	agent := clienttest.New(t)
	agent.Put(0, "k", "1")
	agent.Put(0, "k", "2")
	gate := filepath.Join(t.TempDir(), "gate")
	j := start(t, agent, `echo started; until [ -e `+gate+` ]; do sleep 0.01; done; echo finished`, nil)
	waitFor(t, "the command", func() bool { return strings.Contains(j.out.String(), "started") })
	j.stop()
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if sum := j.wait(); sum.Acked != 1 || j.err != nil {
		t.Fatalf("got %+v, %v", sum, j.err)
	}
	if got := j.out.String(); got != "started\nfinished\n" {
		t.Errorf("output %q: the second message must not be touched", got)
	}
	if waiting, _ := agent.Waiting(); waiting != 1 {
		t.Errorf("%d wait, want 1", waiting)
	}
}

func TestKillGivesBack(t *testing.T) {
	agent := clienttest.New(t)
	agent.Put(0, "k", "x")
	// It ignores SIGTERM, and so does its child.
	j := start(t, agent, `trap "" TERM; echo started; while :; do sleep 0.05; done`, nil)
	waitFor(t, "the command", func() bool { return strings.Contains(j.out.String(), "started") })
	j.stop()
	j.kill()
	if sum := j.wait(); sum != (Summary{Killed: 1}) {
		t.Fatalf("got %+v", sum)
	}
	agent.Await(t, "the message", func() bool { waiting, _ := agent.Waiting(); return waiting == 1 })
}

func TestLongCommandsKeepTheirMessage(t *testing.T) {
	agent := clienttest.New(t)
	agent.Put(0, "k", "x")
	gate := filepath.Join(t.TempDir(), "gate")
	j := start(t, agent, `until [ -e `+gate+` ]; do sleep 0.01; done`, func(o *Options) { o.Lease = 30 * time.Millisecond; o.MaxMessages = 1 })
	agent.Await(t, "three extensions", func() bool {
		n := 0
		for _, s := range agent.Settled() {
			if s.Result == api.Extend {
				n++
			}
		}
		return n >= 3
	})
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if sum := j.wait(); sum.Acked != 1 {
		t.Fatalf("got %+v", sum)
	}
}

func TestARevokedCommandGetsSIGTERMAndNoSettlement(t *testing.T) {
	agent := clienttest.New(t)
	agent.Put(0, "k", "x")
	j := start(t, agent, `trap "echo term; exit 0" TERM; echo "started $FAIRLEAD_TOKEN"; while :; do sleep 0.02; done`,
		func(o *Options) { o.MaxMessages = 1 })
	waitFor(t, "the command", func() bool { return strings.Contains(j.out.String(), "started") })
	agent.Revoke(strings.Fields(j.out.String())[1], "expired")
	if sum := j.wait(); sum != (Summary{Lost: 1}) {
		t.Fatalf("got %+v", sum)
	}
	if !strings.Contains(j.out.String(), "term") {
		t.Errorf("no SIGTERM: %q", j.out.String())
	}
	if settled := agent.Settled(); len(settled) != 0 {
		t.Errorf("settled %+v", settled)
	}
}

func TestItSurvivesAnAgentThatGoesAway(t *testing.T) {
	dir, err := os.MkdirTemp("", "fl")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	first, err := clienttest.Start(path)
	if err != nil {
		t.Fatal(err)
	}
	first.Put(0, "k", "1")
	j := start(t, first, "cat", func(o *Options) { o.Concurrency = 2 })
	first.Await(t, "the first ack", func() bool { return len(first.Settled()) == 1 })
	waitFor(t, "the worker to hear of it", func() bool {
		acked := 0
		j.worker.tally(func(s *Summary) { acked = s.Acked })
		return acked == 1
	})
	first.Stop()
	waitFor(t, "the worker to notice", func() bool { return strings.Contains(j.errs.String(), "trying again") })
	second, err := clienttest.Start(path)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Stop()
	second.Put(0, "k", "2")
	second.Await(t, "the second ack", func() bool { return len(second.Settled()) == 1 })
	j.stop()
	if sum := j.wait(); sum != (Summary{Acked: 2}) || j.out.String() != "12" {
		t.Fatalf("got %+v, output %q", sum, j.out.String())
	}
	if n := strings.Count(j.errs.String(), "trying again"); n > 2 {
		t.Errorf("the outage was logged %d times:\n%s", n, j.errs.String())
	}
	if !strings.Contains(j.errs.String(), "answers again") {
		t.Errorf("its end was not logged:\n%s", j.errs.String())
	}
}

func TestTheBrokerIsAwayForAWhile(t *testing.T) {
	agent := clienttest.New(t)
	agent.Put(0, "k", "x")
	gate := filepath.Join(t.TempDir(), "gate")
	j := start(t, agent, `echo started; until [ -e `+gate+` ]; do sleep 0.01; done`, nil)
	waitFor(t, "the command", func() bool { return strings.Contains(j.out.String(), "started") })
	agent.Break(&api.Error{Code: api.CodeBroker, Message: "no NATS"})
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the worker to notice", func() bool { return strings.Contains(j.errs.String(), "no NATS; trying again") })
	agent.Break(nil)
	agent.Await(t, "the ack", func() bool { return len(agent.Settled()) == 1 })
	j.stop()
	if sum := j.wait(); sum != (Summary{Acked: 1}) {
		t.Fatalf("got %+v", sum)
	}
}

func TestErrorsThatNothingMends(t *testing.T) {
	agent := clienttest.New(t)
	j := start(t, agent, "true", func(o *Options) { o.Capsule = "none"; o.Concurrency = 3 })
	j.wait()
	var answered *api.Error
	if !errors.As(j.err, &answered) || answered.Code != api.CodeUnknownCapsule {
		t.Errorf("got %v, want unknown_capsule", j.err)
	}
	agent.Stop()
	j = start(t, agent, "true", nil)
	j.wait()
	if !errors.Is(j.err, client.ErrNoAgent) {
		t.Errorf("got %v, want ErrNoAgent", j.err)
	}
	if _, err := New(Options{Command: []string{"/no/such/command"}}); !errors.Is(err, ErrCommand) {
		t.Errorf("got %v, want ErrCommand", err)
	}
}

func TestADrainingAgentIsNotAnEmptyOne(t *testing.T) {
	agent := clienttest.New(t)
	agent.Put(0, "k", "x")
	agent.Drain()
	j := start(t, agent, "true", untilEmpty)
	before := agent.Requests()
	agent.Await(t, "some pulls", func() bool { return agent.Requests() > before+5 })
	select {
	case <-j.done:
		t.Fatal("it ended although a message waits")
	default:
	}
	j.stop()
	j.wait()
}

func TestWhatACommandLeavesRunningIsNotWaitedFor(t *testing.T) {
	agent := clienttest.New(t)
	agent.Put(0, "k", "x")
	begin := time.Now()
	j := start(t, agent, "sleep 60 & exit 0", untilEmpty)
	if sum := j.wait(); sum.Acked != 1 {
		t.Fatalf("got %+v", sum)
	}
	if took := time.Since(begin); took > 15*time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestTheReasonIsOneBoundedLineOfText(t *testing.T) {
	agent := clienttest.New(t)
	agent.Put(0, "k", "x")
	j := start(t, agent, `head -c 100000 /dev/zero | tr '\0' 'x' >&2; echo >&2; printf 'last \377 words' >&2; exit 1`, func(o *Options) { o.MaxMessages = 1 })
	j.wait()
	got := agent.Settled()[0].Reason
	if len(got) > maxReason || !strings.HasPrefix(got, "exit status 1: ") || !strings.HasSuffix(got, "last \uFFFD words") {
		t.Errorf("reason %q", got)
	}
}

func TestABigPayloadThatNobodyReads(t *testing.T) {
	agent := clienttest.New(t)
	agent.Put(0, "k", strings.Repeat("x", 1<<20))
	if sum := start(t, agent, "exit 0", untilEmpty).wait(); sum.Acked != 1 {
		t.Fatalf("got %+v", sum)
	}
}

// waitFor waits for what no agent can tell: the output of a command.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for tick := time.NewTicker(5 * time.Millisecond); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("waited too long for %s", what)
		}
	}
}
