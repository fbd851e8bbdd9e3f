package socket

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/broker"
	"github.com/fairlead/fairlead/agent/delivery"
	"github.com/fairlead/fairlead/agent/dispatch"
)

// status reads the status line of what is left of a connection; 0 if it was closed without an answer.
func status(c net.Conn) int {
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode
}

// alive checks that the agent still works, and that nothing hangs on.
func (r *rig) alive() {
	r.t.Helper()
	if a := r.call("POST", ordersPath, "x"); a.StatusCode != 201 {
		r.t.Errorf("afterwards: %d %s", a.StatusCode, a.body)
	}
	r.client.CloseIdleConnections()
	eventually(r.t, "all connections are gone", func() bool { return r.server.Connections() == 0 })
}

func TestMalformedHTTP(t *testing.T) {
	r := newRig(t, func(o *Options) {
		o.Limits.HeaderTimeout, o.Limits.BodyTimeout = 100*time.Millisecond, 100*time.Millisecond
	})
	for _, raw := range []string{
		"\x00\x01\x02\x03\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
		"POST " + ordersPath + " HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
		"POST " + ordersPath + " HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
		"POST " + ordersPath + " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n",
		"POST " + ordersPath + " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
		"POST " + ordersPath + " HTTP/1.1\r\nHost: x\r\nBad Header: 1\r\n\r\n",
		"POST " + ordersPath + " HTTP/1.1\r\nHost: x\r\nX: a\x00b\r\n\r\n",
		"POST /%zz HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET /v1/status HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("y", 100_000) + "\r\n\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		strings.Repeat("A", 200_000),
	} {
		c := r.dial()
		_, _ = io.WriteString(c, raw)
		if s := status(c); s != 0 && s < 400 {
			t.Errorf("%.60q: status %d", raw, s)
		}
		// Whatever it was, this connection is over soon.
		_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
		if _, err := io.Copy(io.Discard, c); err != nil && errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%.60q: the connection stays open", raw)
		}
		_ = c.Close()
	}
	if n := len(r.stored()); n != 0 {
		t.Errorf("%d were stored", n)
	}
	r.alive()
}

func TestSlowClients(t *testing.T) {
	const limit = 500 * time.Millisecond // a client that stands still for a moment before it has said a word is not tried here
	r := newRig(t, func(o *Options) { o.Limits.HeaderTimeout, o.Limits.BodyTimeout = limit, limit })
	var all sync.WaitGroup // side by side: each waits for the limit
	for _, c := range []struct {
		name, begin string
		status      int
	}{
		{"nothing", "", 0},
		{"half a head", "POST " + ordersPath + " HT", 400}, // in net/http's words
		{"no body", "POST " + ordersPath + " HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n", 400},
		{"half a body", "POST " + ordersPath + " HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc", 400},
		{"half a chunk", "POST " + ordersPath + " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", 400},
		{"half a list", "POST /v1/settle HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n[", 400},
		{"half a pull", "POST " + pullPath + " HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n[", 400},
		{"a body nobody reads", "POST /nope HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n[", 404},
	} {
		conn := r.dial()
		_, _ = io.WriteString(conn, c.begin)
		all.Go(func() {
			defer conn.Close()
			begin := time.Now()
			got := status(conn)
			_, _ = io.Copy(io.Discard, conn) // until it is closed
			if got != c.status || time.Since(begin) > 5*time.Second {
				t.Errorf("%s: status %d after %v, want %d", c.name, got, time.Since(begin), c.status)
			}
		})
	}
	all.Wait()
	r.alive()
}

// A body that comes in drops, each within its time, is not slow as a whole.
func TestASteadyTrickleIsServed(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Limits.BodyTimeout = time.Second })
	c := r.dial()
	defer c.Close()
	fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 30\r\n\r\n", ordersPath)
	for range 30 {
		time.Sleep(40 * time.Millisecond) // longer than the timeout together
		if _, err := c.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if s := status(c); s != 201 {
		t.Errorf("status %d", s)
	}
}

// A long pull and an open session outlive every timeout, though the client sends nothing.
func TestWaitingIsNotSlow(t *testing.T) {
	t.Parallel() // it waits for a second
	r := newRig(t, func(o *Options) {
		o.Limits.HeaderTimeout, o.Limits.BodyTimeout, o.Limits.WriteTimeout = 400*time.Millisecond, 400*time.Millisecond, 400*time.Millisecond
		o.Limits.PingInterval = 1200 * time.Millisecond
	})
	_, events, _ := r.openSession()
	begin := time.Now()
	if a := r.call("POST", pullPath+"?wait=1200ms", "[]"); a.StatusCode != 204 || time.Since(begin) < 1200*time.Millisecond {
		t.Errorf("pull: %d after %v", a.StatusCode, time.Since(begin))
	}
	if e := r.event(events); e.Event != "ping" {
		t.Errorf("%+v", e)
	}
}

