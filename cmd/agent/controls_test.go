package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/client/clienttest"
)

func TestPauseAndResumeCommands(t *testing.T) {
	agent := clienttest.New(t)
	s := newShell(t, agent)
	agent.Put(0, "acme", "m")
	for _, c := range [][2]string{
		{"pause default", "queue default is paused\n"}, {"resume default", "queue default is not paused\n"},
		{"pause default --key acme", "key acme of queue default is paused\n"},
		{"pause default --key=", "key (unkeyed) of queue default is paused\n"},
		{"resume default --key=", "key (unkeyed) of queue default is not paused\n"},
	} {
		if out := s.must(0, strings.Fields(c[0])...); out != c[1] {
			t.Errorf("%s: %q, want %q", c[0], out, c[1])
		}
	}
	if out := s.must(0, "pull", "default"); out != "" {
		t.Errorf("pulled %s of a paused key", out)
	}
	var p api.Paused
	if err := json.Unmarshal([]byte(s.must(0, "resume", "default", "--key", "acme", "-o", "json")), &p); err != nil || p.Paused || *p.Key != "acme" {
		t.Errorf("%+v %v", p, err)
	}
	if out := s.must(0, "pull", "default"); out == "" {
		t.Error("pulled nothing after it was resumed")
	}
	s.must(exitFailure, "pause", "nope")
	newShell(t, nil).must(exitUnavailable, "pause", "default")
	agent.Break(&api.Error{Code: api.CodeBroker, Message: "away"})
	s.must(exitUnavailable, "resume", "default")
}

func TestWeightCommand(t *testing.T) {
	s := newShell(t, clienttest.New(t))
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"acme"}, "key acme of queue default has weight 1, unless its messages say otherwise\n"},
		{[]string{"acme", "2.5"}, "key acme of queue default has weight 2.5, set by an operator, said through agent test-1 at 2026-11-29 12:00:00Z\n"},
		{[]string{"acme", "--unset"}, "key acme of queue default has weight 1, unless its messages say otherwise\n"},
		{[]string{"", "0.001"}, "key (unkeyed) of queue default has weight 0.001, set by an operator, said through agent test-1 at 2026-11-29 12:00:00Z\n"},
	} {
		if out := s.must(0, append([]string{"weight", "default"}, c.args...)...); out != c.want {
			t.Errorf("%q: %q, want %q", c.args, out, c.want)
		}
	}
	var w api.KeyWeight
	if err := json.Unmarshal([]byte(s.must(0, "weight", "default", "", "-o", "json")), &w); err != nil || w.Weight != 0.001 || w.From != api.WeightOverride {
		t.Errorf("%+v %v", w, err)
	}
	if out := weightSource(&api.KeyWeight{From: api.WeightConfig}); out != "from the definition in force" {
		t.Error(out)
	}
	s.must(exitFailure, "weight", "nope", "acme")
}

func TestPurgeCommand(t *testing.T) {
	agent := clienttest.New(t)
	s := newShell(t, agent)
	for i := range 5000 {
		agent.Put(i%3, []string{"a", ""}[i%2], "m")
	}
	s.must(0, "pull", "default", "--max", "10")
	before := agent.Requests()
	if out := s.must(0, "purge", "default", "--key", "a", "--yes"); out != "key a of queue default: 2495 messages removed\n" {
		t.Error(out)
	}
	if n := agent.Requests() - before; n != 3 { // a look, and two pieces
		t.Errorf("%d requests", n)
	}
	var p api.Purged
	if err := json.Unmarshal([]byte(s.must(0, "purge", "default", "--yes", "-o", "json")), &p); err != nil || p.Removed != 2495 || p.Key != nil {
		t.Errorf("%+v %v", p, err)
	}
	if waiting, inFlight := agent.Waiting(); waiting != 0 || inFlight != 10 {
		t.Errorf("%d waiting, %d in flight", waiting, inFlight)
	}
	if out := s.must(0, "purge", "default", "--key="); out != "key (unkeyed) of queue default: 0 messages removed\n" {
		t.Error(out)
	}
	if s.errs.String() != "" {
		t.Errorf("stderr, which is no terminal: %s", s.errs.String())
	}
	s.must(exitFailure, "purge", "nope", "--yes")
}

func TestConfirm(t *testing.T) {
	for answer, want := range map[string]bool{"y\n": true, "YES\n": true, " y ": true, "n\n": false, "\n": false, "": false, "yep\n": false, "no\ny\n": false} {
		var out bytes.Buffer
		key := "a\x1bb"
		if got := confirm(strings.NewReader(answer), &out, purgeQuestion("orders", &key, 1)); got != want {
			t.Errorf("%q: %v", answer, got)
		}
		if out.String() != `Remove the 1 waiting message of key a\x1bb of queue orders, for good? [y/N] ` {
			t.Error(out.String())
		}
	}
	if q := purgeQuestion("orders", nil, -1); q != "Remove all waiting messages of queue orders, for good?" {
		t.Error(q)
	}
}

func TestWhatOperatorsSetIsShown(t *testing.T) {
	said := api.Said{Agent: "a1", At: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)}
	q := &api.QueueStatus{
		QueueSummary: api.QueueSummary{Name: "orders", Paused: true},
		Keys:         []api.KeyStat{{Key: "acme", Waiting: 3, Weight: 2, From: api.WeightOverride, Paused: true}},
		Controls: api.QueueControls{
			Paused: &said, PausedKeys: []api.PausedKey{{Key: "", Said: said}, {Key: "acme"}}, Weights: make([]api.SetWeight, maxControls+5),
		},
	}
	var out bytes.Buffer
	if err := printQueue(&out, q); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"paused: nothing is taken from it, said through agent a1 at 2026-11-29 12:00:00Z\n", "acme (paused)  3        0          2       override\n",
		"paused            (unkeyed)  said through agent a1", "\nand 5 more\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	out.Reset()
	if err := printQueues(&out, &api.QueueList{Queues: []api.QueueSummary{q.QueueSummary}}); err != nil || !strings.Contains(out.String(), "orders (paused)") {
		t.Errorf("%v\n%s", err, out.String())
	}
	if line := capsuleQueues([]api.CapsuleQueue{{Name: "a", Paused: true}, {Name: "b", PausedKeys: 2}}); line != "a (paused) > b (2 keys paused)" {
		t.Error(line)
	}
}

func TestQueuesAreCompleted(t *testing.T) {
	s := newShell(t, clienttest.New(t))
	for _, command := range []string{"pause", "resume", "weight", "purge"} {
		if out := s.must(0, "__complete", command, ""); !strings.HasPrefix(out, "default\n") {
			t.Errorf("%s: %s", command, out)
		}
	}
}
