package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/integration/history"
)

// A clock is the time of day of a process, which can be set. Its monotonic clock goes on, as it does on a machine whose time
// of day is set.
//
// The real binaries are built once more for that, from the same sources, with a standard library in which time.Now adds what
// a file says. Nothing in the product knows of it.
type clock struct {
	t    *testing.T
	who  string
	file string
}

// clockFile is the variable that names the file; in it are seconds.
const clockFile = "CLOCK_OF_THE_TEST"

// newClock makes a clock that is right.
func newClock(t *testing.T, who string) *clock {
	t.Helper()
	c := &clock{t, who, filepath.Join(folder(t), "clock")}
	c.write(0)
	return c
}

func (c *clock) env() []string { return []string{clockFile + "=" + c.file} }

// set puts the clock that much before the right time, or behind it.
func (c *clock) set(d time.Duration) {
	c.t.Helper()
	if d != 0 {
		injected(c.t, "clock jump", fmt.Sprintf("%s by %v", c.who, d))
	}
	c.write(d)
	time.Sleep(50 * time.Millisecond) // until the process has read it
}

func (c *clock) write(d time.Duration) {
	c.t.Helper()
	// Replaced in one step: half a number would be another jump.
	if err := os.WriteFile(c.file+".new", []byte(fmt.Sprint(int(d.Seconds()))), 0o600); err != nil {
		c.t.Fatal(err)
	}
	if err := os.Rename(c.file+".new", c.file); err != nil {
		c.t.Fatal(err)
	}
}

// jumping is what is added to package time.
const jumping = `package time

import (
	"sync/atomic"
	"syscall"
)

var jumped atomic.Int64

func init() {
	name, ok := syscall.Getenv("` + clockFile + `")
	if !ok {
		return
	}
	jump(name)
	go func() {
		for {
			Sleep(10 * Millisecond)
			jump(name)
		}
	}()
}

func jump(name string) {
	fd, err := open(name)
	if err != nil {
		return
	}
	defer closefd(fd)
	text := make([]byte, 32)
	n, err := read(fd, text)
	if err != nil {
		return
	}
	if seconds, err := atoi(text[:n]); err == nil {
		jumped.Store(int64(seconds))
	}
}
`

// withClocks builds agent and server with clocks that can be set.
var withClocks = sync.OnceValues(func() (bins [2]string, err error) {
	dir, err := os.MkdirTemp(filepath.Dir(fairlead), "clocks")
	if err != nil {
		return bins, err
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return bins, err
	}
	source := filepath.Join(strings.TrimSpace(string(root)), "src", "time")
	text, err := os.ReadFile(filepath.Join(source, "time.go"))
	if err != nil {
		return bins, err
	}
	const now = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	if strings.Count(string(text), now) != 1 {
		return bins, fmt.Errorf("time.Now of this Go is not as it was expected: %s", source)
	}
	changed := strings.Replace(string(text), now, now+"\tsec += jumped.Load()\n", 1)
	overlay := map[string]map[string]string{"Replace": {
		filepath.Join(source, "time.go"): filepath.Join(dir, "time.go"),
		filepath.Join(source, "jump.go"): filepath.Join(dir, "jump.go"),
	}}
	list, err := json.Marshal(overlay)
	if err != nil {
		return bins, err
	}
	for name, text := range map[string]string{"time.go": changed, "jump.go": jumping, "overlay.json": string(list)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return bins, err
		}
	}
	for i, pkg := range []string{"github.com/fairlead/fairlead/cmd/agent", "github.com/nats-io/nats-server/v2"} {
		bins[i] = filepath.Join(dir, filepath.Base(pkg))
		if out, err := exec.Command("go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", bins[i], pkg).CombinedOutput(); err != nil {
			return bins, fmt.Errorf("go build -overlay %s: %w\n%s", pkg, err, out)
		}
	}
	return bins, nil
})

func clocks(t *testing.T) (agent, server string) {
	t.Helper()
	slow(t)
	bins, err := withClocks()
	if err != nil {
		t.Fatal(err)
	}
	return bins[0], bins[1]
}

