package socket

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/broker"
	"github.com/fairlead/fairlead/agent/delivery"
	"github.com/fairlead/fairlead/agent/dispatch"
	"github.com/fairlead/fairlead/config"
)

// fakeAgent is everything behind a server but the book, which is real.
type fakeAgent struct {
	mu         sync.Mutex
	queues     map[string]config.Queue
	published  []broker.Publication
	store      func(broker.Publication) (broker.Receipt, error) // nil: stored, numbered from 1
	take       func(ctx context.Context, capsule string, r dispatch.Request) ([]*broker.Message, delivery.Owner, error)
	waiting    []*broker.Message // what pulls get, if take is nil
	arrived    chan struct{}     // closed and replaced when waiting changes
	pulls      int
	finishes   []uint64
	finish     func(*broker.Message) broker.Finish
	returns    []fakeReturn
	burials    []uint64
	retried    *api.DeadRetried // nil: all are
	released   int
	drain      func(context.Context) error
	reads      []string
	controlErr error
	cancel     func(queue, handle string) error // nil: every handle is known
}

type fakeReturn struct {
	seq    uint64
	counts broker.Counting
}

func newFakeAgent() *fakeAgent {
	return &fakeAgent{
		arrived: make(chan struct{}),
		queues: map[string]config.Queue{
			"orders": {Name: "orders", Levels: 3, LevelNames: []string{"high", "medium", "low"}, Limits: config.Limits{MaxPayload: 1000}},
			"plain":  {Name: "plain", Levels: 1},
		},
	}
}

func (f *fakeAgent) Definition(queue string) (config.Queue, bool) {
	q, ok := f.queues[queue]
	return q, ok
}

func (f *fakeAgent) Publish(ctx context.Context, _ string, p broker.Publication) (broker.Receipt, error) {
	f.mu.Lock()
	store := f.store
	p.Data = append([]byte(nil), p.Data...)
	f.published = append(f.published, p)
	n := len(f.published)
	f.mu.Unlock()
	if store != nil {
		receipt, err := store(p)
		if err == nil {
			err = ctx.Err()
		}
		return receipt, err
	}
	return broker.Receipt{Seq: uint64(n), Level: max(p.Level, 0)}, nil
}

func (f *fakeAgent) PublishAsync(_ string, p broker.Publication, done func(broker.Receipt, error)) {
	f.mu.Lock()
	store := f.store
	p.Data = append([]byte(nil), p.Data...)
	f.published = append(f.published, p)
	n := len(f.published)
	f.mu.Unlock()
	if store == nil {
		done(broker.Receipt{Seq: uint64(n), Level: max(p.Level, 0)}, nil)
		return
	}
	go func() { done(store(p)) }()
}

func (f *fakeAgent) stored() []broker.Publication {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]broker.Publication(nil), f.published...)
}

// add makes messages arrive.
func (f *fakeAgent) add(msgs ...*broker.Message) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting = append(f.waiting, msgs...)
	close(f.arrived)
	f.arrived = make(chan struct{})
}

func (f *fakeAgent) Pull(ctx context.Context, capsule string, r dispatch.Request) ([]*broker.Message, delivery.Owner, error) {
	f.mu.Lock()
	f.pulls++
	take := f.take
	f.mu.Unlock()
	if take != nil {
		return take(ctx, capsule, r)
	}
	timeout := time.After(r.Wait)
	for {
		f.mu.Lock()
		n := min(len(f.waiting), r.Max)
		msgs, arrived := f.waiting[:n:n], f.arrived
		f.waiting = f.waiting[n:]
		f.mu.Unlock()
		if n > 0 {
			return msgs, f, nil
		}
		select {
		case <-arrived:
		case <-timeout:
			return nil, f, nil
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
}

func (f *fakeAgent) Released(*broker.Message, broker.Ending) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.released++
}

func (f *fakeAgent) Returned(*broker.Message, time.Time) {}

func (f *fakeAgent) Finish(m *broker.Message, done func(broker.Finish)) {
	f.mu.Lock()
	f.finishes = append(f.finishes, m.Seq)
	finish := f.finish
	f.mu.Unlock()
	go func() {
		if finish == nil {
			done(broker.Finished)
			return
		}
		done(finish(m))
	}()
}

func (f *fakeAgent) Return(m *broker.Message, r broker.Return, done func(error)) {
	f.mu.Lock()
	f.returns = append(f.returns, fakeReturn{m.Seq, r.Counts})
	f.mu.Unlock()
	go done(nil)
}

func (f *fakeAgent) gaveBack() []fakeReturn {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]fakeReturn(nil), f.returns...)
}

