package metrics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"go.uber.org/goleak"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/broker"
	"github.com/fairlead/fairlead/agent/delivery"
	"github.com/fairlead/fairlead/agent/trend"
	"github.com/fairlead/fairlead/config"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a Source whose queue holds what a test says.
type fake struct {
	stats broker.Stats
	err   atomic.Pointer[error]
	takes time.Duration
	asked atomic.Int32
}

func (f *fake) Status(context.Context) (*api.AgentStatus, error) {
	return &api.AgentStatus{
		State: api.StateActive, Broker: api.BrokerStatus{Connected: true, Reconnects: 3}, Warnings: []string{"one"},
		Capsules: []api.CapsuleStatus{{Name: "main", Concurrency: 10, Credit: 4, InFlight: 2, Queues: []api.CapsuleQueue{
			{Name: "jobs", Lease: api.LeaseStandby, LeaseHolder: "other/main", Fence: 1_790_000_000_000_007},
		}}},
		Peers: []api.Peer{{Agent: "other", Capsule: "main", Queues: []string{"jobs", "elsewhere"}}},
	}, nil
}

func (f *fake) Ready() error         { return errors.New("not now") }
func (f *fake) Book() delivery.Stats { return delivery.Stats{Extended: 5} }
func (f *fake) Definitions() []config.Queue {
	return []config.Queue{{Name: "jobs", Levels: 2, Limits: config.Limits{MaxMessages: 1000, MaxBytes: 1 << 20}}}
}

func (f *fake) Held(_ context.Context, _ config.Queue, keys int) (Held, error) {
	f.asked.Add(1)
	time.Sleep(f.takes)
	if err := f.err.Load(); err != nil {
		return Held{}, *err
	}
	s := f.stats
	s.Keys = s.Keys[:min(keys, len(s.Keys))]
	return Held{s, []uint64{0, 7}, 6}, nil
}

// held is a queue with one large tenant, two small ones, and one whose key nobody would want in a label.
func held() broker.Stats {
	key := func(key string, n uint64) broker.KeyStats {
		return broker.KeyStats{Key: key, Depth: broker.Depth{Stored: n, Waiting: n}}
	}
	return broker.Stats{
		Queue: "jobs", Depth: broker.Depth{Stored: 109, Waiting: 108, InFlight: 1}, KeysTotal: 4, Bytes: 4711, Lanes: 5,
		Levels: []broker.LevelStats{
			{Level: 0, Depth: broker.Depth{Waiting: 8, InFlight: 1}, OldestAge: 1500 * time.Millisecond},
			{Level: 1, Depth: broker.Depth{Waiting: 100, BackingOff: 2}},
		},
		Keys: []broker.KeyStats{key("bigcorp", 100), key("zebra\"\n\\", 4), key("small", 3), key("", 1)},
	}
}

// scrape reads the metrics as Prometheus would, and returns the text as well.
func scrape(t *testing.T, m *Metrics) (map[string]*dto.MetricFamily, string) {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	text, _ := io.ReadAll(w.Result().Body)
	if w.Code != 200 {
		t.Fatalf("status %d: %s", w.Code, text)
	}
	p := expfmt.NewTextParser(model.LegacyValidation)
	all, err := p.TextToMetricFamilies(strings.NewReader(string(text)))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return all, string(text)
}

// value finds a series by its name and labels, written name{a,b} by the values of its labels.
func value(all map[string]*dto.MetricFamily, name string, labels ...string) (float64, bool) {
	f := all[name]
	if f == nil {
		return 0, false
	}
	for _, s := range f.Metric {
		var have []string
		for _, l := range s.Label {
			have = append(have, l.GetName()+"="+l.GetValue())
		}
		want := slices.Clone(labels)
		slices.Sort(have)
		slices.Sort(want)
		if !slices.Equal(have, want) {
			continue
		}
		switch {
		case s.Counter != nil:
			return s.Counter.GetValue(), true
		case s.Gauge != nil:
			return s.Gauge.GetValue(), true
		case s.Histogram != nil:
			return float64(s.Histogram.GetSampleCount()), true
		}
	}
	return 0, false
}

