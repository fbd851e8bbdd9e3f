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
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/broker"
	"github.com/fairlead/fairlead/agent/delivery"
	"github.com/fairlead/fairlead/agent/dispatch"
	"github.com/fairlead/fairlead/internal/running"
)

const pullPath = "/v1/capsules/work/pull"

func full() *broker.Message {
	return &broker.Message{
		Queue: "orders", Level: 1, Key: "acme", Seq: 17, Attempt: 2, ID: "order-17", ContentType: "application/json",
		Headers: map[string]string{"traceparent": "00-1", "x-tenant": "Ä"}, Data: []byte(`{"order":17}`), AckWait: time.Minute,
		EnqueuedAt: time.Date(2026, 11, 29, 12, 0, 0, 123e6, time.UTC),
	}
}

func TestPullHandsOutEveryField(t *testing.T) {
	r := newRig(t)
	binary := message(18)
	binary.Data = []byte{0xff, 0}
	r.add(full(), binary, message(19))
	before := time.Now()
	a := r.call("POST", pullPath+"?max=2&wait=5s&lease=90s", "")
	if a.StatusCode != 200 || a.Header.Get("Content-Type") != api.TypeNDJSON || a.ContentLength != int64(len(a.body)) || a.Header.Get(api.HeaderState) != "active" {
		t.Fatalf("%d %v %s", a.StatusCode, a.Header, a.body)
	}
	var first map[string]any
	if err := json.Unmarshal([]byte(strings.SplitN(a.body, "\n", 2)[0]), &first); err != nil {
		t.Fatal(err)
	}
	deadline, err := time.Parse(time.RFC3339Nano, fmt.Sprint(first["deadline"]))
	if err != nil || deadline.Before(before.Add(90*time.Second-time.Millisecond)) || deadline.After(time.Now().Add(90*time.Second)) {
		t.Errorf("deadline %v, want 90 s from now", first["deadline"])
	}
	token, _ := first["token"].(string)
	delete(first, "deadline")
	delete(first, "token")
	want := map[string]any{
		"queue": "orders", "priority": 1.0, "key": "acme", "seq": 17.0, "attempt": 2.0, "id": "order-17",
		"enqueued_at": "2026-11-29T12:00:00.123Z", "fence": 0.0, "content_type": "application/json",
		"headers": map[string]any{"traceparent": "00-1", "x-tenant": "Ä"}, "data": `{"order":17}`,
	}
	if !reflect.DeepEqual(first, want) || token == "" {
		t.Errorf("line %v, want %v and a token", first, want)
	}
	ds := lines(t, a)
	if len(ds) != 2 || string(ds[1].Payload()) != "\xff\x00" || ds[1].Data != nil || ds[1].Key != "" || ds[1].Headers == nil {
		t.Errorf("second of %d: %+v", len(ds), ds[len(ds)-1])
	}
	if s := r.book.Stats(); s.Live != 2 {
		t.Errorf("%d live", s.Live)
	}
	if a := r.call("POST", pullPath, ""); len(lines(t, a)) != 1 {
		t.Errorf("max is not 1 by default: %s", a.body)
	}
}

func TestPullInFrames(t *testing.T) {
	r := newRig(t)
	r.add(full(), message(18))
	failed := `[{"token":"stranger","result":"ack"}]`
	a := r.call("POST", pullPath+"?max=5", failed, "Accept", "text/html, "+api.TypeFrames)
	if a.Header.Get("Content-Type") != api.TypeFrames || a.ContentLength != int64(len(a.body)) {
		t.Fatalf("headers %v", a.Header)
	}
	rest := []byte(a.body)
	meta, payload := openFrame(t, &rest)
	if string(meta) != `{"settle_failed":[{"token":"stranger","status":"unknown"}]}` || len(payload) != 0 {
		t.Errorf("first frame %s %q", meta, payload)
	}
	for _, want := range []string{`{"order":17}`, "x"} {
		meta, payload := openFrame(t, &rest)
		var d api.Delivery
		if err := json.Unmarshal(meta, &d); err != nil || d.Token == "" || d.Data != nil || string(payload) != want {
			t.Errorf("frame %s %q, %v", meta, payload, err)
		}
	}
	if len(rest) != 0 {
		t.Errorf("%d bytes are left", len(rest))
	}
}

