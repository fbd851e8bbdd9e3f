package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/client"
)

// operator is a client of the admin socket.
func (a *agent) operator() *client.Client {
	c := client.New(a.admin)
	a.t.Cleanup(c.Close)
	return c
}

// dead lists a queue's dead letters.
func (a *agent) dead(queue string) []api.DeadLetter {
	a.t.Helper()
	list, err := a.operator().Dead(a.t.Context(), queue, 1000)
	if err != nil {
		a.t.Fatal(err)
	}
	return list.Dead
}

// awaitDead waits until a queue has n dead letters.
func (a *agent) awaitDead(queue string, n int) []api.DeadLetter {
	a.t.Helper()
	var list []api.DeadLetter
	eventually(a.t, fmt.Sprintf("%s has %d dead letters", queue, n), patience, func() bool {
		list = a.dead(queue)
		return len(list) >= n
	})
	if len(list) != n {
		a.t.Fatalf("%d dead letters, want %d", len(list), n)
	}
	return list
}

const threeAttempts = `
queues:
  - name: jobs
    priority_levels: 3
    fair_share: true
    ack_wait: 1s
    retry: {max_attempts: 3, backoff: [200ms, 400ms], jitter: 0}
    dead_letters: {retry_priority: 2}
capsules: [{name: main, queues: [jobs], concurrency: 10}]
`

// Three attempts, 200 and 400 ms apart, and then one dead letter with all that the message had. Tried again twice, one copy
// comes.
func TestAFailingMessageEndsInTheDeadLetters(t *testing.T) {
	t.Parallel()
	a := startAgent(t, settings{yaml: threeAttempts})
	payload := make([]byte, 16<<10)
	random := rand.New(rand.NewPCG(17, 4))
	for i := range payload {
		payload[i] = byte(random.Uint32())
	}
	sent := a.publish("jobs", string(payload),
		api.HeaderPriority, "0", api.HeaderKey, "ac.me%20%E2%98%83", api.HeaderWeight, "2.5", api.HeaderID, "order-17", "Content-Type", "image/png",
		"traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", api.HeaderPrefix+"X-Shop", "17 ü")
	headers := map[string]string{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "x-shop": "17 ü"}
	app := a.app("main")
	var nacked time.Time
	for attempt := 1; attempt <= 3; attempt++ {
		got := app.pull(1, patience)
		if len(got) != 1 || got[0].Attempt != attempt {
			t.Fatalf("attempt %d: %+v", attempt, got)
		}
		if waited, least := time.Since(nacked), []time.Duration{0, 200, 400}[attempt-1]*time.Millisecond; attempt > 1 && (waited < least || waited > least+3*time.Second) {
			t.Errorf("attempt %d came after %v, want %v", attempt, waited, least)
		}
		nacked = time.Now()
		equal(t, "nack", a.say(got[0], api.Settlement{Result: api.Nack, Reason: fmt.Sprintf("boom %d", attempt)}), api.StatusOK)
	}
	// The last nack was answered after the move: it is there now, and out of the queue.
	list := a.dead("jobs")
	if len(list) != 1 {
		t.Fatalf("%d dead letters", len(list))
	}
	check := func(what string, d api.DeadLetter) {
		t.Helper()
		if d.Queue != "jobs" || d.Seq != sent.Seq || d.Priority != 0 || d.Unprioritised || d.Key != "ac.me ☃" || d.Reason != "max_attempts" || d.Attempts != 3 ||
			d.LastError != "boom 3" || d.ID != "order-17" || d.Weight != 2.5 || d.ContentType != "image/png" || !maps.Equal(d.Headers, headers) ||
			d.Size != 16<<10 || d.EnqueuedAt.IsZero() || d.DiedAt.Before(d.EnqueuedAt.Add(600*time.Millisecond)) {
			t.Errorf("%s: %+v", what, d)
		}
	}
	check("listed", list[0])
	d, err := a.operator().DeadLetter(t.Context(), "jobs", sent.Seq)
	if err != nil || !bytes.Equal(d.Payload(), payload) {
		t.Fatalf("%v, %d bytes", err, len(d.Payload()))
	}
	check("shown", *d)
	if q := a.queue("jobs"); q.Dead != 1 || q.Waiting+q.InFlight+q.Delayed != 0 {
		t.Errorf("the queue has %+v", q.QueueSummary)
	}
	seq := strconv.FormatUint(sent.Seq, 10)
	out, _, code := command(t, a, "dead", "show", "jobs", seq, "--data")
	if code != 0 || out != string(payload) {
		t.Errorf("dead show --data: exit code %d, %d bytes", code, len(out))
	}

	var wg sync.WaitGroup // at the same time, and then once more
	for range 2 {
		wg.Go(func() { _, _, _ = command(t, a, "dead", "retry", "jobs", seq) })
	}
	wg.Wait()
	if _, errs, code := command(t, a, "dead", "retry", "jobs", seq); code != 1 || !strings.Contains(errs, "no dead letter "+seq) {
		t.Errorf("a third time: exit code %d, %s", code, errs)
	}
	again := app.take(1, 10)[0]
	if again.Seq == sent.Seq || again.Attempt != 1 || again.Priority != 2 || again.Key != "ac.me ☃" || again.ID != "order-17" ||
		again.ContentType != "image/png" || !maps.Equal(again.Headers, headers) || !bytes.Equal(again.Payload(), payload) {
		t.Errorf("the copy: seq %d, attempt %d, priority %d, key %q, %v, %d bytes", again.Seq, again.Attempt, again.Priority, again.Key, again.Headers, len(again.Payload()))
	}
	app.empty()
	equal(t, "dead letters left", len(a.dead("jobs")), 0)
}

