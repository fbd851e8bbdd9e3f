package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestLevelByName(t *testing.T) {
	q := Queue{Levels: 3, LevelNames: []string{"high", "medium", "low"}}
	for _, c := range []struct {
		in    string
		level int
		ok    bool
	}{
		{"high", 0, true}, {"low", 2, true}, {"0", 0, true}, {"2", 2, true},
		{"3", 0, false}, {"-1", 0, false}, {"+1", 0, false}, {"01", 0, false}, {"", 0, false}, {"High", 0, false}, {"1.0", 0, false}, {" 1", 0, false}, {"99999999999999999999", 0, false},
	} {
		if level, ok := q.LevelByName(c.in); level != c.level || ok != c.ok {
			t.Errorf("%q is level %d, %v; want %d, %v", c.in, level, ok, c.level, c.ok)
		}
	}
	if _, ok := (Queue{Levels: 1}).LevelByName("high"); ok {
		t.Error("a queue without names knows one")
	}
}

// changes has a change for each field of a queue, from a default one, and
// whether it makes other lanes.
var changes = []struct {
	name   string
	layout bool
	change func(q *Queue)
}{
	{"Name", false, func(q *Queue) { q.Name = "other" }},
	{"Revision", false, func(q *Queue) { q.Revision = 1 }},
	{"Levels", true, func(q *Queue) { q.Levels = 2 }},
	{"LevelNames", false, func(q *Queue) { q.LevelNames = []string{"only"} }},
	{"DefaultPriority", true, func(q *Queue) { q.Levels, q.DefaultPriority = 5, 4 }},
	{"StarvationGuard", false, func(q *Queue) { q.StarvationGuard = 10 }},
	{"FairShare", true, func(q *Queue) { q.FairShare.Enabled = true }},
	{"SingleActiveConsumer", true, func(q *Queue) { q.SingleActiveConsumer = true }},
	{"Limits", false, func(q *Queue) { q.Limits.MaxMessages = 1 }},
	{"Retry", false, func(q *Queue) { q.Retry.Backoff = []time.Duration{time.Second} }},
	{"DeadLetters", false, func(q *Queue) { q.DeadLetters.Enabled = false }},
	{"AckWait", false, func(q *Queue) { q.AckWait = time.Second }},
	{"TTL", false, func(q *Queue) { q.TTL = time.Second }},
	{"DedupWindow", false, func(q *Queue) { q.DedupWindow = time.Second }},
	{"Compress", false, func(q *Queue) { q.Compress = &Compress{Algorithm: "gzip"} }},
	{"ConcurrencyPerKey", true, func(q *Queue) { q.ConcurrencyPerKey = 2 }},
	{"OrderedKeys", true, func(q *Queue) { q.OrderedKeys = true }},
	{"Sources", false, func(q *Queue) { q.Sources = []Source{{Stream: "S", Subject: "s.>"}} }},
	{"Storage", false, func(q *Queue) { q.Storage.Type = "memory" }},
}

// Every field enters the hash and the JSON, and exactly those that shape lanes
// enter the layout. A field that is added must be added to changes, too.
func TestHashAndLayoutFollowTheFields(t *testing.T) {
	base := defaultQueue("q")
	if fields := reflect.TypeFor[Queue]().NumField(); fields != len(changes) {
		t.Fatalf("Queue has %d fields, and %d changes are tested", fields, len(changes))
	}
	seen := map[string]string{base.Hash(): "the base"}
	for _, c := range changes {
		q := defaultQueue("q")
		c.change(&q)
		if other, twice := seen[q.Hash()]; twice {
			t.Errorf("%s has the hash of %s", c.name, other)
		}
		seen[q.Hash()] = c.name
		if changed := q.Layout() != base.Layout(); changed != c.layout {
			t.Errorf("%s changes the layout: %v, want %v", c.name, changed, c.layout)
		}
		roundTrip(t, q)
	}
}

