package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// env makes a lookup of a fixed environment.
func env(vars map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		v, ok := vars[name]
		return v, ok
	}
}

// minimal is the shortest file that is accepted; tests add to it.
const minimal = `nats: {url: nats://nats:4222}
queues: [{name: q}]
capsules: [{name: c, queues: [q]}]
`

func mustParse(t *testing.T, text string) *Config {
	t.Helper()
	c, _, err := Parse("f.yaml", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// problems gives what Parse says of a text, as lines without the file name.
func problems(t *testing.T, text string) []string {
	t.Helper()
	_, _, err := Parse("f.yaml", []byte(text), nil)
	return problemLines(t, err)
}

func problemLines(t *testing.T, err error) []string {
	t.Helper()
	if err == nil {
		return nil
	}
	var invalid *Invalid
	if !errors.As(err, &invalid) {
		t.Fatalf("the error is a %T, not an *Invalid: %v", err, err)
	}
	var lines []string
	for _, p := range invalid.Problems {
		lines = append(lines, strings.TrimPrefix(p.String(), p.File+":"))
	}
	return lines
}

func defaultQueue(name string) Queue {
	return Queue{
		Name:        name,
		Levels:      1,
		Limits:      Limits{Overflow: OverflowReject},
		Retry:       Retry{MaxAttempts: 5, Backoff: []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second}, Jitter: 0.15},
		DeadLetters: DeadLetters{Enabled: true, MaxAge: 720 * time.Hour},
		AckWait:     30 * time.Second,
		DedupWindow: 2 * time.Minute,
		Storage:     Storage{Type: "file", Replicas: 1, Compression: "s2"},
	}
}

func defaultConfig() *Config {
	return &Config{
		Agent: Agent{DrainTimeout: 30 * time.Second, PollInterval: 250 * time.Millisecond},
		NATS:  NATS{URLs: []string{"nats://nats:4222"}, Prefix: "fl"},
		Listen: Listen{
			Socket: "/run/fairlead/agent.sock", Mode: 0o660, AdminSocket: "/run/fairlead/admin.sock",
			ProbesHTTP: "127.0.0.1:9464", DashboardHTTP: "127.0.0.1:9465",
		},
		Coordination: Coordination{Bucket: "fairlead", HeartbeatInterval: 2 * time.Second, StaleAfter: 10 * time.Second, LeaseTTL: 10 * time.Second, Replicas: 1},
		Log:          Log{Level: "info", Format: "json"},
		Readiness:    Readiness{Broker: true},
		Queues:       []Queue{defaultQueue("q")},
		Capsules:     []Capsule{{Name: "c", Queues: []string{"q"}, Concurrency: 10, Lease: time.Minute}},
	}
}

func diff(t *testing.T, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%s\nwant\n%s", dump(got), dump(want))
	}
}

func dump(v any) string {
	if lines, ok := v.([]string); ok {
		return strings.Join(lines, "\n")
	}
	return strings.ReplaceAll(fmt.Sprintf("%+v", v), " ", "\n  ")
}

func TestDefaults(t *testing.T) {
	c, warnings, err := Parse("f.yaml", []byte(minimal), nil)
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	diff(t, c, defaultConfig())
}

