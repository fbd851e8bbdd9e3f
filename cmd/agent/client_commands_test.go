package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/client/clienttest"
)

func TestPublishAndPull(t *testing.T) {
	agent := clienttest.New(t)
	s := newShell(t, agent)
	out := s.must(0, "publish", "default", "--priority", "high", "--key", "ac me", "--id", "i-1", "--header", "X-Region=e=u", "--content-type", "text/plain", "hello")
	if out != `{"queue":"default","priority":0,"key":"ac me","seq":1,"duplicate":false}`+"\n" {
		t.Errorf("publish: %s", out)
	}
	if out := s.must(0, "publish", "default", "--key", "ac me", "--id", "i-1", "hello"); !strings.Contains(out, `"duplicate":true`) {
		t.Errorf("again: %s", out)
	}
	out = s.must(0, "pull", "default", "--max", "5")
	if strings.Count(out, "\n") != 1 {
		t.Fatalf("pull: %q", out)
	}
	var d api.Delivery
	if err := json.Unmarshal([]byte(out), &d); err != nil || *d.Data != "hello" || d.Key != "ac me" || d.Headers["x-region"] != "e=u" || d.ContentType != "text/plain" {
		t.Errorf("pull: %s, %v", out, err)
	}
	if _, inFlight := agent.Waiting(); inFlight != 1 {
		t.Error("without --ack it has to stay in this app's hands")
	}
	if out := s.must(0, "pull", "default"); out != "" {
		t.Errorf("nothing waits, but: %s", out)
	}
}

func TestPublishFromStdin(t *testing.T) {
	for _, args := range [][]string{{"publish", "default"}, {"publish", "default", "-"}} {
		agent := clienttest.New(t)
		s := newShell(t, agent)
		s.app.in = strings.NewReader("a\x00\xff\n")
		s.must(0, args...)
		out := s.must(0, "pull", "default", "--ack")
		if !strings.Contains(out, `"data_base64":"YQD/Cg=="`) || strings.Contains(out, `"data":`) {
			t.Errorf("%s", out)
		}
		if waiting, inFlight := agent.Waiting(); waiting+inFlight != 0 {
			t.Error("not acknowledged")
		}
	}
}

func TestPublishWhatTheAgentRefuses(t *testing.T) {
	s := newShell(t, clienttest.New(t))
	s.must(exitFailure, "publish", "default", "--priority", "urgent", "x")
	if errs := s.errs.String(); errs != "fairlead: priority_out_of_range: no level is called \"urgent\"\n" {
		t.Errorf("stderr: %s", errs)
	}
	s.must(exitFailure, "publish", "none", "x")
	s.must(exitFailure, "pull", "none")
}

