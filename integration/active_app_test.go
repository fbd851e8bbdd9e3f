package integration

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/integration/history"
)

// What an app sees of a queue with a single active consumer: one message at a time however many it asks for, the next one
// with the settlement of the one before, and the fence wherever a delivery is told.
func TestAnAppOnAnOrderedQueue(t *testing.T) {
	t.Parallel()
	server := startNATS(t)
	a := startAgent(t, calm(server, "a", "", ""))
	a.batch("jobs", notes(6, "m", note{})...)
	app, other := a.app("main"), a.app("main")
	first := app.pull(5, patience)
	equal(t, "messages of a pull of five", strings.Join(data(first), " "), "m0")
	equal(t, "messages beside one in flight", len(other.pull(5, 200*time.Millisecond)), 0)
	equal(t, "fence", first[0].Fence, a.place().Fence)
	app.ack(first...)
	second := app.pull(5, patience) // the settlement in its body comes first
	equal(t, "next", strings.Join(data(second), " "), "m1")
	equal(t, "fence of the next", second[0].Fence, first[0].Fence)
	equal(t, "settlements that failed", len(app.failed), 0)

	waits := make(chan []api.Delivery, 1)
	go func() {
		got, _ := other.tryPull(5, patience)
		waits <- got
	}()
	eventually(t, "a pull waits", patience, func() bool { return a.capsule("main").Pulls == 1 })
	equal(t, "ack", a.say(second[0], api.Settlement{Result: api.Ack}), api.StatusOK)
	third := <-waits
	equal(t, "what a waiting pull gets after it", strings.Join(data(third), " "), "m2")
	equal(t, "extend", a.say(third[0], api.Settlement{Result: api.Extend, Lease: "20s"}), api.StatusOK)
	equal(t, "nack", a.say(third[0], api.Settlement{Result: api.Nack, Delay: "0s"}), api.StatusOK)
	equal(t, "again", fmt.Sprint(data(app.take(1, 1))), "[m2]")

	answer, body, err := a.call(a.http, "POST", "/v1/capsules/main/next?wait=5s", nil)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "payload of next", string(body), "m3")
	equal(t, "header", answer.Header.Get(api.HeaderFence), strconv.FormatUint(first[0].Fence, 10))
	if _, text, err := a.call(a.http, "POST", "/v1/messages/"+answer.Header.Get(api.HeaderToken)+"/ack", nil); err != nil {
		t.Fatal(err, text)
	}

	stdout, stderr, code := command(t, a, "pull", "main", "--wait", "5s", "--ack")
	var pulled api.Delivery
	if code != 0 || json.Unmarshal([]byte(stdout), &pulled) != nil {
		t.Fatalf("pull: exit code %d: %s%s", code, stdout, stderr)
	}
	equal(t, "fence that the command shows", pulled.Fence, first[0].Fence)
	equal(t, "message of the command", string(pulled.Payload()), "m4")
}

// An app that looks in now and then and does not wait finds what there is: nobody holds the lease between two looks, so it is
// claimed while the app is there.
func TestAnAppThatOnlyLooksInOnAnOrderedQueue(t *testing.T) {
	t.Parallel()
	a := startAgent(t, calm(startNATS(t), "a", "", ""))
	a.batch("jobs", notes(2, "m", note{})...)
	app := a.app("main")
	for _, want := range []string{"m0", "m1"} {
		got := app.pull(5, 0)
		if strings.Join(data(got), " ") != want {
			t.Fatalf("a pull that does not wait got %v, want %s", data(got), want)
		}
		equal(t, "ack", a.say(got[0], api.Settlement{Result: api.Ack}), api.StatusOK)
		eventually(t, "nobody asks any more, and the lease is let go", patience, func() bool { return a.place().Lease == api.LeaseIdle })
	}
	equal(t, "when there is nothing", len(app.pull(5, 0)), 0)
}