func TestPullWithoutMessages(t *testing.T) {
	r := newRig(t)
	begin := time.Now()
	a := r.call("POST", pullPath, "")
	if a.StatusCode != 204 || a.body != "" || a.Header.Get(api.HeaderState) != "active" || time.Since(begin) > 2*time.Second {
		t.Errorf("wait is not 0 by default: %d %v", a.StatusCode, time.Since(begin))
	}
	begin = time.Now()
	if a := r.call("POST", pullPath+"?wait=100ms", ""); a.StatusCode != 204 || time.Since(begin) < 100*time.Millisecond {
		t.Errorf("%d after %v", a.StatusCode, time.Since(begin))
	}
	go r.add(message(1))
	if a := r.call("POST", pullPath+"?wait=20s", ""); len(lines(t, a)) != 1 {
		t.Errorf("a message that comes while it waits: %d %s", a.StatusCode, a.body)
	}
	// Also without messages, failed settlements are told.
	a = r.call("POST", pullPath, `[{"token":"x","result":"ack"}]`)
	if a.StatusCode != 200 || a.body != "{\"settle_failed\":[{\"token\":\"x\",\"status\":\"unknown\"}]}\n" || a.ContentLength != int64(len(a.body)) {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
}

func TestPullRefusals(t *testing.T) {
	r := newRig(t)
	r.take = func(context.Context, string, dispatch.Request) ([]*broker.Message, delivery.Owner, error) {
		return nil, nil, errors.New("nothing must be taken")
	}
	for _, c := range []struct {
		path, body string
		status     int
		code       api.Code
	}{
		{"/v1/capsules/nope/pull", "", 404, api.CodeUnknownCapsule},
		{pullPath + "?session=nope", "", 409, api.CodeUnknownSession},
		{pullPath + "?max=0", "", 400, api.CodeBadRequest},
		{pullPath + "?max=10001", "", 400, api.CodeBadRequest},
		{pullPath + "?max=x", "", 400, api.CodeBadRequest},
		{pullPath + "?max=1&max=2", "", 400, api.CodeBadRequest},
		{pullPath + "?wait=5", "", 400, api.CodeBadRequest},
		{pullPath + "?wait=-1s", "", 400, api.CodeBadRequest},
		{pullPath + "?wait=301s", "", 400, api.CodeBadRequest},
		{pullPath + "?lease=1ms", "", 400, api.CodeBadRequest},
		{pullPath + "?lease=25h", "", 400, api.CodeBadRequest},
		{pullPath + "?batch=64", "", 400, api.CodeBadRequest},
		{pullPath + "?max=%zz", "", 400, api.CodeBadRequest},
		{pullPath, "nonsense", 400, api.CodeBadRequest},
		{pullPath, `{"token":"x"}`, 400, api.CodeBadRequest},
		{pullPath, `[{"token":"x","result":"acked"}]`, 400, api.CodeBadRequest},
		{pullPath, `[{"token":"x","result":"ack","extra":1}]`, 400, api.CodeBadRequest},
		{pullPath, `[] []`, 400, api.CodeBadRequest},
	} {
		wantError(t, r.call("POST", c.path, c.body), c.status, c.code)
	}
	r.take = func(context.Context, string, dispatch.Request) ([]*broker.Message, delivery.Owner, error) {
		return nil, nil, &api.Error{Code: api.CodeBroker, Message: "NATS is away: try again"}
	}
	a := r.call("POST", pullPath, "")
	wantError(t, a, 503, api.CodeBroker)
	if a.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	small := newRig(t, func(o *Options) { o.Limits.SettleBytes = 10 })
	wantError(t, small.call("POST", pullPath, `[{"token":"x","result":"ack"}]`), 413, api.CodePayloadTooLarge)
}

// Settlements run beside the take; the take can wait for them, and the answer does.
func TestPullSettlesBeside(t *testing.T) {
	r := newRig(t)
	r.add(message(1), message(2))
	ds := lines(t, r.call("POST", pullPath+"?max=2", ""))
	release := make(chan struct{})
	r.finish = func(*broker.Message) broker.Finish { <-release; return broker.Finished }
	asked := make(chan dispatch.Request, 1)
	r.take = func(_ context.Context, capsule string, q dispatch.Request) ([]*broker.Message, delivery.Owner, error) {
		asked <- q
		if capsule != "work" {
			t.Errorf("capsule %q", capsule)
		}
		<-q.After // as a dispatcher without a free slot does
		return []*broker.Message{message(3)}, r.fakeAgent, nil
	}
	go func() {
		q := <-asked // the take has begun, and the settlements are not done
		if q.Max != 7 || q.Wait != 3*time.Second {
			t.Errorf("request %+v", q)
		}
		select {
		case <-q.After:
			t.Error("After was closed before the settlements were done")
		default:
		}
		close(release)
	}()
	a := r.call("POST", pullPath+"?max=7&wait=3s", fmt.Sprintf(`[{"token":%q,"result":"ack"},{"token":"x","result":"ack"},{"token":%q,"result":"nack","delay":"0s"}]`, ds[0].Token, ds[1].Token))
	first, second, _ := strings.Cut(a.body, "\n")
	if first != `{"settle_failed":[{"token":"x","status":"unknown"}]}` || !strings.Contains(second, `"seq":3,`) {
		t.Errorf("answer %s", a.body)
	}
	if s := r.book.Stats(); s.Acked != 1 || s.Nacked != 1 || s.Live != 1 {
		t.Errorf("%+v", s)
	}
	// Without settlements nothing is to be waited for.
	r.take = func(_ context.Context, _ string, q dispatch.Request) ([]*broker.Message, delivery.Owner, error) {
		if q.After != nil || q.Max != 1 || q.Wait != 0 {
			t.Errorf("request %+v", q)
		}
		return nil, r.fakeAgent, nil
	}
	r.call("POST", pullPath, "")
	r.call("POST", pullPath, "[]")
}

// The lease begins when the answer is written, not while settlements hold it up.
func TestTheLeaseBeginsWithTheAnswer(t *testing.T) {
	r := newRig(t)
	r.add(message(1), message(2))
	first := lines(t, r.call("POST", pullPath, ""))
	r.finish = func(*broker.Message) broker.Finish { time.Sleep(300 * time.Millisecond); return broker.Finished }
	begin := time.Now()
	a := r.call("POST", pullPath+"?lease=10s", `[{"token":"`+first[0].Token+`","result":"ack"}]`)
	if left := lines(t, a)[0].Deadline.Sub(begin); left < 10*time.Second+250*time.Millisecond {
		t.Errorf("deadline %v after the request", left)
	}
}

func TestPullWhileDraining(t *testing.T) {
	r := newRig(t)
	r.add(message(1), message(2))
	ds := lines(t, r.call("POST", pullPath, ""))
	close(r.draining)
	for _, c := range []struct {
		wait      string
		min, most time.Duration
	}{{"0s", 0, 700 * time.Millisecond}, {"200ms", 200 * time.Millisecond, 900 * time.Millisecond}, {"60s", time.Second, 5 * time.Second}} {
		begin, clock := time.Now(), running.Start()
		a := r.call("POST", pullPath+"?wait="+c.wait, "")
		took := time.Since(begin)
		clock.Stop()
		if a.StatusCode != 204 || a.Header.Get(api.HeaderState) != "draining" || took < c.min || clock.Now() > c.most {
			t.Errorf("wait %s: %d %s after %v", c.wait, a.StatusCode, a.Header.Get(api.HeaderState), took)
		}
	}
	// Settlements go on, in pulls and by themselves; so does publishing.
	if a := r.call("POST", pullPath, `[{"token":"`+ds[0].Token+`","result":"ack"}]`); a.StatusCode != 204 || r.book.Stats().Acked != 1 {
		t.Errorf("%d, %+v", a.StatusCode, r.book.Stats())
	}
	if a := r.call("POST", ordersPath, "x"); a.StatusCode != 201 || a.Header.Get(api.HeaderState) != "draining" {
		t.Errorf("publish: %d %v", a.StatusCode, a.Header)
	}
	if r.pulls != 1 {
		t.Errorf("the dispatcher was asked %d times", r.pulls)
	}
	// A drain that begins while a pull waits is told in its answer.
	r = newRig(t)
	r.take = func(context.Context, string, dispatch.Request) ([]*broker.Message, delivery.Owner, error) {
		close(r.draining)
		return nil, r.fakeAgent, nil
	}
	if a := r.call("POST", pullPath+"?wait=60s", ""); a.StatusCode != 204 || a.Header.Get(api.HeaderState) != "draining" {
		t.Errorf("%d %v", a.StatusCode, a.Header)
	}
}

// A client that leaves while its pull waits takes nothing with it, and what was just taken for it goes back uncounted.
func TestClientLeavesBeforeTheAnswer(t *testing.T) {
	t.Run("closed", func(t *testing.T) { testClientLeaves(t, net.Conn.Close) })
	t.Run("half closed", func(t *testing.T) {
		testClientLeaves(t, func(c net.Conn) error { return c.(interface{ CloseWrite() error }).CloseWrite() })
	})
}

// A client that half-closed its connection while its pull waits does not get an empty 200 for an answer.
func TestHalfClosedPullIsTold(t *testing.T) {
	r := newRig(t)
	r.take = func(ctx context.Context, _ string, _ dispatch.Request) ([]*broker.Message, delivery.Owner, error) {
		<-ctx.Done()
		return nil, nil, ctx.Err()
	}
	c := r.dial()
	defer c.Close()
	fmt.Fprintf(c, "POST %s?wait=60s HTTP/1.1\r\nHost: x\r\n\r\n", pullPath)
	if err := c.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if text, _ := io.ReadAll(res.Body); res.StatusCode != 400 || !strings.Contains(string(text), `"code":"bad_request"`) {
		t.Errorf("%d %s", res.StatusCode, text)
	}
}

func testClientLeaves(t *testing.T, leave func(net.Conn) error) {
	r := newRig(t)
	ended := make(chan struct{})
	r.take = func(ctx context.Context, _ string, _ dispatch.Request) ([]*broker.Message, delivery.Owner, error) {
		<-ctx.Done()
		defer close(ended)
		return []*broker.Message{message(7), message(5)}, r.fakeAgent, nil // it had just got two
	}
	c := r.dial()
	fmt.Fprintf(c, "POST %s?wait=60s&max=2 HTTP/1.1\r\nHost: x\r\n\r\n", pullPath)
	eventually(t, "the pull waits", func() bool { r.mu.Lock(); defer r.mu.Unlock(); return r.pulls == 1 })
	defer c.Close()
	if err := leave(c); err != nil {
		t.Fatal(err)
	}
	<-ended
	released := func() int { r.mu.Lock(); defer r.mu.Unlock(); return r.released }
	eventually(t, "both are given back", func() bool { return len(r.gaveBack()) == 2 && r.book.InFlight() == 0 && released() >= 2 })
	for i, seq := range []uint64{5, 7} {
		if got := r.gaveBack()[i]; got.seq != seq || got.counts != broker.NotAnAttempt {
			t.Errorf("given back: %+v, want %d, not an attempt", got, seq)
		}
	}
	if n := released(); n != 2 {
		t.Errorf("%d slots released", n)
	}
}

// A client that stops reading in the middle of a large answer: the answer was not written, and everything goes back.
func TestClientStopsReading(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Limits.WriteTimeout = 100 * time.Millisecond })
	var msgs []*broker.Message
	for i := range 40 {
		m := message(uint64(i + 1))
		m.Data = []byte(strings.Repeat("x", 100_000))
		msgs = append(msgs, m)
	}
	r.add(msgs...)
	c := r.dial()
	defer c.Close()
	fmt.Fprintf(c, "POST %s?max=100 HTTP/1.1\r\nHost: x\r\n\r\n", pullPath)
	eventually(t, "all are given back", func() bool { return len(r.gaveBack()) == 40 })
	for i, got := range r.gaveBack() {
		if got.seq != uint64(i+1) || got.counts != broker.NotAnAttempt {
			t.Fatalf("return %d: %+v", i, got)
		}
	}
}