// Connections that nobody uses are closed after a while; those that work is under way for are not: a pull that waits, an open
// session, and a connection over which messages came that are not settled, whichever session they belong to.
func TestUnusedConnectionsAreClosed(t *testing.T) {
	const limit = 200 * time.Millisecond
	r := newRig(t, func(o *Options) { o.Limits.IdleTimeout, o.Limits.PingInterval = limit, 4*limit })
	id, events, end := r.openSession()
	sessions := []string{"", "&session=connection", "&session=" + id}
	holders, tokens := make([]*bufio.Reader, len(sessions)), make([]string, len(sessions))
	conns := make([]net.Conn, len(sessions))
	for i, session := range sessions {
		r.add(message(uint64(i + 1)))
		conns[i] = r.dial()
		defer conns[i].Close()
		fmt.Fprintf(conns[i], "POST %s?lease=1m%s HTTP/1.1\r\nHost: x\r\n\r\n", pullPath, session)
		holders[i] = bufio.NewReader(conns[i])
		res, err := http.ReadResponse(holders[i], nil)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(res.Body)
		var got api.Delivery
		if err := json.Unmarshal(text, &got); err != nil || got.Token == "" {
			t.Fatalf("%s: %v", text, err)
		}
		tokens[i] = got.Token
	}

	unused := r.dial()
	defer unused.Close()
	fmt.Fprintf(unused, "GET /v1/status HTTP/1.1\r\nHost: x\r\n\r\n")
	begin := time.Now()
	if s := status(unused); s != 200 {
		t.Fatalf("status %d", s)
	}
	_ = unused.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.Copy(io.Discard, unused); err != nil || time.Since(begin) < limit {
		t.Errorf("after %v: %v", time.Since(begin), err)
	}
	if a := r.call("POST", pullPath+"?wait="+(3*limit).String(), ""); a.StatusCode != 204 {
		t.Errorf("a pull that waited for longer than the limit: %d", a.StatusCode)
	}
	if n := len(r.gaveBack()); n != 0 {
		t.Fatalf("%d were given back while their connections were idle", n)
	}
	for i, in := range holders {
		fmt.Fprintf(conns[i], "POST /v1/messages/%s/ack HTTP/1.1\r\nHost: x\r\n\r\n", tokens[i])
		if res, err := http.ReadResponse(in, nil); err != nil || res.StatusCode != 204 {
			t.Fatalf("with %q: %v, %v", sessions[i], res, err)
		}
		_ = conns[i].SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := io.Copy(io.Discard, in); err != nil {
			t.Errorf("with %q, once it is settled: %v", sessions[i], err)
		}
	}
	if e := r.event(events); e.Event != "ping" {
		t.Errorf("the open session: %+v", e)
	}
	eventually(t, "only the session's connection is left", func() bool { return r.server.Connections() == 1 })
	end()
	r.alive() // a client with keep-alive opens another one
}

func TestClientsThatBreakOff(t *testing.T) {
	r := newRig(t)
	for _, raw := range []string{
		"", "POST", "POST " + ordersPath + " HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nabc",
		"POST " + ordersPath + " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
		"POST " + batchPath + " HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{\"data\":",
		"POST /v1/settle HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n[{",
		"POST " + pullPath + "?wait=60s HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET /v1/session HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		for range 5 {
			c := r.dial()
			_, _ = io.WriteString(c, raw)
			_ = c.Close()
		}
	}
	if n := len(r.stored()); n != 0 {
		t.Errorf("%d were stored", n)
	}
	r.alive()
	eventually(t, "no session is left", func() bool { return r.book.Stats().Sessions == 0 })
}

// A thousand clients at once are served; beyond the cap a new one is told so, unless an idle one can make room.
func TestThousandConnections(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Limits.Connections = 1000 })
	idle := func(d time.Duration) {
		r.server.conns.mu.Lock()
		defer r.server.conns.mu.Unlock()
		r.server.conns.idle = d
	}
	idle(time.Hour)
	conns := make([]net.Conn, 1000)
	for i := range conns {
		conns[i] = r.dial()
		defer conns[i].Close()
	}
	var wg sync.WaitGroup
	for _, c := range conns {
		wg.Go(func() {
			fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx", ordersPath)
			if s := status(c); s != 201 {
				t.Errorf("status %d", s)
			}
		})
	}
	wg.Wait()
	if len(r.stored()) != 1000 {
		t.Errorf("%d were stored", len(r.stored()))
	}
	fmt.Fprintf(conns[0], "POST %s?session=connection HTTP/1.1\r\nHost: x\r\n\r\n", pullPath)
	if s := status(conns[0]); s != 204 {
		t.Fatalf("status %d", s)
	}
	for _, c := range conns[1:] { // so that the first has been idle for longest
		fmt.Fprintf(c, "GET /v1/status HTTP/1.1\r\nHost: x\r\n\r\n")
		if s := status(c); s != 200 {
			t.Fatalf("status %d", s)
		}
	}
	// None has been idle for long enough: the next one is refused, in words.
	extra := r.dial()
	defer extra.Close()
	res, err := http.ReadResponse(bufio.NewReader(extra), nil)
	if err != nil || res.StatusCode != 503 || res.Header.Get(api.HeaderState) != "active" || res.Header.Get("Retry-After") == "" {
		t.Fatalf("beyond the cap: %v, %v", res, err)
	}
	if text, _ := io.ReadAll(res.Body); !strings.Contains(string(text), `"code":"overloaded"`) {
		t.Errorf("%s", text)
	}
	// Later the connection that was idle for longest makes room, but none with a session.
	idle(0)
	if a := r.call("POST", ordersPath, "x"); a.StatusCode != 201 {
		t.Errorf("with a thousand idle ones: %d", a.StatusCode)
	}
	fmt.Fprintf(conns[0], "GET /v1/status HTTP/1.1\r\nHost: x\r\n\r\n")
	if s := status(conns[0]); s != 200 {
		t.Errorf("the connection with a session was closed: %d", s)
	}
	if n := r.server.Connections(); n != 1000 {
		t.Errorf("%d connections", n)
	}
}