// A handler that hangs each time uses up the attempts as well.
func TestAHangingHandlerEndsInTheDeadLetters(t *testing.T) {
	t.Parallel()
	a := startAgent(t, settings{yaml: threeAttempts})
	sent := a.publish("jobs", "hang", api.HeaderKey, "k")
	app := a.app("main")
	app.query = "&lease=150ms"
	for attempt := 1; attempt <= 3; attempt++ {
		if got := app.pull(1, patience); len(got) != 1 || got[0].Attempt != attempt {
			t.Fatalf("attempt %d: %+v", attempt, got)
		}
	}
	d := a.awaitDead("jobs", 1)[0]
	if d.Seq != sent.Seq || d.Reason != "max_attempts" || d.Attempts != 3 || d.LastError != "the lease expired" || d.Key != "k" || !d.Unprioritised || d.Priority != 1 {
		t.Errorf("%+v", d)
	}
	app.empty()
}

// In an ordered queue a failing message holds its lane, until it is a dead letter; then the others follow in order.
func TestAFailingHeadOfAnOrderedQueueDies(t *testing.T) {
	t.Parallel()
	a := startAgent(t, settings{yaml: strings.Replace(threeAttempts, "fair_share: true", "single_active_consumer: true", 1)})
	a.batch("jobs", note{Data: "poison"}, note{Data: "a"}, note{Data: "b"}, note{Data: "rejected"}, note{Data: "c"})
	app := a.app("main")
	var order []string
	for len(order) < 7 {
		for _, d := range app.pull(1, patience) {
			text := string(d.Payload())
			order = append(order, fmt.Sprint(text, d.Attempt))
			how := api.Settlement{Result: api.Ack}
			switch text {
			case "poison":
				how.Result = api.Nack
			case "rejected":
				how.Result = api.Reject
			}
			equal(t, text, a.say(d, how), api.StatusOK)
		}
	}
	equal(t, "order", strings.Join(order, " "), "poison1 poison2 poison3 a1 b1 rejected1 c1")
	equal(t, "dead letters", len(a.dead("jobs")), 2)
	app.empty()
}