func want(t *testing.T, all map[string]*dto.MetricFamily, number float64, name string, labels ...string) {
	t.Helper()
	if got, ok := value(all, name, labels...); !ok || got != number {
		t.Errorf("%s%v is %v (there: %v), want %v", name, labels, got, ok, number)
	}
}

func newMetrics(topKeys int) (*Metrics, *broker.Metrics) {
	b := new(broker.Metrics)
	return New(Options{Broker: b, TopKeys: topKeys, Version: "1.2.3", Queues: []config.Queue{{Name: "jobs", Levels: 2}}}), b
}

func message(level int, key string) *broker.Message {
	now := time.Now()
	return &broker.Message{Queue: "jobs", Level: level, Key: key, Attempt: 1, EnqueuedAt: now.Add(-time.Second), Asked: now.Add(-time.Millisecond)}
}

func TestWhatIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, b := newMetrics(0)
		m.Start(&fake{stats: held()})
		defer m.Stop()
		synctest.Wait() // the first sample
		b.Refused.Add("jobs", "max_messages")
		b.Evicted.Add("jobs", "1")
		b.Dead.Add("jobs", "rejected")
		b.Dropped.Add("jobs", "max_attempts")
		for range 7 {
			b.Sweeps.Add("jobs")
		}
		m.Published("jobs", broker.Receipt{}, nil)
		m.Published("jobs", broker.Receipt{Duplicate: true}, nil)
		m.Published("jobs", broker.Receipt{}, &api.Error{Code: api.CodeQueueFull})
		m.Published("jobs", broker.Receipt{}, errors.New("something else"))
		m.Reloaded(errors.New("no"))
		o := m.Observer()
		one, two := message(1, "bigcorp"), message(0, "small")
		again := message(0, "small")
		again.Attempt = 2
		o.Handed([]delivery.Delivery{{Message: one}, {Message: two}, {Message: again}})
		o.Ended(one, delivery.Acked, delivery.Took{Held: time.Second})
		o.Ended(two, delivery.Expired, delivery.Took{Held: time.Minute})

		all, text := scrape(t, m)
		want(t, all, 1, "fairlead_published_total", "queue=jobs", "result=stored")
		want(t, all, 1, "fairlead_published_total", "queue=jobs", "result=duplicate")
		want(t, all, 1, "fairlead_published_total", "queue=jobs", "result=queue_full")
		want(t, all, 1, "fairlead_published_total", "queue=jobs", "result=failed")
		want(t, all, 1, "fairlead_delivered_total", "queue=jobs", "priority=1")
		want(t, all, 2, "fairlead_delivered_total", "queue=jobs", "priority=0")
		want(t, all, 1, "fairlead_settled_total", "queue=jobs", "result=ack")
		want(t, all, 1, "fairlead_settled_total", "queue=jobs", "result=expired")
		want(t, all, 0, "fairlead_settled_total", "queue=jobs", "result=session_lost")
		want(t, all, 1, "fairlead_refused_total", "queue=jobs", "reason=max_messages")
		want(t, all, 1, "fairlead_evicted_total", "queue=jobs", "priority=1")
		want(t, all, 7, "fairlead_sweeps_total", "queue=jobs")
		// What has not happened is 0 and not absent: else the first time would be no increase.
		want(t, all, 0, "fairlead_dead_total", "queue=jobs", "reason=max_attempts")
		want(t, all, 0, "fairlead_dropped_total", "queue=jobs", "reason=rejected")
		want(t, all, 0, "fairlead_refused_total", "queue=jobs", "reason=lower_than_all")
		want(t, all, 0, "fairlead_evicted_total", "queue=jobs", "priority=0")
		want(t, all, 0, "fairlead_expired_total", "queue=jobs", "priority=0")
		want(t, all, 0, "fairlead_empty_lane_pulls_total", "queue=jobs")
		want(t, all, 109, "fairlead_stored_messages", "queue=jobs")
		want(t, all, 1000, "fairlead_limit_messages", "queue=jobs")
		want(t, all, 1, "fairlead_noisy_tenants", "queue=jobs")
		want(t, all, 100, "fairlead_tenants_waiting_messages", "queue=jobs", "tenants=noisy")
		want(t, all, 8, "fairlead_tenants_waiting_messages", "queue=jobs", "tenants=quiet")
		want(t, all, 5, "fairlead_extended_total")
		want(t, all, 1, "fairlead_reloads_total", "result=refused")
		want(t, all, 0, "fairlead_reloads_total", "result=applied")
		want(t, all, 1, "fairlead_wait_seconds", "queue=jobs", "tenants=noisy")
		want(t, all, 1, "fairlead_wait_seconds", "queue=jobs", "tenants=quiet")
		want(t, all, 3, "fairlead_pick_to_delivery_seconds", "queue=jobs")
		want(t, all, 2, "fairlead_delivery_to_settle_seconds", "queue=jobs")
		want(t, all, 4, "fairlead_capsule_credit_messages", "capsule=main")
		want(t, all, 1, "fairlead_lease_state", "capsule=main", "queue=jobs", "state=standby")
		want(t, all, 0, "fairlead_lease_state", "capsule=main", "queue=jobs", "state=holder")
		want(t, all, 1_790_000_000_000_007, "fairlead_lease_fence", "capsule=main", "queue=jobs")
		want(t, all, 1, "fairlead_peers", "queue=jobs")
		want(t, all, 3, "fairlead_broker_reconnects_total")
		want(t, all, 0, "fairlead_ready")
		want(t, all, 1, "fairlead_info", "version=1.2.3")
		want(t, all, 100, "fairlead_waiting_messages", "queue=jobs", "priority=1")
		want(t, all, 1, "fairlead_in_flight_messages", "queue=jobs", "priority=0")
		want(t, all, 9, "fairlead_delayed_messages", "queue=jobs", "priority=1")
		want(t, all, 6, "fairlead_dead_letters", "queue=jobs")
		want(t, all, 1, "fairlead_dead_total", "queue=jobs", "reason=rejected")
		want(t, all, 1.5, "fairlead_oldest_age_seconds", "queue=jobs", "priority=0")
		want(t, all, 4, "fairlead_tenants", "queue=jobs")
		for _, key := range []string{"bigcorp", "small", "zebra"} {
			if strings.Contains(text, key) {
				t.Errorf("a tenant's key, %s, is shown", key)
			}
		}
		if _, ok := value(all, "fairlead_peers", "queue=elsewhere"); ok {
			t.Error("a label that another agent made up is shown")
		}
	})
}

