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
// and judges the record at the end. Between the faults memory, goroutines and file descriptors return to bounds.
func TestSoak(t *testing.T) {
	long, err := time.ParseDuration(os.Getenv("FAIRLEAD_SOAK"))
	if err != nil || long <= 0 {
		t.Skip("takes as long as FAIRLEAD_SOAK says")
	}
	s := &soak{t: t, rng: rand.New(rand.NewPCG(seed(), 11)), server: startNATS(t)}
	s.f = startFleet(t, s.server, 3, 1)
	began := time.Now()
	for n := 1; time.Since(began) < long; n++ {
		at := s.f.log.Now()
		what := s.step()
		s.f.log.Rebuilt(at)
		s.f.goesOn(s.f.log.Now(), recovery)
		eventually(t, "the backlog is gone after "+what, recovery, func() bool { return s.f.backlog() < 50 })
		s.bounds()
		fmt.Printf("soak: %v of %v, %d faults, %d messages stored, %d handed over; last: %s\n", time.Since(began).Round(time.Second), long, n,
			len(s.f.log.History().Stored), len(s.f.log.History().Hands), what)
	}
	verdict(t, "L6", true, "no backlog within %v of each fault", recovery)
	verdict(t, "S8", true, "at most %d MiB and %d file descriptors in an agent between faults", s.memory, s.files)
	s.f.end()
}

type soak struct {
	t             *testing.T
	rng           *rand.Rand
	server        *natsServer
	f             *fleet
	memory, files int // the most of an agent, in MiB and descriptors
}

// step does something to somebody, mends it, and says what it was.
func (s *soak) step() string {
	i := s.rng.IntN(len(s.f.members))
	m, l := s.f.members[i], s.f.links[i]
	d := 100*time.Millisecond + time.Duration(s.rng.Int64N(int64(2*clusterTTL)))
	switch s.rng.IntN(8) {
	case 0:
		m.stop()
		m.crash()
		m.again()
		return "clean stop of " + m.name
	case 1:
		m.kill()
		m.crash()
		time.Sleep(d / 2)
		m.again()
		return "kill of " + m.name
	case 2:
		m.signal(syscall.SIGSTOP)
		time.Sleep(d)
		m.signal(syscall.SIGCONT)
		return fmt.Sprintf("pause of %s for %v", m.name, d)
	case 3:
		m.crash()
		m.app = m.work(m.log, m.h)
		m.staff()
		return "crash of the apps of " + m.name
	case 4:
		s.server.kill()
		time.Sleep(d)
		s.server.start()
		return fmt.Sprintf("the server away for %v", d)
	case 5:
		l.set([]linkState{{toServer: true}, {toAgent: true}, {toServer: true, toAgent: true}}[s.rng.IntN(3)])
		time.Sleep(d)
		l.change(linkState{})
		return fmt.Sprintf("network of %s cut for %v", m.name, d)
	case 6:
		l.set(linkState{delay: 20 * time.Millisecond})
		time.Sleep(d / 2)
		l.reset()
		time.Sleep(d / 2)
		l.change(linkState{})
		return "slow network of " + m.name + " with a reset"
	}
	s.server.signal(syscall.SIGSTOP)
	time.Sleep(d / 2)
	s.server.signal(syscall.SIGCONT)
	return fmt.Sprintf("the server stands still for %v", d/2)
}

// bounds checks what the agents use.
func (s *soak) bounds() {
	s.t.Helper()
	for _, m := range s.f.members {
		files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", m.cmd.Process.Pid))
		if err != nil {
			s.t.Skip("no /proc here: ", err)
		}
		memory := residentMiB(s.t, m.agent)
		s.memory, s.files = max(s.memory, memory), max(s.files, len(files))
		if memory > 300 || len(files) > 200 {
			verdict(s.t, "S8", false, "%s has %d MiB and %d file descriptors", m.name, memory, len(files))
		}
		if strings.Contains(m.errs.String(), "panic") {
			s.t.Errorf("%s panicked", m.name)
		}
	}
}