func TestEveryValueOfAFullFile(t *testing.T) {
	data, err := os.ReadFile("testdata/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c, warnings, err := Parse("full.yaml", data, nil)
	if err != nil || len(warnings) != 1 || warnings[0].Path != "queues[1].limits.max_messages_per_key" { // beside sources
		t.Fatal(err, warnings)
	}
	one, two := 1, 2
	critical := defaultQueue("critical")
	critical.Levels, critical.LevelNames, critical.DefaultPriority = 3, []string{"high", "medium", "low"}, 1
	critical.FairShare.Enabled = true
	critical.Limits.MaxMessages, critical.Limits.Overflow = 7, OverflowRing
	critical.DeadLetters.Evicted = true
	diff(t, c, &Config{
		Agent: Agent{ID: "orders-7f9c", DrainTimeout: 31 * time.Second, PollInterval: 300 * time.Millisecond},
		NATS: NATS{
			URLs: []string{"nats://a:4222", "nats://b:4222"}, Prefix: "stage", Creds: "/run/secrets/app.creds",
			TLS: &TLS{CA: "/run/tls/ca.pem", Cert: "/run/tls/tls.crt", Key: "/run/tls/tls.key"},
		},
		Listen: Listen{
			Socket: "/run/app/a.sock", Mode: 0o600, AdminSocket: "/run/app/ops.sock", ProbesHTTP: ":9464", DashboardHTTP: "",
			AllowUIDs: []uint32{1000, 1001}, AllowGIDs: []uint32{20},
		},
		Coordination: Coordination{Bucket: "team", HeartbeatInterval: time.Second, StaleAfter: 5 * time.Second, LeaseTTL: 8 * time.Second, Replicas: 3},
		Log:          Log{Level: "debug", Format: "text"},
		Metrics:      Metrics{TopKeys: 20},
		Readiness:    Readiness{Broker: false},
		Queues: []Queue{critical, {
			Name: "orders", Revision: 4, Levels: 3, DefaultPriority: 2, StarvationGuard: 10,
			FairShare:            FairShare{Enabled: true, Weights: map[string]Weight{"acme": 3000, "b.c": 125, "": 1}, KeyFrom: &KeyFrom{Header: "X-Tenant"}},
			SingleActiveConsumer: true,
			Limits:               Limits{MaxMessages: 100000, MaxBytes: 1 << 30, MaxMessagesPerKey: 500, MaxPayload: 1 << 20, Overflow: OverflowReject},
			Retry:                Retry{MaxAttempts: 7, Backoff: []time.Duration{time.Second, 90 * time.Second}, Jitter: 0.5},
			DeadLetters:          DeadLetters{Enabled: true, MaxAge: 48 * time.Hour, RetryPriority: &two},
			AckWait:              20 * time.Second,
			TTL:                  time.Hour,
			DedupWindow:          5 * time.Minute,
			Compress:             &Compress{Algorithm: "gzip", MinBytes: 2048},
			ConcurrencyPerKey:    1,
			OrderedKeys:          true,
			Sources:              []Source{{Stream: "EVENTS", Subject: "events.*.>", Key: "{{wildcard(1)}}", Priority: &one}},
			Storage:              Storage{Type: "memory", Replicas: 3, Compression: "none"},
		}},
		Capsules: []Capsule{{
			Name: "primary", Queues: []string{"critical", "orders"}, Concurrency: 12, Lease: 61 * time.Second, ConsumerPriority: -10,
		}},
	})
}

func TestSevenMistakesSevenPositions(t *testing.T) {
	data, err := os.ReadFile("testdata/seven.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, warnings, err := Parse("seven.yaml", data, nil)
	want, readErr := os.ReadFile("testdata/seven.golden")
	if readErr != nil {
		t.Fatal(readErr)
	}
	if err == nil || err.Error()+"\n" != string(want) || len(warnings) > 0 {
		t.Errorf("got\n%v\n%v\nwant\n%s", err, warnings, want)
	}
}

// What one setting takes from another when it is absent itself.
func TestDerivedDefaults(t *testing.T) {
	c := mustParse(t, `nats: {url: nats://n:4222, prefix: stage}
listen: {socket: /tmp/x/app.sock}
queues:
- {name: a, priority_levels: 4}
- {name: b, priority_levels: [x, y, z], storage: {replicas: 3}}
- {name: c, priority_levels: 5, default_priority: 4, sources: [{stream: S, subject: s.>}]}
- {name: d, priority_levels: [hi, lo], default_priority: lo, dead_letters: {retry_priority: hi}}
- {name: e, fair_share: {weights: {a: 2}}}
- {name: f, fair_share: {enabled: false}}
- {name: g}
capsules:
- {name: k, queues: [a, b, c, d, e, f]}
- {name: l, queues: [a, g], single_active_consumer: true}
`)
	got := fmt.Sprintln(
		c.Coordination.Bucket, c.Coordination.LeaseTTL, c.Coordination.Replicas, c.Listen.AdminSocket,
		c.Queues[0].DefaultPriority, c.Queues[1].DefaultPriority, c.Queues[2].DefaultPriority, c.Queues[2].Sources[0].Priority == nil,
		c.Queues[3].DefaultPriority, *c.Queues[3].DeadLetters.RetryPriority, c.Queues[4].FairShare.Enabled, c.Queues[5].FairShare.Enabled,
		c.Queues[0].SingleActiveConsumer, c.Queues[1].SingleActiveConsumer, c.Queues[6].SingleActiveConsumer,
	)
	want := "fairlead-stage 15s 3 /tmp/x/admin.sock 1 1 4 true 1 0 true false true false true\n"
	if got != want {
		t.Errorf("got  %swant %s", got, want)
	}
}

func TestWarnings(t *testing.T) {
	_, warnings, err := Parse("f.yaml", []byte(`nats: {embedded: {}}
queues:
- {name: unread}
- {name: q, fair_share: {enabled: false, weights: {a: 2}}}
- {name: r, dead_letters: {evicted: true}}
- {name: s, single_active_consumer: true, ack_wait: 5s}
- {name: t, limits: {max_messages_per_key: 9}, sources: [{stream: S, subject: a.>}, {stream: S, subject: a.*.b}, {stream: T, subject: a.>}]}
capsules: [{name: c, queues: [q, r, s, t]}]
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, w := range warnings {
		got = append(got, w.String())
	}
	want := []string{
		"f.yaml:3:10: queues[0].name: no capsule reads unread: what is published to it waits",
		"f.yaml:4:51: queues[1].fair_share.weights: have no effect while fair_share is off",
		"f.yaml:5:37: queues[2].dead_letters.evicted: has no effect without limits.overflow: ring",
		"f.yaml:6:53: queues[3].ack_wait: is 5s, below coordination.lease_ttl (10s): with a single active consumer its work waits for the lease all the same",
		"f.yaml:7:44: queues[4].limits.max_messages_per_key: holds up a whole source while one of its keys is at the limit: use max_messages instead",
		"f.yaml:7:106: queues[4].sources[1].subject: \"a.*.b\" and \"a.>\" of sources[0] can match one message: it is taken twice then",
	}
	diff(t, got, want)
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	t.Setenv("FAIRLEAD_TEST_N", "7")
	file := write("a.yaml", strings.Replace(minimal, "capsules: [{name: c, queues: [q]}]", "capsules:\n- name: c\n  queues: [q]\n  concurrency: ${FAIRLEAD_TEST_N}\n", 1))
	c, _, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	if c.Capsules[0].Concurrency != 7 {
		t.Errorf("concurrency is %d, want that of the environment", c.Capsules[0].Concurrency)
	}
	again, _, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	if !agentIDPattern.MatchString(c.Agent.ID) || c.Agent.ID == "" || c.Agent.ID == again.Agent.ID {
		t.Errorf("agent ids %q and %q: want two usable, different ones", c.Agent.ID, again.Agent.ID)
	}
	named := write("named.yaml", "agent: {id: me}\n"+minimal)
	if c, _, err := Load(named); err != nil || c.Agent.ID != "me" {
		t.Errorf("an id of the file was not kept: %v %v", c, err)
	}

	missing := filepath.Join(dir, "none.yaml")
	_, _, err = Load(missing)
	if !errors.Is(err, fs.ErrNotExist) || err.Error() != "config: "+missing+":1:1: cannot be read: no such file or directory" {
		t.Errorf("missing file: %v", err)
	}
	if _, _, err = Load(dir); err == nil || err.Error() != "config: "+dir+":1:1: cannot be read: it is a folder: name the file in it" {
		t.Errorf("folder: %v", err)
	}
	if _, _, err = Load(write("big.yaml", minimal+strings.Repeat("#\n", 1<<19))); err == nil || !strings.Contains(err.Error(), "is bigger than 1MiB") {
		t.Errorf("big file: %v", err)
	}
	if _, _, err = Load("/dev/zero"); err == nil || !strings.Contains(err.Error(), "is bigger than 1MiB") {
		t.Errorf("endless file: %v", err)
	}
}
