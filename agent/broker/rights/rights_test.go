package rights

import (
	"strings"
	"testing"

	"github.com/fairlead/fairlead/agent/broker/names"
	"github.com/fairlead/fairlead/config"
)

// queues are of every kind.
var queues = []config.Queue{
	{Name: "plain"},
	{Name: "capped", ConcurrencyPerKey: 2, DeadLetters: config.DeadLetters{Enabled: true}},
	{Name: "ordered", OrderedKeys: true},
	{Name: "strict", SingleActiveConsumer: true},
}

// A try is allowed by the right that it is for, and by no right to something else: what it shows is that one.
func TestEachTryIsOfItsRight(t *testing.T) {
	n := names.New("fl", "fairlead")
	tries := 0
	for _, g := range groups(n, queues) {
		for _, r := range g.List {
			tries++
			if !config.SubjectsMeet(r.Subject, r.Tried()) {
				t.Errorf("%s: %q is not under %q", g.Owner, r.Tried(), r.Subject)
			}
			if r.Direction == Publish && strings.ContainsAny(r.Tried(), "*>") {
				t.Errorf("%s: nobody can publish to %q", g.Owner, r.Tried())
			}
			if got := Wanted(n, queues, r.Direction, r.Tried()); got.Subject != r.Subject {
				t.Errorf("%s: a refusal of %q is put down to %+v, not to %q", g.Owner, r.Tried(), got, r.Subject)
			}
		}
	}
	if tries < 50 {
		t.Errorf("only %d tries", tries)
	}
}

// What nobody with these queues needs has no permission to be missing.
func TestWhatIsNotWanted(t *testing.T) {
	n := names.New("fl", "fairlead")
	for _, subject := range []string{"other.q.plain.p0.a", "$JS.API.STREAM.DELETE.FL_Q_plain", "fl.q.another.p0.a"} {
		if p := Wanted(n, queues, Publish, subject); p != (Permission{}) {
			t.Errorf("%s wants %+v", subject, p)
		}
	}
}

// A refusal says whose it is: an agent that does not set up lists other permissions than setup does.
func TestWhoseAWantedPermissionIs(t *testing.T) {
	n := names.New("fl", "fairlead")
	for subject, setup := range map[string]bool{
		"$JS.API.STREAM.CREATE.FL_Q_plain": true, "$JS.API.STREAM.UPDATE.FL_Q_plain": true, "$JS.API.STREAM.CREATE.KV_fairlead": true,
		"$JS.API.STREAM.INFO.FL_Q_plain": false, "fl.q.plain.p0.a": false, "$JS.API.STREAM.MSG.DELETE.FL_Q_plain": false,
	} {
		if p := Wanted(n, queues, Publish, subject); p.Subject == "" || p.Setup != setup {
			t.Errorf("%s: %+v, want one of setup: %t", subject, p, setup)
		}
	}
}

// Each permission is listed once, and says what it is for.
func TestPermissionsAreListedOnce(t *testing.T) {
	n := names.New("fl", "fairlead")
	for who, list := range map[string][]Permission{"an agent": OfAgent(n, queues), "setup": OfSetup(n, queues)} {
		seen := map[string]bool{}
		for _, p := range list {
			key := p.Direction.String() + " " + p.Subject
			if seen[key] || p.For == "" || strings.HasSuffix(p.For, ": ") {
				t.Errorf("%s: %+v", who, p)
			}
			seen[key] = true
		}
	}
}
