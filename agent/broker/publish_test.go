package broker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/broker/names"
	"github.com/fairlead/fairlead/config"
)

// What is published comes out as it was sent, whatever its headers are.
func TestPublishRoundTrip(t *testing.T) {
	r := newRig(t, nil)
	many := map[string]string{}
	for i := range 200 {
		many[fmt.Sprintf("x-%d", i)] = strings.Repeat("v", i)
	}
	for i, p := range []Publication{
		{Data: []byte("plain")},
		{},
		{Data: []byte{0, 1, 0xff, '\r', '\n'}, ContentType: "application/octet-stream"},
		{Data: []byte("x"), Headers: map[string]string{"x-utf8": "Größe 🙂 שלום", "x-empty": "", "x-colon": "a: b: c", "traceparent": "00-1-2-01"}},
		{Data: []byte("x"), Headers: many, Weight: 3140, ID: "id: with=odd/bytes é"},
		{Data: []byte(strings.Repeat("big ", 100_000)), Weight: 1},
	} {
		p.Key = "acme"
		before := time.Now().Add(-time.Second)
		receipt, err := r.Publish(within(t), r.q, p)
		if err != nil || receipt.Duplicate || receipt.Level != 0 {
			t.Fatalf("%d: %+v, %v", i, receipt, err)
		}
		a := r.asker()
		m := a.take(a.at(0, "acme"), 1)[0]
		if string(m.Data) != string(p.Data) || m.Seq != receipt.Seq || m.Key != "acme" || m.Weight != p.Weight || m.ID != p.ID ||
			m.ContentType != p.ContentType || m.Attempt != 1 || m.Level != 0 || m.Queue != "orders" || m.EnqueuedAt.Before(before) {
			t.Errorf("%d: sent %.200v, got %.200v", i, p, m)
		}
		if !maps.Equal(m.Headers, p.Headers) {
			t.Errorf("%d: headers %v came as %v", i, p.Headers, m.Headers)
		}
		if r.finished(m) != Finished {
			t.Fatal("not finished")
		}
	}
}

// Each hostile key is a tenant of its own: its messages come from its lane, with the key as it was.
func TestPublishHostileKeys(t *testing.T) {
	r := newRig(t, nil)
	keys := []string{
		"", "_", ".", "..", "a.b", "*", ">", "a.>", " ", "\t", "\r\n", "\x00", "$JS.API", "_INBOX", "\u00e9", "e\u0301", "שלום", "\u200b", "🙂",
		"=5F", "=2E", "-", strings.Repeat("k", 128),
	}
	for _, key := range keys {
		r.publish(0, key, "of "+key)
	}
	s, err := r.Sweep(within(t), r.layout())
	if err != nil || len(s.Odd) != 0 || len(s.Lanes) != len(keys) {
		t.Fatalf("the sweep found %d lanes, and %q odd, %v", len(s.Lanes), s.Odd, err)
	}
	a := r.asker()
	for _, key := range keys {
		answer := a.ask(a.at(0, key), 10)
		if len(answer.Messages) != 1 || string(answer.Messages[0].Data) != "of "+key || answer.Messages[0].Key != key {
			t.Errorf("the lane of %q gave %s, %v", key, payloads(answer.Messages), answer.Err)
		}
	}
	for _, key := range []string{strings.Repeat("k", 129), strings.Repeat("🙂", 1250), "\xff\xfe"} {
		if _, err := r.Publish(within(t), r.q, Publication{Key: key}); !errors.Is(err, names.ErrInvalidKey) {
			t.Errorf("%.20q: %v", key, err)
		}
	}
	if !r.Connected() {
		t.Error("the connection did not survive")
	}
}

func TestPublishLevels(t *testing.T) {
	r := newRig(t, nil)
	for level, want := range map[int]int{-1: 1, 0: 0, 2: 2} {
		if receipt := r.publish(level, "", "x"); receipt.Level != want {
			t.Errorf("level %d: told %d", level, receipt.Level)
		}
	}
	if got := fmt.Sprint(r.subjectsNow()); got != "[d._×1 p0._×1 p2._×1]" {
		t.Errorf("the queue holds %s", got)
	}
}

