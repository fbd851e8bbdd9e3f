package bucket

import (
	"context"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/fairlead/fairlead/agent/broker/embedded"
	"github.com/fairlead/fairlead/agent/broker/rights"
	"github.com/fairlead/fairlead/agent/broker/wire"
	"github.com/fairlead/fairlead/config"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must happen; nothing in a passing test takes nearly as long.
const patience = 20 * time.Second

// host is a server that can be stopped, and started again on its port with its store.
type host struct {
	t     *testing.T
	cfg   config.Embedded
	s     *embedded.Server
	lines []*wire.Wire // that must notice a stop
}

func newHost(t *testing.T) *host {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	h := &host{t: t, cfg: config.Embedded{StoreDir: t.TempDir(), Listen: "127.0.0.1:" + strconv.Itoa(port)}}
	h.start()
	t.Cleanup(h.stop)
	return h
}

func (h *host) start() {
	h.t.Helper()
	s, err := embedded.Start(h.cfg, 0, hclog.NewNullLogger())
	if err != nil {
		h.t.Fatal(err)
	}
	h.s = s
}

func (h *host) stop() {
	h.s.Stop()
	for _, w := range h.lines { // else "connected" may still speak of the time before
		until(h.t, "the agents have noticed", func() bool { return !w.Connected() })
	}
}

// rig is one agent's side of the bucket.
type rig struct {
	*Bucket
	t    *testing.T
	h    *host
	wire *wire.Wire
}

// rig makes the bucket if need be, and mirrors it.
func (h *host) rig() *rig {
	h.t.Helper()
	r := &rig{t: h.t, h: h}
	ready := make(chan struct{})
	nc, err := nats.Connect(h.s.URL(), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond), nats.ReconnectBufSize(-1),
		nats.DisconnectErrHandler(func(*nats.Conn, error) { <-ready; r.wire.Disconnected(); r.Connection(false) }),
		nats.ReconnectHandler(func(*nats.Conn) { <-ready; r.Connection(true) }))
	if err != nil {
		h.t.Fatal(err)
	}
	if r.wire, err = wire.New(nc, func(rights.Direction, string) rights.Permission { return rights.Permission{} }); err != nil {
		h.t.Fatal(err)
	}
	h.lines = append(h.lines, r.wire)
	r.Bucket = New(r.wire, "fairlead", hclog.NewNullLogger())
	close(ready)
	h.t.Cleanup(func() {
		r.Stop()
		r.wire.Close()
		nc.Close()
	})
	if warning, err := r.Ensure(within(h.t), 1); err != nil || warning != "" {
		h.t.Fatal(warning, err)
	}
	r.Start()
	wait(h.t, r.Loaded(), "the bucket's first snapshot")
	return r
}

func newRig(t *testing.T) *rig { t.Helper(); return newHost(t).rig() }

// another is a second agent on the same server.
func (r *rig) another() *rig { r.t.Helper(); return r.h.rig() }

// reconnected waits until the agent has noticed that the server is there again.
func (r *rig) reconnected() {
	r.t.Helper()
	until(r.t, "the agent is connected", r.wire.Connected)
}

// within is a context that ends before the test's patience does.
func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// wait returns what comes out of ch.
func wait[T any](t testing.TB, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		t.Fatalf("waited in vain for %s", what)
		panic("unreachable")
	}
}

// until asks again and again, for what nobody announces.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}
