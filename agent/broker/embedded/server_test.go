package embedded

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/fairlead/fairlead/config"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, cfg config.Embedded, maxPayload int64) *Server {
	t.Helper()
	s, err := Start(cfg, maxPayload, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

func connect(t *testing.T, s *Server) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect("", nats.InProcessServer(s))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// The store belongs to one server at a time, and to the next one when that has stopped, also when it was stopped twice.
func TestTheStoreIsLocked(t *testing.T) {
	cfg := config.Embedded{StoreDir: t.TempDir()}
	first := start(t, cfg, 0)
	if second, err := Start(cfg, 0, hclog.NewNullLogger()); err == nil {
		second.Stop()
		t.Fatal("two servers use one store")
	} else if !strings.Contains(err.Error(), "in use by another process") || !strings.Contains(err.Error(), "store_dir") {
		t.Errorf("it does not say what to do: %v", err)
	}
	first.Stop()
	first.Stop()
	start(t, cfg, 0)
}

// An address that is none leaves nothing behind: the store can be used at once.
func TestAnUnusableAddress(t *testing.T) {
	dir := t.TempDir()
	for _, address := range []string{"nowhere", "127.0.0.1:http"} {
		if s, err := Start(config.Embedded{StoreDir: dir, Listen: address}, 0, hclog.NewNullLogger()); err == nil {
			s.Stop()
			t.Errorf("listens on %q", address)
		} else if !strings.Contains(err.Error(), address) {
			t.Errorf("does not name %q: %v", address, err)
		}
	}
	if s := start(t, config.Embedded{StoreDir: dir}, 0); s.URL() != "" {
		t.Errorf("listens on %s, unasked", s.URL())
	}
}

// A server that listens gives its address to others; port 0 is a free one.
func TestItListensForOthers(t *testing.T) {
	s := start(t, config.Embedded{StoreDir: t.TempDir(), Listen: "127.0.0.1:0"}, 0)
	nc, err := nats.Connect(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
}

// The server takes what the queues allow, with headers.
func TestLargestPayload(t *testing.T) {
	const asked = 20 << 20
	for want, payload := range map[int64]int64{usualMaxPayload: 1 << 20, asked + headerRoom: asked} {
		if got := connect(t, start(t, config.Embedded{StoreDir: t.TempDir()}, payload)).MaxPayload(); got != want {
			t.Errorf("for payloads of %d bytes it takes %d, want %d", payload, got, want)
		}
	}
}

// More than the connection puts down arrives, in order.
func TestManyWrites(t *testing.T) {
	s := start(t, config.Embedded{StoreDir: t.TempDir()}, 0)
	to, from := connect(t, s), connect(t, s)
	const n, size = 3000, 4 << 10 // three times what is put down
	sub, err := to.SubscribeSync("x")
	if err != nil {
		t.Fatal(err)
	}
	if err := sub.SetPendingLimits(-1, -1); err != nil {
		t.Fatal(err)
	}
	if err := to.Flush(); err != nil {
		t.Fatal(err)
	}
	rest := strings.Repeat(".", size)
	for i := range n {
		if err := from.Publish("x", fmt.Appendf(nil, "%d %s", i, rest)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		m, err := sub.NextMsg(20 * time.Second)
		if err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
		if got, _, _ := strings.Cut(string(m.Data), " "); got != fmt.Sprint(i) {
			t.Fatalf("message %d came as %s", i, got)
		}
	}
}
