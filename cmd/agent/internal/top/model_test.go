package top

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/fairlead/fairlead/agent/api"
)

var update = flag.Bool("update", false, "write the golden files")

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := "testdata/" + name
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", path, got, want)
	}
}

// example is an agent with a noisy neighbour.
func example() *api.Overview {
	level := func(p int, name string, waiting, inFlight uint64, rate float64) api.LevelOverview {
		return api.LevelOverview{LevelStat: api.LevelStat{Priority: p, Name: name, Waiting: waiting, InFlight: inFlight, OldestAgeSeconds: 3.5}, DeliveredPerSecond: rate}
	}
	return &api.Overview{
		At: noon,
		Status: &api.AgentStatus{
			Agent: "orders-7f9c", State: "active", UptimeSeconds: 61, Broker: api.BrokerStatus{Connected: true},
			Capsules: []api.CapsuleStatus{{Name: "primary", Concurrency: 10, InFlight: 8, Credit: 2, Delivered: 1841, Queues: []api.CapsuleQueue{
				{Name: "ledger", Lease: "holder", LeaseHolder: "orders-7f9c/primary", Fence: 1796005447399687, LeaseAgeSeconds: 310},
				{Name: "orders", Why: "backs off: capsule x of agent b has consumer priority 10"}}}},
			Peers: []api.Peer{{Agent: "orders-b2d1", Capsule: "primary", Queues: []string{"orders"}, Demand: true, AgeSeconds: 1.1}},
		},
		Queues: []api.QueueOverview{
			{
				QueueSummary: api.QueueSummary{Name: "orders", Levels: 3, Waiting: 1004, InFlight: 8, Delayed: 2, Dead: 3}, FairShare: true, OldestAgeSeconds: 63, DeliveredPerSecond: 120.5, TenantsActive: 15,
				LevelStats: []api.LevelOverview{level(0, "high", 4, 1, 20), level(1, "medium", 700, 7, 100.5), level(2, "low", 300, 0, 0)},
				Tenants: []api.TenantOverview{
					{Key: "flood", Noisy: true, Waiting: 1000, InFlight: 6, Weight: 1, PerSecond: 80, Share: 0.66, Fair: 0.05, WaitedSeconds: 12, LongestSeconds: 63, OldestAgeSeconds: 63},
					{Key: "acme", Waiting: 3, InFlight: 1, Weight: 3, PerSecond: 30, Share: 0.25, Fair: 0.15, WaitedSeconds: 0.012, LongestSeconds: 0.2, OldestAgeSeconds: 0.1},
					{Key: "", Waiting: 1, InFlight: 1, Weight: 1, PerSecond: 1, Share: 0.01, Fair: 0.05, Paused: true, OldestAgeSeconds: -1},
				},
				Rest:  api.TenantsOverview{Tenants: 12, PerSecond: 9.5, Deliveries: 40, Share: 0.08, Fair: 0.75, WaitedSeconds: 0.02},
				Quiet: api.TenantsOverview{Tenants: 14, Deliveries: 100, WaitedSeconds: 0.012}, Noisy: api.TenantsOverview{Tenants: 1, Waiting: 1000, Deliveries: 300, Share: 0.66, Fair: 0.05, WaitedSeconds: 12},
			},
			{QueueSummary: api.QueueSummary{Name: "ledger", Levels: 1, Paused: true}, LevelStats: []api.LevelOverview{level(0, "", 0, 0, 0)}},
		},
	}
}

func shown(width, height int) Model { return Model{}.Resize(width, height).Show(example(), noon) }

func press(m Model, keys ...string) Model {
	for _, k := range keys {
		m, _ = m.Press(k)
	}
	return m
}

func TestScreens(t *testing.T) {
	for v := range views {
		golden(t, v.String()+".txt", press(shown(120, 14), fmt.Sprint(int(v)+1)).Screen()+"\n")
	}
	golden(t, "narrow.txt", press(shown(60, 12), "3").Screen()+"\n")
	golden(t, "help.txt", press(shown(120, 18), "?").Screen()+"\n")
	golden(t, "empty.txt", Model{}.Resize(80, 5).Screen()+"\n")
	golden(t, "lost.txt", shown(120, 9).Lose(errors.New("client: no agent answers on /run/x.sock"), noon.Add(7*time.Second)).Screen()+"\n")
	var b strings.Builder
	if err := Print(&b, Model{Colour: true}, example()); err != nil {
		t.Fatal(err)
	}
	golden(t, "print.txt", b.String())
}

