package integration

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestSoak injects random faults for FAIRLEAD_SOAK, into agents that work on a queue which all share and on an ordered one,
// and judges the record at the end. Between the faults memory, goroutines and file descriptors return to their base line.
func TestSoak(t *testing.T) {
	long := soaking(t)
	server := startNATS(t)
	s := &soak{t: t, rng: rand.New(rand.NewPCG(seed(), 11)), server: server, f: startFleet(t, server, 3, 1)}
	s.faults = []func() string{s.anAgentStops, s.anAgentIsKilled, s.anAgentIsPaused, s.appsCrash, s.theServerIsAway, s.aNetworkIsCut, s.aNetworkIsSlow, s.theServerStands}
	s.run(long)
}

// TestSoakOfACluster is TestSoak on three servers, which are killed and cut off.
func TestSoakOfACluster(t *testing.T) {
	long := soaking(t)
	c := startCluster(t)
	s := &soak{t: t, rng: rand.New(rand.NewPCG(seed(), 12)), cluster: c, f: startFleet(t, c.natsServer, 3, 3)}
	s.faults = []func() string{s.anAgentStops, s.anAgentIsKilled, s.anAgentIsPaused, s.appsCrash, s.aServerIsKilled, s.aServerIsCutOff}
	s.run(long)
}

// soaking is for how long.
func soaking(t *testing.T) time.Duration {
	t.Helper()
	long, err := time.ParseDuration(os.Getenv("FAIRLEAD_SOAK"))
	if err != nil || long <= 0 {
		t.Skip("takes as long as FAIRLEAD_SOAK says")
	}
	return long
}

type soak struct {
	t       *testing.T
	rng     *rand.Rand
	server  *natsServer // nil in a cluster
	cluster *cluster    // nil on one server
	f       *fleet
	faults  []func() string // each does something to somebody, mends it, and says what it was
	base    usage           // of an agent before the first fault
	most    usage           // of one that has recovered from a fault
}

// usage is what an agent uses.
type usage struct{ mebibytes, goroutines, files int }

func (u usage) max(o usage) usage {
	return usage{max(u.mebibytes, o.mebibytes), max(u.goroutines, o.goroutines), max(u.files, o.files)}
}

func (u usage) String() string {
	return fmt.Sprintf("%d MiB, %d goroutines and %d file descriptors", u.mebibytes, u.goroutines, u.files)
}

func (s *soak) run(long time.Duration) {
	t := s.t
	s.f.goesOn(s.f.log.Now(), patience)
	time.Sleep(2 * time.Second)
	for _, m := range s.f.members {
		s.base = s.base.max(s.usage(m))
	}
	began := time.Now()
	for n := 1; time.Since(began) < long; n++ {
		at := s.f.log.Now()
		what := s.faults[s.rng.IntN(len(s.faults))]()
		if s.cluster != nil {
			s.cluster.awaitHealthy()
		}
		s.f.log.Rebuilt(at)
		s.f.goesOn(s.f.log.Now(), recovery)
		eventually(t, "the backlog is gone after "+what, recovery, func() bool { return s.f.backlog() < 50 })
		s.settles(what)
		fmt.Printf("soak: %v of %v, %d faults, %d messages stored, %d handed over; last: %s\n", time.Since(began).Round(time.Second), long, n,
			len(s.f.log.History().Stored), len(s.f.log.History().Hands), what)
	}
	verdict(t, "L6", true, "no backlog within %v of each fault", recovery)
	verdict(t, "S8", true, "between faults at most %v; before the first one %v", s.most, s.base)
	s.f.end()
}

func (s *soak) someone() (*member, int) {
	i := s.rng.IntN(len(s.f.members))
	return s.f.members[i], i
}

func (s *soak) moment() time.Duration {
	return 100*time.Millisecond + time.Duration(s.rng.Int64N(int64(2*clusterTTL)))
}

func (s *soak) anAgentStops() string {
	m, _ := s.someone()
	m.stop()
	m.crash()
	m.again()
	return "clean stop of " + m.name
}

func (s *soak) anAgentIsKilled() string {
	m, _ := s.someone()
	m.kill()
	m.crash()
	time.Sleep(s.moment() / 2)
	m.again()
	return "kill of " + m.name
}

func (s *soak) anAgentIsPaused() string {
	m, _ := s.someone()
	d := s.moment()
	m.signal(syscall.SIGSTOP)
	time.Sleep(d)
	m.signal(syscall.SIGCONT)
	return fmt.Sprintf("pause of %s for %v", m.name, d)
}

func (s *soak) appsCrash() string {
	m, _ := s.someone()
	m.crash()
	m.app = m.work(m.log, m.h)
	m.staff()
	return "crash of the apps of " + m.name
}

func (s *soak) theServerIsAway() string {
	d := s.moment()
	s.server.kill()
	time.Sleep(d)
	s.server.start()
	return fmt.Sprintf("the server away for %v", d)
}

func (s *soak) aNetworkIsCut() string {
	m, i := s.someone()
	d, l := s.moment(), s.f.links[i]
	l.set([]linkState{{toServer: true}, {toAgent: true}, {toServer: true, toAgent: true}}[s.rng.IntN(3)])
	time.Sleep(d)
	l.change(linkState{})
	return fmt.Sprintf("network of %s cut for %v", m.name, d)
}

func (s *soak) aNetworkIsSlow() string {
	m, i := s.someone()
	d, l := s.moment(), s.f.links[i]
	l.set(linkState{delay: 20 * time.Millisecond})
	time.Sleep(d / 2)
	l.reset()
	time.Sleep(d / 2)
	l.change(linkState{})
	return "slow network of " + m.name + " with a reset"
}

func (s *soak) theServerStands() string {
	d := s.moment()
	s.server.signal(syscall.SIGSTOP)
	time.Sleep(d / 2)
	s.server.signal(syscall.SIGCONT)
	return fmt.Sprintf("the server stands still for %v", d/2)
}

func (s *soak) aServerIsKilled() string {
	n := s.cluster.nodes[s.rng.IntN(clusterSize)]
	d := s.moment()
	n.kill()
	time.Sleep(d)
	n.again()
	return fmt.Sprintf("kill of server %s, away for %v", n.name, d)
}

func (s *soak) aServerIsCutOff() string {
	n := s.cluster.nodes[s.rng.IntN(clusterSize)]
	d, silently := 2*s.moment(), s.rng.IntN(2) == 0
	n.cut(silently)
	time.Sleep(d)
	n.heal()
	return fmt.Sprintf("server %s cut off for %v, silently: %t", n.name, d, silently)
}

// usage is what an agent uses now, in its own words.
func (s *soak) usage(m *member) usage {
	all, _ := m.scrape(m.s.probes)
	return usage{int(all["process_resident_memory_bytes"]) >> 20, int(all["go_goroutines"]), int(all["process_open_fds"])}
}

// settles waits until all agents use about what they used before the first fault.
func (s *soak) settles(what string) {
	s.t.Helper()
	limit := usage{2*s.base.mebibytes + 30, s.base.goroutines*5/4 + 20, s.base.files + 15}
	var used usage
	within := time.Now().Add(recovery)
	for {
		used = usage{}
		for _, m := range s.f.members {
			used = used.max(s.usage(m))
			if strings.Contains(m.errs.String(), "panic") {
				s.t.Errorf("%s panicked", m.name)
			}
		}
		if used.max(limit) == limit {
			s.most = s.most.max(used)
			return
		}
		if time.Now().After(within) {
			verdict(s.t, "S8", false, "%v %v after %s; before the first fault %v", used, recovery, what, s.base)
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}
