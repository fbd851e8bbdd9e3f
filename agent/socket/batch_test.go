package socket

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/broker"
)

const batchPath = "/v1/queues/orders/batch"

func TestBatchLines(t *testing.T) {
	r := newRig(t)
	good := func(p broker.Publication) *broker.Publication { return &p }
	for _, c := range []struct {
		line string
		want *broker.Publication
		code api.Code
	}{
		{`{"data":"text"}`, good(broker.Publication{Level: -1, Data: []byte("text")}), ""},
		{`{"data":""}`, good(broker.Publication{Level: -1, Data: []byte{}}), ""},
		{`{"data":{"a": [1, 2]}}`, good(broker.Publication{Level: -1, Data: []byte(`{"a": [1, 2]}`), ContentType: "application/json"}), ""},
		{`{"data":[1],"content_type":"x/y"}`, good(broker.Publication{Level: -1, Data: []byte(`[1]`), ContentType: "x/y"}), ""},
		{`{"data":17}`, good(broker.Publication{Level: -1, Data: []byte(`17`), ContentType: "application/json"}), ""},
		{`{"data_base64":"AP8="}`, good(broker.Publication{Level: -1, Data: []byte{0, 255}}), ""},
		{`{"data":"x","priority":2,"key":"a b","weight":2.5,"id":"1","headers":{"X-Tenant":"t","traceparent":"00"}}`, good(broker.Publication{
			Level: 2, Key: "a b", Weight: 2500, ID: "1", Data: []byte("x"), Headers: map[string]string{"x-tenant": "t", "traceparent": "00"}}), ""},
		{`{"data":"x","priority":"high","weight":"3"}`, good(broker.Publication{Level: 0, Weight: 3000, Data: []byte("x")}), ""},
		{`{"data":"x","priority":null,"key":"%41"}`, good(broker.Publication{Level: -1, Key: "%41", Data: []byte("x")}), ""},
		{`{}`, nil, api.CodeBadRequest},
		{`{"data":null}`, nil, api.CodeBadRequest},
		{`{"data":"x","data_base64":""}`, nil, api.CodeBadRequest},
		{`{"data_base64":"?"}`, nil, api.CodeBadRequest},
		{`{"data":"x","prio":1}`, nil, api.CodeBadRequest},
		{`{"data":"x"} {"data":"y"}`, nil, api.CodeBadRequest},
		{`{"data":"x"`, nil, api.CodeBadRequest},
		{`nonsense`, nil, api.CodeBadRequest},
		{"{\"data\":\"\xff\"}", nil, api.CodeBadRequest},
		{`{"data":"x","priority":3}`, nil, api.CodePriority},
		{`{"data":"x","priority":true}`, nil, api.CodeBadRequest},
		{`{"data":"x","priority":"none"}`, nil, api.CodeBadRequest},
		{`{"data":"x","weight":0}`, nil, api.CodeInvalidWeight},
		{`{"data":"x","weight":1e2}`, nil, api.CodeInvalidWeight},
		{`{"data":"x","key":"` + strings.Repeat("a", 129) + `"}`, nil, api.CodeInvalidKey},
		{`{"data":"x","headers":{"Nats-Msg-Id":"1"}}`, nil, api.CodeInvalidHeader},
		{`{"data":"x","headers":{"a b":"1"}}`, nil, api.CodeInvalidHeader},
		{`{"data":"x","headers":{"a":"1\n"}}`, nil, api.CodeInvalidHeader},
		{`{"data":"x","headers":{"a":"1","A":"2"}}`, nil, api.CodeInvalidHeader},
		{`{"data":"` + strings.Repeat("x", 1001) + `"}`, nil, api.CodePayloadTooLarge},
		{`{"data":"x","ttl":"90s"}`, good(broker.Publication{Level: -1, TTL: 90 * time.Second, Data: []byte("x")}), ""},
		{`{"data":"x","delay":"5"}`, nil, api.CodeBadRequest},
		{`{"data":"x","delay":"5s","at":"2026-11-29T12:00:00Z"}`, nil, api.CodeBadRequest},
		{`{"data":"x","ttl":"5"}`, nil, api.CodeBadRequest},
	} {
		before := len(r.stored())
		a := r.call("POST", batchPath, c.line+"\n")
		var got api.BatchResult
		if err := json.Unmarshal([]byte(a.body), &got); err != nil || a.StatusCode != 200 || strings.Count(a.body, "\n") != 1 {
			t.Errorf("%.60s: %d %q", c.line, a.StatusCode, a.body)
			continue
		}
		if c.want == nil {
			if got.Error == nil || got.Error.Code != c.code || len(r.stored()) != before || strings.Contains(a.body, "duplicate") {
				t.Errorf("%.60s: %s, want %s", c.line, a.body, c.code)
			}
			continue
		}
		if p := r.stored()[before]; !reflect.DeepEqual(p, *c.want) && !(len(p.Data) == 0 && len(c.want.Data) == 0) || a.body != fmt.Sprintf("{\"seq\":%d,\"duplicate\":false}\n", before+1) {
			t.Errorf("%.60s: stored %+v, want %+v; answer %s", c.line, p, *c.want, a.body)
		}
	}
	wantError(t, r.call("POST", "/v1/queues/nope/batch", "{}"), 404, api.CodeUnknownQueue)
}