// Lanes and definitions in force are found again by these after an upgrade. A
// change of these values makes every lane anew.
func TestHashAndLayoutAreStable(t *testing.T) {
	q := Dev("/d").Queues[0]
	if got := q.Hash() + " " + q.Layout(); got != "ffcbc036436ffd92 a14381ad" {
		t.Errorf("got %s", got)
	}
}

func roundTrip(t interface {
	Helper()
	Fatalf(string, ...any)
}, q Queue) {
	t.Helper()
	data, err := json.Marshal(q)
	if err != nil {
		t.Fatalf("%v", err)
	}
	var back Queue
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatalf("%v\n%s", err, data)
	}
	if !reflect.DeepEqual(q, back) {
		t.Fatalf("lost something:\n%s\ngot  %+v\nwant %+v", data, back, q)
	}
	if back.Hash() != q.Hash() {
		t.Fatalf("another hash after the round trip: %s", data)
	}
}

func TestQueueJSONIsLossless(t *testing.T) {
	data, err := os.ReadFile("testdata/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c, _, err := Parse("full.yaml", data, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range append(c.Queues, Dev("/d").Queues...) {
		roundTrip(t, q)
	}
	rapid.Check(t, func(t *rapid.T) { roundTrip(t, drawQueue(t)) })
}

// drawQueue draws a valid queue.
func drawQueue(t *rapid.T) Queue {
	times := rapid.Map(rapid.Int64Range(int64(100*time.Millisecond), int64(time.Hour)), func(n int64) time.Duration { return time.Duration(n) })
	q := defaultQueue(rapid.StringMatching(`[A-Za-z0-9_-]{1,48}`).Draw(t, "name"))
	q.Revision = rapid.Int64Range(0, 1<<53).Draw(t, "revision")
	q.Levels = rapid.IntRange(1, 100).Draw(t, "levels")
	if rapid.Bool().Draw(t, "named") {
		for i := range q.Levels {
			q.LevelNames = append(q.LevelNames, fmt.Sprintf("l%d", i))
		}
	}
	q.DefaultPriority = rapid.IntRange(0, q.Levels-1).Draw(t, "default")
	q.FairShare.Enabled = rapid.Bool().Draw(t, "fair")
	keys := rapid.StringN(0, 20, 40)
	if w := rapid.MapOfN(keys, rapid.Int32Range(1, 1_000_000), 0, 5).Draw(t, "weights"); len(w) > 0 {
		q.FairShare.Weights = make(map[string]Weight)
		for k, v := range w {
			q.FairShare.Weights[k] = Weight(v)
		}
	}
	q.Retry.Backoff = rapid.SliceOfN(times, 1, 5).Draw(t, "backoff")
	q.Retry.Jitter = rapid.Float64Range(0, 1).Draw(t, "jitter")
	q.Limits.MaxMessages = rapid.Int64Range(0, 1<<53).Draw(t, "messages")
	q.AckWait, q.TTL, q.DedupWindow = times.Draw(t, "ack"), times.Draw(t, "ttl"), times.Draw(t, "dedup")
	if rapid.Bool().Draw(t, "retry at") {
		level := rapid.IntRange(0, q.Levels-1).Draw(t, "retry priority")
		q.DeadLetters.RetryPriority = &level
	}
	return q
}