func (f *fakeAgent) Extend(*broker.Message) {}

func (f *fakeAgent) Backoff(string, int) time.Duration { return time.Hour }

func (f *fakeAgent) LastAttempt(string, int) bool { return false }

func (f *fakeAgent) Bury(m *broker.Message, _ broker.Burial, done func(broker.Finish, error)) {
	f.mu.Lock()
	f.burials = append(f.burials, m.Seq)
	f.mu.Unlock()
	go done(broker.Finished, nil)
}

func (f *fakeAgent) gaveUp() []uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]uint64(nil), f.burials...)
}

func (f *fakeAgent) Dead(_ context.Context, queue string, most int) (*api.DeadList, error) {
	f.note("dead", queue, most)
	return &api.DeadList{Dead: []api.DeadLetter{{Queue: queue, Seq: 17}}, Total: 1}, nil
}

func (f *fakeAgent) DeadLetter(_ context.Context, queue string, seq uint64) (*api.DeadLetter, error) {
	f.note("dead letter", queue, seq)
	if seq != 17 {
		return nil, &api.Error{Code: api.CodeNotFound, Message: "there is no such dead letter"}
	}
	return &api.DeadLetter{Queue: queue, Seq: seq}, nil
}

func (f *fakeAgent) RetryDead(_ context.Context, queue string, r api.DeadRetry, level *int) (*api.DeadRetried, error) {
	r.Priority = nil
	f.note("retry", queue, r, level)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.retried != nil {
		return f.retried, nil
	}
	return &api.DeadRetried{Retried: len(r.Seqs), Failed: []api.DeadFailed{}}, nil
}

func (f *fakeAgent) PurgeDead(_ context.Context, queue string) (*api.DeadPurged, error) {
	f.note("purge", queue)
	return &api.DeadPurged{Purged: 3}, nil
}

func (f *fakeAgent) Status(context.Context) (*api.AgentStatus, error) {
	return &api.AgentStatus{Agent: "a1", State: "active"}, nil
}

func (f *fakeAgent) Queues(context.Context) (*api.QueueList, error) {
	return &api.QueueList{Queues: []api.QueueSummary{{Name: "orders", Waiting: 7}}}, nil
}

func (f *fakeAgent) Overview(context.Context) (*api.Overview, error) {
	return &api.Overview{Status: &api.AgentStatus{Agent: "a1"}, Queues: []api.QueueOverview{{QueueSummary: api.QueueSummary{Name: "orders"}}}}, nil
}

func (f *fakeAgent) Queue(_ context.Context, name string, keys int) (*api.QueueStatus, error) {
	f.note("queue", name, keys)
	return &api.QueueStatus{QueueSummary: api.QueueSummary{Name: name}}, nil
}

func (f *fakeAgent) Peek(_ context.Context, queue string, most int, priority *int, key *string) (*api.PeekList, error) {
	f.note("peek", queue, most, priority, key)
	return &api.PeekList{Messages: []api.Peeked{{Queue: queue}}}, nil
}

