package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/fairlead/fairlead/agent/api"
)

// numbers are an agent's metrics by name and labels, written name{a=b,c=d} in the order of the labels' names. A histogram
// has the number of its observations.
type numbers map[string]float64

// scrape reads /metrics as Prometheus does.
func (a *agent) scrape(address string) (all numbers, text string) {
	a.t.Helper()
	status, text, err := probe(address, "/metrics")
	if err != nil || status != 200 {
		a.t.Fatalf("/metrics: %d, %v", status, err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		a.t.Fatalf("/metrics cannot be read: %v\n%s", err, text)
	}
	all = numbers{}
	for name, family := range families {
		for _, m := range family.Metric {
			all[name+series(m)] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return all, text
}

func series(m *dto.Metric) string {
	var labels []string
	for _, l := range m.Label {
		labels = append(labels, l.GetName()+"="+l.GetValue())
	}
	if labels == nil {
		return ""
	}
	slices.Sort(labels)
	return "{" + strings.Join(labels, ",") + "}"
}

// shows waits until the metrics have these values.
func (a *agent) shows(address string, want numbers) {
	a.t.Helper()
	var missing []string
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		all, _ := a.scrape(address)
		missing = nil
		for name, n := range want {
			if got, ok := all[name]; !ok || got != n {
				missing = append(missing, fmt.Sprintf("%s is %v (there: %v), want %v", name, got, ok, n))
			}
		}
		if missing == nil {
			return
		}
		if time.Now().After(deadline) {
			slices.Sort(missing)
			a.t.Fatal(strings.Join(missing, "\n"))
		}
	}
}

const countedQueue = `
queues:
  - name: jobs
    priority_levels: 2
    default_priority: 1
    fair_share: true
    limits: {max_messages: 12}
capsules:
  - {name: main, queues: [jobs], concurrency: 20}
`

// A small workload whose every step is known is counted exactly.
func TestMetricsCountExactly(t *testing.T) {
	t.Parallel()
	server := startNATS(t)
	address := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	a := startAgent(t, settings{nats: server.url, probes: address, yaml: countedQueue})
	for i := range 12 {
		level := fmt.Sprint(min(i/4, 1)) // four of level 0, eight of level 1
		a.publish("jobs", "m", api.HeaderPriority, level, api.HeaderKey, "tenant-"+[]string{"loud", "loud", "loud", "calm"}[i%4])
	}
	for range 2 {
		if _, refusal := a.tryPublish("jobs", "one too many"); refusal == nil || refusal.Code != api.CodeQueueFull {
			t.Fatalf("over the limit: %v", refusal)
		}
	}
	a.shows(address, numbers{
		"fairlead_published_total{queue=jobs,result=stored}":     12,
		"fairlead_published_total{queue=jobs,result=queue_full}": 2,
		"fairlead_refused_total{queue=jobs,reason=max_messages}": 2,
		"fairlead_delivered_total{priority=0,queue=jobs}":        0,
		"fairlead_waiting_messages{priority=0,queue=jobs}":       4,
		"fairlead_waiting_messages{priority=1,queue=jobs}":       8,
		"fairlead_tenants{queue=jobs}":                           2,
	})

	app := a.app("main")
	held := app.pull(4, patience)
	for len(held) < 7 {
		held = append(held, app.pull(7-len(held), patience)...)
	}
	equal(t, "ack", a.say(held[0], api.Settlement{Result: api.Ack}), api.StatusOK)
	equal(t, "ack", a.say(held[1], api.Settlement{Result: api.Ack}), api.StatusOK)
	equal(t, "ack again", a.say(held[1], api.Settlement{Result: api.Ack}), api.StatusAlreadySettled)
	equal(t, "nack", a.say(held[2], api.Settlement{Result: api.Nack, Delay: "1h"}), api.StatusOK)
	equal(t, "reject", a.say(held[3], api.Settlement{Result: api.Reject, Reason: "no"}), api.StatusOK)
	equal(t, "extend", a.say(held[4], api.Settlement{Result: api.Extend, Lease: "60s"}), api.StatusOK)
	short := a.app("main")
	short.query = "&lease=1s" // which does not end before the answer is written, wherever the agent stands still
	late := short.pull(1, patience)
	a.shows(address, numbers{"fairlead_settled_total{queue=jobs,result=expired}": 1})
	session := a.session()
	lost := a.app("main")
	lost.query = "&session=" + session.id
	gone := lost.pull(1, patience)
	// What is lost before the agent knows that its answer was written counts as that.
	a.shows(address, numbers{"fairlead_delivered_total{priority=1,queue=jobs}": 5})
	session.close()
	a.shows(address, numbers{"fairlead_settled_total{queue=jobs,result=session_lost}": float64(len(gone))})

	a.shows(address, numbers{
		"fairlead_delivered_total{priority=0,queue=jobs}":        4,
		"fairlead_delivered_total{priority=1,queue=jobs}":        5,
		"fairlead_settled_total{queue=jobs,result=ack}":          2,
		"fairlead_settled_total{queue=jobs,result=nack}":         1,
		"fairlead_settled_total{queue=jobs,result=reject}":       1,
		"fairlead_settled_total{queue=jobs,result=expired}":      1,
		"fairlead_settled_total{queue=jobs,result=session_lost}": 1,
		"fairlead_settled_total{queue=jobs,result=unwritten}":    0,
		"fairlead_dead_total{queue=jobs,reason=rejected}":        1,
		"fairlead_dead_letters{queue=jobs}":                      1,
		"fairlead_extended_total":                                1,
		"fairlead_pick_to_delivery_seconds{queue=jobs}":          9,
		"fairlead_delivery_to_settle_seconds{queue=jobs}":        6,
		"fairlead_capsule_in_flight_messages{capsule=main}":      3,
		"fairlead_in_flight_messages{priority=1,queue=jobs}":     3,
		"fairlead_waiting_messages{priority=1,queue=jobs}":       5,
		"fairlead_waiting_messages{priority=0,queue=jobs}":       0,
		"fairlead_delayed_messages{priority=0,queue=jobs}":       1,
		"fairlead_broker_connected":                              1,
		"fairlead_ready":                                         1,
		"fairlead_sample_failures_total":                         0,
		"fairlead_reloads_total{result=refused}":                 0,
	})
	all, text := a.scrape(address)
	firsts := 0.0
	for _, d := range slices.Concat(held, late, gone) {
		if d.Attempt == 1 {
			firsts++
		}
	}
	equal(t, "first deliveries, by their waits", all["fairlead_wait_seconds{queue=jobs,tenants=noisy}"]+all["fairlead_wait_seconds{queue=jobs,tenants=quiet}"], firsts)
	if strings.Contains(text, "tenant-") {
		t.Error("a tenant is named, though metrics.top_keys is 0")
	}

	a.reload("max_messages: 12", "max_messages: -1", "the file was not reloaded")
	a.reload("max_messages: -1", "max_messages: 13", "reloaded")
	a.shows(address, numbers{"fairlead_reloads_total{result=refused}": 1, "fairlead_reloads_total{result=applied}": 1})
}

// Tenants are named when they are asked for, and then only the largest ones.
func TestMetricsNameTheLargestTenants(t *testing.T) {
	t.Parallel()
	address := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	a := startAgent(t, settings{probes: address, yaml: "metrics: {top_keys: 2}" + strings.Replace(countedQueue, "12", "0", 1)})
	for key, n := range map[string]int{"tenant-large": 6, "tenant \"é\"\n": 4, "tenant-small": 2, "tenant-tiny": 1} {
		a.batch("jobs", notes(n, "m", note{Key: key})...)
	}
	a.shows(address, numbers{
		"fairlead_tenants{queue=jobs}":                                 4,
		"fairlead_key_waiting_messages{key=tenant-large,queue=jobs}":   6,
		"fairlead_key_waiting_messages{key=tenant \"é\"\n,queue=jobs}": 4,
	})
	all, text := a.scrape(address)
	for name := range all {
		if strings.HasPrefix(name, "fairlead_key_") && !strings.Contains(name, "large") && !strings.Contains(name, "é") {
			t.Errorf("%s is shown", name)
		}
	}
	if strings.Contains(text, "small") || strings.Contains(text, "tenant-tiny") {
		t.Error("a small tenant is named")
	}
}

// NATS away: a scrape is answered at once, with what is known here.
func TestMetricsWhileTheBrokerIsAway(t *testing.T) {
	t.Parallel()
	server := startNATS(t)
	address := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	a := startAgent(t, settings{nats: server.url, probes: address, yaml: threeLevels})
	a.shows(address, numbers{"fairlead_waiting_messages{priority=0,queue=jobs}": 0, "fairlead_broker_connected": 1})
	server.kill()
	a.shows(address, numbers{"fairlead_broker_connected": 0, "fairlead_ready": 0})
	asked := ran()
	a.scrape(address)
	if took := ran() - asked; took > 2*time.Second {
		t.Errorf("a scrape without NATS took %v", took)
	}
	server.start()
	a.shows(address, numbers{"fairlead_broker_connected": 1, "fairlead_ready": 1, "fairlead_broker_reconnects_total": 1})
}

// A noisy neighbour shows without a name: its deliveries are counted apart from those of quiet tenants, who wait less.
func TestMetricsTellQuietTenantsFromNoisyOnes(t *testing.T) {
	t.Parallel()
	address := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	a := startAgent(t, settings{probes: address, yaml: strings.Replace(countedQueue, "12", "0", 1)})
	a.batch("jobs", notes(400, "m", note{Key: "loud"})...)
	for _, key := range []string{"a", "b", "c"} {
		a.batch("jobs", notes(40, "m", note{Key: key})...)
	}
	a.shows(address, numbers{"fairlead_waiting_messages{priority=1,queue=jobs}": 520})
	a.app("main").take(40, 4)
	a.shows(address, numbers{
		"fairlead_wait_seconds{queue=jobs,tenants=noisy}": 10,
		"fairlead_wait_seconds{queue=jobs,tenants=quiet}": 30,
	})
}
