package integration

import (
	"context"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/integration/history"
)

// crashLoop has an app at an agent that pulls, gets a message, dies with it, and is back after a pause; until stop.
func (m *member) crashLoop(life, pause time.Duration) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			var app *worker
			died := make(chan struct{}, 1)
			app = m.work(m.log, habits{name: "crashes", handle: func(ctx context.Context, _ api.Delivery) api.Settlement {
				select {
				case <-time.After(life):
				case <-ctx.Done():
				}
				died <- struct{}{}
				<-ctx.Done()
				return api.Settlement{}
			}})
			select {
			case <-died:
			case <-time.After(time.Second): // it dies also when there is nothing for it
			case <-quit:
				app.crash()
				return
			}
			app.crash()
			select {
			case <-time.After(pause):
			case <-quit:
				return
			}
		}
	}()
	stop = func() {
		select {
		case <-quit:
		default:
			close(quit)
		}
		<-done
	}
	m.t.Cleanup(stop)
	return stop
}

// The active app dies again and again beside an agent that is well: the standby with an app is active within 6 s.
func TestAnAppThatCrashesInALoopLosesTheLease(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name        string
		life, pause time.Duration
	}{
		{"fast", 0, 300 * time.Millisecond},
		{"slow", 500 * time.Millisecond, 2 * time.Second},
		{"slower than demand lasts", 100 * time.Millisecond, 5500 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server, log := startNATS(t), history.New()
			more := ", retry: {max_attempts: 0}"
			a := join(t, log, calm(server, "a", more, ", consumer_priority: 5"), habits{})
			b := join(t, log, calm(server, "b", more, ""), habits{})
			eventually(t, "the one with the higher priority holds the lease", patience, a.holds)
			rolesOf(t, a, b)
			a.app.crash()
			a.crashLoop(c.life, c.pause)
			server.store(log, "jobs", "fl.q.jobs.d._", numbered(50, "m")...)
			began := log.Now()
			next := b.came(began)
			if took := next.Got - began; took > 6*time.Second+500*time.Millisecond {
				t.Errorf("the standby was active after %v", took)
			} else {
				t.Logf("the standby was active after %v", took)
			}
			eventually(t, "everything is handled", patience, func() bool { return byID(log, "m00049") > 0 })
		})
	}
}

// When both apps crash there is still somebody.
func TestTwoAppsThatCrashAreNotNobody(t *testing.T) {
	t.Parallel()
	server, log := startNATS(t), history.New()
	more := ", retry: {max_attempts: 0}"
	a := join(t, log, calm(server, "a", more, ""), habits{})
	b := join(t, log, calm(server, "b", more, ""), habits{})
	rolesOf(t, a, b)
	for _, m := range []*member{a, b} {
		m.app.crash()
		m.crashLoop(50*time.Millisecond, 300*time.Millisecond)
	}
	server.store(log, "jobs", "fl.q.jobs.d._", "m")
	from := log.Now()
	eventually(t, "it is tried ten times", patience, func() bool { return byID(log, "m") >= 10 })
	if longest, since := log.History().Silence("jobs", from, log.Now()); longest > 6*time.Second {
		t.Errorf("nobody had it for %v from %v on", longest, since)
	}
	attempts := 0
	for _, h := range log.History().Hands {
		if h.Attempt < attempts {
			t.Errorf("%s came after attempt %d", &h, attempts)
		}
		attempts = h.Attempt
	}
}

// The highest live agent holds the lease. A lower one finishes its message and hands over when a higher one has come to
// stay.
func TestTheHighestHoldsTheLease(t *testing.T) {
	t.Parallel()
	server, log := startNATS(t), history.New()
	low := join(t, log, calm(server, "low", "", ", consumer_priority: -3"), busyFor(150*time.Millisecond))
	eventually(t, "the only one holds the lease", patience, low.holds)
	server.store(log, "jobs", "fl.q.jobs.d._", numbered(1000, "m")...)
	low.came(0)
	middle := join(t, log, calm(server, "middle", "", ""), busyFor(20*time.Millisecond))
	came := log.Now()
	first := middle.came(came)
	t.Logf("handed over %v after the higher one had come", first.Got-came)
	high := join(t, log, calm(server, "high", "", ", consumer_priority: 10"), busyFor(20*time.Millisecond))
	high.came(0)
	eventually(t, "the highest holds the lease", patience, high.holds)
	now := log.Now()
	high.came(now + leaseTTL) // and keeps it
	for _, m := range []*member{low, middle} {
		for _, h := range by(log, m.agent) {
			if h.Got > now {
				t.Errorf("%s although a higher one is there", &h)
			}
		}
	}
	high.stop()
	stopped := log.Now()
	next := middle.came(stopped)
	if took := next.Got - stopped; took > 2*time.Second {
		t.Errorf("the next one followed %v after a clean stop", took)
	}
	// What it has in its hands when a higher one comes is finished by itself, and nobody else gets it.
	for _, h := range log.History().Hands {
		equal(t, "attempt of "+h.ID, h.Attempt, 1)
	}
	finish(t, server, log, low, middle, high)
}
