package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/fairlead/fairlead/agent/api"
)

// A message that takes its agent down each time is handed out max_attempts times, whoever runs it.
func TestAMessageThatKillsItsAgents(t *testing.T) {
	t.Parallel()
	t.Run("many consumers", func(t *testing.T) { t.Parallel(); killAgents(t, threeAttempts) })
	t.Run("single active consumer", func(t *testing.T) {
		t.Parallel()
		killAgents(t, "coordination: {lease_ttl: 2s, heartbeat_interval: 500ms, stale_after: 2s}"+
			strings.NewReplacer("fair_share: true", "single_active_consumer: true", "ack_wait: 1s", "ack_wait: 2s").Replace(threeAttempts))
	})
}

func killAgents(t *testing.T, yaml string) {
	server := startNATS(t)
	start := func(id string) *agent { return startAgent(t, settings{id: id, nats: server.url, yaml: yaml}) }
	next := start("a0")
	sent := next.publish("jobs", "poison", api.HeaderPriority, "0")
	for attempt := 1; attempt <= 3; attempt++ {
		a := next
		got := a.app("main").pull(1, patience)
		if len(got) != 1 || got[0].Attempt != attempt {
			t.Fatalf("attempt %d: %+v", attempt, got)
		}
		next = start(fmt.Sprintf("a%d", attempt))
		a.kill()
	}
	next.publish("jobs", "behind it", api.HeaderPriority, "0")
	app := next.app("main")
	equal(t, "what still works", string(app.take(1, 1)[0].Payload()), "behind it")
	// The last death is known when its ack_wait is over, and somebody asks.
	eventually(t, "it is a dead letter", patience, func() bool {
		if got := app.pull(1, 0); len(got) > 0 {
			t.Fatalf("handed out once more: attempt %d of %s", got[0].Attempt, got[0].Payload())
		}
		return len(next.dead("jobs")) == 1
	})
	d := next.dead("jobs")[0]
	if d.Seq != sent.Seq || d.Reason != "max_attempts" || d.Attempts != 3 || !strings.Contains(d.LastError, "died") {
		t.Errorf("%+v", d)
	}
	if q := next.queue("jobs"); q.Waiting+q.InFlight+q.Delayed != 0 {
		t.Errorf("the queue has %+v", q.QueueSummary)
	}
}

// The dead-letter stream is deleted underneath: a reject is told so, the message is not lost and not handed out, and moves
// as soon as there is a place for it.
func TestTheDeadLetterStreamIsDeletedUnderneath(t *testing.T) {
	t.Parallel()
	server := startNATS(t)
	a := startAgent(t, settings{nats: server.url, yaml: strings.Replace(threeAttempts, "[200ms, 400ms]", "[200ms, 1s]", 1)})
	js, err := jetstream.New(server.connect())
	if err != nil {
		t.Fatal(err)
	}
	config := func() jetstream.StreamConfig {
		s, err := js.Stream(t.Context(), "FL_DEAD_jobs")
		if err != nil {
			t.Fatal(err)
		}
		return s.CachedInfo().Config
	}()
	injected(t, "deleted", "stream of dead letters")
	if err := js.DeleteStream(t.Context(), "FL_DEAD_jobs"); err != nil {
		t.Fatal(err)
	}
	sent := a.publish("jobs", "x")
	app := a.app("main")
	d := app.pull(1, patience)
	equal(t, "reject", a.say(d[0], api.Settlement{Result: api.Reject, Reason: "bad"}), api.StatusUnavailable)
	eventually(t, "the log tells it", patience, func() bool { return strings.Contains(a.errs.String(), "FL_DEAD_jobs is missing") })
	if got := app.pull(1, 2500*time.Millisecond); len(got) > 0 {
		t.Fatalf("handed out although it was rejected: attempt %d", got[0].Attempt)
	}
	if q := a.queue("jobs"); q.Waiting+q.InFlight+q.Delayed != 1 {
		t.Errorf("the queue has %+v", q.QueueSummary)
	}
	if _, err := js.CreateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is moved", patience, func() bool {
		if got := app.pull(1, 0); len(got) > 0 {
			t.Fatalf("handed out: attempt %d", got[0].Attempt)
		}
		return len(a.dead("jobs")) == 1
	})
	if got := a.dead("jobs")[0]; got.Seq != sent.Seq || got.Reason != "rejected" || got.LastError != "bad" {
		t.Errorf("%+v", got)
	}
}

// An outage in the middle loses nothing: what was given up is in the dead letters or still in its queue, never in both.
func TestTheServerDiesWhileMessagesDie(t *testing.T) {
	t.Parallel()
	server := startNATS(t)
	a := startAgent(t, settings{nats: server.url, yaml: strings.Replace(threeAttempts, "concurrency: 10", "concurrency: 500", 1)})
	const n = 300
	a.batch("jobs", notes(n, "m", note{})...)
	app := a.app("main")
	var held []api.Delivery
	for len(held) < n {
		held = append(held, app.pull(n-len(held), patience)...)
	}
	var rejects []api.Settlement
	for _, d := range held {
		rejects = append(rejects, api.Settlement{Token: d.Token, Result: api.Reject})
	}
	results := make(chan []api.SettleResult, 1)
	go func() { results <- a.settle(rejects...) }()
	server.kill()
	server.start()
	moved := map[string]bool{}
	for answers := <-results; len(rejects) > 0; answers = a.settle(rejects...) { // ask again, as unavailable says
		again, rest := rejects[:0:0], held[:0:0]
		for i, r := range answers {
			switch r.Status {
			case api.StatusOK:
				moved[string(held[i].Payload())] = true
			case api.StatusUnavailable:
				again, rest = append(again, rejects[i]), append(rest, held[i])
			}
		}
		rejects, held = again, rest
	}
	// The app goes on to reject whatever it gets.
	eventually(t, "all are dead letters", 2*patience, func() bool {
		got, err := app.tryPull(n, 200*time.Millisecond)
		if err != nil {
			return false
		}
		for _, d := range got {
			if moved[string(d.Payload())] {
				t.Errorf("%s came again after its reject was answered ok", d.Payload())
			}
			app.settle = append(app.settle, api.Settlement{Token: d.Token, Result: api.Reject})
		}
		list, err := a.operator().Dead(t.Context(), "jobs", 1000)
		return err == nil && len(list.Dead) >= n
	})
	seen := map[uint64]bool{}
	for _, d := range a.dead("jobs") {
		if seen[d.Seq] {
			t.Errorf("%d has two dead letters", d.Seq)
		}
		seen[d.Seq] = true
	}
	equal(t, "dead letters", len(seen), n)
	eventually(t, "none is left in the queue", patience, func() bool {
		_, _ = app.tryPull(1, 0)
		q := a.queue("jobs")
		return q.Waiting+q.InFlight+q.Delayed == 0
	})
}
