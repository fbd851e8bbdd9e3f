package integration

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fairlead/fairlead/agent/api"
)

// Everything a publisher says arrives as it was said.
func TestPayloadAndMetadataArriveAsSent(t *testing.T) {
	t.Parallel()
	a := startAgent(t, settings{yaml: threeLevels})
	everyByte := make([]byte, 256)
	for i := range everyByte {
		everyByte[i] = byte(i)
	}
	stored := a.publish("jobs", string(everyByte), api.HeaderPriority, "high", api.HeaderKey, "caf%C3%A9", api.HeaderID, "order 1",
		api.HeaderPrefix+"X-Shop", "17, 18", "Content-Type", "image/png", "tracestate", "a=1")
	equal(t, "queue", stored.Queue, "jobs")
	equal(t, "level", stored.Priority, 0)
	equal(t, "key", stored.Key, "café")
	d := a.app("main").take(1, 1)[0]
	equal(t, "payload", string(d.Payload()), string(everyByte))
	equal(t, "binary payloads travel in base64", d.Data == nil, true)
	equal(t, "key", d.Key, "café")
	equal(t, "id", d.ID, "order 1")
	equal(t, "sequence", d.Seq, stored.Seq)
	equal(t, "content type", d.ContentType, "image/png")
	equal(t, "header", d.Headers["x-shop"], "17, 18")
	equal(t, "trace state", d.Headers["tracestate"], "a=1")
	equal(t, "attempt", d.Attempt, 1)
	if d.EnqueuedAt.IsZero() || d.Deadline.Before(d.EnqueuedAt) {
		t.Errorf("enqueued at %v, deadline %v", d.EnqueuedAt, d.Deadline)
	}
	for _, text := range []string{"", "plain", "\u2028 \" \\ \x01 🚚", `{"a":1}`} {
		a.publish("jobs", text)
		got := a.app("main").take(1, 1)[0]
		equal(t, "text payload", string(got.Payload()), text)
		equal(t, "text travels as text", got.Data != nil, true)
	}
}

func TestBatchOneBadLineFailsAlone(t *testing.T) {
	t.Parallel()
	a := startAgent(t, settings{yaml: threeLevels})
	results := a.batchText("jobs", []byte(strings.Join([]string{
		`{"data":"text"}`,
		`{"data":{"a": 1},"priority":"high"}`,
		`{"data":[1,2],"priority":"0"}`,
		`{"data_base64":"AP8="}`,
		`{"data":"x","priority":7}`,
		`not json`,
		`{"data":"x","id":"same"}`,
		`{"data":"x","id":"same"}`,
		`{"data":"x","data_base64":"AP8="}`,
		`{"data":"with headers","headers":{"X-A":"1"},"content_type":"text/plain","key":"k","weight":2}`,
	}, "\n")))
	var got []string
	for _, r := range results {
		switch {
		case r.Error != nil:
			got = append(got, string(r.Error.Code))
		case r.Duplicate:
			got = append(got, "duplicate")
		case r.Seq > 0:
			got = append(got, "stored")
		}
	}
	want := []string{"stored", "stored", "stored", "stored", "priority_out_of_range", "bad_request", "stored", "duplicate", "bad_request", "stored"}
	if !slices.Equal(got, want) {
		t.Fatalf("results %q, want %q", got, want)
	}
	app := a.app("main")
	all := app.take(6, 6)
	equal(t, "JSON is stored as its text", string(all[0].Payload()), `{"a": 1}`)
	equal(t, "with the content type", all[0].ContentType, "application/json")
	equal(t, "base64 is decoded", string(all[3].Payload()), "\x00\xff")
	equal(t, "header", all[5].Headers["x-a"], "1")
	app.empty()
}

func TestIdsSuppressDuplicatesPerKey(t *testing.T) {
	t.Parallel()
	a := startAgent(t, settings{yaml: fairQueue})
	first := a.publish("jobs", "1", api.HeaderID, "id", api.HeaderKey, "a")
	equal(t, "first is a duplicate", first.Duplicate, false)
	equal(t, "again is a duplicate", a.publish("jobs", "2", api.HeaderID, "id", api.HeaderKey, "a").Duplicate, true)
	equal(t, "another tenant's is not", a.publish("jobs", "3", api.HeaderID, "id", api.HeaderKey, "b").Duplicate, false)
	equal(t, "an unkeyed one is not", a.publish("jobs", "4", api.HeaderID, "id").Duplicate, false)
	app := a.app("main")
	got := data(app.take(3, 3))
	slices.Sort(got)
	equal(t, "stored", strings.Join(got, ""), "134")
	// A message that was returned is not swallowed as its own duplicate.
	a.publish("jobs", "5", api.HeaderID, "again")
	d := app.pull(1, patience)[0]
	equal(t, "nack", a.say(d, api.Settlement{Result: api.Nack, Delay: "0s"}), api.StatusOK)
	equal(t, "retried", string(app.take(1, 1)[0].Payload()), "5")
	app.empty()
}

