package integration

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/integration/history"
)

// A worker is an app that works at an agent all the time, survives that one's end, and writes down all that happens to
// it. It keeps a session, so that what it holds comes back at once when it goes.
type worker struct {
	habits
	a      *agent
	log    *history.Log
	client *http.Client
	ctx    context.Context
	end    context.CancelFunc
	done   chan struct{}
	quit   chan struct{} // closed by leave
	once   sync.Once

	mu      sync.Mutex
	revoked []api.Event
}

// habits are how a worker works.
type habits struct {
	name    string // "" is app
	capsule string // "" is main
	// handle works on one message and says what is to become of it; nothing is: not to be settled. Nil acks at once. It
	// returns when ctx ends: the app has crashed, or its session is over.
	handle func(ctx context.Context, d api.Delivery) api.Settlement
	lane   func(d api.Delivery) string // nil: the level
}

// work starts an app of a, and ends it with the test.
func (a *agent) work(log *history.Log, h habits) *worker {
	w := &worker{habits: h, a: a, log: log, done: make(chan struct{}), quit: make(chan struct{})}
	if w.name == "" {
		w.name = "app"
	}
	if w.capsule == "" {
		w.capsule = "main"
	}
	if w.handle == nil {
		w.handle = func(context.Context, api.Delivery) api.Settlement { return api.Settlement{Result: api.Ack} }
	}
	if w.lane == nil {
		w.lane = func(d api.Delivery) string { return fmt.Sprint(d.Priority) }
	}
	w.ctx, w.end = context.WithCancel(context.Background())
	w.client = &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", a.socket)
		},
		DisableCompression: true,
	}}
	go w.run()
	a.t.Cleanup(w.over)
	return w
}

// crash ends the app in the middle of whatever it does, and waits until its connections are closed.
func (w *worker) crash() {
	if w.ctx.Err() == nil {
		injected(w.a.t, "app crash", w.name+" of "+w.a.name)
	}
	w.over()
}

func (w *worker) over() {
	w.end()
	<-w.done
}

// leave ends the app when it has settled what it has.
func (w *worker) leave() {
	w.once.Do(func() { close(w.quit) })
	<-w.done
}

func (w *worker) leaving() bool {
	select {
	case <-w.quit:
		return true
	default:
		return w.ctx.Err() != nil
	}
}

// pause waits a moment before the next try with an agent that is not there.
func (w *worker) pause() {
	select {
	case <-time.After(10 * time.Millisecond):
	case <-w.ctx.Done():
	}
}

func (w *worker) run() {
	defer close(w.done)
	defer w.client.CloseIdleConnections()
	defer w.end()
	for !w.leaving() {
		if id, sessionCtx, err := w.session(); err == nil {
			w.serve(sessionCtx, id)
		}
		w.pause()
	}
}

// session opens one. Its context ends with its connection.
func (w *worker) session() (id string, ctx context.Context, err error) {
	ctx, end := context.WithCancel(w.ctx)
	answer, err := w.request(ctx, http.MethodGet, "/v1/session", nil)
	if err != nil {
		end()
		return "", nil, err
	}
	lines := bufio.NewScanner(answer.Body)
	var first api.Event
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &first) != nil || first.Session == "" {
		_ = answer.Body.Close()
		end()
		return "", nil, fmt.Errorf("the session begins with %q", lines.Text())
	}
	go func() {
		defer end()
		defer answer.Body.Close()
		for lines.Scan() {
			var e api.Event
			if json.Unmarshal(lines.Bytes(), &e) == nil && e.Event == "revoked" {
				w.mu.Lock()
				w.revoked = append(w.revoked, e)
				w.mu.Unlock()
			}
		}
	}()
	return first.Session, ctx, nil
}

// serve pulls and handles until the session is over.
func (w *worker) serve(ctx context.Context, session string) {
	for !w.leaving() && ctx.Err() == nil {
		got, err := w.pull(ctx, session)
		if err != nil {
			return
		}
		for _, d := range got {
			w.one(ctx, d)
		}
	}
}

