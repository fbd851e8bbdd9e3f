package socket

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/broker"
)

const ordersPath = "/v1/queues/orders/messages"

func TestPublishKeepsWhatWasSent(t *testing.T) {
	r := newRig(t)
	body := "\x00\xff any bytes \r\n"
	a := r.call("POST", ordersPath, body,
		api.HeaderPriority, "medium", api.HeaderKey, "a%2Fb%20%C3%A9", api.HeaderWeight, "2.5", api.HeaderID, "order-17",
		"Content-Type", "application/json", "Traceparent", "00-ab-cd-01", "Tracestate", "x=1", "Tracestate", "y=2",
		"Fairlead-Header-X-Tenant", "Äcme", "Fairlead-Header-Empty", "", "User-Agent", "ignored", "X-Other", "ignored")
	if a.StatusCode != http.StatusCreated {
		t.Fatalf("%d %s", a.StatusCode, a.body)
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(a.body), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"queue": "orders", "priority": 1.0, "key": "a/b é", "seq": 1.0, "duplicate": false}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("answer %v, want %v", got, want)
	}
	if a.Header.Get(api.HeaderState) != "active" || a.ContentLength != int64(len(a.body)) || a.Header.Get("Content-Type") != api.TypeJSON {
		t.Errorf("headers %v", a.Header)
	}
	p := r.stored()[0]
	wantStored := broker.Publication{
		Level: 1, Key: "a/b é", Weight: 2500, ID: "order-17", ContentType: "application/json", Data: []byte(body),
		Headers: map[string]string{"x-tenant": "Äcme", "empty": "", "traceparent": "00-ab-cd-01", "tracestate": "x=1,y=2"},
	}
	if !reflect.DeepEqual(p, wantStored) {
		t.Errorf("stored\n%+v, want\n%+v", p, wantStored)
	}
}

func TestPublishWithoutMetadata(t *testing.T) {
	r := newRig(t)
	// An empty header is one that was not given.
	for i, headers := range [][]string{nil, {api.HeaderKey, "", api.HeaderPriority, "", api.HeaderWeight, "", api.HeaderID, "", "Fairlead-Delay", "", "Fairlead-Ttl", ""}} {
		if a := r.call("POST", ordersPath, "", headers...); a.StatusCode != http.StatusCreated {
			t.Fatalf("%d %s", a.StatusCode, a.body)
		}
		p := r.stored()[i]
		if p.Level != -1 || p.Key != "" || p.Weight != 0 || p.ID != "" || p.ContentType != "" || len(p.Headers) != 0 || len(p.Data) != 0 {
			t.Errorf("stored %+v", p)
		}
	}
}