// names returns the second column's cells of the tenants' table.
func tenantNames(m Model) (names []string) {
	for _, r := range m.rows() {
		names = append(names, r[1].text)
	}
	return names
}

func TestSortAndFilter(t *testing.T) {
	m := press(shown(200, 20), "3")
	for _, c := range []struct {
		keys []string
		want string
	}{
		{nil, "flood (noisy)|acme|(unkeyed) (paused)|(12 more)"},
		{[]string{"r"}, "(12 more)|(unkeyed) (paused)|acme|flood (noisy)"},
		{[]string{"s", "s"}, "(12 more)|(unkeyed) (paused)|acme|flood (noisy)"},                // by tenant
		{[]string{"s", "s", "r"}, "flood (noisy)|acme|(unkeyed) (paused)|(12 more)"},           // the other way round
		{[]string{"s", "s", "s"}, "flood (noisy)|acme|(unkeyed) (paused)|(12 more)"},           // by what waits
		{[]string{"s", "s", "s", "s", "s"}, "acme|flood (noisy)|(unkeyed) (paused)|(12 more)"}, // by weight
		{[]string{"/", "A", "c", "M"}, "acme"},
		{[]string{"/", "x", "backspace", "n", "o", "i", "enter", "q"}, "flood (noisy)"},
		{[]string{"/", "n", "o", "i", "enter", "esc"}, "flood (noisy)|acme|(unkeyed) (paused)|(12 more)"},
		{[]string{"/", "n", "o", "i", "esc"}, "flood (noisy)|acme|(unkeyed) (paused)|(12 more)"},
		{[]string{"/", "z", "z"}, ""},
	} {
		if got := strings.Join(tenantNames(press(m, c.keys...)), "|"); got != c.want {
			t.Errorf("%q: %s, want %s", c.keys, got, c.want)
		}
	}
	sorted := m
	for range len(heads[Tenants]) + 1 {
		sorted = press(sorted, "s")
	}
	if sorted.Orders[Tenants].Column != 0 {
		t.Error("behind the last column comes the agent's own order")
	}
	if got := press(m, "/", "q").Screen(); !strings.Contains(got, "filter: q_") {
		t.Error("q, typed into the filter, is no command")
	}
}

func TestQuit(t *testing.T) {
	for key, want := range map[string]bool{"q": true, "esc": true, "ctrl+c": true, "x": false, "1": false, "7": false} {
		if _, quit := shown(80, 20).Press(key); quit != want {
			t.Errorf("%s ends it: %v", key, quit)
		}
	}
	m := press(shown(80, 20), "?")
	if m, quit := m.Press("esc"); quit || m.help {
		t.Error("esc closes the help first")
	}
	if _, quit := press(shown(80, 20), "/").Press("ctrl+c"); !quit {
		t.Error("ctrl+c ends it also while the filter is typed")
	}
}

func TestHold(t *testing.T) {
	m := press(shown(120, 12), "p")
	later := example()
	later.Status.Agent = "later"
	if got := m.Show(later, noon).Screen(); strings.Contains(got, "later") || !strings.Contains(got, "held") {
		t.Errorf("held, it shows\n%s", got)
	}
	if got := press(m, "p").Show(later, noon).Screen(); !strings.Contains(got, "later") {
		t.Errorf("let go, it shows\n%s", got)
	}
}

// An agent that was away and is back shows as live, and what it says is from now on.
func TestBack(t *testing.T) {
	m := shown(120, 12).Lose(errors.New("away"), noon.Add(time.Second))
	if !strings.Contains(m.Screen(), "reconnecting, this is 1s old") || !strings.Contains(m.Screen(), "away") {
		t.Error(m.Screen())
	}
	if got := m.Show(example(), noon.Add(2*time.Second)).Screen(); !strings.Contains(got, "live") || strings.Contains(got, "away") {
		t.Error(got)
	}
}

