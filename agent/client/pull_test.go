package client_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/client"
	"github.com/fairlead/fairlead/agent/client/clienttest"
)

func TestBothFormatsBringTheSame(t *testing.T) {
	payloads := []string{"plain", "", "ü\u2028\"\\", "\xff\x00binary", "{\"a\":1}\n"}
	var byFormat [2][]string
	for _, format := range []client.Format{client.Frames, client.NDJSON} {
		a := clienttest.New(t)
		c, ctx := connect(t, a)
		for i, payload := range payloads {
			if _, err := c.Publish(ctx, "default", client.Message{
				Data: []byte(payload), Key: "te\"nant ü", ID: fmt.Sprint(i), Priority: "0", Headers: map[string]string{"X": "y"},
			}); err != nil {
				t.Fatal(err)
			}
		}
		got, err := c.Pull(ctx, client.PullRequest{Capsule: "default", Max: 64, Lease: time.Hour, Format: format})
		if err != nil {
			t.Fatal(err)
		}
		for i := range got.Deliveries {
			d := &got.Deliveries[i]
			if d.Key != "te\"nant ü" || d.Priority != 0 || d.Attempt != 1 || d.Seq != uint64(i+1) || d.Token == "" ||
				d.Headers["x"] != "y" || d.EnqueuedAt.IsZero() || time.Until(d.Deadline) < 50*time.Minute {
				t.Errorf("delivery %d: %+v", i, d)
			}
			byFormat[format] = append(byFormat[format], string(d.Payload()))
		}
	}
	if !reflect.DeepEqual(byFormat[0], payloads) || !reflect.DeepEqual(byFormat[1], payloads) {
		t.Errorf("frames %q\nndjson %q\nwant   %q", byFormat[0], byFormat[1], payloads)
	}
}

func TestPullIsEmptyWhenNothingWaits(t *testing.T) {
	a := clienttest.New(t)
	c, ctx := connect(t, a)
	got, err := c.Pull(ctx, client.PullRequest{Capsule: "default"})
	if err != nil || len(got.Deliveries) != 0 || got.Draining {
		t.Fatalf("got %+v, %v", got, err)
	}
	if d, err := c.Next(ctx, "default", 0, 0); d != nil || err != nil {
		t.Fatalf("got %+v, %v", d, err)
	}
	a.Drain()
	if got, err := c.Pull(ctx, client.PullRequest{Capsule: "default", Wait: time.Hour}); err != nil || !got.Draining {
		t.Fatalf("got %+v, %v; want draining", got, err)
	}
}

