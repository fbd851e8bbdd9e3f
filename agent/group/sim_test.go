package group

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead/fairlead/agent/group/grouptest"
	"github.com/fairlead/fairlead/config"
)

// simulation is a number of agents that start, stop, crash and are edited at random, over a bucket that is slow and
// loses, repeats and delays writes. After each event, and at the end, the promises of the package are checked.
type simulation struct {
	t       *testing.T
	rnd     *rand.Rand
	store   *grouptest.Store
	decide  func(situation) verdict
	members []*member
	serial  int
	events  int
	trace   []string

	faultMu  sync.Mutex // the bucket asks from many goroutines
	faultRnd *rand.Rand
	// slowBeats makes heartbeats slower than definitions.
	slowBeats time.Duration
}

func newSimulation(t *testing.T, seed uint64, decide func(situation) verdict) *simulation {
	return &simulation{
		t: t, rnd: rand.New(rand.NewPCG(seed, 1)), faultRnd: rand.New(rand.NewPCG(seed, 2)), store: grouptest.NewStore(), decide: decide,
	}
}

func (s *simulation) fault(op grouptest.Op, _ string) grouptest.Fault {
	s.faultMu.Lock()
	defer s.faultMu.Unlock()
	f := grouptest.Fault{Delay: time.Duration(s.faultRnd.IntN(50)) * time.Millisecond}
	if op == grouptest.Put {
		f.Delay += s.slowBeats
	}
	switch s.faultRnd.IntN(25) {
	case 0:
		f.Lost = true
	case 1:
		f.Unknown = true
	case 2:
		f.Refused = true
	case 3:
		f.Repeated = true
	case 4:
		// Only a compare-and-set comes this late: a connection keeps its writes in order.
		if op == grouptest.Swap {
			f.Late = time.Duration(s.faultRnd.IntN(3000)) * time.Millisecond
		}
	}
	return f
}

func (s *simulation) lag() time.Duration {
	s.faultMu.Lock()
	defer s.faultMu.Unlock()
	return time.Duration(s.faultRnd.IntN(100)) * time.Millisecond
}

func (s *simulation) logf(format string, args ...any) {
	s.trace = append(s.trace, fmt.Sprintf(format, args...))
}

// begin starts an agent, under a new id or an old one.
func (s *simulation) begin(id string, q config.Queue) {
	s.serial++
	if id == "" {
		id = fmt.Sprintf("agent-%d", s.serial)
	}
	m := newMemberWith(s.t, s.store, testConfig(id, fmt.Sprint(s.serial), q), grouptest.Options{Fault: s.fault, Lag: s.lag})
	m.decide = s.decide
	s.logf("%s starts with revision %d, size %d", id, q.Revision, q.Limits.MaxMessages)
	s.events++
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := m.Start(ctx); err != nil {
		s.logf("%s: %v", id, err)
	}
	s.members = append(s.members, m)
}

