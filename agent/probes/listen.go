package probes

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
)

// Listen opens the address, host:port. Errors say what to do; one that wraps [ErrInUse] means that another process has it.
func Listen(address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	switch {
	case err == nil:
		return l, nil
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf(`%w: %s (another agent on this host? Write another address into listen.probes_http, or "" to do without /livez, /readyz and /metrics)`, ErrInUse, address)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("probes: %w: ports below 1024 need a privilege; write another address into listen.probes_http", err)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, fmt.Errorf("probes: %w: this host does not have the address; write :PORT into listen.probes_http for all that it has", err)
	}
	return nil, fmt.Errorf("probes: %w: see listen.probes_http", err)
}

// bounded hangs up on connections beyond a number, so that those who are served stay served.
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
