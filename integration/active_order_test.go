package integration

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/integration/history"
)

// A message that fails twice holds the queue while it backs off; then 1 2 3 follow.
func TestAFailingMessageHoldsItsQueue(t *testing.T) {
	t.Parallel()
	server, log := startNATS(t), history.New()
	fails := habits{handle: func(_ context.Context, d api.Delivery) api.Settlement {
		switch {
		case string(d.Payload()) != "1" || d.Attempt == 3:
			return api.Settlement{Result: api.Ack}
		case d.Attempt == 1:
			return api.Settlement{Result: api.Nack, Delay: "700ms"}
		default:
			return api.Settlement{Result: api.Nack} // by the queue's backoff
		}
	}}
	more := ", retry: {backoff: [5s, 900ms], jitter: 0}"
	a := join(t, log, calm(server, "a", more, ""), fails)
	b := join(t, log, calm(server, "b", more, ""), fails)
	rolesOf(t, a, b)
	server.store(log, "jobs", "fl.q.jobs.d._", "1", "2", "3")
	eventually(t, "everything is handled", patience, func() bool { return byID(log, "3") > 0 })
	var came []string
	hands := log.History().Hands
	for _, h := range hands {
		came = append(came, h.ID)
	}
	equal(t, "order", strings.Join(came, " "), "1 1 1 2 3")
	for i, earliest := range []time.Duration{700 * time.Millisecond, 900 * time.Millisecond} {
		if waited := hands[i+1].Got - hands[i].Asked; waited < earliest || waited > earliest+2*time.Second {
			t.Errorf("try %d came %v after the one before, want %v or a little more", i+2, waited, earliest)
		}
	}
	finish(t, server, log, a, b)
}

// A backoff outlives its agent: the other one waits for what is left of it, and nothing overtakes.
func TestABackoffIsKeptAcrossATakeover(t *testing.T) {
	t.Parallel()
	server, log := startNATS(t), history.New()
	fails := habits{handle: func(_ context.Context, d api.Delivery) api.Settlement {
		if string(d.Payload()) == "1" && d.Attempt == 1 {
			return api.Settlement{Result: api.Nack, Delay: "4s"}
		}
		return api.Settlement{Result: api.Ack}
	}}
	a := join(t, log, calm(server, "a", "", ""), fails)
	b := join(t, log, calm(server, "b", "", ""), fails)
	holder, others := rolesOf(t, a, b)
	server.store(log, "jobs", "fl.q.jobs.d._", "1", "2", "3")
	eventually(t, "it has failed", patience, func() bool {
		hands := log.History().Hands
		return len(hands) > 0 && hands[0].Status == "ok"
	})
	holder.agent.stop()
	eventually(t, "the other one has handled everything", patience, func() bool { return len(by(log, others[0].agent)) == 3 })
	hands := log.History().Hands
	if waited := hands[1].Got - hands[0].Asked; waited < 4*time.Second || waited > 6*time.Second {
		t.Errorf("it came again after %v, want 4 s or a little more", waited)
	}
	equal(t, "attempt", hands[1].Attempt, 2)
	finish(t, server, log, a, b)
}

// Levels, fair share and the starvation guard give the same order as in a plain queue.
func TestASingleConsumerReadsByLevelsAndFairly(t *testing.T) {
	t.Parallel()
	server, log := startNATS(t), history.New()
	more := ", priority_levels: [high, medium, low], starvation_guard: 10, fair_share: {enabled: true, weights: {acme: 3}}"
	var mu sync.Mutex
	var order strings.Builder
	opened := make(chan struct{})
	writes := habits{
		lane: func(d api.Delivery) string { return fmt.Sprint(d.Priority, d.Key) },
		handle: func(ctx context.Context, d api.Delivery) api.Settlement {
			if string(d.Payload()) == "first" {
				<-opened
				return api.Settlement{Result: api.Ack}
			}
			mu.Lock()
			defer mu.Unlock()
			order.WriteByte(d.Payload()[0])
			return api.Settlement{Result: api.Ack}
		},
	}
	a := join(t, log, calm(server, "a", more, ""), writes)
	b := join(t, log, calm(server, "b", more, ""), writes)
	rolesOf(t, a, b)
	// While this one is in flight nothing else is taken, so all that follows is there before the first choice.
	server.store(log, "jobs", "fl.q.jobs.p2.other", "first")
	eventually(t, "the first one is in flight", patience, func() bool { return byID(log, "first") == 1 })
	server.store(log, "jobs", "fl.q.jobs.p2.acme", "L")
	server.store(log, "jobs", "fl.q.jobs.p1.acme", "M1", "M2")
	server.store(log, "jobs", "fl.q.jobs.p0.globex", numbered(5, "g")...)
	server.store(log, "jobs", "fl.q.jobs.p0.acme", numbered(15, "a")...)
	eventually(t, "the agents know what waits", patience, func() bool { return a.queue("jobs").Waiting == 23 && b.queue("jobs").Waiting == 23 })
	close(opened)
	eventually(t, "everything is handled", patience, func() bool { return len(log.History().Hands) == 24 })
	mu.Lock()
	got := order.String()
	mu.Unlock()
	levels := strings.NewReplacer("a", "H", "g", "H").Replace(got)
	equal(t, "order of levels", levels, "HHHHHHHHHHMHHHHHHHHHHML")
	top := strings.NewReplacer("M", "", "L", "").Replace(got)
	for i := 0; i+4 <= len(top); i += 4 {
		if acme := strings.Count(top[i:i+4], "a"); acme != 3 {
			t.Errorf("of four in the top level %d went to the one with weight 3: %s", acme, top)
			break
		}
	}
	finish(t, server, log, a, b)
}

