package integration

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/api"
)

// crew are apps that work until they are told to stop, and note what they did.
type crew struct {
	t    *testing.T
	stop chan struct{}
	apps sync.WaitGroup

	mu    sync.Mutex
	done  map[string]int       // acks that were answered ok, by payload
	began map[string]int       // deliveries, by payload
	acked map[string]time.Time // when the first ack was answered
	late  []string             // that came by a pull which began after an ack was answered ok
	total int
}

func newCrew(t *testing.T) *crew {
	return &crew{t: t, stop: make(chan struct{}), done: map[string]int{}, began: map[string]int{}, acked: map[string]time.Time{}}
}

// join adds an app that pulls up to most at a time and holds them for a moment.
func (c *crew) join(a *agent, most int, hold time.Duration) {
	app := &app{a: a, t: c.t, client: a.client(), capsule: "main"}
	c.apps.Go(func() {
		for {
			select {
			case <-c.stop:
				return
			default:
			}
			asked := time.Now()
			all, err := app.tryPull(most, time.Second)
			if err != nil {
				c.t.Errorf("pull: %v", err)
				return
			}
			c.mu.Lock()
			for _, d := range all {
				name := string(d.Payload())
				c.began[name]++
				c.total++
				if at, ok := c.acked[name]; ok && asked.Sub(at) > 100*time.Millisecond {
					c.late = append(c.late, name)
				}
			}
			c.mu.Unlock()
			time.Sleep(hold)
			for _, d := range all {
				status := app.sayOne(d)
				c.mu.Lock()
				if name := string(d.Payload()); status == api.StatusOK {
					c.done[name]++
					if c.acked[name].IsZero() {
						c.acked[name] = time.Now()
					}
				}
				c.mu.Unlock()
			}
		}
	})
}

// sayOne acks from a goroutine that must not end the test.
func (p *app) sayOne(d api.Delivery) api.Status {
	answer, _, err := p.a.call(p.client, http.MethodPost, "/v1/messages/"+d.Token+"/ack", nil)
	switch {
	case err != nil:
		p.t.Errorf("ack: %v", err)
		return api.StatusUnavailable
	case answer.StatusCode == http.StatusNoContent:
		return api.StatusOK
	}
	return api.StatusAlreadySettled
}

// progress waits until n deliveries were made.
func (c *crew) progress(n int) {
	c.t.Helper()
	eventually(c.t, fmt.Sprintf("%d deliveries", n), 2*patience, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.total >= n
	})
}

// A queue that holds 10,000 messages goes from one level without fair share to three levels with it, and back to two, under
// two agents at work whose files change one after the other: nothing is lost, and nothing comes twice but what was in hand
// while the lanes changed.
func TestAQueueChangesUnderWork(t *testing.T) {
	server := startNATS(t)
	before := "queues: [{name: jobs, revision: 0, priority_levels: 1}]"
	middle := "queues: [{name: jobs, revision: 1, priority_levels: 3, fair_share: true}]"
	after := "queues: [{name: jobs, revision: 2, priority_levels: 2, fair_share: true}]"
	var agents []*agent
	for i := range 2 {
		agents = append(agents, startAgent(t, settings{id: fmt.Sprintf("agent%d", i), nats: server.url, yaml: before + "\ncapsules: [{name: main, queues: [jobs], concurrency: 20}]\n"}))
	}
	const backlog, most, apps = 10_000, 5, 2
	for i := range 10 {
		agents[0].batch("jobs", notes(backlog/10, fmt.Sprintf("m%d-", i), note{Key: fmt.Sprintf("tenant%d", i)})...)
	}
	c := newCrew(t)
	for _, a := range agents {
		for range apps {
			c.join(a, most, 2*time.Millisecond)
		}
	}
	inForce := func(levels int) {
		t.Helper()
		for _, a := range agents {
			eventually(t, fmt.Sprintf("%d levels are in force", levels), patience, func() bool { return a.queue("jobs").Levels == levels })
		}
	}
	c.progress(1000)
	agents[0].reload(before, middle, "reloaded") // the other follows although its file says otherwise
	inForce(3)
	for level := range 3 {
		agents[level%2].batch("jobs", notes(100, fmt.Sprintf("l%d-", level), note{Key: "late", Priority: level})...)
	}
	agents[1].reload(before, middle, "reloaded")
	c.progress(3000)
	agents[1].reload(middle, after, "reloaded")
	inForce(2)
	agents[0].reload(middle, after, "reloaded")
	c.progress(backlog + 300)
	eventually(t, "nothing is left", patience, func() bool {
		q := agents[0].queue("jobs")
		return q.Waiting+q.InFlight+q.Delayed == 0
	})
	close(c.stop)
	c.apps.Wait()

	c.mu.Lock()
	defer c.mu.Unlock()
	twice := 0
	for name, n := range c.began {
		if n > 1 {
			twice++
		}
		if c.done[name] != 1 {
			t.Errorf("%s was delivered %d times and acked %d times", name, n, c.done[name])
		}
	}
	equal(t, "messages", len(c.began), backlog+300)
	// The definition changed twice, and each time all lanes: what the other agent had in hand can have come again.
	if inHand := 2 * len(agents) * apps * most; twice > inHand {
		t.Errorf("%d messages came twice, at most %d were in hand at the two changes", twice, inHand)
	}
	if len(c.late) > 0 {
		t.Errorf("delivered again after the ack: %v", c.late)
	}
	t.Logf("%d of %d messages came twice", twice, len(c.began))
}