func TestPublishRefusals(t *testing.T) {
	r := newRig(t)
	long := strings.Repeat("x", 300)
	for _, c := range []struct {
		header, value string
		status        int
		code          api.Code
	}{
		{api.HeaderPriority, "3", 400, api.CodePriority},
		{api.HeaderPriority, "-1", 400, api.CodePriority},
		{api.HeaderPriority, "99999999999999999999", 400, api.CodePriority},
		{api.HeaderPriority, "urgent", 400, api.CodeBadRequest},
		{api.HeaderPriority, "1.5", 400, api.CodeBadRequest},
		{api.HeaderWeight, "0", 400, api.CodeInvalidWeight},
		{api.HeaderWeight, "-1", 400, api.CodeInvalidWeight},
		{api.HeaderWeight, "NaN", 400, api.CodeInvalidWeight},
		{api.HeaderWeight, "Inf", 400, api.CodeInvalidWeight},
		{api.HeaderWeight, "1e-9", 400, api.CodeInvalidWeight},
		{api.HeaderWeight, "1e9", 400, api.CodeInvalidWeight},
		{api.HeaderWeight, "abc", 400, api.CodeInvalidWeight},
		{api.HeaderWeight, "1000.001", 400, api.CodeInvalidWeight},
		{api.HeaderWeight, "0.0001", 400, api.CodeInvalidWeight},
		{api.HeaderWeight, "1.", 400, api.CodeInvalidWeight},
		{api.HeaderWeight, ".5", 400, api.CodeInvalidWeight},
		{api.HeaderWeight, "1,5", 400, api.CodeInvalidWeight},
		{api.HeaderKey, "%", 400, api.CodeInvalidKey},
		{api.HeaderKey, "%zz", 400, api.CodeInvalidKey},
		{api.HeaderKey, "%FF", 400, api.CodeInvalidKey},
		{api.HeaderID, long, 400, api.CodeInvalidHeader},
		{"Content-Type", strings.Repeat("x", 2000), 400, api.CodeInvalidHeader},
		{"Fairlead-Header-Nats-Msg-Id", "1", 400, api.CodeInvalidHeader},
		{"Fairlead-Header-Fairlead-Weight", "1", 400, api.CodeInvalidHeader},
		{"Fairlead-Header-Content-Encoding", "gzip", 400, api.CodeInvalidHeader},
		{"Fairlead-Header-Content-Type", "x", 400, api.CodeInvalidHeader},
		{"Fairlead-Header-Traceparent", "x", 400, api.CodeInvalidHeader},
		{"Fairlead-Header-", "x", 400, api.CodeInvalidHeader},
		{"Fairlead-Header-X", "\xff", 400, api.CodeInvalidHeader},
		{"Fairlead-Header-X", "a\tb", 400, api.CodeInvalidHeader},
		{"Fairlead-Header-X", strings.Repeat("x", 9000), 400, api.CodeInvalidHeader},
		{"Fairlead-Prio", "1", 400, api.CodeInvalidHeader},
		{"Fairlead-Delay", "5", 400, api.CodeBadRequest},
		{"Fairlead-Delay", "-5s", 400, api.CodeBadRequest},
		{"Fairlead-Delay", "8760h1s", 400, api.CodeBadRequest},
		{"Fairlead-Delay", "1d", 400, api.CodeBadRequest},
		{"Fairlead-At", "tomorrow", 400, api.CodeBadRequest},
		{"Fairlead-At", "2926-11-29T12:00:00Z", 400, api.CodeBadRequest},
		{"Fairlead-At", "2026-11-29 12:00:00", 400, api.CodeBadRequest},
		{"Fairlead-Ttl", "x", 400, api.CodeBadRequest},
		{"Fairlead-Ttl", "0s", 400, api.CodeBadRequest},
		{"Fairlead-Ttl", "-1s", 400, api.CodeBadRequest},
		{"Fairlead-Ttl", "87601h", 400, api.CodeBadRequest},
		{"Fairlead-Compress", "zstd", 400, api.CodeBadRequest},
		{"Fairlead-Compress", "GZIP", 400, api.CodeBadRequest},
	} {
		t.Run(fmt.Sprintf("%s %.20s", c.header, c.value), func(t *testing.T) {
			wantError(t, r.call("POST", ordersPath, "x", c.header, c.value), c.status, c.code)
		})
	}
	wantError(t, r.call("POST", ordersPath, "x", "Fairlead-Delay", "5s", "Fairlead-At", "2026-11-29T12:00:00Z"), 400, api.CodeBadRequest)
	wantError(t, r.call("POST", ordersPath, "x", api.HeaderKey, "a", api.HeaderKey, "b"), 400, api.CodeInvalidHeader)
	wantError(t, r.call("POST", ordersPath+"?priority=1", "x"), 400, api.CodeBadRequest)
	var many []string
	for i := range 65 {
		many = append(many, fmt.Sprintf("Fairlead-Header-X%d", i), "")
	}
	wantError(t, r.call("POST", ordersPath, "x", many...), 400, api.CodeInvalidHeader)
	// An unknown queue comes first, whatever else is wrong.
	wantError(t, r.call("POST", "/v1/queues/nope/messages", strings.Repeat("x", 2000), api.HeaderWeight, "0"), 404, api.CodeUnknownQueue)
	if n := len(r.stored()); n != 0 {
		t.Errorf("%d were stored all the same", n)
	}
}

func TestWeights(t *testing.T) {
	for text, want := range map[string]int{"1": 1000, "1000": 1_000_000, "0.001": 1, "2.5": 2500, "3.000": 3000, "1.0000": 1000, "007": 7000} {
		if got, err := parseWeight(text); err != nil || int(got) != want {
			t.Errorf("weight %s: %d, %v, want %d thousandths", text, got, err, want)
		}
	}
}

