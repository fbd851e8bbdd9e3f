package clienttest

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/api"
)

// Message is one stored message.
type Message struct {
	api.Delivery
	Weight   float64
	taken    bool
	finished bool
	session  string
}

// Agent is the agent in memory. Its methods are safe for several goroutines.
type Agent struct {
	Socket string // the path
	Queue  string // the name of its one queue
	Levels []string

	// PerPull, if set before the first pull, is the most that one pull gets.
	PerPull int

	// SettleLate, if set before the first pull, has a pull's settlements carried out after its take: they run beside it.
	SettleLate bool

	// Order, if set before the first pull, decides whether a goes before b: for tests that need a wrong one.
	Order func(a, b *Message) bool

	server *http.Server
	ctx    context.Context
	cancel context.CancelFunc

	mu       sync.Mutex
	changed  chan struct{} // closed and replaced at every change
	messages []*Message
	byToken  map[string]*Message
	served   map[string]float64
	ids      map[string]bool
	sessions map[string]chan api.Event
	settled  []api.Settlement
	delayed  []api.Delayed
	requests int
	tokens   int
	draining bool
	broken   *api.Error
	set      settings
}

// New starts an agent with the queue and capsule "default" and the levels high, medium and low. It ends with the test.
func New(tb testing.TB) *Agent {
	tb.Helper()
	dir, err := os.MkdirTemp("", "fl") // t.TempDir() can be longer than a socket's path may be
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	a, err := Start(filepath.Join(dir, "agent.sock"))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(a.Stop)
	return a
}

// Start starts an agent on the socket at path, for those who need it to stop and come back. The caller calls Stop.
func Start(path string) (*Agent, error) {
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	a := &Agent{
		Socket: path, Queue: "default", Levels: []string{"high", "medium", "low"},
		ctx: ctx, cancel: cancel,
		changed:  make(chan struct{}),
		byToken:  map[string]*Message{},
		served:   map[string]float64{},
		ids:      map[string]bool{},
		sessions: map[string]chan api.Event{},
		set:      settings{keys: map[string]bool{}, weight: map[string]float64{}},
	}
	a.server = &http.Server{Handler: a.handler(), BaseContext: func(net.Listener) context.Context { return ctx }, ReadHeaderTimeout: time.Minute}
	go func() { _ = a.server.Serve(listener) }()
	return a, nil
}

// Stop ends the agent as kill would: connections break, the socket file goes.
func (a *Agent) Stop() {
	a.cancel()
	_ = a.server.Close()
}

// Drain makes the agent say that it is draining, and hand out nothing more.
func (a *Agent) Drain() {
	a.update(func() {
		a.draining = true
		for _, events := range a.sessions {
			events <- api.Event{Event: "draining"}
		}
	})
}

// Break makes every call of an app answer with err; nil repairs it.
func (a *Agent) Break(err *api.Error) { a.update(func() { a.broken = err }) }

// Revoke tells every session that token is revoked.
func (a *Agent) Revoke(token, reason string) {
	a.update(func() {
		for _, events := range a.sessions {
			events <- api.Event{Event: "revoked", Token: token, Reason: reason}
		}
		delete(a.byToken, token)
	})
}

// Settled returns every settlement so far, in order of arrival.
func (a *Agent) Settled() []api.Settlement {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]api.Settlement(nil), a.settled...)
}

// Requests returns how many requests there were.
func (a *Agent) Requests() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.requests
}

// Waiting returns how many messages wait, and how many are in apps' hands.
func (a *Agent) Waiting() (waiting, inFlight int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, m := range a.messages {
		switch {
		case m.finished:
		case m.taken:
			inFlight++
		default:
			waiting++
		}
	}
	return waiting, inFlight
}

// Await blocks until ok is true. ok is asked again after every change, without a lock.
func (a *Agent) Await(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	for {
		a.mu.Lock()
		changed := a.changed
		a.mu.Unlock()
		if ok() {
			return
		}
		select {
		case <-changed:
		case <-deadline.C:
			tb.Fatalf("waited too long for: %s", what)
		}
	}
}

// update runs change under the lock and wakes everybody who waits.
func (a *Agent) update(change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change()
	close(a.changed)
	a.changed = make(chan struct{})
}

// Put stores a message, as Publish does.
func (a *Agent) Put(level int, key, data string) {
	a.store(&Message{Delivery: api.Delivery{Priority: level, Key: key, DataBase64: []byte(data), Headers: map[string]string{}}})
}

// store returns the sequence, and whether it was a duplicate.
func (a *Agent) store(m *Message) (seq uint64, duplicate bool) {
	a.update(func() {
		id := m.Key + "\x00" + m.ID
		if m.ID != "" && a.ids[id] {
			duplicate = true
			return
		}
		a.ids[id] = true
		if m.Weight == 0 {
			m.Weight = 1
		}
		m.Queue, m.Seq, m.EnqueuedAt = a.Queue, uint64(len(a.messages)+1), time.Now()
		a.messages = append(a.messages, m)
		seq = m.Seq
	})
	return seq, duplicate
}

// take hands out up to limit messages.
func (a *Agent) take(limit int, lease time.Duration, session string) (out []*Message) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.PerPull > 0 {
		limit = min(limit, a.PerPull)
	}
	for len(out) < limit && !a.draining {
		best := a.nextLocked()
		if best == nil {
			break
		}
		a.tokens++
		best.taken, best.session = true, session
		best.Attempt++
		best.Token = "t" + strconv.Itoa(a.tokens)
		best.Deadline = time.Now().Add(lease)
		a.byToken[best.Token] = best
		a.served[best.lane()] += 1 / best.Weight
		out = append(out, best)
	}
	return out
}

func (m *Message) lane() string { return strconv.Itoa(m.Priority) + "/" + m.Key }

func (a *Agent) nextLocked() *Message {
	var best *Message
	for _, m := range a.messages {
		if m.taken || m.finished || a.set.stops(m) {
			continue
		}
		if best == nil || a.beforeLocked(m, best) {
			best = m
		}
	}
	return best
}

func (a *Agent) beforeLocked(m, n *Message) bool {
	if a.Order != nil {
		return a.Order(m, n)
	}
	if m.Priority != n.Priority {
		return m.Priority < n.Priority
	}
	if m.Key == n.Key {
		return m.Seq < n.Seq
	}
	p, q := a.served[m.lane()], a.served[n.lane()]
	if diff := p - q; diff > 1e-9 || diff < -1e-9 {
		return p < q
	}
	return m.Key < n.Key
}

// settle applies settlements.
func (a *Agent) settle(settlements []api.Settlement) []api.SettleResult {
	out := make([]api.SettleResult, 0, len(settlements))
	a.update(func() {
		for _, s := range settlements {
			a.settled = append(a.settled, s)
			out = append(out, api.SettleResult{Token: s.Token, Status: a.settleLocked(s)})
		}
	})
	return out
}

func (a *Agent) settleLocked(s api.Settlement) api.Status {
	m := a.byToken[s.Token]
	switch {
	case m == nil:
		return api.StatusUnknown
	case m.finished || m.Token != s.Token || !m.taken:
		return api.StatusAlreadySettled
	}
	switch s.Result {
	case api.Ack:
		m.finished = true
	case api.Nack, api.Reject:
		m.taken = false
	}
	return api.StatusOK
}