// Two capsules of one agent on the queue are two candidates: the higher one holds the lease, the other stands by, and is
// there when the app of the first one has gone.
func TestTwoCapsulesOnAnOrderedQueue(t *testing.T) {
	t.Parallel()
	server, log := startNATS(t), history.New()
	s := calm(server, "a", "", "")
	s.yaml = strings.Replace(s.yaml, "capsules: [", "capsules: [{name: high, queues: [jobs], consumer_priority: 5}, ", 1)
	a := startAgent(t, s)
	main, high := a.work(log, busyFor(5*time.Millisecond)), a.work(log, habits{
		name: "high", capsule: "high", handle: busyFor(5 * time.Millisecond).handle,
	})
	lease := func(capsule string) string { return a.capsule(capsule).Queues[0].Lease }
	eventually(t, "the higher capsule holds the lease", patience, func() bool {
		return lease("high") == api.LeaseHolder && lease("main") == api.LeaseStandby
	})
	server.store(log, "jobs", "fl.q.jobs.d._", numbered(2000, "m")...)
	at := func(app string) (n int) {
		for _, h := range log.History().Hands {
			if h.App == app {
				n++
			}
		}
		return n
	}
	eventually(t, "it works", patience, func() bool { return at("high") >= 100 })
	equal(t, "messages that the other had", at("app"), 0)
	high.crash()
	eventually(t, "the other one works within 6 s, or little more", 7*time.Second, func() bool { return at("app") > 0 })
	main.leave()
	found := log.History().Judge(history.Ending{Left: server.left("FL_Q_jobs")})
	for _, f := range found {
		t.Error(f)
	}
}

// A lease that a queue's definition no longer asks for is let go, and one that it asks for now is claimed: live.
func TestSingleActiveIsSwitchedOnAndOff(t *testing.T) {
	t.Parallel()
	server, log := startNATS(t), history.New()
	plain := func(s settings, revision int) settings {
		s.yaml = strings.Replace(s.yaml, "single_active_consumer: true", fmt.Sprintf("single_active_consumer: false, revision: %d", revision), 1)
		return s
	}
	single := func(s settings, revision int) settings {
		s.yaml = strings.Replace(s.yaml, "single_active_consumer: true", fmt.Sprintf("single_active_consumer: true, revision: %d", revision), 1)
		return s
	}
	a := join(t, log, plain(calm(server, "a", "", ""), 1), busyFor(5*time.Millisecond))
	b := join(t, log, plain(calm(server, "b", "", ""), 1), busyFor(5*time.Millisecond))
	server.store(log, "jobs", "fl.q.jobs.d._", numbered(3000, "m")...)
	a.came(0)
	b.came(0)
	equal(t, "fence in a plain queue", log.History().Hands[0].Fence, uint64(0))
	equal(t, "lease in a plain queue", a.place().Lease, "")

	// A third agent brings a file with a higher revision.
	c := join(t, log, single(calm(server, "c", "", ""), 2), busyFor(5*time.Millisecond))
	holder, _ := rolesOf(t, a, b, c)
	since := log.Now()
	later := &history.History{}
	eventually(t, "the holder works", patience, func() bool {
		later.Hands = nil
		before := map[string]bool{} // the first that an agent's app has now may be from before: it holds one at a time
		for _, h := range log.History().Hands {
			switch {
			case h.Got <= since:
			case before[h.Agent]:
				later.Hands = append(later.Hands, h)
			default:
				before[h.Agent] = true
			}
		}
		return len(later.Hands) > 50
	})
	equal(t, "who works", later.Hands[50].Agent, holder.name)
	for _, f := range append(later.Fences(), append(later.Overlaps(), later.Order()...)...) {
		t.Error(f)
	}
	d := join(t, log, plain(calm(server, "d", "", ""), 3), busyFor(5*time.Millisecond))
	eventually(t, "nobody holds a lease any more", patience, func() bool {
		return a.place().Lease == "" && b.place().Lease == "" && c.place().Lease == "" && d.place().Lease == ""
	})
	since = log.Now()
	server.store(log, "jobs", "fl.q.jobs.d._", numbered(1000, "n")...) // however few are left
	for _, m := range []*member{a, b, c, d} {
		m.came(since)
	}
	for _, m := range []*member{a, b, c, d} {
		m.app.leave()
	}
	h := log.History()
	for _, f := range append(h.Loss(history.Ending{Left: server.left("FL_Q_jobs")}), h.Duplicates()...) {
		t.Error(f)
	}
}