// A reject moves at once, and `nats` sees the dead letter where the documentation says.
func TestRejectAndTheCommands(t *testing.T) {
	t.Parallel()
	server := startNATS(t)
	a := startAgent(t, settings{nats: server.url, yaml: threeAttempts})
	var seqs []string
	app := a.app("main")
	for i, priority := range []string{"0", "1", ""} {
		var headers []string
		if priority != "" {
			headers = []string{api.HeaderPriority, priority}
		}
		seqs = append(seqs, strconv.FormatUint(a.publish("jobs", fmt.Sprintf("line 1\nmessage %d", i), append(headers, api.HeaderKey, "acme")...).Seq, 10))
		d := app.pull(1, patience)
		equal(t, "reject", a.say(d[0], api.Settlement{Result: api.Reject, Reason: "bad \x1b[2J data"}), api.StatusOK)
	}
	equal(t, "subjects", strings.Join(server.subjects("FL_DEAD_jobs"), " "),
		fmt.Sprintf("fl.dead.jobs.d.acme.%s fl.dead.jobs.p0.acme.%s fl.dead.jobs.p1.acme.%s", seqs[2], seqs[0], seqs[1]))

	out, _, code := command(t, a, "dead", "list", "jobs")
	if code != 0 || !strings.Contains(out, "rejected") || strings.Count(out, "\n") != 4 || strings.Contains(out, "\x1b") {
		t.Errorf("dead list: exit code %d\n%s", code, out)
	}
	out, _, _ = command(t, a, "dead", "list", "jobs", "--max", "1")
	if !strings.Contains(out, seqs[0]) || !strings.Contains(out, "and 2 more") {
		t.Errorf("dead list --max 1:\n%s", out)
	}
	var list api.DeadList
	out, _, _ = command(t, a, "dead", "list", "jobs", "-o", "json")
	if err := json.Unmarshal([]byte(out), &list); err != nil || len(list.Dead) != 3 || list.Total != 3 || list.Dead[0].LastError != "bad \x1b[2J data" {
		t.Errorf("dead list -o json: %v\n%s", err, out)
	}
	out, _, _ = command(t, a, "dead", "show", "jobs", seqs[2])
	for _, want := range []string{"rejected", "published without a priority", "acme", "\nline 1\nmessage 2\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("dead show has no %q:\n%s", want, out)
		}
	}
	if out, _, _ = command(t, a, "queues"); !strings.Contains(out, "DEAD") || !strings.Contains(out, " 3 ") {
		t.Errorf("queues:\n%s", out)
	}

	// One to a level of its own, the others to the queue's retry_priority.
	out, _, code = command(t, a, "dead", "retry", "jobs", seqs[1], "--priority", "0")
	equal(t, "dead retry", fmt.Sprint(code, " ", out), "0 {\"retried\":1,\"failed\":0}\n")
	out, _, code = command(t, a, "dead", "retry", "jobs", "--all")
	equal(t, "dead retry --all", fmt.Sprint(code, " ", out), "0 {\"retried\":2,\"failed\":0}\n")
	got := app.take(3, 3)
	for i, want := range []struct {
		text  string
		level int
	}{{"message 1", 0}, {"message 0", 2}, {"message 2", 2}} {
		if !strings.HasSuffix(string(got[i].Payload()), want.text) || got[i].Priority != want.level || got[i].Attempt != 1 {
			t.Errorf("%d: %s at level %d, attempt %d; want %s at %d", i, got[i].Payload(), got[i].Priority, got[i].Attempt, want.text, want.level)
		}
	}

	a.publish("jobs", "x")
	equal(t, "reject", a.say(app.pull(1, patience)[0], api.Settlement{Result: api.Reject}), api.StatusOK)
	out, _, code = command(t, a, "dead", "purge", "jobs")
	equal(t, "dead purge", fmt.Sprint(code, " ", out), "0 {\"purged\":1}\n")
	equal(t, "dead letters", len(a.dead("jobs")), 0)
	if _, errs, code := command(t, a, "dead", "list", "nope"); code != 1 || !strings.Contains(errs, "unknown_queue") {
		t.Errorf("dead list nope: %d %s", code, errs)
	}
}

// A full queue is told, and what does not fit stays a dead letter.
func TestRetryIntoAFullQueueIsTold(t *testing.T) {
	t.Parallel()
	a := startAgent(t, settings{yaml: `
queues: [{name: jobs, limits: {max_messages: 3}}]
capsules: [{name: main, queues: [jobs], concurrency: 10}]
`})
	app := a.app("main")
	for i := range 5 {
		a.publish("jobs", fmt.Sprint("dead", i))
		equal(t, "reject", a.say(app.pull(1, patience)[0], api.Settlement{Result: api.Reject}), api.StatusOK)
	}
	a.publish("jobs", "waits")
	out, errs, code := command(t, a, "dead", "retry", "jobs", "--all")
	if code != 1 || out != "{\"retried\":2,\"failed\":1}\n" || !strings.Contains(errs, "queue_full") {
		t.Errorf("exit code %d, %s%s", code, out, errs)
	}
	if left := a.dead("jobs"); len(left) != 3 {
		t.Fatalf("%d dead letters are left, want 3", len(left))
	}
	// By number, all in one call: each is told for itself.
	var seqs []string
	for _, d := range a.dead("jobs") {
		seqs = append(seqs, strconv.FormatUint(d.Seq, 10))
	}
	_, errs, code = command(t, a, append([]string{"dead", "retry", "jobs"}, seqs...)...)
	if code != 1 || !strings.Contains(errs, "queue_full") {
		t.Errorf("exit code %d, %s", code, errs)
	}
	equal(t, "what is in the queue", strings.Join(data(app.take(3, 3)), " "), "waits dead0 dead1")
	out, _, code = command(t, a, "dead", "retry", "jobs", "--all")
	equal(t, "with room", fmt.Sprint(code, " ", out), "0 {\"retried\":3,\"failed\":0}\n")
	equal(t, "the rest", strings.Join(data(app.take(3, 3)), " "), "dead2 dead3 dead4")
}

