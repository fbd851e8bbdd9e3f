package integration

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const sizingYAML = `
queues:
  - {name: jobs, priority_levels: 3, fair_share: true, ack_wait: 10m}
capsules:
  - {name: main, queues: [jobs], concurrency: 20000, lease: 10m}
`

// A scale measures one agent and one server.
type scale struct {
	t      *testing.T
	a      *agent
	server *natsServer
	js     jetstream.JetStream
}

// resident is how much memory a process has, in MiB.
func (s *scale) resident(p *process) float64 {
	s.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		s.t.Skip("this machine has no /proc")
	}
	kib, _ := strconv.ParseFloat(regexp.MustCompile(`VmRSS:\s+(\d+)`).FindStringSubmatch(string(text))[1], 64)
	return kib / 1024
}

// calls is how many JetStream API calls the server has answered.
func (s *scale) calls() uint64 {
	s.t.Helper()
	info, err := s.js.AccountInfo(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return info.API.Total
}

// disk is what the queue's stream takes on it, in bytes.
func (s *scale) disk() (bytes int64) {
	_ = filepath.Walk(s.server.dir, func(path string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() && strings.Contains(path, "FL_Q_jobs") {
			bytes += info.Size()
		}
		return nil
	})
	return bytes
}

func (s *scale) connections(monitor int) int {
	s.t.Helper()
	answer, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/varz", monitor))
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	var v struct{ Connections int }
	if err := json.NewDecoder(answer.Body).Decode(&v); err != nil {
		s.t.Fatal(err)
	}
	return v.Connections
}

// The numbers of the sizing page. It prints them: go test ./integration/ -run TestSizing -v, with FAIRLEAD_SLOW=1.
func TestSizing(t *testing.T) {
	slow(t)
	monitor := freePort(t)
	server := startNATSWith(t, fmt.Sprintf("http: 127.0.0.1:%d", monitor))
	js, err := jetstream.New(server.connect())
	if err != nil {
		t.Fatal(err)
	}
	before := 1 // the measuring connection
	a := startAgent(t, settings{id: "sized", nats: server.url, yaml: sizingYAML})
	s := &scale{t: t, a: a, server: server, js: js}
	eventually(t, "the queue is there", patience, func() bool { return a.queue("jobs").Name == "jobs" })
	print := func(what string, format string, args ...any) { t.Logf("%-62s %s", what, fmt.Sprintf(format, args...)) }

	print("agent, idle: memory", "%.0f MiB", s.resident(a.process))
	print("server, idle: memory", "%.0f MiB", s.resident(server.process))
	print("agent: connections to NATS", "%d", s.connections(monitor)-before)
	calls := s.calls()
	time.Sleep(10 * time.Second) // what is measured is time itself
	print("agent, idle, no app: JetStream API calls a minute", "%d", (s.calls()-calls-1)*6)

	app := a.app("main")
	const waiting, tenants = 200_000, 5_000
	random := rand.New(rand.NewPCG(1, 2))
	payload := func(int) string { // nothing that compresses
		b := make([]byte, 256)
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		return string(b)
	}
	server.flood(waiting, func(int) string { return "fl.q.jobs.p0.acme" }, payload)
	time.Sleep(2 * time.Second) // the file is written
	print("200,000 messages of 256 bytes wait: agent's memory", "%.0f MiB", s.resident(a.process))
	print("  server's memory", "%.0f MiB", s.resident(server.process))
	print("  on disk, a message", "%d bytes", s.disk()/waiting)
	calls = s.calls()
	const taken = 5000
	app.take(taken, 64)
	print("5,000 of them taken in pulls of 64: API calls a message", "%.2f", float64(s.calls()-calls)/float64(taken))
	if code := a.operate("POST", "/v1/queues/jobs/purge", "", new(any)); code != nil {
		t.Fatal(code)
	}

	memory, agentMemory := s.resident(server.process), s.resident(a.process)
	server.flood(tenants, func(i int) string { return fmt.Sprintf("fl.q.jobs.p1.tenant-%d", i) }, payload)
	calls = s.calls()
	held := 0
	for held < tenants {
		held += len(app.pull(tenants, patience))
	}
	print("5,000 tenants, a message of each in work: API calls a message", "%.2f", float64(s.calls()-calls)/float64(held))
	lanes := consumers(t, js)
	print("  lanes", "%d", lanes)
	print("  server's memory, a lane", "%.0f KiB", (s.resident(server.process)-memory)*1024/float64(lanes))
	print("  agent's memory, a lane with a message in work", "%.0f KiB", (s.resident(a.process)-agentMemory)*1024/float64(lanes))
	started := time.Now()
	info, err := js.Stream(t.Context(), "FL_Q_jobs")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := info.Info(t.Context(), jetstream.WithSubjectFilter(">")); err != nil {
		t.Fatal(err)
	}
	print("  a look at which tenants have work", "%.0f ms", float64(time.Since(started).Microseconds())/1000)
	if lanes < tenants {
		t.Errorf("%d lanes for %d tenants", lanes, tenants)
	}
}

func consumers(t *testing.T, js jetstream.JetStream) int {
	t.Helper()
	stream, err := js.Stream(t.Context(), "FL_Q_jobs")
	if err != nil {
		t.Fatal(err)
	}
	return stream.CachedInfo().State.Consumers
}
