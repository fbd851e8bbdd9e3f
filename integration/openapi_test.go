package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/agent/api/apitest"
)

// A caller sends requests to a real agent and holds each answer against the description of the API.
type caller struct {
	t    *testing.T
	doc  *apitest.Document
	http map[string]*http.Client // by socket
	good map[string]bool         // operations that were answered with success
	seen map[string]bool         // statuses and error codes
}

func newCaller(t *testing.T, a *agent) *caller {
	t.Helper()
	doc, err := openAPI()
	if err != nil {
		t.Fatal(err)
	}
	c := &caller{t: t, doc: doc, http: map[string]*http.Client{"app": a.client()}, good: map[string]bool{}, seen: map[string]bool{}}
	admin := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(a.dir, "admin.sock"))
	}}
	t.Cleanup(admin.CloseIdleConnections)
	c.http["admin"] = &http.Client{Transport: admin}
	return c
}

// call sends one request to the first of the operation's sockets and returns the body.
func (c *caller) call(want int, method, path, body string, headers ...string) string {
	c.t.Helper()
	op, ok := c.doc.Find(method, path)
	socket := "app"
	if ok {
		socket = op.Sockets[len(op.Sockets)-1]
	}
	request, err := http.NewRequestWithContext(c.t.Context(), method, "http://agent"+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	answer, err := c.http[socket].Do(request)
	if err != nil {
		c.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		c.t.Fatalf("%s %s: %v", method, path, err)
	}
	c.judge(op, method, path, answer, text, want)
	return string(text)
}

func (c *caller) judge(op apitest.Operation, method, path string, answer *http.Response, text []byte, want int) {
	c.t.Helper()
	if answer.StatusCode != want {
		c.t.Errorf("%s %s: status %d, want %d: %s", method, path, answer.StatusCode, want, text)
	}
	if err := c.doc.Check(method, path, answer.StatusCode, answer.Header.Get("Content-Type"), text); err != nil && op.ID != "" {
		c.t.Error(err)
	}
	if state := answer.Header.Get("Fairlead-State"); state != "active" && state != "draining" {
		c.t.Errorf("%s %s: Fairlead-State is %q", method, path, state)
	}
	c.seen[fmt.Sprint(answer.StatusCode)] = true
	if answer.StatusCode < 300 {
		c.good[op.ID] = true
		return
	}
	var e struct {
		Error struct{ Code, Message string }
	}
	if err := json.Unmarshal(text, &e); err != nil || e.Error.Code == "" || e.Error.Message == "" {
		c.t.Errorf("%s %s: %d with %s", method, path, answer.StatusCode, text)
	}
	c.seen[e.Error.Code] = true
}

const openAPIQueues = `
agent: {id: described, drain_timeout: 1s}
queues:
  - {name: orders, priority_levels: [high, medium, low], fair_share: true, retry: {max_attempts: 2, backoff: [0s]}}
  - {name: small, limits: {max_messages: 1, max_payload: 10}}
  - {name: ledger, single_active_consumer: true}
capsules:
  - {name: primary, queues: [orders, small, ledger], concurrency: 100}
`

// What a real agent answers is in the description of the API, every call with success, and with the errors that one can
// bring about.
func TestOpenAPIDescribesARealAgent(t *testing.T) {
	t.Parallel()
	a := startAgent(t, settings{yaml: openAPIQueues})
	c := newCaller(t, a)
	c.publishing()
	c.taking(a)
	c.session(a)
	c.reading()
	c.controlling()
	c.call(202, "POST", "/v1/drain?wait=0s", "")
	c.call(200, "POST", "/v1/drain", "")
	for _, op := range c.doc.Operations() {
		if !c.good[op.ID] {
			t.Errorf("%s %s was never answered with success", op.Method, op.Path)
		}
	}
	for _, code := range []string{
		"bad_request", "priority_out_of_range", "invalid_key", "invalid_weight", "invalid_header", "unknown_queue", "unknown_capsule", "unknown",
		"unknown_handle", "not_found", "method_not_allowed", "unknown_session", "needs_fair_share", "needs_pause", "payload_too_large", "queue_full", "already_settled", "expired",
	} {
		if !c.seen[code] {
			t.Errorf("error code %s was never answered", code)
		}
	}
}

func (c *caller) publishing() {
	orders := "/v1/queues/orders/messages"
	c.call(201, "POST", orders, "one", "Fairlead-Priority", "high", "Fairlead-Key", "acme", "Fairlead-Id", "1", "Fairlead-Header-Region", "eu", "traceparent", "00-a", "Content-Type", "text/plain")
	c.call(201, "POST", orders, "one", "Fairlead-Priority", "high", "Fairlead-Key", "acme", "Fairlead-Id", "1")
	c.call(201, "POST", orders, "\xff", "Fairlead-Weight", "2.5")
	c.call(201, "POST", orders, "later", "Fairlead-Delay", "1h", "Fairlead-TTL", "2h", "Fairlead-Key", "acme", "Fairlead-Id", "2")
	c.call(400, "POST", orders, "x", "Fairlead-Priority", "9")
	c.call(400, "POST", orders, "x", "Fairlead-Key", "%zz")
	c.call(400, "POST", orders, "x", "Fairlead-Weight", "-1")
	c.call(400, "POST", orders, "x", "Fairlead-Colour", "red")
	c.call(400, "POST", orders, "x", "Fairlead-Delay", "soon")
	c.call(404, "POST", "/v1/queues/nowhere/messages", "x")
	c.call(201, "POST", "/v1/queues/small/messages", "x")
	c.call(429, "POST", "/v1/queues/small/messages", "x")
	c.call(413, "POST", "/v1/queues/small/messages", "more than ten")
	c.call(200, "POST", "/v1/queues/orders/batch", `{"data":{"a":1},"key":"globex","priority":"low","weight":2,"headers":{"a":"b"}}`+"\n"+
		`{"data":"x","priority":9}`+"\n"+`{"data_base64":"AAH/","delay":"1h"}`+"\n")
	c.call(400, "POST", "/v1/queues/orders/batch?x=1", "")
	c.call(404, "POST", "/v1/queues/nowhere/batch", "")
	c.call(404, "POST", "/v1/nothing", "")
	c.call(405, "GET", orders, "")
}

// tokens finds the deliveries in the answer of a pull.
func (c *caller) tokens(body string) (all []string) {
	for line := range strings.Lines(body) {
		var d struct{ Token string }
		if err := json.Unmarshal([]byte(line), &d); err != nil || d.Token == "" {
			c.t.Fatalf("%v: %s", err, line)
		}
		all = append(all, d.Token)
	}
	return all
}

func (c *caller) taking(a *agent) {
	pull := "/v1/capsules/primary/pull"
	var tokens []string
	for len(tokens) < 4 && !c.t.Failed() { // a pull ends with what is there
		tokens = append(tokens, c.tokens(c.call(200, "POST", pull+"?max=100&wait=20s", ""))...)
	}
	if len(tokens) != 4 {
		c.t.Fatalf("%d deliveries, want 4", len(tokens))
	}
	c.call(204, "POST", pull, "")
	c.call(200, "POST", "/v1/settle", fmt.Sprintf(`[{"token":%q,"result":"extend","lease":"30s"},{"token":"nobody's","result":"ack"}]`, tokens[0]))
	c.call(204, "POST", "/v1/messages/"+tokens[0]+"/extend", "")
	c.call(204, "POST", "/v1/messages/"+tokens[0]+"/ack", "")
	c.call(409, "POST", "/v1/messages/"+tokens[0]+"/ack", "")
	c.call(204, "POST", "/v1/messages/"+tokens[1]+"/reject?reason=because", "")
	c.call(204, "POST", "/v1/messages/"+tokens[2]+"/nack?delay=1h&reason=later", "")
	c.call(404, "POST", "/v1/messages/nobody's/nack", "")
	c.call(200, "POST", pull, fmt.Sprintf(`[{"token":%q,"result":"ack"},{"token":"nobody's","result":"ack"}]`, tokens[3]))
	c.call(400, "POST", "/v1/settle", `[{"token":"a"}]`)
	c.call(400, "POST", pull+"?max=0", "")
	c.call(404, "POST", "/v1/capsules/nobody/pull", "")
	c.call(409, "POST", pull+"?session=none", "")
	c.call(413, "POST", "/v1/settle", "["+strings.Repeat(" ", 5<<20))

	next := "/v1/capsules/primary/next"
	c.call(204, "POST", next, "")
	c.call(404, "POST", "/v1/capsules/nobody/next", "")
	c.call(201, "POST", "/v1/queues/orders/messages", "soon over", "Fairlead-Key", "caf%C3%A9")
	c.call(200, "POST", next+"?wait=5s", "")
	c.call(201, "POST", "/v1/queues/orders/messages", "soon over", "Fairlead-Key", "acme")
	token := c.tokens(c.call(200, "POST", pull+"?wait=5s&lease=10ms", ""))[0]
	eventually(c.t, "the lease ends: one delivery is left, that of next", patience, func() bool { return a.capsule("primary").InFlight == 1 })
	c.call(409, "POST", "/v1/messages/"+token+"/ack", "")
}

// session opens one, and reads until a delivery of it has expired.
func (c *caller) session(a *agent) {
	answer, err := a.http.Get("http://agent/v1/session")
	if err != nil {
		c.t.Fatal(err)
	}
	defer answer.Body.Close()
	var read bytes.Buffer
	decoder := json.NewDecoder(io.TeeReader(answer.Body, &read))
	next := func() (e struct{ Session, Event string }) {
		if err := decoder.Decode(&e); err != nil {
			c.t.Fatal(err)
		}
		return e
	}
	id := next().Session
	c.call(200, "POST", "/v1/capsules/primary/pull?wait=5s&lease=10ms&session="+id, "")
	for next().Event != "revoked" {
	}
	if err := c.doc.Check("GET", "/v1/session", 200, answer.Header.Get("Content-Type"), read.Bytes()); err != nil {
		c.t.Error(err)
	}
	c.good["session"] = true
}

func (c *caller) reading() {
	c.call(201, "POST", "/v1/queues/orders/messages", "to look at", "Fairlead-Key", "acme", "Fairlead-Header-A", "b")
	c.call(200, "GET", "/v1/status", "")
	c.call(200, "GET", "/v1/overview", "")
	c.call(200, "GET", "/v1/queues", "")
	c.call(200, "GET", "/v1/queues/orders?keys=10", "")
	c.call(200, "GET", "/v1/queues/orders/peek?max=5&priority=medium&key=acme", "")
	c.call(400, "GET", "/v1/queues/orders/peek?priority=9", "")
	c.call(400, "GET", "/v1/queues/orders/peek?key="+strings.Repeat("k", 200), "")
	c.call(400, "GET", "/v1/status?x=1", "")
	c.call(404, "GET", "/v1/queues/nowhere", "")
}

func (c *caller) controlling() {
	q := "/v1/queues/orders"
	c.call(200, "POST", q+"/pause", "")
	c.call(200, "POST", q+"/keys/globex/pause", "")
	c.call(409, "POST", "/v1/queues/small/keys/acme/pause", "")
	c.call(400, "POST", q+"/keys/"+strings.Repeat("k", 200)+"/pause", "")
	c.call(200, "PUT", q+"/keys/acme/weight", `{"weight":3}`)
	c.call(400, "PUT", q+"/keys/acme/weight", `{"weight":-3}`)
	c.call(200, "GET", q+"/keys/acme/weight", "")
	c.call(200, "GET", q+"?keys=10", "") // with all that is set
	c.call(200, "GET", "/v1/queues", "")
	c.call(200, "GET", "/v1/status", "")
	c.call(200, "DELETE", q+"/keys/acme/weight", "")
	c.call(200, "POST", q+"/keys/globex/resume", "")
	c.call(200, "POST", q+"/resume", "")
	c.call(409, "POST", "/v1/queues/ledger/purge", "")

	var delayed struct {
		Delayed []struct{ Handle string }
	}
	if err := json.Unmarshal([]byte(c.call(200, "GET", q+"/delayed?max=10", "")), &delayed); err != nil || len(delayed.Delayed) != 2 {
		c.t.Fatalf("delayed messages: %v, %+v", err, delayed)
	}
	c.call(204, "DELETE", q+"/delayed/"+delayed.Delayed[0].Handle, "")
	c.call(404, "DELETE", q+"/delayed/"+delayed.Delayed[0].Handle, "")

	var dead struct {
		Dead []struct{ Seq uint64 }
	}
	if err := json.Unmarshal([]byte(c.call(200, "GET", q+"/dead?max=10", "")), &dead); err != nil || len(dead.Dead) == 0 {
		c.t.Fatalf("dead letters: %v, %+v", err, dead)
	}
	seq := dead.Dead[0].Seq
	c.call(200, "GET", fmt.Sprintf("%s/dead/%d", q, seq), "")
	c.call(404, "GET", q+"/dead/1", "")
	c.call(400, "POST", q+"/dead/retry", `{}`)
	c.call(404, "POST", q+"/dead/retry", `{"seqs":[1]}`)
	c.call(200, "POST", q+"/dead/retry", fmt.Sprintf(`{"seqs":[%d,1],"priority":"low"}`, seq))
	c.call(200, "POST", q+"/dead/purge", "")
	c.call(200, "POST", q+"/keys/acme/purge?max=1", "")
	c.call(200, "POST", q+"/purge", "")
}
