package tcp

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
)

// Setting is where an address comes from, for messages.
type Setting struct {
	Name    string // in the file, such as "listen.probes_http"
	Without string // what there is not without an address
}

// Listen opens the address, host:port. Errors say what to do; one that wraps [ErrInUse] means that another process has it.
func Listen(address string, of Setting) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	switch {
	case err == nil:
		return l, nil
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf(`%w: %s (another agent on this host? Write another address into %s, or "" to do without %s)`, ErrInUse, address, of.Name, of.Without)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("tcp: %w: ports below 1024 need a privilege; write another address into %s", err, of.Name)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, fmt.Errorf("tcp: %w: this host does not have the address; write :PORT into %s for all that it has", err, of.Name)
	}
	return nil, fmt.Errorf("tcp: %w: see %s", err, of.Name)
}

// Bounded hangs up at once on connections beyond a number, so that those who are served stay served.
func Bounded(l net.Listener, connections int) net.Listener {
	return bounded{l, make(chan struct{}, connections)}
}

type bounded struct {
	net.Listener
	slots chan struct{} // one for each open connection
}

func (b bounded) Accept() (net.Conn, error) {
	for {
		c, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case b.slots <- struct{}{}:
			return &counted{Conn: c, leave: sync.OnceFunc(func() { <-b.slots })}, nil
		default:
			_ = c.Close()
		}
	}
}

type counted struct {
	net.Conn
	leave func()
}

func (c *counted) Close() error {
	c.leave()
	return c.Conn.Close()
}