func TestPeerCredentials(t *testing.T) {
	uid, gid := uint32(os.Getuid()), uint32(os.Getgid())
	for _, c := range []struct {
		name       string
		uids, gids []uint32
		status     int
	}{
		{"empty lists", nil, nil, 200},
		{"user is listed", []uint32{uid + 1, uid}, nil, 200},
		{"group is listed", []uint32{uid + 1}, []uint32{gid}, 200},
		{"user is not listed", []uint32{uid + 1}, nil, 403},
		{"neither is listed", []uint32{uid + 1}, []uint32{gid + 1}, 403},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, func(o *Options) { o.Allow = AllowList{UIDs: c.uids, GIDs: c.gids, Setting: "listen.allow_uids"} })
			a := r.call("GET", "/v1/status", "")
			if c.status == 403 {
				wantError(t, a, 403, api.CodeForbidden)
				if !strings.Contains(a.body, fmt.Sprintf("user %d with group %d", uid, gid)) {
					t.Errorf("%s does not say who", a.body)
				}
			} else if a.StatusCode != c.status {
				t.Errorf("%d %s", a.StatusCode, a.body)
			}
		})
	}
}

func TestABugIsOneRequests(t *testing.T) {
	r := newRig(t)
	r.store = func(broker.Publication) (broker.Receipt, error) { panic("a bug") }
	wantError(t, r.call("POST", ordersPath, "x"), 500, api.CodeInternal)
	r.store = nil
	r.alive()
}

func TestStop(t *testing.T) {
	r := newRig(t)
	_, events, _ := r.openSession()
	pulled := make(chan answer)
	go func() { pulled <- r.call("POST", pullPath+"?wait=60s", "") }()
	published := make(chan answer)
	release := make(chan struct{})
	r.mu.Lock()
	r.store = func(broker.Publication) (broker.Receipt, error) { <-release; return broker.Receipt{Seq: 5}, nil }
	r.mu.Unlock()
	go func() { published <- r.call("POST", ordersPath, "x") }()
	silent := r.dial() // says nothing
	defer silent.Close()
	eventually(t, "all are there", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.pulls == 1 && len(r.published) == 1 && r.server.Connections() >= 4
	})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		r.stop()
	}()
	if a := <-pulled; a.StatusCode != 204 {
		t.Errorf("the waiting pull: %d %s", a.StatusCode, a.body)
	}
	for events.Scan() { // until the session ends
	}
	if _, err := os.Lstat(r.path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket file is there while stopping: %v", err)
	}
	select {
	case <-stopped:
		t.Error("Stop did not wait for the publish")
	default:
	}
	close(release)
	if a := <-published; a.StatusCode != 201 {
		t.Errorf("the publish in work: %d %s", a.StatusCode, a.body)
	}
	<-stopped
	r.stop() // once more
	if r.server.Connections() != 0 {
		t.Errorf("%d connections are left", r.server.Connections())
	}
	if _, err := net.Dial("unix", r.path); err == nil {
		t.Error("somebody still answers")
	}
}

// Who does not end in time is cut.
func TestStopLosesPatience(t *testing.T) {
	r := newRig(t)
	begun := make(chan struct{})
	r.take = func(ctx context.Context, _ string, _ dispatch.Request) ([]*broker.Message, delivery.Owner, error) {
		close(begun)
		<-r.server.base.Done() // deaf to everything but the end
		return nil, nil, ctx.Err()
	}
	c := r.dial()
	defer c.Close()
	fmt.Fprintf(c, "POST %s?wait=60s HTTP/1.1\r\nHost: x\r\n\r\n", pullPath)
	<-begun
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := r.server.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Stop: %v", err)
	}
	if err := r.server.Stop(context.Background()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Stop again: %v", err)
	}
	r.server.stopErr = nil // the rig stops it a third time
}
