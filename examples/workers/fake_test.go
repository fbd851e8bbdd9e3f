package workers

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// fakeAgent speaks just enough of the app socket for a worker: sessions, pull, next, settle and the shell verbs. It
// keeps a log of what the worker did, and can go away and come back.
type fakeAgent struct {
	t      *testing.T
	socket string

	mu       sync.Mutex
	changed  chan struct{}     // closed and replaced at every change of what follows
	waiting  []string          // payloads
	held     map[string]string // token -> payload
	boot     int               // part of the tokens, so that an old agent's tokens are unknown
	given    int
	acked    []string
	nacked   []string
	extended int
	inPull   int // acks that came in the body of a pull
	deaf     int // how many acks are not known to be done
	sessions int // open now
	pulls    int // waiting now
	server   *http.Server
}

func newFakeAgent(t *testing.T) *fakeAgent {
	t.Helper()
	f := &fakeAgent{t: t, socket: t.TempDir() + "/a.sock", changed: make(chan struct{}), held: map[string]string{}}
	f.start()
	t.Cleanup(f.stop)
	return f
}

func (f *fakeAgent) start() {
	f.t.Helper()
	listener, err := net.Listen("unix", f.socket)
	if err != nil {
		f.t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/session", f.session)
	mux.HandleFunc("POST /v1/capsules/{capsule}/pull", f.pull)
	mux.HandleFunc("POST /v1/capsules/{capsule}/next", f.next)
	mux.HandleFunc("POST /v1/settle", func(_ http.ResponseWriter, r *http.Request) { f.settle(r, 0) })
	mux.HandleFunc("POST /v1/messages/{token}/{verb}", f.verb)
	f.server = &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = f.server.Serve(listener) }()
}

// stop breaks every connection, as a killed agent does; what it had given out is waiting again.
func (f *fakeAgent) stop() {
	_ = f.server.Close()
	f.change(func() {
		for token, payload := range f.held {
			f.waiting = append(f.waiting, payload)
			delete(f.held, token)
		}
		f.boot++
	})
}

func (f *fakeAgent) change(what func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	what()
	close(f.changed)
	f.changed = make(chan struct{})
}

// await waits until condition holds, which is asked under the lock.
func (f *fakeAgent) await(what string, condition func() bool) {
	f.t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		f.mu.Lock()
		ok, changed := condition(), f.changed
		f.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			f.mu.Lock()
			defer f.mu.Unlock()
			f.t.Fatalf("no %s within 20 s: acked %q nacked %q extended %d waiting %q held %v", what, f.acked, f.nacked,
				f.extended, f.waiting, f.held)
		}
	}
}

func (f *fakeAgent) publish(payloads ...string) {
	f.change(func() { f.waiting = append(f.waiting, payloads...) })
}

func (f *fakeAgent) session(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintln(w, `{"session":"s1"}`)
	_ = http.NewResponseController(w).Flush()
	f.change(func() { f.sessions++ })
	<-r.Context().Done()
	f.change(func() { f.sessions-- })
}

// take blocks until there is a message, or the client is gone.
func (f *fakeAgent) take(r *http.Request, most int) (tokens, payloads []string) {
	f.change(func() { f.pulls++ })
	defer f.change(func() { f.pulls-- })
	for {
		f.mu.Lock()
		for len(f.waiting) > 0 && len(tokens) < most {
			f.given++
			token := fmt.Sprintf("t%d-%d", f.boot, f.given)
			f.held[token] = f.waiting[0]
			tokens, payloads = append(tokens, token), append(payloads, f.waiting[0])
			f.waiting = f.waiting[1:]
		}
		changed := f.changed
		f.mu.Unlock()
		if len(tokens) > 0 {
			return tokens, payloads
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return nil, nil
		}
	}
}

func (f *fakeAgent) pull(w http.ResponseWriter, r *http.Request) {
	if r.FormValue("session") != "s1" && r.FormValue("session") != "connection" {
		http.Error(w, `{"error":{"code":"unknown_session"}}`, http.StatusConflict)
		return
	}
	failed := f.settle(r, 1)
	tokens, payloads := f.take(r, 4)
	if len(failed) > 0 {
		_ = json.NewEncoder(w).Encode(map[string]any{"settle_failed": failed})
	}
	for i, token := range tokens {
		_ = json.NewEncoder(w).Encode(map[string]any{"token": token, "queue": "q", "priority": 1, "key": "k", "data": payloads[i]})
	}
}

func (f *fakeAgent) next(w http.ResponseWriter, r *http.Request) {
	tokens, payloads := f.take(r, 1)
	for i, token := range tokens {
		w.Header().Set("Fairlead-Token", token)
		w.Header().Set("Fairlead-Queue", "q")
		w.Header().Set("Fairlead-Priority", "1")
		w.Header().Set("Fairlead-Key", "k")
		_, _ = io.WriteString(w, payloads[i])
	}
}

// settle reads settlements from r's body; inPull is added for each ack. It returns the ones that failed.
func (f *fakeAgent) settle(r *http.Request, inPull int) (failed []map[string]string) {
	var all []map[string]string
	body, _ := io.ReadAll(r.Body)
	if len(body) > 0 {
		if err := json.Unmarshal(body, &all); err != nil {
			f.t.Errorf("settlements %q: %v", body, err)
		}
	}
	for _, s := range all {
		if s["result"] == "ack" && f.misses() {
			failed = append(failed, map[string]string{"token": s["token"], "status": "unavailable"})
		} else if !f.say(s["token"], s["result"]) {
			failed = append(failed, map[string]string{"token": s["token"], "status": "unknown"})
		} else if s["result"] == "ack" {
			f.change(func() { f.inPull += inPull })
		}
	}
	return failed
}

// misses tells whether an ack goes unheard.
func (f *fakeAgent) misses() (yes bool) {
	f.change(func() {
		if yes = f.deaf > 0; yes {
			f.deaf--
		}
	})
	return yes
}

func (f *fakeAgent) verb(w http.ResponseWriter, r *http.Request) {
	if r.PathValue("verb") == "ack" && f.misses() {
		w.WriteHeader(http.StatusConflict)
		fmt.Fprintln(w, `{"error":{"code":"unavailable"}}`)
	} else if !f.say(r.PathValue("token"), r.PathValue("verb")) {
		http.Error(w, `{"error":{"code":"unknown"}}`, http.StatusNotFound)
	}
}

func (f *fakeAgent) say(token, result string) (known bool) {
	f.change(func() {
		payload, ok := f.held[token]
		if known = ok; !ok {
			return
		}
		switch result {
		case "ack":
			f.acked = append(f.acked, payload)
			delete(f.held, token)
		case "nack":
			f.nacked = append(f.nacked, payload)
			f.waiting = append(f.waiting, strings.TrimPrefix(payload, "fail once "))
			delete(f.held, token)
		case "extend":
			f.extended++
		default:
			f.t.Errorf("unexpected result %q", result)
		}
	})
	return known
}
