package group

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/fairlead/fairlead/agent/broker/wire"
	"github.com/fairlead/fairlead/agent/group/grouptest"
	"github.com/fairlead/fairlead/config"
)

func (m *member) wantWarning(parts ...string) {
	m.t.Helper()
	all := m.Warnings()
	for _, w := range all {
		if !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(w, p) }) {
			return
		}
	}
	m.t.Errorf("%s warns %q; nothing about %q", m.cfg.Agent, all, parts)
}

func (m *member) wantNoWarning() {
	m.t.Helper()
	if w := m.Warnings(); len(w) > 0 {
		m.t.Errorf("%s warns %q", m.cfg.Agent, w)
	}
}

// A lone agent after an edit just works: after a clean stop and after a crash under the same id at once, under another id
// when its predecessor has gone stale.
func TestLoneAgentAfterAnEdit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := grouptest.NewStore()
		began := time.Now()
		a := join(t, s, testConfig("a", "1", queue("orders", 0, 1)))
		a.wantSize(1)
		pass(time.Minute)
		a.stop()

		a = join(t, s, testConfig("a", "2", queue("orders", 0, 2)))
		a.wantSize(2)
		pass(time.Minute)
		a.crash()

		a = join(t, s, testConfig("a", "3", queue("orders", 0, 3)))
		a.wantSize(3)
		if took := time.Since(began) - 2*time.Minute; took > 6*roundTrip {
			t.Errorf("three starts took %s", took)
		}
		pass(time.Minute)
		a.crash()

		other := join(t, s, testConfig("a-2", "1", queue("orders", 0, 4)))
		other.wantSize(3) // its predecessor could be alive
		other.wantWarning("orders", "follows revision 0 set by a:", "limits.max_messages", "raise its revision above 0")
		pass(testStale + roundTrip)
		other.wantSize(4)
		other.wantNoWarning()
		if !reflect.DeepEqual(other.changes[len(other.changes)-1].Queues, []string{"orders"}) {
			t.Errorf("the change was told as %v", other.changes)
		}
		other.stop()
	})
}

func TestHigherRevisionWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := grouptest.NewStore()
		low := join(t, s, testConfig("low", "1", queue("orders", 1, 1)))
		high := join(t, s, testConfig("high", "1", queue("orders", 2, 2)))
		pass(roundTrip)
		low.wantSize(2)
		high.wantSize(2)
		low.wantWarning("follows revision 2 set by high", "its own file (revision 1)")
		low.wantNoMore("carries another")
		high.wantWarning("agent low carries another definition")
		third := join(t, s, testConfig("third", "1", queue("orders", 2, 3)))
		third.wantSize(2) // equal: follows
		pass(time.Minute)
		high.wantWarning("2 agents", "low, third")
		high.crash() // a carrier that crashes lets go after stale_after
		pass(testStale - testInterval - roundTrip)
		low.wantSize(2)
		pass(testInterval + 3*roundTrip)
		low.wantSize(3)
		third.wantSize(3)
		if n := len(s.History("def.orders")); n != 3 {
			t.Errorf("the record was written %d times", n)
		}
		low.stop()
		third.stop()
	})
}

func (m *member) wantNoMore(part string) {
	m.t.Helper()
	for _, w := range m.Warnings() {
		if strings.Contains(w, part) {
			m.t.Errorf("%s warns %q", m.cfg.Agent, w)
		}
	}
}

func TestReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := grouptest.NewStore()
		a := join(t, s, testConfig("a", "1", queue("orders", 0, 1), queue("mail", 0, 1)))
		b := join(t, s, testConfig("b", "1", queue("orders", 0, 1)))
		pass(time.Second)
		a.changes = nil

		// b carries the old one still; then it is edited too.
		defs := []config.Queue{queue("new", 0, 7), queue("orders", 0, 2)}
		a.Reload(defs, []Capsule{{Name: "work", Queues: []string{"orders", "new"}}, {Name: "more", Queues: []string{"new"}}})
		pass(time.Second)
		a.wantSize(1)
		if got := a.Definitions(); len(got) != 2 || got[0].Name != "new" || got[1].Name != "orders" {
			t.Errorf("definitions %v", got)
		}
		if _, ok := a.Definition("mail"); ok {
			t.Error("a queue that left the file is still there")
		}
		var told []string
		for _, c := range a.changes {
			told = append(told, c.Queues...)
		}
		if !reflect.DeepEqual(told, []string{"mail", "new"}) {
			t.Errorf("told of %v", told)
		}
		b.wantPeers("a", "a")
		b.Reload([]config.Queue{queue("orders", 0, 2)}, b.cfg.Capsules)
		pass(time.Second)
		a.wantSize(2)
		b.wantSize(2)
		a.Reload(defs, nil)
		pass(time.Second)
		if keys := s.Keys("hb.a."); !reflect.DeepEqual(keys, []string{"hb.a._"}) {
			t.Errorf("an agent without capsules has the heartbeats %v", keys)
		}
		b.wantPeers("a")
		a.stop()
		b.stop()
	})
}

