package integration

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/api"
)

// overviews connects as a browser would, and returns what reads the next overview.
func overviews(t *testing.T, address string) func() *api.Overview {
	t.Helper()
	answer, err := http.Get("http://" + address + "/events")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { answer.Body.Close() })
	equal(t, "status", answer.StatusCode, 200)
	lines := bufio.NewReader(answer.Body)
	return func() *api.Overview {
		t.Helper()
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				o := &api.Overview{}
				if err := json.Unmarshal([]byte(data), o); err != nil {
					t.Fatal(err)
				}
				return o
			}
		}
	}
}

// tenant finds a tenant of the first queue.
func tenant(o *api.Overview, key string) (api.TenantOverview, bool) {
	for _, t := range o.Queues[0].Tenants {
		if t.Key == key {
			return t, true
		}
	}
	return api.TenantOverview{}, false
}

// What the dashboard is told of a noisy neighbour, its dead letters, and its agent.
func TestDashboard(t *testing.T) {
	t.Parallel()
	server := startNATS(t)
	address := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	a := startAgent(t, settings{nats: server.url, dashboard: address, yaml: `queues:
  - {name: jobs, priority_levels: 2, fair_share: {enabled: true, weights: {acme: 3}}}
capsules:
  - {name: main, queues: [jobs]}
`})
	next := overviews(t, address)
	if o := next(); o.Status.State != api.StateActive || !o.Status.Broker.Connected || o.Queues[0].Name != "jobs" || o.Queues[0].Waiting != 0 {
		t.Fatalf("at the start: %+v", o)
	}
	for range 40 {
		a.publish("jobs", "x", "Fairlead-Key", "flood", "Fairlead-Priority", "1")
	}
	for range 4 {
		a.publish("jobs", "x", "Fairlead-Key", "acme", "Fairlead-Priority", "1")
	}
	app := a.app("main")
	got := app.pull(8, patience)
	for i, d := range got {
		s := api.Settlement{Result: api.Ack}
		if i == 0 {
			s = api.Settlement{Result: api.Reject, Reason: "card <expired>"}
		}
		equal(t, "settled", a.say(d, s), api.StatusOK)
	}
	var o *api.Overview
	eventually(t, "an overview with all of it", patience, func() bool {
		o = next()
		return o.Queues[0].Deliveries == uint64(len(got)) && len(o.Queues[0].Latest) == 1
	})
	q := o.Queues[0]
	flood, _ := tenant(o, "flood")
	acme, ok := tenant(o, "acme")
	if !ok || !flood.Noisy || acme.Noisy || acme.Weight != 3 || acme.Fair != 0.75 || flood.OldestAgeSeconds <= 0 {
		t.Errorf("tenants: %+v", q.Tenants)
	}
	if q.LevelStats[1].Waiting != uint64(44-len(got)) || q.LevelStats[1].DeliveredPerSecond <= 0 {
		t.Errorf("levels: %+v", q.LevelStats)
	}
	if d := q.Latest[0]; d.Reason != "rejected" || d.LastError != "card <expired>" || q.Dead != 1 {
		t.Errorf("dead letters: %+v", q.Latest)
	}
	// The command line's view of the same has no dead letters: those are for operators.
	var asked api.Overview
	a.get("/v1/overview", &asked)
	if len(asked.Queues[0].Latest) != 0 || asked.Queues[0].Dead != 1 {
		t.Errorf("on the app's socket: %+v", asked.Queues[0].Latest)
	}
	// NATS goes away: the page says so, and stays.
	server.kill()
	eventually(t, "that NATS is away", patience, func() bool { o = next(); return !o.Status.Broker.Connected && o.Problem != "" })
	if o.Queues[0].Waiting == 0 || time.Since(o.Queues[0].AsOf) < 0 {
		t.Errorf("queues are not shown as they were: %+v", o.Queues[0])
	}
}

// An address that the file names has to be free, and an empty one is none.
func TestTheAddressOfTheDashboard(t *testing.T) {
	t.Parallel()
	server := startNATS(t)
	address := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	first := startAgent(t, settings{nats: server.url, dashboard: address, yaml: threeLevels})
	second := launch(t, settings{nats: server.url, dashboard: address, yaml: threeLevels})
	equal(t, "exit code", second.wait(patience), 1)
	if said := second.out.String() + second.errs.String(); !strings.Contains(said, "the address is in use: "+address) || !strings.Contains(said, "listen.dashboard_http") {
		t.Errorf("it says %s", said)
	}
	overviews(t, address)()
	// A viewer that stays does not keep an agent from ending.
	first.signal(sigterm)
	equal(t, "exit code", first.wait(patience), 0)
	none := startAgent(t, settings{nats: server.url, yaml: threeLevels})
	if said := none.out.String() + none.errs.String(); strings.Contains(said, "dashboard") {
		t.Errorf("an agent without the address says %s", said)
	}
}