func (f *fakeAgent) note(what ...any) {
	text, err := json.Marshal(what)
	if err != nil {
		panic(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads = append(f.reads, string(text))
}

func (f *fakeAgent) Drain(ctx context.Context) error {
	f.mu.Lock()
	drain := f.drain
	f.mu.Unlock()
	if drain != nil {
		return drain(ctx)
	}
	return nil
}

// rig is a server on a real socket, and a client.
type rig struct {
	*fakeAgent
	t        testing.TB
	path     string
	server   *Server
	book     *delivery.Book
	client   *http.Client
	draining chan struct{}
}

func newRig(t testing.TB, change ...func(*Options)) *rig {
	t.Helper()
	dir, err := os.MkdirTemp("", "fl")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	f := newFakeAgent()
	r := &rig{fakeAgent: f, t: t, path: filepath.Join(dir, "run", "s"), draining: make(chan struct{})}
	r.book = delivery.New(f, f)
	o := Options{
		Face: App, Publisher: f, Capsules: f, Book: r.book, Reader: f, Control: f, Controls: f, Delays: f, DeadLetters: f, Draining: r.draining,
		Lease: func(c string) (time.Duration, bool) { return time.Minute, c == "work" },
	}
	for _, c := range change {
		c(&o)
	}
	l, err := Listen(r.path, 0o660)
	if err != nil {
		t.Fatal(err)
	}
	if r.server, err = New(l, o); err != nil {
		t.Fatal(err)
	}
	r.server.Start()
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", r.path)
		},
		DisableCompression: true,
		MaxConnsPerHost:    0,
	}
	r.client = &http.Client{Transport: transport, Timeout: 2 * time.Minute}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		r.stop()
		r.book.Close()
	})
	return r
}

func (r *rig) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := r.server.Stop(ctx); err != nil {
		r.t.Errorf("Stop: %v", err)
	}
}

// answer is a response whose body was read.
type answer struct {
	*http.Response
	body string
}

// call sends a request. headers are name, value, name, value.
func (r *rig) call(method, path, body string, headers ...string) answer {
	r.t.Helper()
	req, err := http.NewRequest(method, "http://fairlead"+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header[headers[i]] = append(req.Header[headers[i]], headers[i+1])
	}
	res, err := r.client.Do(req)
	if err != nil {
		r.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatalf("%s %s: read the answer: %v", method, path, err)
	}
	return answer{res, string(text)}
}

// wantError checks an error answer.
func wantError(t testing.TB, a answer, status int, code api.Code) {
	t.Helper()
	var body api.ErrorBody
	err := json.Unmarshal([]byte(a.body), &body)
	if a.StatusCode != status || err != nil || body.Error == nil || body.Error.Code != code || len(body.Error.Message) < 10 {
		t.Errorf("%s %s: %d %s, want %d %s with a message", a.Request.Method, a.Request.URL.Path, a.StatusCode, a.body, status, code)
	}
	if a.Header.Get("Content-Type") != api.TypeJSON || a.Header.Get(api.HeaderState) == "" {
		t.Errorf("headers of an error: %v", a.Header)
	}
}

// lines decodes an NDJSON answer into deliveries.
func lines(t testing.TB, a answer) []api.Delivery {
	t.Helper()
	var ds []api.Delivery
	s := bufio.NewScanner(strings.NewReader(a.body))
	s.Buffer(nil, 8<<20)
	for s.Scan() {
		var d api.Delivery
		if err := json.Unmarshal(s.Bytes(), &d); err != nil {
			t.Fatalf("line %.200q: %v", s.Text(), err)
		}
		ds = append(ds, d)
	}
	return ds
}

func message(seq uint64) *broker.Message {
	return &broker.Message{Queue: "orders", Seq: seq, Attempt: 1, Headers: map[string]string{}, AckWait: 30 * time.Second,
		EnqueuedAt: time.Date(2026, 11, 29, 12, 0, 0, 123e6, time.UTC), Data: []byte("x")}
}

// eventually waits for a condition that another goroutine or process brings about.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

// dial opens a raw connection.
func (r *rig) dial() net.Conn {
	r.t.Helper()
	c, err := net.Dial("unix", r.path)
	if err != nil {
		r.t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	return c
}

func (f *fakeAgent) Delayed(_ context.Context, queue string, most int) (*api.DelayedList, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads = append(f.reads, fmt.Sprint("delayed ", queue, " ", most))
	return &api.DelayedList{Delayed: []api.Delayed{{Handle: "h", At: time.Unix(0, 0).UTC(), Key: "k"}}, Total: 3}, nil
}

func (f *fakeAgent) CancelDelayed(_ context.Context, queue, handle string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads = append(f.reads, fmt.Sprint("cancel ", queue, " ", handle))
	if f.cancel != nil {
		return f.cancel(queue, handle)
	}
	return nil
}
