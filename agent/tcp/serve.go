package tcp

import (
	"context"
	"errors"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// Bounds are what clients may take of a server. All must be above 0.
type Bounds struct {
	Connections int           // open at a time; see [Bounded]
	HeaderBytes int           // of one request
	Request     time.Duration // until one has arrived
	Answer      time.Duration // until one is written; a handler can put it off
	Idle        time.Duration // between two requests of a connection
}

// Server answers on one listener. Its methods are safe for several goroutines.
type Server struct {
	listener net.Listener
	http     *http.Server
	work     sync.WaitGroup
	stop     sync.Once
	err      error
}

// Serve begins to answer on l, which Stop closes. lost is what is logged should that end by itself. A nil logger is none.
func Serve(l net.Listener, h http.Handler, b Bounds, logger hclog.Logger, lost string) *Server {
	if logger == nil {
		logger = hclog.NewNullLogger()
	}
	s := &Server{listener: Bounded(l, b.Connections)}
	s.http = &http.Server{
		Handler:           h,
		ReadHeaderTimeout: b.Request,
		ReadTimeout:       b.Request,
		WriteTimeout:      b.Answer,
		IdleTimeout:       b.Idle,
		MaxHeaderBytes:    b.HeaderBytes,
		ErrorLog:          log.New(logger.StandardWriter(&hclog.StandardLoggerOptions{ForceLevel: hclog.Debug}), "", 0),
	}
	s.work.Go(func() {
		if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
			logger.Error(lost, "address", l.Addr().String(), "error", err)
		}
	})
	return s
}

// Address is where it listens: the port that was given, if the one asked for was 0.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Stop closes the address and waits for requests in work, until ctx ends; then they are cut, and ctx's error is returned. When it
// returns, no goroutine of the server is left. It can be called twice.
func (s *Server) Stop(ctx context.Context) error {
	s.stop.Do(func() {
		if s.err = s.http.Shutdown(ctx); s.err != nil {
			_ = s.http.Close()
		}
		s.work.Wait()
	})
	return s.err
}