func (w *worker) pull(ctx context.Context, session string) ([]api.Delivery, error) {
	answer, err := w.request(ctx, http.MethodPost, "/v1/capsules/"+w.capsule+"/pull?max=1&wait=1s&session="+session, nil)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode >= http.StatusBadRequest {
		return nil, errors.Join(err, errors.New(answer.Status+string(text)))
	}
	var all []api.Delivery
	for lines := json.NewDecoder(bytes.NewReader(text)); lines.More(); {
		var d api.Delivery
		if err := lines.Decode(&d); err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	return all, nil
}

// one handles one message.
func (w *worker) one(ctx context.Context, d api.Delivery) {
	e := w.log.Got(history.Hand{
		Queue: d.Queue, Lane: w.lane(d), Agent: w.a.name, App: w.name, ID: string(d.Payload()), Seq: d.Seq, Fence: d.Fence, Attempt: d.Attempt,
	})
	e.Begin()
	s := w.handle(ctx, d)
	if w.ctx.Err() != nil {
		e.Lost("the app crashed")
		return
	}
	e.Write()
	e.End()
	if s.Result == "" {
		e.Lost("not settled")
		return
	}
	s.Token = d.Token
	e.Asked(string(s.Result))
	if status, err := w.settle(s); err != nil {
		e.Lost(err.Error())
	} else {
		e.Answered(string(status))
	}
}

// settle says what has become of a message, again as long as the agent asks for that.
func (w *worker) settle(s api.Settlement) (api.Status, error) {
	body, err := json.Marshal([]api.Settlement{s})
	if err != nil {
		return "", err
	}
	for {
		answer, err := w.request(w.ctx, http.MethodPost, "/v1/settle", body)
		if err != nil {
			return "", err
		}
		text, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		var response api.SettleResponse
		if err = errors.Join(err, json.Unmarshal(text, &response)); err != nil || len(response.Results) != 1 {
			return "", fmt.Errorf("settle: %w: %s %s", err, answer.Status, text)
		}
		if status := response.Results[0].Status; status != api.StatusUnavailable || w.leaving() {
			return status, nil
		}
		w.pause()
	}
}

func (w *worker) request(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://agent"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	return w.client.Do(request)
}

// wasRevoked tells whether the session was told that a delivery is not this app's any more.
func (w *worker) wasRevoked(token string, reason string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.revoked, func(e api.Event) bool { return e.Token == token && e.Reason == reason })
}

// store publishes messages with the given payloads as a plain NATS client and notes them.
func (s *natsServer) store(log *history.Log, queue, subject string, ids ...string) {
	s.t.Helper()
	s.flood(len(ids), func(int) string { return subject }, func(i int) string { return ids[i] })
	for _, id := range ids {
		log.Stored(queue, id)
	}
}

// numbered makes n payloads that sort as they are numbered.
func numbered(n int, name string) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("%s%05d", name, i)
	}
	return ids
}

// left reads the payloads of what a stream still has.
func (s *natsServer) left(stream string) []string {
	s.t.Helper()
	js, err := jetstream.New(s.connect())
	if err != nil {
		s.t.Fatal(err)
	}
	st, err := js.Stream(s.t.Context(), stream)
	if err != nil {
		s.t.Fatal(err)
	}
	var ids []string
	info := st.CachedInfo().State
	for seq := info.FirstSeq; info.Msgs > 0 && seq <= info.LastSeq; seq++ {
		m, err := st.GetMsg(s.t.Context(), seq)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err != nil {
			s.t.Fatal(err)
		}
		ids = append(ids, string(m.Data))
	}
	return ids
}

// judge fails the test for everything that the record of ordered queues shows and may not be.
func judge(t *testing.T, log *history.Log, e history.Ending) {
	t.Helper()
	h := log.History()
	judged(t, h, "S1 S3 S4 S5 S6 S10", h.Judge(e))
}