// An id is remembered for its tenant alone, over all levels.
func TestPublishDuplicates(t *testing.T) {
	r := newRig(t, nil)
	send := func(level int, key, id string) Receipt {
		t.Helper()
		receipt, err := r.Publish(within(t), r.q, Publication{Level: level, Key: key, ID: id, Data: []byte("x")})
		if err != nil {
			t.Fatal(err)
		}
		return receipt
	}
	first := send(0, "a", "1")
	if again := send(0, "a", "1"); !again.Duplicate || again.Seq != first.Seq {
		t.Errorf("the same id again: %+v, first %+v", again, first)
	}
	if again := send(2, "a", "1"); !again.Duplicate || again.Level != 0 {
		t.Errorf("the same id at another level: %+v, want the level of the first", again)
	}
	for _, other := range []struct{ key, id string }{{"b", "1"}, {"", "1"}, {"a", "2"}, {"a:1", ""}, {"a", ""}, {"a", ""}, {"a", ":1"}, {"a:", "1"}} {
		if receipt := send(0, other.key, other.id); receipt.Duplicate {
			t.Errorf("%q of %q was swallowed: %+v", other.id, other.key, receipt)
		}
	}
	if n := r.stored(); n != 9 {
		t.Errorf("%d are stored, want 9", n)
	}
	if p, d := r.metrics.Published.Load(), r.metrics.Duplicates.Load(); p != 11 || d != 2 {
		t.Errorf("counted %d published and %d duplicates", p, d)
	}
}

func TestPublishFull(t *testing.T) {
	for reason, limits := range map[string]config.Limits{
		"max_messages":         {MaxMessages: 3},
		"max_bytes":            {MaxBytes: 1500},
		"max_messages_per_key": {MaxMessagesPerKey: 3},
	} {
		t.Run(reason, func(t *testing.T) {
			r := newRig(t, func(q *config.Queue) { q.Limits = limits })
			var err error
			accepted := uint64(0)
			for accepted < 100 {
				if _, err = r.Publish(within(t), r.q, Publication{Level: 0, Key: "a", Data: make([]byte, 300)}); err != nil {
					break
				}
				accepted++
			}
			var full *FullError
			if !errors.Is(err, ErrQueueFull) || !errors.As(err, &full) || full.Reason != reason {
				t.Fatalf("refused with %v", err)
			}
			if accepted != 3 || r.stored() != accepted {
				t.Errorf("%d were accepted, %d are stored", accepted, r.stored())
			}
			_, err = r.Publish(within(t), r.q, Publication{Level: 0, Key: "b"})
			if another := err == nil; another != (reason == "max_messages_per_key") && reason != "max_bytes" {
				t.Errorf("another tenant: %v", err)
			}
			a := r.asker()
			r.finished(a.take(a.at(0, "a"), 1)[0])
			if _, err := r.Publish(within(t), r.q, Publication{Level: 0, Key: "a", Data: make([]byte, 300)}); err != nil && reason != "max_bytes" {
				t.Errorf("with room again: %v", err)
			}
		})
	}
}

// Publishers that arrive together never get past the limit.
func TestPublishFullTogether(t *testing.T) {
	r := newRig(t, func(q *config.Queue) { q.Limits.MaxMessages = 50 })
	results := make(chan error, 200)
	for range 200 {
		go func() {
			_, err := r.Publish(within(t), r.q, Publication{Data: []byte("x")})
			results <- err
		}()
	}
	accepted := uint64(0)
	for range 200 {
		if err := wait(t, results, "a publish"); err == nil {
			accepted++
		} else if !errors.Is(err, ErrQueueFull) {
			t.Error(err)
		}
	}
	if accepted != 50 || r.stored() != 50 {
		t.Errorf("%d were accepted and %d are stored, of 50", accepted, r.stored())
	}
}