// Every hostile key either arrives as it was sent or is refused with its reason.
func TestHostileKeys(t *testing.T) {
	r := newRig(t)
	for _, key := range []string{
		"", ".", "..", "a.b", "*", ">", "a.>", " ", "\t", "\r\n", "\x00", "$JS.API", "_INBOX", "_", "é", "e\u0301", "\u05d0\u05d1", "\u200b", "😀",
		strings.Repeat("a", 128), strings.Repeat("a", 129), strings.Repeat("a", 300), strings.Repeat("a", 5000),
		strings.Repeat(".", 42), strings.Repeat(".", 43), "100%", "a+b", "a/b",
	} {
		before := len(r.stored())
		a := r.call("POST", ordersPath, "x", api.HeaderKey, url.PathEscape(key))
		if encodedKeyLength(key) > 128 {
			wantError(t, a, 400, api.CodeInvalidKey)
			continue
		}
		if a.StatusCode != http.StatusCreated {
			t.Errorf("key %q: %d %s", key, a.StatusCode, a.body)
			continue
		}
		var got api.Published
		if err := json.Unmarshal([]byte(a.body), &got); err != nil || got.Key != key || r.stored()[before].Key != key {
			t.Errorf("key %q came as %q and was stored as %q", key, got.Key, r.stored()[before].Key)
		}
	}
}

func TestPublishErrorsOfTheBroker(t *testing.T) {
	r := newRig(t)
	for _, c := range []struct {
		err    error
		status int
		code   api.Code
		retry  string
	}{
		{&api.Error{Code: api.CodeQueueFull, Message: "the queue is full", Reason: "max_messages"}, 429, api.CodeQueueFull, ""},
		{&api.Error{Code: api.CodeBroker, Message: "NATS is away"}, 503, api.CodeBroker, "1"},
		{&api.Error{Code: api.CodeOutcomeUnknown, Message: "it may have been stored"}, 504, api.CodeOutcomeUnknown, ""},
		{fmt.Errorf("broker: %w", &api.Error{Code: api.CodePayloadTooLarge, Message: "larger than NATS takes"}), 413, api.CodePayloadTooLarge, ""},
		{errors.New("a secret detail"), 500, api.CodeInternal, ""},
	} {
		r.mu.Lock()
		r.store = func(broker.Publication) (broker.Receipt, error) { return broker.Receipt{}, c.err }
		r.mu.Unlock()
		a := r.call("POST", ordersPath, "x")
		wantError(t, a, c.status, c.code)
		if a.Header.Get("Retry-After") != c.retry {
			t.Errorf("%v: Retry-After %q", c.err, a.Header.Get("Retry-After"))
		}
		if strings.Contains(a.body, "secret") {
			t.Errorf("%s shows the inside", a.body)
		}
		if c.code == api.CodeQueueFull && !strings.Contains(a.body, `"reason":"max_messages"`) {
			t.Errorf("%s has no reason", a.body)
		}
	}
}

func TestPayloadLimits(t *testing.T) {
	r := newRig(t)
	if a := r.call("POST", ordersPath, strings.Repeat("x", 1000)); a.StatusCode != 201 {
		t.Errorf("exactly the limit: %d %s", a.StatusCode, a.body)
	}
	wantError(t, r.call("POST", ordersPath, strings.Repeat("x", 1001)), 413, api.CodePayloadTooLarge)
	// Without a length it is counted while it comes.
	for n, status := range map[int]int{1000: 201, 1001: 413, 500_000: 413} {
		req, err := http.NewRequest("POST", "http://fairlead"+ordersPath, struct{ *strings.Reader }{strings.NewReader(strings.Repeat("x", n))})
		if err != nil {
			t.Fatal(err)
		}
		req.ContentLength = -1
		res, err := r.client.Do(req)
		if err != nil {
			t.Fatalf("%d bytes in chunks: %v", n, err)
		}
		_ = res.Body.Close()
		if res.StatusCode != status {
			t.Errorf("%d bytes in chunks: %d, want %d", n, res.StatusCode, status)
		}
	}
	// A length that is too large is refused before a byte of the body has come.
	c := r.dial()
	defer c.Close()
	fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n", ordersPath)
	if s := status(c); s != 413 {
		t.Errorf("announced: %d", s)
	}
	// The connection's own limit holds where the queue has none.
	small := newRig(t, func(o *Options) { o.Limits.BodyBytes = 5000 })
	wantError(t, small.call("POST", "/v1/queues/plain/messages", strings.Repeat("x", 5001)), 413, api.CodePayloadTooLarge)
}

