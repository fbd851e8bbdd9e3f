package socket

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/broker"
	"github.com/fairlead/fairlead/agent/delivery"
	"github.com/fairlead/fairlead/agent/dispatch"
)

// openSession opens a session; events come out of the scanner.
func (r *rig) openSession() (id string, events *bufio.Scanner, end func()) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, "GET", "http://fairlead/v1/session", nil)
	if err != nil {
		r.t.Fatal(err)
	}
	res, err := r.client.Do(req)
	if err != nil || res.StatusCode != 200 || res.Header.Get("Content-Type") != api.TypeNDJSON || res.Header.Get(api.HeaderState) == "" {
		r.t.Fatalf("session: %v, %v", res, err)
	}
	r.t.Cleanup(func() { cancel(); _ = res.Body.Close() })
	events = bufio.NewScanner(res.Body)
	first := r.event(events)
	if first.Session == "" || first.Event != "" {
		r.t.Fatalf("first line %+v", first)
	}
	return first.Session, events, func() { cancel(); _ = res.Body.Close() }
}

func (r *rig) event(s *bufio.Scanner) api.Event {
	r.t.Helper()
	var e api.Event
	if !s.Scan() {
		r.t.Fatalf("the session ended: %v", s.Err())
	}
	if err := json.Unmarshal(s.Bytes(), &e); err != nil {
		r.t.Fatalf("event %q: %v", s.Text(), err)
	}
	return e
}

func TestTheEndOfASessionReturnsWhatItHolds(t *testing.T) {
	r := newRig(t)
	for i := range 1001 {
		r.add(message(uint64(i + 1)))
	}
	id, _, end := r.openSession()
	ds := lines(t, r.call("POST", pullPath+"?max=1000&session="+id, ""))
	outside := lines(t, r.call("POST", pullPath, ""))
	if len(ds) != 1000 || len(outside) != 1 {
		t.Fatalf("%d and %d came", len(ds), len(outside))
	}
	begin := time.Now()
	end()
	eventually(t, "all are given back", func() bool { return len(r.gaveBack()) == 1000 })
	if took := time.Since(begin); took > 3*time.Second { // and not when their leases end
		t.Errorf("it took %v", took)
	}
	for i, got := range r.gaveBack() {
		if got.seq != uint64(i+1) || got.counts != broker.AnAttempt {
			t.Fatalf("return %d: %+v", i, got)
		}
	}
	wantError(t, r.call("POST", pullPath+"?session="+id, ""), 409, api.CodeUnknownSession)
	wantError(t, r.call("POST", "/v1/messages/"+ds[0].Token+"/ack", ""), 409, "expired")
	if a := r.call("POST", "/v1/messages/"+outside[0].Token+"/ack", ""); a.StatusCode != 204 {
		t.Errorf("outside of the session: %d", a.StatusCode)
	}
}

// A pull waits when its session ends: it takes nothing, and its client is told.
func TestAPullEndsWithItsSession(t *testing.T) {
	r := newRig(t)
	id, _, end := r.openSession()
	got := make(chan answer)
	go func() { got <- r.call("POST", pullPath+"?wait=60s&session="+id, "") }()
	eventually(t, "the pull waits", func() bool { r.mu.Lock(); defer r.mu.Unlock(); return r.pulls == 1 })
	end()
	wantError(t, <-got, 409, api.CodeUnknownSession)
	// It had just got a message.
	id, _, end = r.openSession()
	r.mu.Lock()
	r.take = func(ctx context.Context, _ string, _ dispatch.Request) ([]*broker.Message, delivery.Owner, error) {
		end()
		<-ctx.Done()
		return []*broker.Message{message(4)}, r.fakeAgent, nil
	}
	r.mu.Unlock()
	wantError(t, r.call("POST", pullPath+"?wait=60s&session="+id, ""), 409, api.CodeUnknownSession)
	eventually(t, "it is given back", func() bool { return len(r.gaveBack()) == 1 })
	if got := r.gaveBack()[0]; got.counts != broker.NotAnAttempt {
		t.Errorf("%+v", got)
	}
}

func TestEventsOfASession(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Limits.PingInterval = 20 * time.Millisecond })
	id, events, _ := r.openSession()
	for range 3 {
		if e := r.event(events); e != (api.Event{Event: "ping"}) {
			t.Fatalf("%+v, want a ping", e)
		}
	}
	next := func() api.Event { // that is no ping
		for {
			if e := r.event(events); e.Event != "ping" {
				return e
			}
		}
	}
	r.add(message(1))
	token := lines(t, r.call("POST", pullPath+"?lease=300ms&session="+id, ""))[0].Token
	if e := next(); e != (api.Event{Event: "revoked", Token: token, Reason: "expired"}) {
		t.Errorf("%+v, want revoked", e)
	}
	close(r.draining)
	if e := next(); e != (api.Event{Event: "draining"}) {
		t.Errorf("%+v, want draining", e)
	}
	for range 3 { // told once
		if e := r.event(events); e.Event != "ping" {
			t.Errorf("%+v after draining", e)
		}
	}
}

func TestSessionIDsCannotBeGuessed(t *testing.T) {
	r := newRig(t)
	a, _, _ := r.openSession()
	b, _, _ := r.openSession()
	if a == b || len(a) < 26 {
		t.Errorf("sessions %q and %q", a, b)
	}
}

// session=connection: the pull's own connection is the session. Idle, it lasts; closed, it ends.
func TestTheConnectionAsSession(t *testing.T) {
	t.Parallel() // it waits for a second
	r := newRig(t, func(o *Options) {
		o.Limits.HeaderTimeout, o.Limits.BodyTimeout = 400*time.Millisecond, 400*time.Millisecond
	})
	r.add(message(1), message(2), message(3))
	c := r.dial()
	in := bufio.NewReader(c)
	for range 2 {
		fmt.Fprintf(c, "POST %s?session=connection HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n[]", pullPath)
		res, err := http.ReadResponse(in, nil)
		if err != nil || res.StatusCode != 200 {
			t.Fatalf("%v %v", res, err)
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			t.Fatal(err)
		}
	}
	r.call("POST", pullPath+"?session=connection", "") // on another connection
	time.Sleep(1200 * time.Millisecond)                // three times longer than any timeout: an idle client is not slow
	if n := len(r.gaveBack()); n != 0 {
		t.Fatalf("%d were given back while the connection was idle", n)
	}
	_ = c.Close()
	eventually(t, "both are given back", func() bool { return len(r.gaveBack()) == 2 })
	if got := r.gaveBack(); got[0] != (fakeReturn{1, broker.AnAttempt}) || got[1] != (fakeReturn{2, broker.AnAttempt}) {
		t.Errorf("given back %+v", got)
	}
	if r.book.InFlight() != 1 {
		t.Errorf("%d in flight, want the other connection's", r.book.InFlight())
	}
}