// Every family that is declared is shown, has the name and type of the documentation, and a line in it; what is documented is
// there.
func TestTheDocumentationListsThemAll(t *testing.T) {
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, f := range families {
		labels := "—"
		if len(f.labels) > 0 {
			labels = "`" + strings.Join(f.labels, "`, `") + "`"
		}
		lines = append(lines, fmt.Sprintf("| `%s` | %s | %s | %s |", f.name, f.typeName(), labels, f.help))
	}
	table := strings.Join(lines, "\n")
	if !strings.Contains(string(text), table+"\n\n") {
		t.Errorf("docs/operations.md does not have this table:\n\n| metric | type | labels | |\n| --- | --- | --- | --- |\n%s", table)
	}
	synctest.Test(t, func(t *testing.T) {
		m, b := newMetrics(2)
		m.Start(&fake{stats: held()})
		defer m.Stop()
		synctest.Wait()
		b.Refused.Add("jobs", "max_messages")
		b.Evicted.Add("jobs", "1")
		b.Dead.Add("jobs", "rejected")
		b.Dropped.Add("jobs", "max_attempts")
		all, _ := scrape(t, m)
		for _, f := range families {
			if got := all[f.name]; got == nil || strings.ToLower(got.GetType().String()) != f.typeName() {
				t.Errorf("%s is declared as %s, and shown as %v", f.name, f.typeName(), got.GetType())
			}
			if counts := f.typeName() == "counter"; counts != strings.HasSuffix(f.name, "_total") {
				t.Errorf("%s is a %s", f.name, f.typeName())
			}
		}
	})
}

func TestTopKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := newMetrics(2)
		m.Start(&fake{stats: held()})
		defer m.Stop()
		synctest.Wait()
		all, _ := scrape(t, m)
		want(t, all, 100, "fairlead_key_waiting_messages", "queue=jobs", "key=bigcorp")
		want(t, all, 4, "fairlead_key_waiting_messages", "queue=jobs", "key=zebra\"\n\\")
		if n := len(all["fairlead_key_waiting_messages"].Metric); n != 2 {
			t.Errorf("%d tenants are shown, want 2", n)
		}
	})
}

// Who is noisy is the same for metrics and for the dashboard, whoever looks: also beside somebody louder, for which those count who
// keep up and have nothing waiting.
func TestNoisyTenants(t *testing.T) {
	for name, c := range map[string]struct {
		waiting []uint64
		keepUp  int
		noisy   int
	}{
		"one":                  {[]uint64{50}, 0, 0},
		"one among the brisk":  {[]uint64{50}, 3, 1},
		"equal ones":           {[]uint64{7, 7, 7}, 0, 0},
		"a trifle":             {[]uint64{9, 1, 1}, 0, 0},
		"one among many":       {[]uint64{1000, 1, 1, 1, 1, 1}, 0, 1},
		"two of two":           {[]uint64{10000, 10}, 0, 1},
		"more noisy than not":  {[]uint64{900, 900, 900, 1}, 0, 3},
		"not only the loudest": {[]uint64{10000, 500}, 4, 2},
		"a middle that waits":  {[]uint64{10000, 500, 400}, 2, 1},
		"none":                 {nil, 5, 0},
	} {
		at := time.Now()
		s := broker.Stats{KeysTotal: len(c.waiting)}
		look := trend.Sample{At: at, Total: len(c.waiting), Got: map[string]trend.Got{}}
		heard := map[string]struct{}{"0": {}}
		for i, n := range c.waiting {
			s.Keys = append(s.Keys, broker.KeyStats{Key: fmt.Sprint(i), Depth: broker.Depth{Waiting: n}})
			s.Waiting += n
			look.Tenants = append(look.Tenants, trend.Tenant{Key: fmt.Sprint(i), Waiting: n, Weight: 1})
			look.Waiting += n
		}
		if c.waiting == nil {
			delete(heard, "0")
		}
		for i := range c.keepUp {
			heard[fmt.Sprint("k", i)] = struct{}{}
			look.Got[fmt.Sprint("k", i)] = trend.Got{Deliveries: 1}
		}
		got := new(trend.Noise).Add(loudness(s, at, heard))
		if len(got) != c.noisy || c.noisy > 0 && !got["0"] {
			t.Errorf("%s: noisy are %v, want the first %d", name, got, c.noisy)
		}
		var q trend.Queue
		q.Add(trend.Sample{At: at.Add(-time.Second)}, 20)
		if v := q.Add(look, 20); v.Noisy.Tenants != c.noisy {
			t.Errorf("%s: the dashboard shows %d, want %d", name, v.Noisy.Tenants, c.noisy)
		}
	}
}

// What was delivered within the window counts, at each look; what was before, or before anybody wanted to know, does not.
func TestHeard(t *testing.T) {
	var h heard
	hear := func(key string) {
		h.note([]delivery.Delivery{{Message: &broker.Message{Queue: "jobs", Key: key}}})
	}
	hear("before")
	h.begin(true)
	at := time.Now()
	for i, want := range []int{1, 2, 3, 3, 3} { // looks are 2 s apart, and those of 4 s ago are within the window
		hear(fmt.Sprint(i))
		if got := len(h.look(at.Add(time.Duration(2*i) * time.Second))["jobs"]); got != want {
			t.Errorf("look %d: %d tenants, want %d", i, got, want)
		}
	}
	for i := range 2 * heardTenants {
		hear(fmt.Sprint(i))
	}
	if got := len(h.look(at.Add(time.Minute))["jobs"]); got != heardTenants {
		t.Errorf("%d tenants are told apart", got)
	}
	h.begin(false)
	hear("after")
	if h.queues != nil || h.before != nil {
		t.Error("notes are taken for nobody")
	}
}

// Before the start there is nothing to show, and Stop may come at any time.
func TestBeforeTheStart(t *testing.T) {
	m, _ := newMetrics(0)
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 503 {
		t.Errorf("status %d", w.Code)
	}
	m.Stop()
	m.Start(&fake{})
	m.Stop()
}
