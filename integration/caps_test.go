package integration

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/api"
)

// keyCount is what is in the hands of apps, by key.
type keyCount struct {
	mu   sync.Mutex
	now  map[string]int
	most map[string]int
	done []string // keys, in the order in which their messages were finished
}

func newKeyCount() *keyCount { return &keyCount{now: map[string]int{}, most: map[string]int{}} }

func (c *keyCount) add(key string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now[key] += n
	c.most[key] = max(c.most[key], c.now[key])
	if n < 0 {
		c.done = append(c.done, key)
	}
}

func (c *keyCount) finished() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.done...)
}

// work handles messages one at a time until stop is closed, each for a time that depends on its key.
func (c *keyCount) work(a *agent, stop <-chan struct{}, takes func(key string) time.Duration) {
	app := a.app("main")
	for {
		got, err := app.tryPull(1, 200*time.Millisecond)
		if err != nil {
			return
		}
		for _, d := range got {
			c.add(d.Key, 1)
			time.Sleep(takes(d.Key)) // the handler's work
			c.add(d.Key, -1)
			app.ack(d)
		}
		select {
		case <-stop:
			return
		default:
		}
	}
}

func capSettings(server *natsServer, id, queue string) settings {
	return settings{id: id, nats: server.url, yaml: fmt.Sprintf(`
queues: [{name: jobs, priority_levels: 2, fair_share: true, %s}]
capsules: [{name: main, queues: [jobs], concurrency: 10}]
`, queue)}
}

// Cap 2 with two agents and two levels: never three in flight of one key, and the other key is not held up.
func TestACapPerKeyHoldsOverAgentsAndLevels(t *testing.T) {
	t.Parallel()
	server := startNATS(t)
	agents := []*agent{
		startAgent(t, capSettings(server, "one", "concurrency_per_key: 2")),
		startAgent(t, capSettings(server, "two", "concurrency_per_key: 2")),
	}
	const n = 30
	for i := range n {
		agents[i%2].publish("jobs", "m", "Fairlead-Key", "busy", "Fairlead-Priority", fmt.Sprint(i/2%2))
	}
	for i := range n {
		agents[i%2].publish("jobs", "m", "Fairlead-Key", "other", "Fairlead-Priority", "1")
	}
	count, stop := newKeyCount(), make(chan struct{})
	var apps sync.WaitGroup
	for _, a := range agents {
		for range 5 {
			apps.Go(func() {
				count.work(a, stop, func(key string) time.Duration {
					if key == "busy" { // for long beside any moment for which an agent stands still
						return 200 * time.Millisecond
					}
					return 5 * time.Millisecond
				})
			})
		}
	}
	eventually(t, "all is done", patience, func() bool { return len(count.finished()) == 2*n })
	close(stop)
	apps.Wait()
	equal(t, "the most in flight of the busy key", count.most["busy"], 2)
	equal(t, "the most in flight of the other key", count.most["other"], 2)
	last := 0
	for i, key := range count.finished() {
		if key == "other" {
			last = i
		}
	}
	if last > 2*n-5 {
		t.Errorf("the other key was done as number %d of %d: it was held up", last, 2*n)
	}
}

// pullKey takes up to most messages of a key, and acks those of others.
func (p *app) pullKey(key string, most int, wait time.Duration) (all []api.Delivery) {
	p.t.Helper()
	for end := time.Now().Add(wait); len(all) < most && time.Now().Before(end); {
		for _, d := range p.pull(1, min(100*time.Millisecond, time.Until(end))) {
			if d.Key == key {
				all = append(all, d)
			} else {
				p.ack(d)
			}
		}
	}
	return all
}

// The agent that holds both permits of a key is killed: nobody has a third message before, others have them after the
// acknowledgement wait. Until then other keys go on.
func TestPermitsOfAKilledAgentComeBack(t *testing.T) {
	t.Parallel()
	const ackWait = 6 * time.Second // JetStream last heard of the permits up to a third of it before the kill
	server := startNATS(t)
	first := startAgent(t, capSettings(server, "first", "concurrency_per_key: 2, ack_wait: 6s"))
	second := startAgent(t, capSettings(server, "second", "concurrency_per_key: 2, ack_wait: 6s"))
	for i := range 6 {
		first.publish("jobs", "m", "Fairlead-Key", "k", "Fairlead-Priority", fmt.Sprint(i%2))
	}
	equal(t, "messages of the key that the first agent got", len(first.app("main").pullKey("k", 2, patience)), 2)
	app := second.app("main")
	equal(t, "messages of the key beyond the cap", len(app.pullKey("k", 1, ackWait*3/2)), 0)
	first.kill()
	killed, since := time.Now(), ran()
	second.publish("jobs", "m", "Fairlead-Key", "other")
	equal(t, "messages of another key meanwhile", len(app.pullKey("other", 1, ackWait/4)), 1)
	equal(t, "messages of the key right after the kill", len(app.pullKey("k", 1, ackWait/3-time.Since(killed))), 0)
	got := app.pullKey("k", 2, patience)
	equal(t, "messages of the key after the wait", len(got), 2)
	if took := ran() - since; took > ackWait+2*time.Second {
		t.Errorf("the permits came back after %v", took)
	}
	equal(t, "messages of the key beyond the cap, again", len(app.pullKey("k", 1, ackWait/2)), 0)
}

// The server is killed and started again, which forgets all lane consumers: what is in flight still counts.
func TestTheCapHoldsAcrossARestartOfTheServer(t *testing.T) {
	t.Parallel()
	server := startNATS(t)
	first := startAgent(t, capSettings(server, "first", "concurrency_per_key: 2, ack_wait: 4s"))
	second := startAgent(t, capSettings(server, "second", "concurrency_per_key: 2, ack_wait: 4s"))
	for i := range 6 {
		first.publish("jobs", fmt.Sprint(i), "Fairlead-Key", "k")
	}
	held := first.app("main").pullKey("k", 2, patience)
	equal(t, "messages in flight", len(held), 2)
	server.kill()
	server.start()
	app := second.app("main")
	eventually(t, "the first agent has NATS again", patience, func() bool {
		var s api.AgentStatus
		first.get("/v1/status", &s)
		return s.Broker.Connected
	})
	eventually(t, "the second agent works again", patience, func() bool {
		_, refused := second.tryPublish("jobs", "m", "Fairlead-Key", "other")
		return refused == nil
	})
	equal(t, "messages of another key", len(app.pullKey("other", 1, patience)), 1)
	equal(t, "messages beyond the cap", len(app.pullKey("k", 1, time.Second)), 0)
	for _, d := range held {
		equal(t, "settlement", first.say(d, api.Settlement{Result: api.Ack}), api.StatusOK)
	}
	equal(t, "messages once they are done", len(app.pullKey("k", 2, patience)), 2)
}

// The settlement that a pull brings makes room for what it asks for, with and without waiting.
func TestSettlementsComeBeforeATakeOfACappedKey(t *testing.T) {
	t.Parallel()
	a := startAgent(t, settings{yaml: `
queues: [{name: jobs, concurrency_per_key: 1}]
capsules: [{name: main, queues: [jobs], concurrency: 10}]
`})
	for i := range 20 {
		a.publish("jobs", fmt.Sprint(i), "Fairlead-Key", "k")
	}
	app := a.app("main")
	for i := range 20 {
		got := app.pull(4, 0)
		if len(got) != 1 || got[0].Data == nil || *got[0].Data != fmt.Sprint(i) {
			t.Fatalf("pull %d: %q", i, data(got))
		}
		app.ack(got...)
	}
	app.flush()
	app.empty()
}