// The standby of one queue works on the others of its capsule meanwhile.
func TestAStandbyWorksElsewhere(t *testing.T) {
	t.Parallel()
	server, log := startNATS(t), history.New()
	s := func(id string) settings {
		s := calm(server, id, "", "")
		s.yaml = strings.Replace(s.yaml, "ack_wait: 20s}]", "ack_wait: 20s}, {name: plain}]", 1)
		s.yaml = strings.Replace(s.yaml, "queues: [jobs], c", "queues: [jobs, plain], c", 1)
		return s
	}
	a, b := join(t, log, s("a"), busyFor(2*time.Millisecond)), join(t, log, s("b"), busyFor(2*time.Millisecond))
	holder, others := rolesOf(t, a, b)
	// The ordered ones come first, and keep the holder busy for several times as long as the plain ones take the standby.
	const jobs, plain = 1500, 300
	server.store(log, "jobs", "fl.q.jobs.d._", numbered(jobs, "m")...)
	ids := numbered(plain, "plain")
	server.flood(len(ids), func(int) string { return "fl.q.plain.d._" }, func(i int) string { return ids[i] })
	eventually(t, "everything is handled", patience, func() bool { return len(log.History().Hands) >= jobs+plain })
	count := func(m *member, queue string) (n int) {
		for _, h := range by(log, m.agent) {
			if h.Queue == queue {
				n++
			}
		}
		return n
	}
	equal(t, "ordered messages that the holder had", count(holder, "jobs"), jobs)
	equal(t, "ordered messages that the standby had", count(others[0], "jobs"), 0)
	if n := count(others[0], "plain"); n < plain/2 {
		t.Errorf("the standby had %d of %d plain messages while the holder was busy with the ordered ones", n, plain)
	}
	for _, h := range log.History().Hands {
		if h.Queue == "plain" && h.Fence != 0 {
			t.Errorf("%s has a fence although its queue is a plain one", &h)
		}
	}
	for _, m := range []*member{a, b} {
		m.app.leave()
	}
}

// An agent whose file does not say so follows the definition in force all the same, also as the holder.
func TestAFileThatDoesNotSaySo(t *testing.T) {
	t.Parallel()
	server, log := startNATS(t), history.New()
	a := join(t, log, calm(server, "a", "", ""), busyFor(2*time.Millisecond))
	rolesOf(t, a)
	silent := calm(server, "b", "", "")
	silent.yaml = strings.Replace(silent.yaml, "single_active_consumer: true, ", "", 1)
	b := join(t, log, silent, busyFor(2*time.Millisecond))
	_, others := rolesOf(t, a, b)
	equal(t, "the standby", others[0].name, b.name)
	server.store(log, "jobs", "fl.q.jobs.d._", numbered(5000, "m")...)
	a.came(log.Now() + 200*time.Millisecond)
	equal(t, "messages that it had meanwhile", len(by(log, b.agent)), 0)
	a.app.leave()
	b.came(0)
	a.app = a.work(log, busyFor(2*time.Millisecond))
	holder, _ := rolesOf(t, a, b)
	equal(t, "the holder", holder.name, b.name)
	b.came(log.Now() + 200*time.Millisecond)
	finish(t, server, log, a, b)
}
