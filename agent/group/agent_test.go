package group

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead/fairlead/agent/group/grouptest"
	"github.com/fairlead/fairlead/config"
)

// member is an agent with one capsule in a test.
type member struct {
	*Group
	t       *testing.T
	mirror  *grouptest.Mirror
	changes []Change // of the owner's goroutine: read after synctest.Wait
}

const (
	testInterval = 2 * time.Second
	testStale    = 10 * time.Second
	// roundTrip is more than every write takes in these tests.
	roundTrip = 200 * time.Millisecond
)

// testConfig is an agent with the capsule "work" for all its queues.
func testConfig(agent, boot string, defs ...config.Queue) Config {
	c := Config{Agent: agent, Boot: boot, Interval: testInterval, StaleAfter: testStale, Definitions: defs}
	work := Capsule{Name: "work"}
	for _, q := range defs {
		work.Queues = append(work.Queues, q.Name)
	}
	c.Capsules = []Capsule{work}
	return c
}

func newMember(t *testing.T, s *grouptest.Store, cfg Config) *member {
	return newMemberWith(t, s, cfg, grouptest.Options{
		Fault: func(grouptest.Op, string) grouptest.Fault { return grouptest.Fault{Delay: 5 * time.Millisecond} },
		Lag:   func() time.Duration { return 3 * time.Millisecond },
	})
}

func newMemberWith(t *testing.T, s *grouptest.Store, cfg Config, o grouptest.Options) *member {
	m := &member{t: t, mirror: s.Mirror(o)}
	m.Group = New(m.mirror, cfg)
	m.Notify(func(c Change) { m.changes = append(m.changes, c) })
	return m
}

// join starts an agent and waits until it knows the definitions.
func join(t *testing.T, s *grouptest.Store, cfg Config) *member {
	t.Helper()
	m := newMember(t, s, cfg)
	m.start()
	return m
}

func (m *member) start() {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := m.Start(ctx); err != nil {
		m.t.Fatalf("%s: Start: %v", m.cfg.Agent, err)
	}
}

func (m *member) stop() {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := m.Stop(ctx); err != nil {
		m.t.Errorf("%s: Stop: %v", m.cfg.Agent, err)
	}
}

// crash ends an agent so that nothing of it reaches the bucket any more.
func (m *member) crash() {
	m.mirror.Cut(true)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = m.Stop(ctx)
}

// size is how the tests tell definitions apart.
func (m *member) size(queue string) int64 {
	q, ok := m.Definition(queue)
	if !ok {
		return -1
	}
	return q.Limits.MaxMessages
}

func (m *member) wantSize(want int64) {
	m.t.Helper()
	if got := m.size("orders"); got != want {
		m.t.Errorf("%s uses the definition with size %d, want %d", m.cfg.Agent, got, want)
	}
}

func (m *member) wantPeers(want ...string) {
	m.t.Helper()
	var got []string
	for _, p := range m.Peers() {
		got = append(got, p.Agent)
	}
	if !slices.Equal(got, want) {
		m.t.Errorf("%s sees %v, want %v", m.cfg.Agent, got, want)
	}
}

func (m *member) wantConflict(want bool) {
	m.t.Helper()
	select {
	case err := <-m.Conflict():
		if !want || !errors.Is(err, ErrDuplicateAgent) {
			m.t.Errorf("%s (boot %s) is told: %v", m.cfg.Agent, m.cfg.Boot, err)
		}
	default:
		if want {
			m.t.Errorf("%s (boot %s) is not told", m.cfg.Agent, m.cfg.Boot)
		}
	}
}

// pass lets time pass until everything that is due has happened.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
