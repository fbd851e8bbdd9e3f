package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/integration/history"
)

// leaseTTL is short, so that takeovers can be waited for.
const leaseTTL = 2 * time.Second

// ordered is the configuration of an agent on a queue with a single active consumer. more goes into the queue, and rest
// behind its capsule's queues.
func ordered(server *natsServer, id, more, rest string) settings {
	return settings{id: id, nats: server.url, yaml: fmt.Sprintf(`
coordination: {heartbeat_interval: 200ms, stale_after: 1s, lease_ttl: %v}
queues: [{name: jobs, single_active_consumer: true, ack_wait: 5s%s}]
capsules: [{name: main, queues: [jobs], concurrency: 10%s}]
`, leaseTTL, more, rest)}
}

// withTTL is s with another time to live of leases.
func withTTL(s settings, ttl time.Duration) settings {
	s.yaml = strings.NewReplacer(fmt.Sprintf("lease_ttl: %v", leaseTTL), fmt.Sprintf("lease_ttl: %v", ttl), "ack_wait: 5s", fmt.Sprintf("ack_wait: %v", 2*ttl)).Replace(s.yaml)
	return s
}

// calm is ordered for tests in which nobody is to lose a lease, or to be taken for dead, because its process stood still for a
// moment.
func calm(server *natsServer, id, more, rest string) settings {
	s := withTTL(ordered(server, id, more, rest), 10*time.Second)
	s.yaml = strings.Replace(s.yaml, "stale_after: 1s", "stale_after: 5s", 1)
	return s
}

// A member is an agent that can be started again, and the app beside it.
type member struct {
	*agent
	t   *testing.T
	run atomic.Pointer[agent] // the same agent, for other goroutines
	s   settings
	log *history.Log
	h   habits
	app *worker
	// pool starts the apps of other capsules; nil is none.
	pool    func(m *member) []*worker
	workers []*worker // those that it started
}

// join starts an agent and its app.
func join(t *testing.T, log *history.Log, s settings, h habits) *member {
	t.Helper()
	s.dir = folder(t)
	m := &member{t: t, s: s, log: log, h: h}
	m.again()
	return m
}

// again starts the agent and its app again.
func (m *member) again() {
	m.t.Helper()
	m.agent = startAgent(m.t, m.s)
	m.run.Store(m.agent)
	m.app = m.work(m.log, m.h)
	m.staff()
}

// staff starts the apps of other capsules.
func (m *member) staff() {
	if m.pool != nil {
		m.workers = m.pool(m)
	}
}

// leave ends all its apps when they have settled what they have.
func (m *member) leave() {
	for _, w := range append(m.workers, m.app) {
		w.leave()
	}
}

// crash ends all its apps in the middle of whatever they do.
func (m *member) crash() {
	for _, w := range append(m.workers, m.app) {
		w.crash()
	}
}

// now is the agent as it was started last.
func (m *member) now() *agent { return m.run.Load() }

// place is what the status of an agent says of queue jobs.
func (a *agent) place() api.CapsuleQueue {
	a.t.Helper()
	queues := a.capsule("main").Queues
	i := slices.IndexFunc(queues, func(q api.CapsuleQueue) bool { return q.Name == "jobs" })
	if i < 0 {
		a.t.Fatal("the status does not have the queue")
	}
	return queues[i]
}

func (a *agent) holds() bool { return a.place().Lease == "holder" }

// rolesOf waits until one member holds the lease and all others stand by with an app, and returns them in this order.
func rolesOf(t *testing.T, all ...*member) (holder *member, others []*member) {
	t.Helper()
	eventually(t, "one agent holds the lease and the others stand by", patience, func() bool {
		holder, others = nil, nil
		for _, m := range all {
			switch p := m.place(); {
			case p.Lease == "holder" && holder == nil:
				holder = m
			case p.Lease == "standby" && m.capsule("main").Demand:
				others = append(others, m)
			}
		}
		return holder != nil && len(others) == len(all)-1
	})
	return holder, others
}

// by are the hand-overs at some agents, in order.
func by(log *history.Log, agents ...*agent) []history.Hand {
	var some []history.Hand
	for _, h := range log.History().Hands {
		if slices.ContainsFunc(agents, func(a *agent) bool { return a.name == h.Agent }) {
			some = append(some, h)
		}
	}
	return some
}

// came waits for a hand-over at an agent after a time, and returns it.
func (m *member) came(after time.Duration) history.Hand {
	m.t.Helper()
	var found history.Hand
	eventually(m.t, "work comes to "+m.name, patience, func() bool {
		for _, h := range by(m.log, m.agent) {
			if h.Got > after {
				found = h
				return true
			}
		}
		return false
	})
	return found
}