// The time of day of agents is set, by a minute and by hours, forward and back, of the holder of a lease and of the one that
// stands by: the lease stays where it is. With the clock set back, a holder that is cut off still lets go in time.
func TestAgentsClocksJump(t *testing.T) {
	agentBinary, _ := clocks(t)
	t.Parallel()
	server, log := startNATS(t), history.New()
	l := server.link(t)
	start := func(id, url string, h habits) (*member, *clock) {
		c := newClock(t, "agent "+id)
		s := ordered(server, id, "", "")
		s.nats, s.binary, s.env = url, agentBinary, c.env()
		return join(t, log, s, h), c
	}
	hold, held, release := make(chan bool), make(chan bool), make(chan bool)
	a, clockOfA := start("a", l.url, habits{handle: func(ctx context.Context, _ api.Delivery) api.Settlement {
		select {
		case <-hold:
			close(held)
			<-release
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
		}
		return api.Settlement{Result: api.Ack}
	}})
	rolesOf(t, a)
	b, clockOfB := start("b", server.url, busyFor(10*time.Millisecond))
	rolesOf(t, a, b)
	server.store(log, "jobs", "fl.q.jobs.d._", numbered(6000, "m")...)
	a.came(log.Now())
	began := log.Now()
	for _, jump := range []time.Duration{time.Minute, -time.Minute, 3 * time.Hour, -3 * time.Hour, 0} {
		for _, c := range []*clock{clockOfA, clockOfB} {
			c.set(jump)
			time.Sleep(leaseTTL * 3 / 2) // a lease that is judged by the time of day is over by now, or for ever
			a.came(log.Now())
		}
	}
	fences := map[uint64]bool{}
	for _, h := range log.History().Hands {
		fences[h.Fence] = true
	}
	longest, _ := log.History().Silence("jobs", began, log.Now())
	verdict(t, "L5", len(fences) == 1 && len(by(log, b.agent)) == 0 && longest < time.Second,
		"%d tenures over ten jumps of up to three hours, nobody at work for %v at most", len(fences), longest.Round(time.Millisecond))

	hold <- true
	<-held
	clockOfA.set(-time.Hour) // its lease seems to last for an hour more
	cut := log.Now()
	l.set(linkState{toServer: true, toAgent: true})
	log.Cut(a.name, cut+leaseTTL*2/3+100*time.Millisecond)
	clockOfA.set(-2 * time.Hour)
	next := b.came(cut)
	took := next.Got - cut
	verdict(t, "L1", took <= leaseTTL+1500*time.Millisecond, "taken over %v after the holder was cut off", took.Round(time.Millisecond))
	close(release)
	eventually(t, "the late ack is answered", patience, func() bool {
		hands := by(log, a.agent)
		return hands[len(hands)-1].Status == string(api.StatusLeaseLost)
	})
	var last time.Duration
	for _, h := range by(log, a.agent) {
		last = max(last, h.Got)
	}
	verdict(t, "S2", last <= cut+leaseTTL*2/3+100*time.Millisecond, "the last hand-over of the one that was cut off %v after the cut, with a TTL of %v",
		max(0, last-cut).Round(time.Millisecond), leaseTTL)
	l.change(linkState{})
	finish(t, server, log, a, b)
}

// The server's time of day is set by a minute, forward and back, twice: nothing is lost, fences grow, work goes on. When it is
// set back, what backs off waits a minute longer: that is timed by the server.
func TestTheServersClockJumps(t *testing.T) {
	_, serverBinary := clocks(t)
	t.Parallel()
	c := newClock(t, "nats-server")
	server := &natsServer{t: t, port: freePort(t), dir: folder(t), binary: serverBinary, env: c.env()}
	server.url = fmt.Sprintf("nats://127.0.0.1:%d", server.port)
	server.start()
	f := startFleet(t, server, 3, 1)
	worst := time.Duration(0)
	for _, jump := range []time.Duration{time.Minute, 0, -time.Minute, 0} {
		f.goesOn(f.log.Now(), patience)
		at := f.log.Now()
		c.set(jump)
		if jump == 0 {
			injected(t, "clock jump", "nats-server to the right time")
		}
		fair, jobs := f.goesOn(f.log.Now(), recovery)
		time.Sleep(clusterTTL) // leases and acknowledgement waits have their time
		eventually(t, "the backlog is gone, under the same load", recovery+time.Minute, func() bool { return f.backlog() < 10 })
		f.log.Rebuilt(at) // for the server everything that is in flight may have been so for too long
		worst = max(worst, fair, jobs)
	}
	verdict(t, "L6", true, "work goes on %v after a jump at most", worst.Round(time.Millisecond))
	f.end()
}