// Written, and then lost: that counts.
func TestLossAfterTheAnswerCounts(t *testing.T) {
	t.Parallel() // it waits for a second
	r := newRig(t)
	r.add(message(1))
	if ds := lines(t, r.call("POST", pullPath+"?lease=1s", "")); len(ds) != 1 { // long enough for the answer to be written
		t.Fatal("nothing came")
	}
	eventually(t, "the lease is over", func() bool { return len(r.gaveBack()) == 1 })
	if got := r.gaveBack()[0]; got.counts != broker.AnAttempt {
		t.Errorf("%+v", got)
	}
}

// An answer that is too large to keep is sent in pieces, and is whole.
func TestLargeAnswers(t *testing.T) {
	for _, format := range []string{api.TypeNDJSON, api.TypeFrames} {
		r := newRig(t)
		for i := range 30 {
			m := message(uint64(i + 1))
			m.Data = []byte(strings.Repeat(fmt.Sprint(i%10), 200_000))
			r.add(m)
		}
		a := r.call("POST", pullPath+"?max=30", "", "Accept", format)
		if a.ContentLength != -1 || a.Header.Get("Content-Type") != format {
			t.Errorf("%v", a.Header)
		}
		var payloads [][]byte
		if format == api.TypeFrames {
			for rest := []byte(a.body); len(rest) > 0; {
				_, p := openFrame(t, &rest)
				payloads = append(payloads, p)
			}
		} else {
			for _, d := range lines(t, a) {
				payloads = append(payloads, d.Payload())
			}
		}
		if len(payloads) != 30 {
			t.Fatalf("%d of 30", len(payloads))
		}
		for i, p := range payloads {
			if string(p) != string(r.payload(i)) {
				t.Fatalf("payload %d is another", i)
			}
		}
		eventually(t, "all count as written", func() bool { return r.book.Stats().Live == 30 && len(r.gaveBack()) == 0 })
	}
}