// One bad line fails alone, and answers are in the order of the lines although publishes end in any order.
func TestBatchAnswersInOrder(t *testing.T) {
	r := newRig(t)
	var under, most atomic.Int64
	const together = 20
	many := make(chan struct{}) // closed once so many are under way: the first ones wait for that
	enough := sync.OnceFunc(func() { close(many) })
	r.store = func(p broker.Publication) (broker.Receipt, error) {
		n := under.Add(1)
		defer under.Add(-1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		if n >= together {
			enough()
		}
		select {
		case <-many:
		case <-time.After(10 * time.Second):
			enough() // and the bound below tells
		}
		var seq uint64
		if _, err := fmt.Sscan(string(p.Data), &seq); err != nil {
			return broker.Receipt{}, err
		}
		time.Sleep(time.Duration(seq*7919%13) * 100 * time.Microsecond)
		if seq%100 == 50 {
			return broker.Receipt{}, &api.Error{Code: api.CodeQueueFull, Message: "the queue is full"}
		}
		return broker.Receipt{Seq: seq, Duplicate: seq%10 == 3}, nil
	}
	var in strings.Builder
	const n = 3000
	for i := 1; i <= n; i++ {
		switch {
		case i%100 == 7:
			in.WriteString("bad line\n")
		case i%100 == 8:
			fmt.Fprintf(&in, "  {\"data\":\"%s\"}\r\n\n\n", strings.Repeat("x", 300_000)) // far over every bound
		default:
			fmt.Fprintf(&in, "{\"data\":\"%d\"}\n", i)
		}
	}
	a := r.call("POST", batchPath, strings.TrimSpace(in.String())) // the last line has no end
	got := strings.Split(strings.TrimSpace(a.body), "\n")
	if len(got) != n {
		t.Fatalf("%d answers of %d", len(got), n)
	}
	for i, line := range got {
		i++
		want := fmt.Sprintf(`{"seq":%d,"duplicate":%v}`, i, i%10 == 3)
		code := map[int]api.Code{7: api.CodeBadRequest, 8: api.CodePayloadTooLarge, 50: api.CodeQueueFull}[i%100]
		if code != "" {
			if !strings.HasPrefix(line, `{"error":{"code":"`+string(code)+`"`) || i%100 == 8 && !strings.Contains(line, "the line has more than") {
				t.Fatalf("line %d: %s, want %s", i, line, code)
			}
		} else if line != want {
			t.Fatalf("line %d: %s, want %s", i, line, want)
		}
	}
	if m := most.Load(); m < together || m > 256 {
		t.Errorf("%d publishes were under way at a time, want many, and at most 256", m)
	}
	eventually(t, "the budget is whole again", func() bool { return r.server.bodies.free.Load() == r.server.limits.AllBodyBytes })
}

// A client may wait for each answer before it sends the next line.
func TestBatchIsAnsweredWhileItIsRead(t *testing.T) {
	r := newRig(t)
	body, w := io.Pipe()
	req, err := http.NewRequest("POST", "http://fairlead"+batchPath, body)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.WriteString(w, "{\"data\":\"0\"}\n") }()
	res, err := r.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	answers := bufio.NewScanner(res.Body)
	for i := 1; i <= 20; i++ {
		if !answers.Scan() || answers.Text() != fmt.Sprintf(`{"seq":%d,"duplicate":false}`, i) {
			t.Fatalf("answer %d: %q, %v", i, answers.Text(), answers.Err())
		}
		if i == 20 {
			_ = w.Close()
		} else if _, err := io.WriteString(w, "{\"data\":\"x\"}\n"); err != nil {
			t.Fatal(err)
		}
	}
	if answers.Scan() {
		t.Errorf("more: %q", answers.Text())
	}
}

// manyLines is n lines that need no memory.
type manyLines struct {
	n    int
	rest []byte
}