// N publishers at once never overshoot a limit, and what was refused was not stored.
func TestLimitsAreExact(t *testing.T) {
	t.Parallel()
	a := startAgent(t, settings{yaml: `
queues: [{name: jobs, fair_share: true, limits: {max_messages: 50, max_messages_per_key: 20, max_payload: 1KiB, overflow: reject}}]
capsules: [{name: main, queues: [jobs], concurrency: 100}]
`})
	var stored, full atomic.Int64
	var publishers sync.WaitGroup
	for p := range 10 {
		publishers.Go(func() {
			for i := range 10 {
				answer, text, err := a.call(a.http, "POST", "/v1/queues/jobs/messages", []byte("x"), api.HeaderKey, fmt.Sprintf("k%d", p%4))
				switch {
				case err != nil:
					t.Errorf("publish %d: %v", i, err)
				case answer.StatusCode == 201:
					stored.Add(1)
				case answer.StatusCode == 429:
					full.Add(1)
				default:
					t.Errorf("publish: %s %s", answer.Status, text)
				}
			}
		})
	}
	publishers.Wait()
	equal(t, "stored", stored.Load(), 50)
	equal(t, "refused", full.Load(), 50)
	_, refused := a.tryPublish("jobs", "x")
	if refused == nil || refused.Code != api.CodeQueueFull || refused.Reason != "max_messages" {
		t.Errorf("at the limit: %+v, want queue_full with reason max_messages", refused)
	}
	if _, refused := a.tryPublish("jobs", strings.Repeat("x", 1025)); refused == nil || refused.Code != api.CodePayloadTooLarge {
		t.Errorf("a payload of 1025 bytes: %v, want %s", refused, api.CodePayloadTooLarge)
	}
	app := a.app("main")
	byKey := count(app.take(50, 50))
	for key, n := range byKey {
		if n > 20 {
			t.Errorf("key %s has %d messages, the limit is 20", key, n)
		}
	}
	a.batch("jobs", notes(20, "x", note{Key: "k0"})...)
	if _, refused := a.tryPublish("jobs", "x", api.HeaderKey, "k0"); refused == nil || refused.Reason != "max_messages_per_key" {
		t.Errorf("the 21st of a key: %+v, want reason max_messages_per_key", refused)
	}
	a.publish("jobs", strings.Repeat("x", 1024), api.HeaderKey, "k1")
	app.take(21, 21)
}

func TestPeekAndStatusShowWhatWaits(t *testing.T) {
	t.Parallel()
	a := startAgent(t, settings{yaml: rawQueue})
	a.batch("jobs", notes(3, "h", note{Priority: 0, Key: "a"})...)
	a.batch("jobs", notes(4, "l", note{Priority: 2, Key: "b"})...)
	app := a.app("main")
	app.pull(1, patience)
	q := a.queue("jobs")
	equal(t, "levels", len(q.LevelStats), 3)
	equal(t, "name of level 2", q.LevelStats[2].Name, "low")
	equal(t, "waiting at level 0", q.LevelStats[0].Waiting, 2)
	equal(t, "in flight at level 0", q.LevelStats[0].InFlight, 1)
	equal(t, "waiting at level 2", q.LevelStats[2].Waiting, 4)
	equal(t, "largest key", q.Keys[0].Key, "b")
	var list api.QueueList
	a.get("/v1/queues", &list)
	equal(t, "queues", len(list.Queues), 1)
	equal(t, "waiting", list.Queues[0].Waiting, 6)
	var peeked api.PeekList
	a.get("/v1/queues/jobs/peek?max=10&priority=2&key=b", &peeked)
	equal(t, "peeked", len(peeked.Messages), 4)
	equal(t, "first peeked", *peeked.Messages[0].Data, "l0")
	equal(t, "in flight after a peek", a.queue("jobs").InFlight, 1)
	var s api.AgentStatus
	a.get("/v1/status", &s)
	equal(t, "state", s.State, api.StateActive)
	equal(t, "connected", s.Broker.Connected, true)
	equal(t, "embedded", s.Broker.Embedded, true)
}

func TestFrames(t *testing.T) {
	t.Parallel()
	a := startAgent(t, settings{yaml: threeLevels})
	want := []string{"", "text", "\x00\xff", strings.Repeat("long", 5000)}
	for _, payload := range want {
		a.publish("jobs", payload)
	}
	answer, body, err := a.call(a.http, "POST", "/v1/capsules/main/pull?max=10&wait=5s", []byte(`[{"token":"nope","result":"ack"}]`),
		"Accept", api.TypeFrames)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "content type", answer.Header.Get("Content-Type"), api.TypeFrames)
	var payloads []string
	for len(body) > 0 {
		rest := binary.BigEndian.Uint32(body)
		frame := body[4 : 4+rest]
		body = body[4+rest:]
		n := binary.BigEndian.Uint32(frame)
		var meta struct {
			api.Delivery
			api.SettleFailed
		}
		if err := json.Unmarshal(frame[4:4+n], &meta); err != nil {
			t.Fatal(err)
		}
		if meta.SettleFailed.SettleFailed != nil {
			equal(t, "payload of the frame that tells of failures", len(frame[4+n:]), 0)
			continue
		}
		equal(t, "queue", meta.Queue, "jobs")
		equal(t, "no data in the metadata", meta.Data == nil && meta.DataBase64 == nil, true)
		payloads = append(payloads, string(frame[4+n:]))
	}
	if !slices.Equal(payloads, want) {
		t.Errorf("%d payloads, want %d as they were sent", len(payloads), len(want))
	}
}

// The lines of a batch are stored in their order, so that arrival order inside a level is what the publisher wrote.
func TestABatchKeepsItsOrder(t *testing.T) {
	t.Parallel()
	a := startAgent(t, settings{yaml: threeLevels})
	const n = 1000
	a.batch("jobs", notes(n, "m", note{})...)
	for i, d := range a.app("main").take(n, 64) {
		if want := fmt.Sprintf("m%d", i); string(d.Payload()) != want {
			t.Fatalf("delivery %d is %s, want %s", i, d.Payload(), want)
		}
	}
}
