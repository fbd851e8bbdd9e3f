package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/integration/history"
)

// The holder is paused past its lease in the middle of a message. The other one works on the same message under a higher
// fence. The old one wakes up and hands out nothing; its app's ack is refused, and its session was told.
func TestAPausedHolderIsFencedOff(t *testing.T) {
	t.Parallel()
	const leaseTTL = 6 * time.Second // long beside the moments for which processes stand still
	server, log := startNATS(t), history.New()
	held, release := make(chan api.Delivery, 1), make(chan struct{})
	first := habits{handle: func(_ context.Context, d api.Delivery) api.Settlement {
		held <- d
		<-release
		return api.Settlement{Result: api.Ack}
	}}
	a := join(t, log, withTTL(ordered(server, "a", "", ""), leaseTTL), first)
	rolesOf(t, a)
	server.store(log, "jobs", "fl.q.jobs.d._", numbered(20, "m")...)
	d := <-held
	b := join(t, log, withTTL(ordered(server, "b", "", ""), leaseTTL), busyFor(time.Millisecond))
	rolesOf(t, a, b)

	a.signal(syscall.SIGSTOP)
	paused := log.Now()
	log.Cut(a.name, paused+leaseTTL*2/3)
	next := b.came(paused)
	if took := next.Got - paused; took > leaseTTL+2*time.Second {
		t.Errorf("the other one went on after %v", took)
	}
	equal(t, "message", next.ID, string(d.Payload()))
	if next.Fence <= d.Fence {
		t.Errorf("fence %d after %d", next.Fence, d.Fence)
	}
	equal(t, "attempt", next.Attempt, d.Attempt+1)
	server.store(log, "jobs", "fl.q.jobs.d._", numbered(20, "while-a-is-paused")...)
	eventually(t, "the other one has handled everything", patience, func() bool { return len(by(log, b.agent)) == 40 })

	a.signal(syscall.SIGCONT)
	eventually(t, "the session is told that the message is revoked", patience, func() bool { return a.app.wasRevoked(d.Token, "lease_lost") })
	server.store(log, "jobs", "fl.q.jobs.d._", numbered(20, "when-a-is-awake")...)
	close(release)
	eventually(t, "the old one's ack is answered", patience, func() bool { return by(log, a.agent)[0].Status != "" })
	old := by(log, a.agent)[0]
	equal(t, "answer to the late ack", old.Status, string(api.StatusLeaseLost))
	for _, w := range log.History().Writes {
		if w.Fence == old.Fence && w.Accepted {
			t.Error("what the old app wrote was accepted")
		}
	}
	eventually(t, "everything is handled", patience, func() bool { return len(by(log, b.agent)) == 60 })
	eventually(t, "the old one stands by", patience, func() bool { return a.place().Lease == "standby" })
	equal(t, "messages that the old one handed out", len(by(log, a.agent)), 1)
	finish(t, server, log, a, b)
}

// A holder whose app only waits is paused: what comes in meanwhile is not its own when it wakes up.
func TestAPausedIdleHolderHandsOutNothing(t *testing.T) {
	t.Parallel()
	server, log := startNATS(t), history.New()
	a := join(t, log, ordered(server, "a", "", ""), habits{})
	rolesOf(t, a)
	b := join(t, log, ordered(server, "b", "", ""), habits{})
	rolesOf(t, a, b)
	a.signal(syscall.SIGSTOP)
	server.store(log, "jobs", "fl.q.jobs.d._", numbered(100, "m")...) // a hears of them when it wakes up
	eventually(t, "the other one has begun", patience, func() bool { return len(by(log, b.agent)) > 0 })
	a.signal(syscall.SIGCONT)
	eventually(t, "everything is handled", patience, func() bool { return len(log.History().Hands) >= 100 })
	equal(t, "messages that the old one handed out", len(by(log, a.agent)), 0)
	finish(t, server, log, a, b)
}

// The server is killed and comes back, again and again: never two at work, and somebody soon after it is back.
func TestTheServerIsKilledUnderTwoAgents(t *testing.T) {
	t.Parallel()
	times := 3
	if os.Getenv("FAIRLEAD_SLOW") != "" {
		times = 10
	}
	server, log := startNATS(t), history.New()
	a := join(t, log, ordered(server, "a", "", ""), busyFor(2*time.Millisecond))
	b := join(t, log, ordered(server, "b", "", ""), busyFor(2*time.Millisecond))
	server.store(log, "jobs", "fl.q.jobs.d._", numbered(4000*times, "m")...)
	var gaps []time.Duration
	for i := range times {
		rolesOf(t, a, b)
		before := len(log.History().Hands)
		eventually(t, "work flows", patience, func() bool { return len(log.History().Hands) > before+100 })
		server.kill()
		if i%2 == 1 {
			time.Sleep(3 * leaseTTL) // the outage outlasts the lease
		}
		server.start()
		back := log.Now()
		eventually(t, "work goes on", patience, func() bool {
			hands := log.History().Hands
			return hands[len(hands)-1].Got > back
		})
		longest, _ := log.History().Silence("jobs", back, log.Now())
		gaps = append(gaps, longest)
	}
	within(t, "nobody at work after the server was back", leaseTTL+time.Second, gaps)
	finish(t, server, log, a, b)
}