func (m *manyLines) Read(p []byte) (int, error) {
	if len(m.rest) == 0 {
		if m.n == 0 {
			return 0, io.EOF
		}
		k := min(m.n, 1000)
		m.n -= k
		m.rest = bytes.Repeat([]byte("{\"data\":\"a message of an ordinary size, more or less\",\"key\":\"acme\"}\n"), k)
	}
	n := copy(p, m.rest)
	m.rest = m.rest[n:]
	return n, nil
}

// A batch without end takes no memory to speak of, and the client may read while it writes.
func TestLongBatchHasFlatMemory(t *testing.T) {
	r := newRig(t)
	var stored atomic.Uint64
	r.server.Publisher = countingPublisher{r.fakeAgent, &stored}
	const n = 120_000
	res, err := r.client.Post("http://fairlead"+batchPath, api.TypeNDJSON, &manyLines{n: n})
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	runtime.GC()
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	answers := 0
	for s := bufio.NewScanner(res.Body); s.Scan(); answers++ {
		if answers%30_000 == 29_999 {
			runtime.GC()
			runtime.ReadMemStats(&now)
			if grown := int64(now.HeapAlloc) - int64(before.HeapAlloc); grown > 16<<20 {
				t.Errorf("%d MiB more after %d lines", grown>>20, answers)
			}
		}
	}
	if answers != n || stored.Load() != n {
		t.Errorf("%d answers, %d stored, want %d", answers, stored.Load(), n)
	}
}

type countingPublisher struct {
	*fakeAgent
	n *atomic.Uint64
}

func (c countingPublisher) PublishAsync(_ string, _ broker.Publication, done func(broker.Receipt, error)) {
	done(broker.Receipt{Seq: c.n.Add(1)}, nil)
}

// A client that writes its whole batch before it reads is not stuck.
func TestBatchWrittenBeforeItsAnswerIsRead(t *testing.T) {
	r := newRig(t)
	c := r.dial()
	defer c.Close()
	const n = 50_000
	fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n", batchPath, n*len("{\"data\":\"x\"}\n"))
	if _, err := io.WriteString(c, strings.Repeat("{\"data\":\"x\"}\n", n)); err != nil {
		t.Fatalf("write: %v", err)
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(res.Body)
	if err != nil || strings.Count(string(text), "\n") != n {
		t.Errorf("%d answers, %v", strings.Count(string(text), "\n"), err)
	}
}

// A batch that breaks off in the middle is not answered as if it were whole.
func TestBatchThatBreaksOff(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Limits.BodyTimeout = 300 * time.Millisecond })
	for _, how := range []string{"stalls", "is cut"} {
		c := r.dial()
		fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{\"data\":\"1\"}\n{\"data\":\"2", batchPath)
		if how == "is cut" {
			_ = c.(interface{ CloseWrite() error }).CloseWrite()
		}
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("a body that %s: %q ended with %v", how, text, err)
		}
		_ = c.Close()
	}
	for _, p := range r.stored() {
		if string(p.Data) != "1" {
			t.Errorf("half a line was stored: %q", p.Data)
		}
	}
}

// A client that sends but never reads loses its connection.
func TestBatchWhoseAnswerIsNotRead(t *testing.T) {
	r := newRig(t, func(o *Options) {
		o.Limits.WriteTimeout, o.Limits.BatchAnswers = 100*time.Millisecond, 1<<16
	})
	c := r.dial()
	defer c.Close()
	fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n", batchPath)
	lines := []byte(strings.Repeat("{\"data\":\"x\"}\n", 10_000))
	for {
		if _, err := c.Write(lines); err != nil {
			if errors.Is(err, io.ErrShortWrite) || strings.Contains(err.Error(), "timeout") {
				t.Errorf("the connection was not cut: %v", err)
			}
			break
		}
	}
	eventually(t, "the connection is gone", func() bool { return r.server.Connections() == 0 })
	if a := r.call("POST", ordersPath, "x"); a.StatusCode != 201 {
		t.Errorf("afterwards: %d", a.StatusCode)
	}
}

// A client that asks for leave to send its batch gets it, as curl does with large ones.
func TestBatchWithExpect(t *testing.T) {
	r := newRig(t)
	c := r.dial()
	defer c.Close()
	fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: 13\r\n\r\n", batchPath)
	answer := bufio.NewReader(c)
	if line, err := answer.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 100 ") {
		t.Fatalf("first came %q, %v", line, err)
	}
	if _, err := io.WriteString(c, "{\"data\":\"x\"}\n"); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(answer)
	if err != nil || !strings.Contains(string(rest), "HTTP/1.1 200 ") || !strings.Contains(string(rest), `"duplicate":false`) {
		t.Errorf("then came %q, %v", rest, err)
	}
}
