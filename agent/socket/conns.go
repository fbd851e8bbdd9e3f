package socket

import (
	"errors"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/delivery"
)

// reclaimAfter is conns.idle: most clients that go on at all go on sooner.
const reclaimAfter = time.Second

// writeSlice is how much of an answer is written under one deadline.
const writeSlice = 256 << 10

// conns are the open connections of a server.
type conns struct {
	mu     sync.Mutex
	max    int
	idle   time.Duration // how long a connection must have been idle before it can be closed for a new one
	closed bool          // nothing is idle any more: what becomes idle is closed
	all    map[*conn]struct{}
}

// errTrustOver says that the rest of an answer was not written, because the tenure is over in which its messages were taken.
var errTrustOver = errors.New("socket: the queue's lease was lost while the answer was written")

// conn is one connection. It bounds each write, and the time between requests, and its end is the end of its session.
type conn struct {
	net.Conn
	server *Server
	peer   func() peer
	once   sync.Once
	idle   atomic.Bool // no byte of the next request has come yet
	handed []uint64    // deliveries of the last pull that brought any; the serving goroutine's
	// ends tells until when what is written now may be; nil: there is no such time.
	ends atomic.Pointer[func() time.Time]

	// Guarded by the lock of conns.
	state   http.ConnState
	since   time.Time // of state
	session *delivery.Session
	gone    bool
}

// Read implements net.Conn. A connection over which messages came may be idle for as long as they are worked on: the end of its
// session would give them to somebody else, and many clients take the end of a connection that they use for a fault.
func (c *conn) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		if n > 0 {
			c.idle.Store(false)
		}
		if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) || !c.idle.Load() || !c.holds() {
			return n, err
		}
		if err := c.SetReadDeadline(time.Now().Add(c.server.limits.IdleTimeout)); err != nil {
			return 0, err
		}
	}
}

// holds tells whether messages are not settled that came in the last pull, or are held by the connection's own session.
func (c *conn) holds() bool {
	k := &c.server.conns
	k.mu.Lock()
	session := c.session
	k.mu.Unlock()
	return session != nil && c.server.Book.Busy(session) || len(c.handed) > 0 && c.server.Book.InHand(c.handed)
}

// Write implements net.Conn. A client that takes nothing for the write timeout loses the connection.
func (c *conn) Write(p []byte) (int, error) {
	written := 0
	for {
		piece := p[written:]
		if len(piece) > writeSlice {
			piece = piece[:writeSlice]
		}
		n, err := c.writeSlice(piece)
		written += n
		if err != nil || written == len(p) {
			return written, err
		}
	}
}

// writeSlice writes a part of an answer within the write timeout, and as long as it may be written.
func (c *conn) writeSlice(piece []byte) (written int, err error) {
	timeout := time.Now().Add(c.server.limits.WriteTimeout)
	for {
		deadline := timeout
		if ends := c.ends.Load(); ends != nil {
			at := (*ends)()
			if !time.Now().Before(at) {
				return written, errTrustOver
			}
			if at.Before(deadline) {
				deadline = at
			}
		}
		if err := c.SetWriteDeadline(deadline); err != nil {
			return written, err
		}
		n, err := c.Conn.Write(piece[written:])
		written += n
		if errors.Is(err, os.ErrDeadlineExceeded) && time.Now().Before(timeout) {
			continue // the time may have been moved meanwhile
		}
		return written, err
	}
}

// setEnds says until when what is written from now on may be.
func (c *conn) setEnds(ends func() time.Time) {
	if ends == nil {
		c.ends.Store(nil)
		return
	}
	c.ends.Store(&ends)
}

// Close implements net.Conn. The connection's session ends with it.
func (c *conn) Close() error {
	err := net.ErrClosed
	c.once.Do(func() {
		k := &c.server.conns
		k.mu.Lock()
		delete(k.all, c)
		c.gone = true
		session := c.session
		k.mu.Unlock()
		err = c.Conn.Close()
		if session != nil {
			c.server.Book.End(session)
		}
	})
	return err
}

// ownSession returns the session that lasts as long as the connection.
func (c *conn) ownSession() *delivery.Session {
	k := &c.server.conns
	k.mu.Lock()
	defer k.mu.Unlock()
	if c.session == nil {
		c.session = c.server.Book.OpenConnection()
		if c.gone { // Close has been here already
			c.server.Book.End(c.session)
		}
	}
	return c.session
}

// setState notes what the HTTP server does with the connection.
func (k *conns) setState(c *conn, state http.ConnState) {
	c.idle.Store(state == http.StateIdle) // before the deadline of idle connections is set
	k.mu.Lock()
	c.state, c.since = state, time.Now()
	drop := k.closed && state == http.StateIdle
	k.mu.Unlock()
	if drop {
		_ = c.Close()
	}
}

// admit takes in a new connection. When there is no room, the connection that has been idle for longest makes room; one
// with a session is never idle.
func (k *conns) admit(c *conn) bool {
	for {
		k.mu.Lock()
		if len(k.all) < k.max {
			k.all[c] = struct{}{}
			k.mu.Unlock()
			return true
		}
		var oldest *conn
		for x := range k.all { // the minimum does not depend on the order
			if x.state == http.StateIdle && x.session == nil && time.Since(x.since) >= k.idle &&
				(oldest == nil || x.since.Before(oldest.since)) {
				oldest = x
			}
		}
		k.mu.Unlock()
		if oldest == nil {
			return false
		}
		_ = oldest.Close()
	}
}

// closeIdle closes the connections that have no request in work, now and later.
func (k *conns) closeIdle() {
	k.mu.Lock()
	k.closed = true
	var idle []*conn
	for c := range k.all { // all of them, in any order
		if c.state != http.StateActive {
			idle = append(idle, c)
		}
	}
	k.mu.Unlock()
	for _, c := range idle {
		_ = c.Close()
	}
}

// acceptor is the net.Listener that the HTTP server sees: only connections that get an answer from a handler.
type acceptor struct {
	net.Listener
	server *Server
}

// Accept implements net.Listener.
func (a acceptor) Accept() (net.Conn, error) {
	s := a.server
	for {
		inner, err := a.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &conn{Conn: inner, server: s, peer: peerOf(inner), state: http.StateNew, since: time.Now()}
		if !s.Allow.open() {
			if err := s.Allow.check(c.peer()); err != nil {
				s.log.Warn("a connection was refused", "error", err)
				s.refuse(inner, forbidden(err))
				continue
			}
		}
		if !s.conns.admit(c) {
			s.refuse(inner, &api.Error{
				Code:    api.CodeOverloaded,
				Message: "too many connections to this agent: close some, or use keep-alive and pull several messages at a time",
			})
			continue
		}
		return c, nil
	}
}