// What a lone agent's edited file says is in force in a moment: nobody is told meanwhile that it is not. One whose old definition
// another agent carries is told.
func TestALoneAgentIsNotWarnedOfItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, other := range []bool{false, true} {
			s := grouptest.NewStore()
			var log bytes.Buffer
			cfg := testConfig("a", "1", queue("orders", 0, 1))
			cfg.Logger = hclog.New(&hclog.LoggerOptions{Output: &log, Level: hclog.Warn})
			a := join(t, s, cfg)
			if other {
				b := join(t, s, testConfig("b", "1", queue("orders", 0, 1)))
				defer b.stop()
			}
			pass(time.Second)
			a.Reload([]config.Queue{queue("orders", 0, 2)}, cfg.Capsules)
			pass(time.Minute)
			if warned := strings.Contains(log.String(), "raise its revision"); warned != other {
				t.Errorf("another agent with the old definition: %t; warned: %t: %s", other, warned, log.String())
			}
			a.stop()
		}
	})
}

func TestUndecidedUntilTheBucketIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := grouptest.NewStore()
		first := join(t, s, testConfig("a", "1", queue("orders", 5, 1)))
		m := newMember(t, s, testConfig("b", "1", queue("orders", 0, 2)))
		m.mirror.Cut(true)
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := m.Start(ctx); !errors.Is(err, ErrUndecided) || !errors.Is(err, wire.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Start says %v", err)
		}
		m.wantSize(2)
		m.mirror.Cut(false)
		pass(time.Second + roundTrip)
		m.wantSize(1)
		if !slices.ContainsFunc(m.changes, func(c Change) bool { return slices.Equal(c.Queues, []string{"orders"}) }) {
			t.Errorf("told %v", m.changes)
		}
		m.start() // and now it is known
		m.stop()
		first.stop()
	})
}

// What a newer version has put in force is left alone, and this version goes on with its own file.
func TestDefinitionOfANewerVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := grouptest.NewStore()
		newer, _ := writeDefinition(queue("orders", 2, 9), "new")
		newer = []byte(strings.Replace(string(newer), `"ttl":"0s"`, `"ttl":"0s","shards":4`, 1))
		s.Write("def.orders", newer)
		var d definition
		_ = json.Unmarshal(newer, &d)
		beat := func(seq uint64) {
			h, _ := json.Marshal(heartbeat{Agent: "new", Boot: "1", Capsule: "c", Seq: seq, Definitions: map[string]stamp{"orders": {2, d.Hash}}})
			s.Write("hb.new.c", h)
		}
		beat(1)
		a := join(t, s, testConfig("a", "1", queue("orders", 1, 1)))
		for seq := range uint64(10) {
			beat(seq + 2)
			pass(2 * time.Second)
		}
		a.wantSize(1)
		a.wantWarning("this version cannot use", "revision 2 set by new", "unknown settings: shards")
		if n := len(s.History("def.orders")); n != 1 {
			t.Errorf("the record was written %d times", n)
		}
		pass(testStale) // the newer agent has gone: a rollback
		a.wantNoWarning()
		if n := len(s.History("def.orders")); n != 2 {
			t.Errorf("the record was written %d times", n)
		}
		a.stop()
	})
}

// An operator deletes the record: compare-and-set fails on the mark that it leaves, and yet one definition is in force.
func TestDeletedDefinition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := grouptest.NewStore()
		a := join(t, s, testConfig("a", "1", queue("orders", 0, 1)))
		b := join(t, s, testConfig("b", "1", queue("orders", 0, 2)))
		pass(time.Second)
		s.Remove("def.orders")
		pass(2 * time.Second)
		if a.size("orders") != b.size("orders") {
			t.Errorf("a uses %d, b uses %d", a.size("orders"), b.size("orders"))
		}
		if _, ok := s.Get("def.orders"); !ok {
			t.Error("nothing is in force")
		}
		a.stop()
		b.stop()
		s.Remove("def.orders")
		c := join(t, s, testConfig("c", "1", queue("orders", 0, 3))) // has not seen the record go
		c.wantSize(3)
		c.stop()
	})
}

// Every outcome of the write that puts a definition in force leads to the same end, with one definition in force.
func TestEveryOutcomeOfTheWrite(t *testing.T) {
	for name, fault := range map[string]grouptest.Fault{
		"refused":  {Refused: true},
		"lost":     {Lost: true},
		"unknown":  {Unknown: true},
		"late":     {Late: 700 * time.Millisecond},
		"repeated": {Repeated: true},
		"slow":     {Delay: 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := grouptest.NewStore()
				tries := 0
				a := newMemberWith(t, s, testConfig("a", "1", queue("orders", 0, 1)), grouptest.Options{
					Fault: func(op grouptest.Op, _ string) grouptest.Fault {
						if op == grouptest.Swap {
							if tries++; tries <= 2 {
								return fault
							}
						}
						return grouptest.Fault{Delay: time.Millisecond}
					},
				})
				a.start()
				b := join(t, s, testConfig("b", "1", queue("orders", 0, 2)))
				pass(time.Minute)
				a.wantSize(1)
				b.wantSize(1)
				a.stop()
				b.stop()
				if n := len(s.History("def.orders")); n != 1 {
					t.Errorf("the record was written %d times", n)
				}
			})
		})
	}
}
