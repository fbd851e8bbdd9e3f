package probes

import (
	"context"
	"errors"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/fairlead/fairlead/agent/tcp"
)

const (
	// MaxConnections is how many clients are served at a time.
	MaxConnections = 64

	headerBytes = 8 << 10
	headerTime  = 5 * time.Second
	answerTime  = 30 * time.Second
	idleTime    = 15 * time.Second
)

// Options are what a server answers with.
type Options struct {
	// Ready tells whether the agent may be used: nil, or the reason why not. It must not block, and be safe for several
	// goroutines.
	Ready func() error
	// Metrics answers /metrics.
	Metrics http.Handler
	Logger  hclog.Logger // nil is none
}

// Server answers on one listener. Its methods are safe for several goroutines.
type Server struct {
	listener net.Listener
	http     *http.Server
	log      hclog.Logger
	work     sync.WaitGroup
	stop     sync.Once
	err      error
}

// Start begins to answer on l, which Stop closes.
func Start(l net.Listener, o Options) *Server {
	logger := o.Logger
	if logger == nil {
		logger = hclog.NewNullLogger()
	}
	s := &Server{listener: tcp.Bounded(l, MaxConnections), log: logger}
	s.http = &http.Server{
		Handler:           handler(o),
		ReadHeaderTimeout: headerTime,
		ReadTimeout:       headerTime,
		WriteTimeout:      answerTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    headerBytes,
		ErrorLog:          log.New(logger.StandardWriter(&hclog.StandardLoggerOptions{ForceLevel: hclog.Debug}), "", 0),
	}
	s.work.Go(func() {
		if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("probes and metrics are not answered any more", "address", l.Addr().String(), "error", err)
		}
	})
	return s
}

// Address is where it listens: the port that was given, if the one asked for was 0.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Stop closes the address and waits for requests in work, until ctx ends; then they are cut, and ctx's error is returned.
// It can be called twice.
func (s *Server) Stop(ctx context.Context) error {
	s.stop.Do(func() {
		if s.err = s.http.Shutdown(ctx); s.err != nil {
			_ = s.http.Close()
		}
		s.work.Wait()
	})
	return s.err
}