// busyFor handles every message for a time.
func busyFor(d time.Duration) habits {
	return habits{handle: func(ctx context.Context, _ api.Delivery) api.Settlement {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
		return api.Settlement{Result: api.Ack}
	}}
}

// within fails unless at least half of the rounds kept a promise: a busy machine may spoil some.
func within(t *testing.T, what string, promise time.Duration, rounds []time.Duration) {
	t.Helper()
	sorted := slices.Sorted(slices.Values(rounds))
	t.Logf("%s: %v", what, rounds)
	if median := sorted[len(sorted)/2]; median > promise {
		t.Errorf("%s: %v, half of them above %v", what, rounds, promise)
	}
}

// finish ends all apps, and judges the record together with what is left.
func finish(t *testing.T, server *natsServer, log *history.Log, all ...*member) {
	t.Helper()
	for _, m := range all {
		m.app.leave()
	}
	judge(t, log, history.Ending{Left: server.left("FL_Q_jobs")})
}

// stopHolder stops whoever holds the lease in good order and starts it again. It returns the time from its last settlement
// to the first message of the one that follows.
func stopHolder(t *testing.T, log *history.Log, a, b *member) time.Duration {
	t.Helper()
	holder, others := rolesOf(t, a, b)
	holder.came(log.Now())
	holder.stop()
	stopped := log.Now()
	hands := by(log, holder.agent)
	last := hands[len(hands)-1]
	next := others[0].came(last.Got)
	if next.Fence <= last.Fence {
		t.Errorf("fence %d after %d", next.Fence, last.Fence)
	}
	if next.Got > stopped+2*time.Second { // what is promised is for the middle of all rounds
		t.Errorf("the other went on %v after the holder's process had ended", next.Got-stopped)
	}
	holder.app.crash()
	holder.again()
	return next.Got - last.Asked
}

// The holder stops: the other one goes on within 250 ms, in order, and never together with it.
func TestAStoppedHolderIsFollowedAtOnce(t *testing.T) {
	t.Parallel()
	server, log := startNATS(t), history.New()
	a := join(t, log, calm(server, "a", "", ""), busyFor(2*time.Millisecond))
	b := join(t, log, calm(server, "b", "", ""), busyFor(2*time.Millisecond))
	server.store(log, "jobs", "fl.q.jobs.d._", numbered(10_000, "m")...)
	var gaps []time.Duration
	for range 5 {
		gaps = append(gaps, stopHolder(t, log, a, b))
	}
	within(t, "from the last settlement of the one that stops to the first message of the other", 250*time.Millisecond, gaps)
	finish(t, server, log, a, b)
	for _, h := range log.History().Hands {
		if h.Attempt != 1 {
			t.Errorf("%s: a clean stop costs an attempt", &h)
			for _, x := range log.History().Hands {
				if x.ID == h.ID {
					t.Logf("%+v", x)
				}
			}
		}
	}
}

// A holder that has nothing to do lets go as fast, although its app waits in a pull.
func TestAnIdleHolderIsFollowedAtOnce(t *testing.T) {
	t.Parallel()
	server, log := startNATS(t), history.New()
	a := join(t, log, calm(server, "a", "", ""), habits{})
	b := join(t, log, calm(server, "b", "", ""), habits{})
	var gaps []time.Duration
	for range 5 {
		holder, others := rolesOf(t, a, b)
		eventually(t, "its app waits", patience, func() bool { return holder.capsule("main").Pulls > 0 })
		stopped := time.Now()
		holder.signal(sigterm)
		eventually(t, "the other holds the lease", patience, others[0].holds)
		gaps = append(gaps, time.Since(stopped))
		equal(t, "exit code", holder.wait(patience), 0)
		holder.app.crash()
		holder.again()
	}
	within(t, "from the signal to the other's tenure", 250*time.Millisecond, gaps)
}

// The holder is killed: the other one goes on within the lease's TTL and half a second.
func TestAKilledHolderIsFollowedWithinTheLease(t *testing.T) {
	t.Parallel()
	server, log := startNATS(t), history.New()
	a := join(t, log, ordered(server, "a", "", ""), busyFor(2*time.Millisecond))
	b := join(t, log, ordered(server, "b", "", ""), busyFor(2*time.Millisecond))
	server.store(log, "jobs", "fl.q.jobs.d._", numbered(10_000, "m")...)
	var gaps []time.Duration
	for range 3 {
		holder, others := rolesOf(t, a, b)
		holder.came(log.Now())
		killed := log.Now()
		holder.kill()
		next := others[0].came(killed)
		gaps = append(gaps, next.Got-killed)
		if took := next.Got - killed; took > leaseTTL+2*time.Second {
			t.Errorf("the other went on after %v", took)
		}
		holder.app.crash()
		holder.again()
	}
	within(t, "from the kill to the first message of the other", leaseTTL+500*time.Millisecond, gaps)
	finish(t, server, log, a, b)
}