// The bucket is deleted: the holder stops at once and says so, nobody works, and when it is there again work goes on
// under a higher fence.
func TestTheBucketIsDeleted(t *testing.T) {
	t.Parallel()
	const leaseTTL = 6 * time.Second // long beside the moments for which processes stand still
	server, log := startNATS(t), history.New()
	a := join(t, log, withTTL(ordered(server, "a", "", ""), leaseTTL), busyFor(2*time.Millisecond))
	b := join(t, log, withTTL(ordered(server, "b", "", ""), leaseTTL), busyFor(2*time.Millisecond))
	server.store(log, "jobs", "fl.q.jobs.d._", numbered(10_000, "m")...)
	js, err := jetstream.New(server.connect())
	if err != nil {
		t.Fatal(err)
	}
	for round := range 2 {
		holder, others := rolesOf(t, a, b)
		holder.came(log.Now())
		injected(t, "deleted", "bucket")
		if err := js.DeleteKeyValue(t.Context(), "fairlead"); err != nil {
			t.Fatal(err)
		}
		deleted := log.Now()
		for _, m := range []*member{holder, others[0]} {
			eventually(t, "the status says so", patience, func() bool {
				return strings.Contains(m.place().Why, "bucket")
			})
		}
		eventually(t, "the holder says so in its log", patience, func() bool {
			return strings.Count(holder.errs.String(), "vanished") > 0
		})
		before := log.Now()
		hands := log.History().Hands
		if last := hands[len(hands)-1]; last.Got > deleted+leaseTTL/5+time.Second { // its trust lasts longer
			t.Errorf("round %d: handed out %v after the bucket was deleted", round, last.Got-deleted)
		}
		time.Sleep(leaseTTL + 500*time.Millisecond) // nobody claims what is not there
		hands = log.History().Hands
		last := hands[len(hands)-1]
		if last.Got > before {
			t.Errorf("round %d: handed out without a bucket, %v after it was deleted", round, last.Got-deleted)
		}
		if _, stderr, code := command(t, nil, "setup", "--config", filepath.Join(a.dir, "fairlead.yaml")); code != 0 {
			t.Fatalf("setup: exit code %d: %s", code, stderr)
		}
		back := log.Now()
		eventually(t, "work goes on", patience, func() bool {
			hands := log.History().Hands
			return hands[len(hands)-1].Got > back
		})
		hands = log.History().Hands
		next := hands[len(hands)-1]
		t.Logf("round %d: %v without a bucket, and work %v after it was there again", round, back-deleted, next.Got-back)
		if next.Fence <= last.Fence {
			t.Errorf("round %d: fence %d after %d", round, next.Fence, last.Fence)
		}
	}
	finish(t, server, log, a, b)
}

// A message that takes app and agent down each time counts its attempts, whoever runs it.
func TestAMessageThatTakesAppAndAgentDown(t *testing.T) {
	t.Parallel()
	server, log := startNATS(t), history.New()
	down := make(chan api.Delivery, 1)
	poison := habits{handle: func(ctx context.Context, d api.Delivery) api.Settlement {
		if string(d.Payload()) == "poison" {
			down <- d
			<-ctx.Done()
			return api.Settlement{}
		}
		return api.Settlement{Result: api.Ack}
	}}
	more := ", retry: {max_attempts: 0}"
	a := join(t, log, ordered(server, "a", more, ""), poison)
	b := join(t, log, ordered(server, "b", more, ""), poison)
	rolesOf(t, a, b)
	server.store(log, "jobs", "fl.q.jobs.d._", "poison", "after1", "after2")
	var fence uint64
	for attempt := 1; attempt <= 4; attempt++ {
		var d api.Delivery
		select {
		case d = <-down:
		case <-time.After(patience):
			t.Fatalf("attempt %d does not come", attempt)
		}
		equal(t, "attempt", d.Attempt, attempt)
		if d.Fence <= fence {
			t.Errorf("attempt %d: fence %d after %d", attempt, d.Fence, fence)
		}
		fence = d.Fence
		holder := a
		if hands := log.History().Hands; hands[len(hands)-1].Agent == b.name {
			holder = b
		}
		holder.kill()
		holder.app.crash()
		holder.again()
	}
	equal(t, "messages that overtook it", fmt.Sprint(byID(log, "after1")), "0")
	for _, m := range []*member{a, b} {
		m.app.crash()
	}
	judge(t, log, history.Ending{Left: server.left("FL_Q_jobs")})
}

// byID counts the hand-overs of a message.
func byID(log *history.Log, id string) (n int) {
	for _, h := range log.History().Hands {
		if h.ID == id {
			n++
		}
	}
	return n
}