func TestScroll(t *testing.T) {
	o := example()
	for i := range 100 {
		o.Queues[0].Tenants = append(o.Queues[0].Tenants, api.TenantOverview{Key: fmt.Sprintf("t%03d", i), Weight: 1})
	}
	m := press(Model{}.Resize(150, 20).Show(o, noon), "3")
	if got := press(m, "G").Screen(); !strings.Contains(got, "(12 more)") || strings.Contains(got, "flood (") {
		t.Errorf("at the end:\n%s", got)
	}
	if got := press(m, "G", "pgup", "g").Screen(); got != m.Screen() {
		t.Errorf("back at the start:\n%s", got)
	}
	if got := press(m, "up", "up", "down").Screen(); strings.Contains(got, "flood (") || !strings.Contains(got, "acme") {
		t.Errorf("a row further:\n%s", got)
	}
	// There are fewer rows than there were: the table is not empty.
	if got := press(m, "G").Show(example(), noon).Screen(); !strings.Contains(got, "flood (") {
		t.Errorf("with fewer rows:\n%s", got)
	}
}

// Whatever keys and errors are, whatever the size is: no line is too wide, no screen too high, and nothing but the program's
// own colours is an escape sequence.
func TestHostile(t *testing.T) {
	evil := []string{"\x1b[2J\x1b[31mred", "\x1b]0;title\x07", "a\nb\r\nc", "\t\ttab", "\u202eright to left", "\x9b31m", "wide 漢字かな漢字かな漢字かな", "e\u0301\u0301\u0301", "👩‍👩‍👧‍👦 family", "\xff\xfe", strings.Repeat("long", 100), "", " "}
	o := example()
	o.Problem, o.Status.Agent, o.Status.Warnings = evil[0], evil[2], evil
	o.Status.Peers[0].Agent, o.Status.Capsules[0].Queues[1].Why, o.Status.Capsules[0].Queues[0].LeaseHolder = evil[1], evil[0]+evil[2], evil[4]
	for _, key := range evil {
		o.Queues[0].Tenants = append(o.Queues[0].Tenants, api.TenantOverview{Key: key, Noisy: true, Weight: 1, Share: 0.5, Fair: 2})
	}
	o.Queues[0].LevelStats[1].Name = evil[0]
	r := rand.New(rand.NewPCG(3, 4))
	keys := append([]string{"1", "2", "3", "4", "5", "6", "tab", "s", "r", "/", "enter", "esc", "p", "?", "up", "down", "pgdown", "G", "backspace", "left", "\x1b", "漢"}, evil...)
	for _, colour := range []bool{false, true} {
		m := Model{Colour: colour}
		for range 4000 {
			switch r.IntN(6) {
			case 0:
				m = m.Resize(r.IntN(160), r.IntN(40))
			case 1:
				m = m.Show(o, noon)
			case 2:
				m = m.Lose(errors.New(evil[r.IntN(len(evil))]), noon)
			default:
				m, _ = m.Press(keys[r.IntN(len(keys))])
			}
			check(t, m)
		}
	}
	var b strings.Builder
	if err := Print(&b, Model{Colour: true}, o); err != nil {
		t.Fatal(err)
	}
	if got := b.String(); strings.ContainsAny(got, "\x1b\x07\u009b\r\u202e") || !strings.Contains(got, `\x1b[2J`) {
		t.Errorf("printed: %q", got)
	}
}

func check(t *testing.T, m Model) {
	t.Helper()
	screen := m.Screen()
	if m.width == 0 || m.height == 0 {
		if screen != "" {
			t.Fatalf("on no terminal: %q", screen)
		}
		return
	}
	lines := strings.Split(screen, "\n")
	if len(lines) > m.height {
		t.Fatalf("%d lines on %d", len(lines), m.height)
	}
	for _, line := range lines {
		if w := ansi.StringWidth(line); w > m.width {
			t.Fatalf("%d cells on %d: %q", w, m.width, line)
		}
	}
	bare := screen
	if m.Colour {
		for _, s := range append([]style{bold, faint, red, green, amber, blue, invert, "0"}, levelStyles...) {
			bare = strings.ReplaceAll(bare, "\x1b["+string(s)+"m", "")
		}
	}
	if strings.ContainsAny(bare, "\x1b\x07\r\t\u202e\u009b") {
		t.Fatalf("an escape sequence of somebody else's: %q", bare)
	}
}