func TestQueueJSONForm(t *testing.T) {
	data, err := json.Marshal(Dev("/d").Queues[0])
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"name":"default","revision":0,"priority_levels":["high","medium","low"],"default_priority":1,"starvation_guard":0,` +
		`"fair_share":{"enabled":true},"single_active_consumer":false,` +
		`"limits":{"max_messages":0,"max_bytes":0,"max_messages_per_key":0,"max_payload":0,"overflow":"reject"},` +
		`"retry":{"max_attempts":5,"backoff":["5s","10s","20s","40s"],"jitter":0.15},` +
		`"dead_letters":{"enabled":true,"max_age":"720h","evicted":false},` +
		`"ack_wait":"30s","ttl":"0s","dedup_window":"2m","concurrency_per_key":0,"ordered_keys":false,` +
		`"storage":{"type":"file","replicas":1,"compression":"s2"}}`
	if string(data) != want {
		t.Errorf("got  %s\nwant %s", data, want)
	}
}

func TestQueueJSONIsChecked(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`{`, "EOF"},
		{`[]`, "it is not an object"},
		{`{"name":"q","ack_wait":5}`, "ack_wait: a time needs a unit"},
		{`{"name":"q","priority_levels":2,"default_priority":2}`, "default_priority: is 2, and the queue has no such level"},
		{`{"name":"a.b"}`, `name: "a.b" is not a name`},
		{`{"revision":3}`, "name: is missing"},
		{`{"name":"q","name":"r"}`, "name: is there twice"},
		{`{"name":"q","limits":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + `}`, "it is nested too deep"},
	} {
		q := defaultQueue("before")
		err := q.UnmarshalJSON([]byte(c.in))
		if !errors.Is(err, ErrDefinition) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.100s: got %v, want %s", c.in, err, c.want)
		}
		if !reflect.DeepEqual(q, defaultQueue("before")) {
			t.Errorf("%.100s: changed the queue", c.in)
		}
	}
	var q Queue
	if err := q.UnmarshalJSON([]byte(`{"name":"q"} {}`)); !errors.Is(err, ErrDefinition) {
		t.Errorf("text after the definition: %v", err)
	}
	// Keys of a newer version are passed over, absent ones get their defaults,
	// and nothing is expanded.
	if err := json.Unmarshal([]byte(`{"name":"q","new_thing":{"a":[1]},"limits":{"new":1},"sources":[{"stream":"S","subject":"s.>","key":"${A}"}],"fair_share":{"enabled":false,"weights":{"<<":2,"${A}":1}}}`), &q); err != nil {
		t.Fatal(err)
	}
	want := defaultQueue("q")
	want.FairShare.Weights = map[string]Weight{"<<": 2000, "${A}": 1000}
	want.Sources = []Source{{Stream: "S", Subject: "s.>", Key: "${A}"}}
	diff(t, q, want)
}

func TestWeightString(t *testing.T) {
	for w, want := range map[Weight]string{1: "0.001", 10: "0.01", 500: "0.5", 1000: "1", 1500: "1.5", 10_000: "10", 1_000_000: "1000", 999_999: "999.999"} {
		if w.String() != want {
			t.Errorf("%d is %s, want %s", int32(w), w, want)
		}
	}
}

func TestDev(t *testing.T) {
	c := Dev("/tmp/x")
	if c.Agent.ID == "" || c.Agent.ID == Dev("/tmp/x").Agent.ID {
		t.Errorf("agent id %q: want a new one each time", c.Agent.ID)
	}
	want := defaultConfig()
	want.Agent.ID = c.Agent.ID
	want.NATS = NATS{Prefix: "fl", Embedded: &Embedded{StoreDir: "/tmp/x/jetstream", SyncInterval: 2 * time.Minute}}
	want.Listen = Listen{Socket: "/tmp/x/agent.sock", AdminSocket: "/tmp/x/admin.sock", Mode: 0o660}
	q := defaultQueue("default")
	q.Levels, q.LevelNames, q.DefaultPriority, q.FairShare.Enabled = 3, []string{"high", "medium", "low"}, 1, true
	want.Queues = []Queue{q}
	want.Capsules = []Capsule{{Name: "default", Queues: []string{"default"}, Concurrency: 1024, Lease: time.Minute}}
	diff(t, c, want)

	// Defaults are not shared between configurations.
	c.Queues[0].Retry.Backoff[0] = time.Hour
	diff(t, Dev("/tmp/x").Queues[0], q)
}