// All that were there are put back once: what dies again at once does not keep it from ending.
func TestRetryOfAllEnds(t *testing.T) {
	t.Parallel()
	a := startAgent(t, settings{yaml: `
queues: [{name: jobs}]
capsules: [{name: main, queues: [jobs], concurrency: 10}]
`})
	app := a.app("main")
	for range 5 {
		a.publish("jobs", "poison")
		equal(t, "reject", a.say(app.pull(1, patience)[0], api.Settlement{Result: api.Reject}), api.StatusOK)
	}
	r, looked := api.DeadRetry{All: true, Max: 2}, 0
	for call := 0; ; call++ {
		done, err := a.operator().RetryDead(t.Context(), "jobs", r)
		if err != nil {
			t.Fatal(err)
		}
		looked += done.Retried
		for range done.Retried { // dead again before the next call
			equal(t, "reject", a.say(app.pull(1, patience)[0], api.Settlement{Result: api.Reject}), api.StatusOK)
		}
		if r.From, r.Until = done.Next, done.Until; r.From == 0 {
			break
		}
		if call > 5 {
			t.Fatal("it does not end")
		}
	}
	equal(t, "put back", looked, 5)
	equal(t, "dead letters", len(a.dead("jobs")), 5)
}

// Without dead letters, what is given up is dropped; the definition in force decides, while the agent runs.
func TestDeadLettersSwitchedOff(t *testing.T) {
	t.Parallel()
	a := startAgent(t, settings{yaml: `
queues: [{name: jobs, retry: {max_attempts: 1}, dead_letters: {enabled: true}}]
capsules: [{name: main, queues: [jobs], concurrency: 10}]
`})
	app := a.app("main")
	lose := func(text string, how api.Result) {
		t.Helper()
		a.publish("jobs", text)
		equal(t, string(how), a.say(app.pull(1, patience)[0], api.Settlement{Result: how}), api.StatusOK)
		if q := a.queue("jobs"); q.Waiting+q.InFlight+q.Delayed != 0 {
			t.Errorf("after the %s the queue has %+v", how, q.QueueSummary)
		}
	}
	lose("kept", api.Nack)
	equal(t, "dead letters", len(a.dead("jobs")), 1)
	a.reload("enabled: true", "enabled: false", "reloaded")
	eventually(t, "they are switched off", patience, func() bool {
		text, _ := json.Marshal(a.queue("jobs").Definition)
		return strings.Contains(string(text), `"dead_letters":{"enabled":false`)
	})
	lose("dropped", api.Nack)
	lose("dropped too", api.Reject)
	equal(t, "dead letters", len(a.dead("jobs")), 1)
	a.reload("max_attempts: 1", "max_attempts: 0", "reloaded")
	eventually(t, "nothing is given up", patience, func() bool {
		text, _ := json.Marshal(a.queue("jobs").Definition)
		return strings.Contains(string(text), `"max_attempts":0`)
	})
	a.publish("jobs", "for ever")
	for attempt := 1; attempt < 10; attempt++ {
		d := app.pull(1, patience)
		equal(t, "attempt", d[0].Attempt, attempt)
		equal(t, "nack", a.say(d[0], api.Settlement{Result: api.Nack, Delay: "0s"}), api.StatusOK)
	}
}

// What was compressed on its way is shown, and comes again, as it was published.
func TestCompressedPayloadsDieAndComeBack(t *testing.T) {
	t.Parallel()
	a := startAgent(t, settings{yaml: `
queues: [{name: jobs, compress: {min_bytes: 10}}]
capsules: [{name: main, queues: [jobs], concurrency: 10}]
`})
	text := strings.Repeat("compress me ", 1000)
	sent := a.publish("jobs", text)
	app := a.app("main")
	equal(t, "reject", a.say(app.pull(1, patience)[0], api.Settlement{Result: api.Reject}), api.StatusOK)
	d, err := a.operator().DeadLetter(t.Context(), "jobs", sent.Seq)
	if err != nil || string(d.Payload()) != text || d.Size != int64(len(text)) || len(d.Headers) != 0 {
		t.Fatalf("%v, %d bytes, size %d, %v", err, len(d.Payload()), d.Size, d.Headers)
	}
	equal(t, "size in the list", a.dead("jobs")[0].Size, int64(len(text)))
	if _, errs, code := command(t, a, "dead", "retry", "jobs", "--all"); code != 0 {
		t.Fatal(errs)
	}
	equal(t, "the copy", string(app.take(1, 1)[0].Payload()) == text, true)
}