// A client that looks for the answer only when it has sent everything gets it too, whatever was wrong.
func TestRefusalsOfLargeBodiesAreSeen(t *testing.T) {
	r := newRig(t)
	body := strings.Repeat("x", 8<<20)
	for _, tt := range []struct {
		path, head string
		status     int
	}{
		{ordersPath, fmt.Sprintf("Content-Length: %d\r\n\r\n", len(body)), 413},
		{ordersPath, fmt.Sprintf("Fairlead-Priority: 99\r\nContent-Length: %d\r\n\r\n", len(body)), 400},
		{"/v1/queues/none/messages", fmt.Sprintf("Content-Length: %d\r\n\r\n", len(body)), 404},
		{ordersPath, fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n", len(body)), 413},
	} {
		c := r.dial()
		if _, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\n%s%s", tt.path, tt.head, body); err != nil {
			t.Errorf("%s: the body could not be sent: %v", tt.head, err)
		}
		if s := status(c); s != tt.status {
			t.Errorf("%s: %d, want %d", tt.head, s, tt.status)
		}
		_ = c.Close()
	}
}

// A large body arrives whole, whatever pieces it comes in, and its memory is given back.
func TestLargeBodies(t *testing.T) {
	r := newRig(t)
	data := bytes.Repeat([]byte("0123456789abcdef"), 200_000)
	for _, chunked := range []bool{false, true} {
		req, err := http.NewRequest("POST", "http://fairlead/v1/queues/plain/messages", bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		if chunked {
			req.ContentLength = -1
		}
		res, err := r.client.Do(req)
		if err != nil || res.StatusCode != 201 {
			t.Fatalf("%v %v", res, err)
		}
		_ = res.Body.Close()
	}
	for _, p := range r.stored() {
		if !bytes.Equal(p.Data, data) {
			t.Errorf("%d bytes of %d arrived", len(p.Data), len(data))
		}
	}
	eventually(t, "the budget of bodies is whole again", func() bool { return r.server.bodies.free.Load() == r.server.limits.AllBodyBytes })
}

// All bodies together are bounded; what comes then is told so, and the agent goes on.
func TestBodiesTogetherAreBounded(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Limits.AllBodyBytes = 1 << 20 })
	c := r.dial()
	defer c.Close()
	fmt.Fprintf(c, "POST /v1/queues/plain/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n%s", strings.Repeat("x", 900_000))
	eventually(t, "the first body is held", func() bool { return r.server.bodies.free.Load() < 300_000 })
	a := r.call("POST", "/v1/queues/plain/messages", strings.Repeat("x", 600_000))
	wantError(t, a, 503, api.CodeOverloaded)
	if a := r.call("POST", "/v1/queues/plain/messages", "small"); a.StatusCode != 201 {
		t.Errorf("a small one beside it: %d %s", a.StatusCode, a.body)
	}
	_ = c.Close()
	eventually(t, "the room is given back", func() bool { return r.server.bodies.free.Load() == 1<<20 })
}

// A client that sent everything and half-closed, or left, has published all the same.
func TestPublishOutlivesItsClient(t *testing.T) {
	r := newRig(t)
	release := make(chan struct{})
	r.store = func(broker.Publication) (broker.Receipt, error) {
		select {
		case <-release:
			return broker.Receipt{Seq: 9}, nil
		case <-time.After(10 * time.Second):
			return broker.Receipt{}, errors.New("never released")
		}
	}
	c := r.dial()
	defer c.Close()
	fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx", ordersPath)
	if err := c.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the publish has begun", func() bool { return len(r.stored()) == 1 })
	close(release)
	buf := make([]byte, 4096)
	n, err := c.Read(buf)
	if err != nil || !strings.HasPrefix(string(buf[:n]), "HTTP/1.1 201") {
		t.Errorf("answer %q, %v", buf[:n], err)
	}
}