func TestSettlementsRideInTheNextPull(t *testing.T) {
	for _, format := range []client.Format{client.Frames, client.NDJSON} {
		a := clienttest.New(t)
		c, ctx := connect(t, a)
		a.Put(0, "a", "1")
		a.Put(0, "a", "2")
		first, err := c.Next(ctx, "default", 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.Pull(ctx, client.PullRequest{Capsule: "default", Max: 5, Format: format, Settle: []api.Settlement{
			{Token: first.Token, Result: api.Ack},
			{Token: "foreign \"token\" ü", Result: api.Nack, Delay: "5s", Reason: "line\nbreak \xff"},
		}})
		if err != nil {
			t.Fatal(err)
		}
		want := []api.SettleResult{{Token: "foreign \"token\" ü", Status: api.StatusUnknown}}
		if !reflect.DeepEqual(got.SettleFailed, want) || len(got.Deliveries) != 1 || string(got.Deliveries[0].Payload()) != "2" {
			t.Errorf("got %+v", got)
		}
		// Failed settlements are told even when no message follows.
		got, err = c.Pull(ctx, client.PullRequest{Capsule: "default", Format: format, Settle: []api.Settlement{{Token: first.Token, Result: api.Ack}}})
		if err != nil || len(got.Deliveries) != 0 || len(got.SettleFailed) != 1 || got.SettleFailed[0].Status != api.StatusAlreadySettled {
			t.Errorf("got %+v, %v", got, err)
		}
	}
}

func TestSettle(t *testing.T) {
	a := clienttest.New(t)
	c, ctx := connect(t, a)
	a.Put(0, "a", "1")
	d, err := c.Next(ctx, "default", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	sent := []api.Settlement{
		{Token: d.Token, Result: api.Extend, Lease: "10s"},
		{Token: d.Token, Result: api.Ack},
		{Token: d.Token, Result: api.Ack},
		{Token: "x", Result: api.Reject, Reason: "no"},
	}
	got, err := c.Settle(ctx, sent)
	want := []api.SettleResult{
		{Token: d.Token, Status: api.StatusOK}, {Token: d.Token, Status: api.StatusOK},
		{Token: d.Token, Status: api.StatusAlreadySettled}, {Token: "x", Status: api.StatusUnknown},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("got %+v, %v", got, err)
	}
	if !reflect.DeepEqual(a.Settled(), sent) {
		t.Errorf("the agent read %+v", a.Settled())
	}
	if none, err := c.Settle(ctx, nil); none != nil || err != nil {
		t.Errorf("nothing to settle: %v, %v", none, err)
	}
}

func TestSettleWithTooFewResultsIsNotTrusted(t *testing.T) {
	c, ctx := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"results":[]}`)) })
	if _, err := c.Settle(ctx, []api.Settlement{{Token: "a", Result: api.Ack}}); !errors.Is(err, client.ErrConnectionLost) {
		t.Fatalf("got %v", err)
	}
}

// frame builds one frame with lengths that may lie.
func frame(length, metaLength uint32, rest string) []byte {
	b := binary.BigEndian.AppendUint32(nil, length)
	return append(binary.BigEndian.AppendUint32(b, metaLength), rest...)
}

func TestFramesThatLie(t *testing.T) {
	for name, body := range map[string][]byte{
		"empty object":          frame(6, 2, "{}"),
		"no token":              frame(15, 11, `{"queue":1}`),
		"short head":            {0, 0, 0},
		"length under 4":        frame(3, 0, ""),
		"length past the end":   frame(1<<31, 2, "{}"),
		"all ones":              frame(1<<32-1, 1<<32-1, "{}"),
		"metadata past the end": frame(6, 3, "{}"),
		"metadata is all ones":  frame(6, 1<<32-1, "{}"),
		"not JSON":              frame(6, 2, "xx"),
		"good, then cut off":    append(frame(19, 15, `{"token":"a12"}`), 0, 0, 0, 9),
	} {
		t.Run(name, func(t *testing.T) {
			c, ctx := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", api.TypeFrames)
				_, _ = w.Write(body)
			})
			got, err := c.Pull(ctx, client.PullRequest{Capsule: "c"})
			if !errors.Is(err, client.ErrConnectionLost) {
				t.Fatalf("got %+v, %v; want an error", got, err)
			}
		})
	}
}

func TestPullAsksForWhatItWasTold(t *testing.T) {
	var got string
	c, ctx := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.URL.RequestURI()
		w.WriteHeader(http.StatusNoContent)
	})
	if _, err := c.Pull(ctx, client.PullRequest{
		Capsule: "a/b", Max: 64, Wait: 1500 * time.Millisecond, Lease: time.Minute, Session: "s&=1",
	}); err != nil {
		t.Fatal(err)
	}
	if want := "/v1/capsules/a%2Fb/pull?max=64&wait=1.5s&lease=1m0s&session=s%26%3D1"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestSession(t *testing.T) {
	a := clienttest.New(t)
	c, ctx := connect(t, a)
	s, err := c.Session(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		a.Put(1, "k", "x")
	}
	got, err := c.Pull(ctx, client.PullRequest{Capsule: "default", Max: 3, Session: s.ID})
	if err != nil || len(got.Deliveries) != 3 {
		t.Fatalf("%+v, %v", got, err)
	}
	a.Revoke(got.Deliveries[0].Token, "expired")
	a.Drain()
	for _, want := range []api.Event{{Event: "revoked", Token: got.Deliveries[0].Token, Reason: "expired"}, {Event: "draining"}} {
		if e, err := s.Next(); err != nil || e != want {
			t.Fatalf("got %+v, %v; want %+v", e, err, want)
		}
	}
	s.Close()
	s.Close()
	a.Await(t, "what the session held", func() bool { waiting, _ := a.Waiting(); return waiting == 3 })
}

func TestSessionEndsWithItsAgent(t *testing.T) {
	a := clienttest.New(t)
	c, ctx := connect(t, a)
	s, err := c.Session(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ended := make(chan error, 1)
	go func() { _, err := s.Next(); ended <- err }()
	a.Stop()
	if err := <-ended; !errors.Is(err, client.ErrConnectionLost) {
		t.Fatalf("got %v, want ErrConnectionLost", err)
	}
}

func TestReads(t *testing.T) {
	a := clienttest.New(t)
	c, ctx := connect(t, a)
	for i := range 5 {
		a.Put(i%3, "k", string(rune('a'+i)))
	}
	a.Put(0, "", "unkeyed")
	status, err := c.Status(ctx)
	if err != nil || status.Agent != "test-1" || len(status.Capsules) != 1 {
		t.Errorf("status %+v, %v", status, err)
	}
	queues, err := c.Queues(ctx)
	if err != nil || len(queues.Queues) != 1 || queues.Queues[0].Waiting != 6 {
		t.Errorf("queues %+v, %v", queues, err)
	}
	queue, err := c.Queue(ctx, "default", 1)
	if err != nil || queue.LevelStats[0].Waiting != 3 || len(queue.Keys) != 1 || queue.KeysTotal != 2 {
		t.Errorf("queue %+v, %v", queue, err)
	}
	var answered *api.Error
	if _, err := c.Queue(ctx, "none", 0); !errors.As(err, &answered) || answered.Code != api.CodeUnknownQueue {
		t.Errorf("got %v", err)
	}
	unkeyed := ""
	peeked, err := c.Peek(ctx, client.PeekRequest{Queue: "default", Key: &unkeyed})
	if err != nil || len(peeked.Messages) != 1 || *peeked.Messages[0].Data != "unkeyed" {
		t.Errorf("peek %+v, %v", peeked, err)
	}
	peeked, err = c.Peek(ctx, client.PeekRequest{Queue: "default", Max: 1, Priority: "low"})
	if err != nil || len(peeked.Messages) != 1 || *peeked.Messages[0].Data != "c" {
		t.Errorf("peek %+v, %v", peeked, err)
	}
}

func TestDrain(t *testing.T) {
	a := clienttest.New(t)
	c, ctx := connect(t, a)
	a.Put(0, "k", "x")
	d, err := c.Next(ctx, "default", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if done, err := c.Drain(ctx, 0); done || err != nil {
		t.Fatalf("one is in flight: %v, %v", done, err)
	}
	if _, err := c.Settle(ctx, []api.Settlement{{Token: d.Token, Result: api.Ack}}); err != nil {
		t.Fatal(err)
	}
	if done, err := c.Drain(ctx, time.Minute); !done || err != nil {
		t.Fatalf("nothing is in flight: %v, %v", done, err)
	}
}

func BenchmarkPull64(b *testing.B) {
	body := bytes.Buffer{}
	payload := bytes.Repeat([]byte("x"), 256)
	for range 64 {
		meta := `{"token":"0123456789abcdef","queue":"orders","priority":0,"key":"acme","seq":17,"attempt":1,` +
			`"enqueued_at":"2026-11-29T12:00:00.123Z","deadline":"2026-11-29T12:01:00Z","fence":0,"headers":{}}`
		body.Write(frame(uint32(4+len(meta)+len(payload)), uint32(len(meta)), meta))
		body.Write(payload)
	}
	benchmarkPull(b, body.Bytes())
}
