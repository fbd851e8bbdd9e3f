package dashboard

import (
	"context"
	"errors"
	"log"
	"net"
	"net/http"
	"sync"
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

	headerBytes = 16 << 10 // cookies of other services on the same host come along
	headerTime  = 5 * time.Second
	answerTime  = 10 * time.Second // for a file, or for one event
	idleTime    = 30 * time.Second
)

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

// Server answers on one listener. Its methods are safe for several goroutines.
type Server struct {
	listener net.Listener
	http     *http.Server
	work     sync.WaitGroup
	cancel   context.CancelFunc
	stop     sync.Once
	err      error
}

// Start begins to answer on l, which Stop closes.
func Start(l net.Listener, o Options) *Server {
	if o.Logger == nil {
		o.Logger = hclog.NewNullLogger()
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{listener: tcp.Bounded(l, MaxConnections), cancel: cancel}
	s.http = &http.Server{
		Handler:           newHandler(o, ctx.Done()),
		ReadHeaderTimeout: headerTime,
		ReadTimeout:       headerTime,
		WriteTimeout:      answerTime, // events put it off, one by one
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    headerBytes,
		ErrorLog:          log.New(o.Logger.StandardWriter(&hclog.StandardLoggerOptions{ForceLevel: hclog.Debug}), "", 0),
	}
	s.work.Go(func() {
		if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
			o.Logger.Error("the dashboard is not shown any more", "address", l.Addr().String(), "error", err)
		}
	})
	return s
}

// URL is what to open in a browser on this host.
func (s *Server) URL() string {
	host, port, err := net.SplitHostPort(s.listener.Addr().String())
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
	s.stop.Do(func() {
		s.cancel()
		if s.err = s.http.Shutdown(ctx); s.err != nil {
			_ = s.http.Close()
		}
		s.work.Wait()
	})
	return s.err
}
