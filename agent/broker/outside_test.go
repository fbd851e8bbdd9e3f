package broker

import (
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/fairlead/fairlead/config"
)

// outside is a NATS server that is not the agent's own, with its own life: it can be stopped and started again on its
// port, with its store.
type outside struct {
	clients []*Client // that must notice a stop
	t       *testing.T
	opts    server.Options
	ns      *server.Server
	user    string // "name:password@" of the next client, if the server asks
}

func newOutside(t *testing.T, change ...func(*server.Options)) *outside {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	s := &outside{t: t, opts: server.Options{Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true}}
	for _, f := range change {
		f(&s.opts)
	}
	t.Cleanup(s.stop)
	s.start()
	return s
}

func (s *outside) start() {
	s.t.Helper()
	opts := s.opts
	ns, err := server.NewServer(&opts)
	if err != nil {
		s.t.Fatal(err)
	}
	s.ns = ns
	ns.Start()
	if !ns.ReadyForConnections(10 * time.Second) {
		s.t.Fatal("the server did not start")
	}
}

func (s *outside) stop() {
	s.ns.Shutdown()
	s.ns.WaitForShutdown()
	for _, c := range s.clients { // else "connected" may still speak of the time before
		until(s.t, "the agents have noticed", func() bool { return !c.Connected() })
	}
}

func (s *outside) url() string { return "nats://" + s.user + "127.0.0.1:" + strconv.Itoa(s.opts.Port) }

// rig is an agent that uses the server.
func (s *outside) rig(change func(*config.Queue)) *rig {
	s.t.Helper()
	c := connect(s.t, config.NATS{URLs: []string{s.url()}, Prefix: "fl"})
	s.clients = append(s.clients, c)
	return (&rig{c, s.t, definition(change)}).setUp()
}

// reconnected waits until the agent has noticed that the server is there again.
func (r *rig) reconnected() {
	r.t.Helper()
	until(r.t, "the agent is connected", r.Connected)
}
