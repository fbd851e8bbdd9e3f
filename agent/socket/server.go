package socket

import (
	"context"
	"errors"
	"log"
	"net"
	"net/http"
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/fairlead/fairlead/agent/api"
)

// Server answers on one socket. Its methods are safe for several goroutines.
type Server struct {
	Options
	limits   Limits
	log      hclog.Logger
	listener *Listener
	http     *http.Server
	bodies   budget
	conns    conns
	refusals chan struct{}
	work     sync.WaitGroup // requests, and whatever else was started

	stopping  context.Context // ends when Stop begins: for those who wait
	beginStop context.CancelFunc
	base      context.Context // ends when Stop loses patience: for those who work
	abandon   context.CancelFunc
	finished  bool // guarded by the lock of conns: no request begins any more
	stopOnce  sync.Once
	stopped   chan struct{}
	stopErr   error
}

// connKey is where a request's context has its *conn.
type connKey struct{}

// New returns a server on l, which it closes in Stop. The error names every option that is missing.
func New(l *Listener, o Options) (*Server, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	logger := o.Logger
	if logger == nil {
		logger = hclog.NewNullLogger()
	}
	s := &Server{
		Options:  o,
		limits:   o.Limits.withDefaults(),
		log:      logger,
		listener: l,
		refusals: make(chan struct{}, maxRefusals),
		stopped:  make(chan struct{}),
	}
	s.bodies.free.Store(s.limits.AllBodyBytes)
	s.conns = conns{max: s.limits.Connections, idle: reclaimAfter, all: make(map[*conn]struct{})}
	s.stopping, s.beginStop = context.WithCancel(context.Background())
	s.base, s.abandon = context.WithCancel(context.Background())
	s.http = &http.Server{
		Handler:           http.HandlerFunc(s.serve),
		ReadHeaderTimeout: s.limits.HeaderTimeout,
		IdleTimeout:       s.limits.IdleTimeout, // see conn.Read for who is spared
		MaxHeaderBytes:    s.limits.HeaderBytes,
		ErrorLog:          log.New(logger.StandardWriter(&hclog.StandardLoggerOptions{ForceLevel: hclog.Debug}), "", 0),
		BaseContext:       func(net.Listener) context.Context { return s.base },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, c)
		},
		ConnState: func(c net.Conn, state http.ConnState) {
			if c, ok := c.(*conn); ok {
				s.conns.setState(c, state)
			}
		},
	}
	return s, nil
}

// Start begins to answer. It does not block: the socket listens already. Call it once.
func (s *Server) Start() {
	s.work.Go(func() {
		err := s.http.Serve(acceptor{s.listener, s})
		if !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) && s.stopping.Err() == nil {
			s.log.Error("the socket stopped answering", "path", s.listener.Path(), "error", err)
		}
	})
}

// Stop removes the socket file, ends sessions and waiting pulls, lets requests in work finish until ctx ends, and then
// cuts what is left; in that case it returns ctx's error. It returns when no goroutine of the server is left. It can be
// called twice; the second call waits for the first.
func (s *Server) Stop(ctx context.Context) error {
	s.stopOnce.Do(func() {
		defer close(s.stopped)
		err := s.listener.Close()
		s.beginStop()
		s.conns.closeIdle()
		if e := s.http.Shutdown(ctx); e != nil {
			s.abandon()
			_ = s.http.Close()
			err = e
		}
		s.abandon()
		s.conns.mu.Lock()
		s.finished = true
		s.conns.mu.Unlock()
		s.work.Wait()
		s.stopErr = err
	})
	<-s.stopped
	return s.stopErr
}

// enter counts a request that begins. It is false when the server has ended.
func (s *Server) enter() bool {
	s.conns.mu.Lock()
	defer s.conns.mu.Unlock()
	if s.finished {
		return false
	}
	s.work.Add(1)
	return true
}

// Connections returns how many connections are open.
func (s *Server) Connections() int {
	s.conns.mu.Lock()
	defer s.conns.mu.Unlock()
	return len(s.conns.all)
}

// draining reports whether the agent has begun to drain.
func (s *Server) draining() bool {
	select {
	case <-s.Draining:
		return true
	default:
		return false
	}
}

// state is what Fairlead-State says.
func (s *Server) state() string {
	if s.draining() {
		return api.StateDraining
	}
	return api.StateActive
}