func TestPublishTooLarge(t *testing.T) {
	s := newOutside(t)
	r := s.rig(nil) // a server with NATS' usual limit of 1 MiB
	limit := r.MaxPayload()
	if _, err := r.Publish(within(t), r.q, Publication{Data: make([]byte, limit+1)}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("payload over the limit: %v", err)
	}
	if _, err := r.Publish(within(t), r.q, Publication{Data: make([]byte, limit-10), Headers: map[string]string{"x": strings.Repeat("y", 20)}}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("over the limit with headers: %v", err)
	}
	if _, err := r.Publish(within(t), r.q, Publication{Data: make([]byte, limit-500)}); err != nil {
		t.Errorf("under the limit: %v", err)
	}
	if !r.Connected() || r.Connection().Reconnects != 0 {
		t.Error("the connection did not survive")
	}
}

func TestPublishUnavailable(t *testing.T) {
	r := newRig(t, nil)
	missing := definition(func(q *config.Queue) { q.Name = "missing" })
	if _, err := r.Publish(within(t), missing, Publication{}); !errors.Is(err, ErrNobody) {
		t.Errorf("no stream: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := r.Publish(ctx, r.q, Publication{}); !errors.Is(err, ErrOutcomeUnknown) {
		t.Errorf("given up: %v", err)
	}
	r.Close()
	if _, err := r.Publish(within(t), r.q, Publication{}); !errors.Is(err, ErrClosed) && !errors.Is(err, ErrUnavailable) {
		t.Errorf("closed: %v", err)
	}
}

// A raw publisher's poison affects its own message alone, and is delivered.
func TestPoison(t *testing.T) {
	r := newRig(t, nil)
	for _, weight := range []string{"0", "-1", "NaN", "Inf", "1e9", "abc", ""} {
		r.raw("p0.a", "x", "Fairlead-Weight", weight, "Fairlead-Unknown", "1", "X-Up", "y")
	}
	a := r.asker()
	for _, m := range a.take(a.at(0, "a"), 7) {
		if m.Weight != 0 || len(m.Headers) != 1 || m.Headers["x-up"] != "y" {
			t.Errorf("%+v", m)
		}
	}
	if n := r.metrics.PoisonWeights.Load(); n != 7 {
		t.Errorf("counted %d poison weights", n)
	}
}

// A write that is not answered is repeated under the same id only as long as JetStream remembers that: with a short dedup window
// a repetition could be stored beside the first.
func TestAWriteIsRepeatedInsideTheDedupWindow(t *testing.T) {
	for _, tt := range []struct {
		window time.Duration
		later  time.Duration // 0 is at once
		want   int
	}{{3 * time.Second, 0, 1}, {3 * time.Second, time.Minute, 1}, {5900 * time.Millisecond, 0, 2}, {time.Minute, 0, 3}} {
		t.Run(fmt.Sprint(tt.window, tt.later), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(q *config.Queue) { q.DedupWindow = tt.window })
			r.Definition = func(string) (config.Queue, bool) { return r.q, true }
			for _, stream := range []string{r.names.Stream(r.q.Name), r.names.DelayStream(r.q.Name)} {
				if err := r.wire.JS.DeleteStream(within(t), stream); err != nil {
					t.Fatal(err)
				}
			}
			silent, err := r.wire.NC.SubscribeSync("fl.>") // takes, and does not answer
			if err != nil {
				t.Fatal(err)
			}
			p := Publication{Level: 0, ID: "1"}
			if tt.later > 0 {
				p.At = time.Now().Add(tt.later)
			}
			if _, err := r.Publish(within(t), r.q, p); !errors.Is(err, ErrOutcomeUnknown) {
				t.Errorf("without an answer: %v", err)
			}
			if n, _, err := silent.Pending(); err != nil || n != tt.want {
				t.Errorf("it was written %d times, %v; want %d", n, err, tt.want)
			}
		})
	}
}
