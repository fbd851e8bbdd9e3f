package probes

import (
	"net"
	"net/http"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/fairlead/fairlead/agent/tcp"
)

// MaxConnections is how many clients are served at a time.
const MaxConnections = 64

var bounds = tcp.Bounds{
	Connections: MaxConnections, HeaderBytes: 8 << 10, Request: 5 * time.Second, Answer: 30 * time.Second, Idle: 15 * time.Second,
}

// Options are what a server answers with.
type Options struct {
	// Ready tells whether the agent may be used: nil, or the reason why not. It must not block, and be safe for several
	// goroutines.
	Ready func() error
	// Metrics answers /metrics.
	Metrics http.Handler
	Logger  hclog.Logger // nil is none
}

// Start begins to answer on l, until the server is stopped.
func Start(l net.Listener, o Options) *tcp.Server {
	return tcp.Serve(l, handler(o), bounds, o.Logger, "probes and metrics are not answered any more")
}