func TestPublishBatch(t *testing.T) {
	agent := clienttest.New(t)
	s := newShell(t, agent)
	path := filepath.Join(t.TempDir(), "batch.ndjson")
	lines := `{"data":"a","id":"1"}
{"data":"b","id":"1"}

{"data":"c","priority":"none"}
{"data":
{"data":{"n":1},"priority":2,"key":"k"}
`
	if err := os.WriteFile(path, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	out := s.must(exitFailure, "publish", "default", "--batch", path)
	if out != `{"stored":2,"duplicates":1,"failed":2}`+"\n" {
		t.Errorf("stdout: %s", out)
	}
	errs := s.errs.String()
	if !strings.HasPrefix(errs, "fairlead: line 4: priority_out_of_range: ") || !strings.Contains(errs, "\nfairlead: line 5: bad_request: ") || strings.Count(errs, "\n") != 2 {
		t.Errorf("stderr: %s", errs)
	}
	s.app.in = strings.NewReader(`{"data":"x"}`)
	if out := s.must(0, "publish", "default", "--batch", "-"); out != `{"stored":1,"duplicates":0,"failed":0}`+"\n" || s.errs.String() != "" {
		t.Errorf("stdout: %s, stderr: %s", out, s.errs.String())
	}
	s.must(exitFailure, "publish", "default", "--batch", path+".none")
}

func TestPullAcknowledgesOnlyWhatWasPrinted(t *testing.T) {
	agent := clienttest.New(t)
	agent.Put(0, "k", "1")
	agent.Put(0, "k", "2")
	s := newShell(t, agent)
	s.app.out = &failAfter{left: 1}
	if code := s.run("pull", "default", "--max", "2", "--ack"); code != exitFailure {
		t.Errorf("exit code %d", code)
	}
	settled := agent.Settled()
	if len(settled) != 2 || settled[0].Result != api.Ack || settled[1].Result != api.Nack || settled[1].Delay != "0s" {
		t.Errorf("settled %+v", settled)
	}
}

// What could not be printed is of no use to anybody until its lease ends.
func TestPullGivesBackWhatWasNotPrinted(t *testing.T) {
	agent := clienttest.New(t)
	agent.Put(0, "k", "1")
	agent.Put(0, "k", "2")
	s := newShell(t, agent)
	s.app.out = &failAfter{left: 1}
	if code := s.run("pull", "default", "--max", "2"); code != exitFailure {
		t.Errorf("exit code %d", code)
	}
	if waiting, inFlight := agent.Waiting(); waiting != 1 || inFlight != 1 {
		t.Errorf("%d wait, %d are in flight", waiting, inFlight)
	}
}

// failAfter fails once left writes were made.
type failAfter struct{ left int }

func (f *failAfter) Write(p []byte) (int, error) {
	if f.left--; f.left < 0 {
		return 0, syscall.EPIPE
	}
	return len(p), nil
}

func TestTables(t *testing.T) {
	agent := clienttest.New(t)
	for i := range 12 {
		agent.Put(i%3, []string{"acme", "glo\x1b[31mbex"}[i%2], "job\n\x1b[2J"+strings.Repeat("é", 70))
	}
	agent.Put(1, "", "unkeyed")
	s := newShell(t, agent)
	s.must(0, "pull", "default", "--max", "2")
	golden(t, "status.txt", s.must(0, "status"))
	golden(t, "queues.txt", s.must(0, "queues"))
	golden(t, "queue.txt", s.must(0, "queues", "default", "--keys", "2"))
	if out := s.must(0, "peek", "default", "--max", "3"); strings.Count(out, "\n") != 4 || !strings.Contains(out, `job\n\x1b[2Jééé`) {
		t.Errorf("peek:\n%s", out)
	}
	if out := s.must(0, "peek", "default", "--key", ""); strings.Count(out, "\n") != 2 || !strings.HasSuffix(out, "  unkeyed\n") {
		t.Errorf("peek --key '':\n%s", out)
	}
	for _, args := range [][]string{{"status"}, {"queues"}, {"queues", "default"}, {"peek", "default", "--priority", "low"}} {
		out := s.must(0, append(args, "-o", "json")...)
		if !json.Valid([]byte(out)) {
			t.Errorf("%v: not JSON: %s", args, out)
		}
		if strings.Contains(s.must(0, args...), "\x1b") {
			t.Errorf("%v: an escape sequence came through", args)
		}
	}
	s.must(exitFailure, "queues", "none")
	s.must(exitFailure, "peek", "none")
}

func TestPeekTable(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	text := "job\n" + strings.Repeat("é", 70)
	list := &api.PeekList{Messages: []api.Peeked{
		{Priority: 0, Key: "acme", Seq: 1764417600000017, ID: "order-17", EnqueuedAt: now.Add(-1500 * time.Millisecond), Data: &text},
		{Priority: 12, Seq: 18, EnqueuedAt: now.Add(-50 * time.Hour), DataBase64: []byte{0, 255}},
		{Priority: 2, Key: "a\tb", Seq: 19, EnqueuedAt: now.Add(time.Hour), Data: new(string)},
	}}
	var out safeBuffer
	if err := printPeeked(&out, list, now); err != nil {
		t.Fatal(err)
	}
	golden(t, "peek.txt", out.String())
}

func TestDrain(t *testing.T) {
	agent := clienttest.New(t)
	agent.Put(0, "k", "x")
	s := newShell(t, agent)
	var d api.Delivery
	if err := json.Unmarshal([]byte(s.must(0, "pull", "default")), &d); err != nil {
		t.Fatal(err)
	}
	if out := s.must(0, "drain", "--wait", "0s"); out != "draining\n" {
		t.Errorf("got %q", out)
	}
	s.must(exitFailure, "drain", "--wait", "1ms")
	if errs := s.errs.String(); !strings.Contains(errs, "still draining") {
		t.Errorf("stderr: %s", errs)
	}
	if out := s.must(0, "health"); out != "healthy, draining\n" {
		t.Errorf("health: %q", out)
	}
}

func TestDrainAsksTheSocketBeside(t *testing.T) {
	agent := clienttest.New(t)
	s := newShell(t, agent)
	delete(s.env, "FAIRLEAD_ADMIN_SOCKET")
	beside := filepath.Join(filepath.Dir(agent.Socket), "admin.sock")
	admin, err := clienttest.Start(beside)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Stop()
	if out := s.must(0, "drain"); out != "drained\n" {
		t.Errorf("got %q", out)
	}
	if agent.Requests() != 0 || admin.Requests() != 1 {
		t.Errorf("%d requests to the app's socket, %d to the admin's", agent.Requests(), admin.Requests())
	}
	s.must(0, "drain", "--admin-socket", "unix://"+agent.Socket)
	if agent.Requests() != 1 {
		t.Error("--admin-socket was ignored")
	}
}

func TestHealthAndWait(t *testing.T) {
	agent := clienttest.New(t)
	s := newShell(t, agent)
	if out := s.must(0, "health"); out != "healthy\n" {
		t.Errorf("got %q", out)
	}
	s.must(0, "wait")
	agent.Break(&api.Error{Code: api.CodeBroker, Message: "NATS is away"})
	s.must(exitUnavailable, "health")
	if errs := s.errs.String(); !strings.Contains(errs, "its broker is away") {
		t.Errorf("stderr: %s", errs)
	}
	s.must(0, "wait") // the socket answers
	s.must(exitUnavailable, "publish", "default", "x")
	s.must(exitUnavailable, "pull", "default")
}

func TestWork(t *testing.T) {
	agent := clienttest.New(t)
	for range 5 {
		agent.Put(0, "acme", "x")
	}
	s := newShell(t, agent)
	out := s.must(0, "work", "default", "--concurrency", "2", "--exit-when-empty", "--", "sh", "-c", `echo "$FAIRLEAD_KEY $1"`, "sh", "--not-a-flag")
	if out != strings.Repeat("acme --not-a-flag\n", 5) {
		t.Errorf("stdout: %s", out)
	}
	if errs := s.errs.String(); !strings.HasPrefix(errs, "fairlead: work: 5 messages: 5 acked, 0 nacked, 0 lost, 0 killed in ") {
		t.Errorf("stderr: %s", errs)
	}
	s.must(exitFailure, "work", "none", "--", "true")
}

func TestWorkAndSignals(t *testing.T) {
	agent := clienttest.New(t)
	agent.Put(0, "k", "x")
	s := newShell(t, agent)
	code := make(chan int, 1)
	go func() { code <- s.run("work", "default", "--", "sh", "-c", "echo started; sleep 60") }()
	waitFor(t, "the command", func() bool { return strings.Contains(s.out.String(), "started") })
	s.signals <- syscall.SIGHUP // of no meaning here
	s.signals <- syscall.SIGTERM
	s.signals <- syscall.SIGTERM // an echo, as timeout(1) makes it, is no second request
	select {
	case got := <-code:
		t.Fatalf("it ended with exit code %d, and did not wait for the command", got)
	case <-time.After(2 * echo): // a request comes later than an echo
	}
	s.signals <- syscall.SIGTERM
	if got := <-code; got != exitFailure {
		t.Errorf("exit code %d", got)
	}
	if errs := s.errs.String(); !strings.Contains(errs, "1 killed") {
		t.Errorf("stderr: %s", errs)
	}

	s = newShell(t, agent)
	agent.Await(t, "the message", func() bool { waiting, _ := agent.Waiting(); return waiting == 1 })
	go func() { code <- s.run("work", "default", "--", "sh", "-c", "echo started; sleep 0.1") }()
	waitFor(t, "the command", func() bool { return strings.Contains(s.out.String(), "started") })
	s.signals <- syscall.SIGINT
	if got := <-code; got != 0 {
		t.Errorf("exit code %d", got)
	}
}
