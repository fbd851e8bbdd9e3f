package dashboard

import (
	"context"
	"net"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/fairlead/fairlead/agent/overview"
	"github.com/fairlead/fairlead/agent/tcp"
)

const (
	// MaxConnections is how many connections are open at a time. A browser has up to six.
	MaxConnections = 128
	// MaxViewers is how many of them are shown overviews.
	MaxViewers = 32
	// answerTime is for a file, or for one event: they put the end off, one by one.
	answerTime = 10 * time.Second
)

var bounds = tcp.Bounds{
	Connections: MaxConnections,
	HeaderBytes: 16 << 10, // cookies of other services on the same host come along
	Request:     5 * time.Second, Answer: answerTime, Idle: 30 * time.Second,
}

// Overviews is where overviews come from. It is safe for several goroutines.
type Overviews interface {
	// Watch says that somebody looks, until leave is called.
	Watch() (leave func())
	// After returns an overview with a number above number, and blocks until there is one or ctx ends.
	After(ctx context.Context, number uint64) (*overview.Shot, error)
}

// Options are what a server shows.
type Options struct {
	// Address is the one of the file, host:port. Its host may be asked for, beside loopback.
	Address   string
	Overviews Overviews
	Logger    hclog.Logger // nil is none
}

// Server shows the dashboard on one listener. Its methods are safe for several goroutines.
type Server struct {
	server *tcp.Server
	cancel context.CancelFunc
}

// Start begins to answer on l, which Stop closes.
func Start(l net.Listener, o Options) *Server {
	ctx, cancel := context.WithCancel(context.Background())
	return &Server{tcp.Serve(l, newHandler(o, ctx.Done()), bounds, o.Logger, "the dashboard is not shown any more"), cancel}
}

// URL is what to open in a browser on this host.
func (s *Server) URL() string {
	host, port, err := net.SplitHostPort(s.server.Address())
	if err != nil {
		return ""
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port) + "/"
}

// Stop closes the address, ends all events, and waits until ctx ends; then the rest is cut, and ctx's error is returned. It
// can be called twice.
func (s *Server) Stop(ctx context.Context) error {
	s.cancel()
	return s.server.Stop(ctx)
}
