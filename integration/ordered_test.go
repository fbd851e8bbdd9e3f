package integration

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/api"
)

// keyOrder watches apps that work on ordered keys.
type keyOrder struct {
	mu      sync.Mutex
	running map[string]string   // by key: what an app works on
	failed  map[string]string   // by key: what failed and is not done
	fails   map[string]int      // by payload: how often it is to fail yet
	done    map[string][]string // by key
	total   int
	wrong   []string
	tries   map[string][]int // by payload: the attempts
}

func (o *keyOrder) begin(d *api.Delivery) {
	o.mu.Lock()
	defer o.mu.Unlock()
	name := string(d.Payload())
	if other := o.running[d.Key]; other != "" {
		o.wrong = append(o.wrong, fmt.Sprintf("%s begins while %s is worked on", name, other))
	}
	if other := o.failed[d.Key]; other != "" && other != name {
		o.wrong = append(o.wrong, fmt.Sprintf("%s overtakes %s, which failed", name, other))
	}
	o.running[d.Key] = name
	o.tries[name] = append(o.tries[name], d.Attempt)
}

// end decides what becomes of a delivery.
func (o *keyOrder) end(d *api.Delivery) api.Settlement {
	o.mu.Lock()
	defer o.mu.Unlock()
	name := string(d.Payload())
	delete(o.running, d.Key)
	if o.fails[name] > 0 {
		o.fails[name]--
		o.failed[d.Key] = name
		return api.Settlement{Token: d.Token, Result: api.Nack, Delay: "300ms"}
	}
	delete(o.failed, d.Key)
	o.done[d.Key] = append(o.done[d.Key], name)
	o.total++
	return api.Settlement{Token: d.Token, Result: api.Ack}
}

func (o *keyOrder) finished() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.total
}

func (o *keyOrder) work(a *agent, stop <-chan struct{}) {
	app := a.app("main")
	for {
		got, err := app.tryPull(2, 200*time.Millisecond)
		if err != nil {
			return // the agent was killed, or the test is over
		}
		for i := range got {
			o.begin(&got[i])
			time.Sleep(2 * time.Millisecond) // the handler's work
			app.settle = append(app.settle, o.end(&got[i]))
		}
		select {
		case <-stop:
			return
		default:
		}
	}
}

// Ordered keys over two agents, with messages that fail, of which one is the first of its key, and with and without a
// priority: each key comes in exact order, one at a time, nothing overtakes what backs off, and the other keys go on.
func TestOrderedKeysOverTwoAgents(t *testing.T) {
	t.Parallel()
	server := startNATS(t)
	yaml := `
queues: [{name: jobs, ordered_keys: true}]
capsules: [{name: main, queues: [jobs], concurrency: 10}]
`
	agents := []*agent{
		startAgent(t, settings{id: "one", nats: server.url, yaml: yaml}),
		startAgent(t, settings{id: "two", nats: server.url, yaml: yaml}),
	}
	const keys, each = 6, 12
	o := &keyOrder{running: map[string]string{}, failed: map[string]string{}, done: map[string][]string{}, tries: map[string][]int{}, fails: map[string]int{
		"k0-0": 2, "k1-5": 1, "k2-11": 1,
	}}
	for i := range each {
		for k := range keys {
			headers := []string{"Fairlead-Key", fmt.Sprint("k", k)}
			if i%2 == 1 {
				headers = append(headers, "Fairlead-Priority", "0")
			}
			agents[i%2].publish("jobs", fmt.Sprintf("k%d-%d", k, i), headers...)
		}
	}
	stop := make(chan struct{})
	var apps sync.WaitGroup
	for _, a := range agents {
		for range 4 {
			apps.Go(func() { o.work(a, stop) })
		}
	}
	eventually(t, "all is done", 2*patience, func() bool { return o.finished() >= keys*each })
	close(stop)
	apps.Wait()
	for _, w := range o.wrong {
		t.Error(w)
	}
	for k := range keys {
		for i, name := range o.done[fmt.Sprint("k", k)] {
			if want := fmt.Sprintf("k%d-%d", k, i); name != want {
				t.Fatalf("key %d: %v", k, o.done[fmt.Sprint("k", k)])
			}
		}
	}
	equal(t, "attempts of the one that failed twice", fmt.Sprint(o.tries["k0-0"]), "[1 2 3]")
}
