package wire

import (
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/fairlead/fairlead/agent/broker/embedded"
	"github.com/fairlead/fairlead/agent/broker/rights"
	"github.com/fairlead/fairlead/config"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must happen; nothing in a passing test takes nearly as long.
const patience = 20 * time.Second

// connect starts a server and connects to it.
func connect(t *testing.T, options ...nats.Option) *nats.Conn {
	t.Helper()
	s, err := embedded.Start(config.Embedded{StoreDir: t.TempDir()}, 0, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	nc, err := nats.Connect("", append(options, nats.InProcessServer(s))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// newWire is a line whose denials are all put down to one permission.
func newWire(t *testing.T, nc *nats.Conn) *Wire {
	t.Helper()
	w, err := New(nc, func(dir rights.Direction, subject string) rights.Permission {
		return rights.Permission{Direction: dir, Subject: subject, For: "a test"}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
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