// end takes an agent away.
func (s *simulation) end(i int, crash bool) (id string) {
	m := s.members[i]
	s.members = slices.Delete(s.members, i, i+1)
	s.events++
	s.logf("%s ends, crash %t", m.cfg.Agent, crash)
	if crash {
		m.crash()
		return m.cfg.Agent
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	_ = m.Stop(ctx)
	return m.cfg.Agent
}

func (s *simulation) edit(i int, q config.Queue) {
	m := s.members[i]
	s.events++
	s.logf("%s is edited to revision %d, size %d", m.cfg.Agent, q.Revision, q.Limits.MaxMessages)
	m.cfg.Definitions = []config.Queue{q} // for the checks
	m.Reload(m.cfg.Definitions, m.cfg.Capsules)
}

func (s *simulation) close() {
	for len(s.members) > 0 {
		s.end(0, true)
	}
}

// hashes are the definitions that were in force, in order, without repetitions.
func (s *simulation) hashes() (out []stamp) {
	for _, e := range s.store.History("def.orders") {
		var d definition
		if json.Unmarshal(e.Value, &d) == nil {
			out = append(out, stamp{d.Revision, d.Hash})
		}
	}
	return slices.Compact(out)
}

// check says what is wrong once nothing has happened for a while.
func (s *simulation) check() error {
	history := s.hashes()
	if len(history) == 0 {
		return fmt.Errorf("nothing is in force")
	}
	inForce := history[len(history)-1]
	carried, highest := false, int64(0)
	for _, m := range s.members {
		own := stampOf(m.cfg.Definitions[0])
		carried = carried || own == inForce
		highest = max(highest, own.Revision)
		if q, _ := m.Definition("orders"); stampOf(q) != inForce {
			return fmt.Errorf("%s uses %v, in force is %v", m.cfg.Agent, stampOf(q), inForce)
		}
		if follows := own != inForce; follows != slices.ContainsFunc(m.Warnings(), func(w string) bool { return strings.Contains(w, "follows") }) {
			return fmt.Errorf("%s: follows %t, warns %q", m.cfg.Agent, follows, m.Warnings())
		}
		if len(m.conflict) > 0 {
			return fmt.Errorf("%s is told of a conflict", m.cfg.Agent)
		}
		if n := len(m.Peers()); n != len(s.members)-1 {
			return fmt.Errorf("%s sees %d of %d peers", m.cfg.Agent, n, len(s.members)-1)
		}
	}
	switch {
	case !carried:
		return fmt.Errorf("nobody carries what is in force")
	case inForce.Revision != highest:
		return fmt.Errorf("revision %d is in force, %d is there", inForce.Revision, highest)
	case len(history) > s.events:
		return fmt.Errorf("%d events changed the definition %d times: %v", s.events, len(history), history)
	}
	return nil
}

// rollingDeploy replaces the agents of an old file by agents of a new one, one by one.
func rollingDeploy(s *simulation, revision int64) error {
	size := 2 + s.rnd.IntN(4)
	before, after := queue("orders", 0, 1), queue("orders", revision, 2)
	for range size {
		s.begin("", before)
	}
	for i := range size {
		id, crash := "", s.rnd.IntN(2) == 0
		old := s.end(0, crash)
		if s.rnd.IntN(2) == 0 {
			id = old // a pod with a stable name
		}
		pass(time.Duration(s.rnd.IntN(3000)) * time.Millisecond)
		s.begin(id, after)
		pass(time.Duration(s.rnd.IntN(15000)) * time.Millisecond)
		if i < size-1 && revision == 0 && len(s.hashes()) != 1 {
			return fmt.Errorf("the new file took over while old agents were alive")
		}
	}
	pass(3 * testStale)
	if err := s.check(); err != nil {
		return err
	}
	want := []stamp{stampOf(before), stampOf(after)}
	if got := s.hashes(); !slices.Equal(got, want) {
		return fmt.Errorf("in force were %v, want %v", got, want)
	}
	return nil
}

// anything has agents with any files come, go and be edited.
func anything(s *simulation) error {
	file := func() config.Queue { return queue("orders", int64(s.rnd.IntN(3)), 1+int64(s.rnd.IntN(3))) }
	for range 4 {
		for range 1 + s.rnd.IntN(4) {
			switch n := s.rnd.IntN(6); {
			case n < 2 || len(s.members) < 2:
				s.begin("", file())
			case n < 4:
				s.end(s.rnd.IntN(len(s.members)), n == 2)
			default:
				s.edit(s.rnd.IntN(len(s.members)), file())
			}
			pass(time.Duration(s.rnd.IntN(4000)) * time.Millisecond)
		}
		pass(3 * testStale)
		if err := s.check(); err != nil {
			return err
		}
		calm := len(s.hashes())
		pass(time.Minute)
		if n := len(s.hashes()); n != calm {
			return fmt.Errorf("nothing happened, and the definition changed %d times", n-calm)
		}
	}
	return nil
}

// edits edits one of two agents while heartbeats are slow: what it puts in force must not look like nobody's, and what it
// lets go must not go to a lower revision first.
func edits(s *simulation) error {
	s.slowBeats = 400 * time.Millisecond
	s.begin("", queue("orders", 0, 1))
	s.begin("", queue("orders", 0, 1))
	i := s.rnd.IntN(2)
	for size := range int64(3) {
		s.edit(i, queue("orders", 1, 2+size))
		pass(3 * testStale)
		if err := s.check(); err != nil {
			return err
		}
		if n := int64(len(s.hashes())); n != 2+size {
			return fmt.Errorf("%d edits changed the definition %d times", 1+size, n-1)
		}
	}
	return nil
}

// simulate plays a scenario and returns what is wrong, with the trace.
func simulate(t *testing.T, seed uint64, decide func(situation) verdict, play func(*simulation) error) (err error) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulation(t, seed, decide)
		defer s.close()
		if e := play(s); e != nil {
			err = fmt.Errorf("seed %d: %w\n  %s", seed, e, strings.Join(s.trace, "\n  "))
		}
	})
	return err
}

func seeds(t *testing.T) uint64 {
	if testing.Short() {
		return 10
	}
	return 40
}

func TestRollingDeployConverges(t *testing.T) {
	for _, revision := range []int64{0, 1} {
		t.Run(fmt.Sprintf("revision %d", revision), func(t *testing.T) {
			for seed := range seeds(t) {
				if err := simulate(t, seed, decide, func(s *simulation) error { return rollingDeploy(s, revision) }); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func TestSlowHeartbeatsChangeNothing(t *testing.T) {
	for seed := range seeds(t) {
		if err := simulate(t, seed, decide, edits); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAnyOrderOfEventsConverges(t *testing.T) {
	for seed := range seeds(t) {
		if err := simulate(t, seed, decide, anything); err != nil {
			t.Fatal(err)
		}
	}
}

// The checks above can fail: each of these ways to decide is wrong, and is found out.
func TestControlsAreFoundOut(t *testing.T) {
	for name, wrong := range map[string]func(situation) verdict{
		"decides before heartbeats were seen": func(s situation) verdict {
			s.seen = true
			return decide(s)
		},
		"decides before its own heartbeat is stored": func(s situation) verdict {
			s.announced = true
			return decide(s)
		},
		"puts its own file in force whatever others carry": func(s situation) verdict {
			s.carried = false
			return decide(s)
		},
		"never lets go of what is in force": func(s situation) verdict {
			s.carried = s.force != nil
			return decide(s)
		},
		"does not leave it to the highest revision": func(s situation) verdict {
			s.outranked = false
			return decide(s)
		},
		"does not look at revisions": func(s situation) verdict {
			s.own.Revision = 0
			return decide(s)
		},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range seeds(t) {
				for _, play := range []func(*simulation) error{
					anything, edits, func(s *simulation) error { return rollingDeploy(s, 0) },
				} {
					if err := simulate(t, seed, wrong, play); err != nil {
						t.Logf("found: %s", strings.SplitN(err.Error(), "\n", 2)[0])
						return
					}
				}
			}
			t.Error("no check fails")
		})
	}
}
