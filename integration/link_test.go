package integration

import (
	"fmt"
	"net"
	"sync"
	"testing"
	"time"
)

// A link is a network between one agent and the server, or from one server of a cluster to another: a proxy that can lose what goes one way, or both, without
// telling anybody, and refuse connections.
type link struct {
	t      *testing.T
	url    string
	target string
	listen net.Listener

	mu      sync.Mutex
	state   linkState
	changed chan struct{} // closed when state changes
	conns   map[net.Conn]bool
	closed  bool
}

type linkState struct {
	toServer, toAgent bool          // what goes there is held up
	refused           bool          // no new connections
	delay             time.Duration // of everything that passes, each way
}

// link opens a network to the server.
func (s *natsServer) link(t *testing.T) *link { return newLink(t, s.url[len("nats://"):]) }

// newLink opens a network to an address.
func newLink(t *testing.T, target string) *link {
	t.Helper()
	listen, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &link{
		t: t, url: "nats://" + listen.Addr().String(), target: target, listen: listen,
		changed: make(chan struct{}), conns: map[net.Conn]bool{},
	}
	go l.accept()
	t.Cleanup(func() {
		_ = listen.Close()
		l.mu.Lock()
		l.closed = true
		l.mu.Unlock()
		l.change(linkState{})
		l.breakAll()
	})
	return l
}

// set changes what is lost. What was held up goes on when it is healed, as TCP would repeat it.
func (l *link) set(s linkState) {
	if s != (linkState{}) {
		injected(l.t, "network", fmt.Sprintf("cut: %+v", s))
	}
	l.change(s)
}

func (l *link) change(s linkState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state = s
	close(l.changed)
	l.changed = make(chan struct{})
}

// reset breaks all connections.
func (l *link) reset() {
	injected(l.t, "network", "reset")
	l.breakAll()
}

func (l *link) breakAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		_ = c.Close()
	}
}

func (l *link) accept() {
	for {
		agent, err := l.listen.Accept()
		if err != nil {
			return
		}
		l.mu.Lock()
		refused := l.state.refused
		l.mu.Unlock()
		if refused {
			_ = agent.Close()
			continue
		}
		server, err := net.DialTimeout("tcp", l.target, time.Second)
		if err != nil {
			_ = agent.Close()
			continue
		}
		l.mu.Lock()
		if l.closed {
			_ = agent.Close()
			_ = server.Close()
		} else {
			l.conns[agent], l.conns[server] = true, true
		}
		l.mu.Unlock()
		go l.pipe(agent, server, func(s linkState) bool { return s.toServer })
		go l.pipe(server, agent, func(s linkState) bool { return s.toAgent })
	}
}

// pipe passes on what comes, unless it is held up.
func (l *link) pipe(from, to net.Conn, held func(linkState) bool) {
	defer func() {
		_ = from.Close()
		_ = to.Close()
		l.mu.Lock()
		delete(l.conns, from)
		l.mu.Unlock()
	}()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		time.Sleep(l.slowness()) // what the network needs
		for l.heldUp(held) {
		}
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (l *link) slowness() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state.delay
}

// heldUp waits for a change while there is something in the way, and tells whether to look again.
func (l *link) heldUp(held func(linkState) bool) bool {
	l.mu.Lock()
	wait, changed := held(l.state) && !l.closed, l.changed
	l.mu.Unlock()
	if wait {
		<-changed
	}
	return wait
}
