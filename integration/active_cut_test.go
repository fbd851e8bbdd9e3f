package integration

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/integration/history"
)

// The holder is cut off from the server in the middle of a message. It trusts its lease for two thirds of the TTL: then its
// app is told, and the message cannot be settled. The other one takes over, under a higher fence.
func TestAHolderThatIsCutOff(t *testing.T) {
	t.Parallel()
	// Between the end of the trust and the end of the lease there is time for a process to stand still, and to be seen too late.
	const leaseTTL = 6 * time.Second
	const trust = leaseTTL * 2 / 3
	for _, c := range []struct {
		name     string
		cut      linkState
		reset    bool
		takeover time.Duration // at most, after the cut
	}{
		{"both ways", linkState{toServer: true, toAgent: true}, false, leaseTTL + 500*time.Millisecond},
		{"to the server", linkState{toServer: true}, false, leaseTTL + 500*time.Millisecond},
		// Its renewals still arrive, as long as it sends them.
		{"from the server", linkState{toAgent: true}, false, trust + leaseTTL + 500*time.Millisecond},
		{"with a reset", linkState{refused: true}, true, leaseTTL + 500*time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server, log := startNATS(t), history.New()
			held, release := make(chan api.Delivery, 1), make(chan struct{})
			first := habits{handle: func(ctx context.Context, d api.Delivery) api.Settlement {
				select {
				case held <- d:
					<-release
				default:
				}
				return api.Settlement{Result: api.Ack}
			}}
			l := server.link(t)
			s := withTTL(ordered(server, "a", "", ""), leaseTTL)
			s.nats = l.url
			a := join(t, log, s, first)
			rolesOf(t, a)
			server.store(log, "jobs", "fl.q.jobs.d._", numbered(200, "m")...)
			d := <-held
			b := join(t, log, withTTL(ordered(server, "b", "", ""), leaseTTL), busyFor(5*time.Millisecond))
			rolesOf(t, a, b)

			l.set(c.cut)
			if c.reset {
				l.reset()
			}
			cut := log.Now()
			log.Cut(a.name, cut+trust+100*time.Millisecond) // its goroutines need a moment to say so
			eventually(t, "the app is told when the trust ends, not when the lease does", trust+time.Second, func() bool { return a.app.wasRevoked(d.Token, "lease_lost") })
			told := log.Now() - cut
			next := b.came(cut)
			t.Logf("the app was told %v after the cut, the other one went on after %v", told, next.Got-cut)
			if took := next.Got - cut; took > c.takeover+time.Second || took < trust {
				t.Errorf("the other one went on after %v, want between %v and %v", took, trust, c.takeover)
			}
			equal(t, "message", next.ID, string(d.Payload()))
			close(release)
			eventually(t, "the late ack is answered", patience, func() bool { return by(log, a.agent)[0].Status != "" })
			equal(t, "answer to the late ack", by(log, a.agent)[0].Status, string(api.StatusLeaseLost))

			l.set(linkState{})
			rolesOf(t, a, b)
			eventually(t, "everything is handled", patience, func() bool { return len(by(log, b.agent)) >= 200 })
			equal(t, "messages that the one that was cut off had", len(by(log, a.agent)), 1)
			finish(t, server, log, a, b)
		})
	}
}

// The server stands still, for less than a lease and for longer, and goes on: never two at work, and somebody soon.
func TestTheServerStandsStill(t *testing.T) {
	t.Parallel()
	server, log := startNATS(t), history.New()
	a := join(t, log, ordered(server, "a", "", ""), busyFor(2*time.Millisecond))
	b := join(t, log, ordered(server, "b", "", ""), busyFor(2*time.Millisecond))
	server.store(log, "jobs", "fl.q.jobs.d._", numbered(10_000, "m")...)
	var gaps []time.Duration
	for _, still := range []time.Duration{leaseTTL / 4, leaseTTL * 9 / 10, leaseTTL * 3 / 2} {
		rolesOf(t, a, b)
		before := len(log.History().Hands)
		eventually(t, "work flows", patience, func() bool { return len(log.History().Hands) > before+100 })
		server.signal(syscall.SIGSTOP)
		time.Sleep(still)
		server.signal(syscall.SIGCONT)
		back := log.Now()
		eventually(t, "work goes on", patience, func() bool {
			hands := log.History().Hands
			return hands[len(hands)-1].Got > back
		})
		longest, _ := log.History().Silence("jobs", back, log.Now())
		gaps = append(gaps, longest)
	}
	within(t, "nobody at work after the server went on", leaseTTL+time.Second, gaps)
	finish(t, server, log, a, b)
}
