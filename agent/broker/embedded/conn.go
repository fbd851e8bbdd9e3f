package embedded

import (
	"net"
	"sync"
)

// InProcessConn implements nats.InProcessConnProvider: it connects nats.go to the server without a socket. The server's own
// in-process connection is a rendezvous: each write waits for the other side to read it, with nats.go's lock held, so that
// client and server work in turns. Here a write is put down and taken along with the next ones.
func (s *Server) InProcessConn() (net.Conn, error) {
	conn, err := s.ns.InProcessConn()
	if err != nil {
		return nil, err
	}
	c := &bufferedConn{Conn: conn}
	c.moved.L = &c.mu
	go c.pump()
	return c, nil
}

// maxBuffered is how many bytes may be put down before a write waits.
const maxBuffered = 4 << 20

// bufferedConn is a connection whose writes do not wait for its reader. Its pump ends when the connection is closed.
type bufferedConn struct {
	net.Conn

	mu     sync.Mutex
	moved  sync.Cond
	data   []byte // written, and not taken by the pump
	err    error  // why nothing more can be written
	closed bool
}

// Write implements net.Conn. What it could not deliver is told by a later one.
func (c *bufferedConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.err == nil && !c.closed && len(c.data) > 0 && len(c.data)+len(p) > maxBuffered {
		c.moved.Wait()
	}
	switch {
	case c.err != nil:
		return 0, c.err
	case c.closed:
		return 0, net.ErrClosed
	}
	c.data = append(c.data, p...)
	c.moved.Broadcast()
	return len(p), nil
}

// Close implements net.Conn.
func (c *bufferedConn) Close() error {
	c.mu.Lock()
	c.closed = true
	c.moved.Broadcast()
	c.mu.Unlock()
	return c.Conn.Close()
}

// pump writes what was put down, all of it at a time.
func (c *bufferedConn) pump() {
	var taken []byte
	for {
		c.mu.Lock()
		for len(c.data) == 0 && !c.closed {
			c.moved.Wait()
		}
		if c.closed {
			c.mu.Unlock()
			return
		}
		taken, c.data = c.data, taken[:0]
		c.moved.Broadcast()
		c.mu.Unlock()
		_, err := c.Conn.Write(taken)
		if cap(taken) > maxBuffered {
			taken = nil
		}
		if err != nil {
			c.mu.Lock()
			c.err = err
			c.moved.Broadcast()
			c.mu.Unlock()
			return
		}
	}
}