func (r *rig) payload(i int) []byte { return []byte(strings.Repeat(fmt.Sprint(i%10), 200_000)) }

// The connection can be used again after every kind of answer.
func TestKeepAlive(t *testing.T) {
	r := newRig(t)
	c := r.dial()
	defer c.Close()
	in := bufio.NewReader(c)
	for _, q := range []string{
		"POST " + pullPath + " HTTP/1.1\r\nHost: x\r\n\r\n",
		"POST " + pullPath + "?max=x HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n[]",
		"POST /nope HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nabcde",
		"POST " + batchPath + " HTTP/1.1\r\nHost: x\r\nContent-Length: 13\r\n\r\n{\"data\":\"x\"}\n",
		"POST " + ordersPath + " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
		"GET /v1/status HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		if _, err := io.WriteString(c, q); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatalf("after %.40q: %v", q, err)
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil || res.Close {
			t.Fatalf("after %.40q: %v, close %v", q, err, res.Close)
		}
	}
}

// What JetStream did not confirm is settled again as long as the pull waits, and told when it ends without that.
func TestSettlementsOfAPullAreTriedAgain(t *testing.T) {
	r := newRig(t)
	r.add(message(1), message(2))
	ds := lines(t, r.call("POST", pullPath+"?max=2", ""))
	var tries atomic.Int32
	r.finish = func(m *broker.Message) broker.Finish {
		if m.Seq == 2 || tries.Add(1) > 2 {
			return broker.Finished
		}
		return broker.FinishUnknown
	}
	acks := fmt.Sprintf(`[{"token":%q,"result":"ack"},{"token":%q,"result":"ack"}]`, ds[0].Token, ds[1].Token)
	if a := r.call("POST", pullPath+"?wait=2s", acks); a.StatusCode != 204 || tries.Load() != 3 {
		t.Errorf("%d %s after %d tries, want 204 after 3", a.StatusCode, a.body, tries.Load())
	}

	r.finish = func(*broker.Message) broker.Finish { return broker.FinishUnknown }
	for i, c := range []struct {
		query string
		add   bool
	}{
		{"?wait=150ms", false}, // it ends with the wait
		{"", false},
		{"?wait=1m", true}, // a message is not held back for it
	} {
		r.add(message(uint64(10 + i)))
		d := lines(t, r.call("POST", pullPath, ""))[0]
		if c.add {
			r.add(message(4))
		}
		began := time.Now()
		a := r.call("POST", pullPath+c.query, fmt.Sprintf(`[{"token":%q,"result":"ack"}]`, d.Token))
		first, rest, _ := strings.Cut(a.body, "\n")
		want := fmt.Sprintf(`{"settle_failed":[{"token":%q,"status":"unavailable"}]}`, d.Token)
		if a.StatusCode != 200 || first != want || (rest != "") != c.add || time.Since(began) > 10*time.Second {
			t.Errorf("%q: %d %s after %v", c.query, a.StatusCode, a.body, time.Since(began))
		}
	}
}
