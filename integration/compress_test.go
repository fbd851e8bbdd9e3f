package integration

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/fairlead/fairlead/agent/api"
)

const compressedQueue = `
queues:
  - {name: jobs, compress: {algorithm: gzip, min_bytes: 1KiB}}
  - {name: plain, limits: {max_payload: 64KiB}}
capsules:
  - {name: main, queues: [jobs], concurrency: 100}
  - {name: other, queues: [plain], concurrency: 100}
`

func gzipped(t *testing.T, data string) string {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write([]byte(data)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// stored is what the stream of a queue holds at a sequence.
func (s *natsServer) stored(queue string, seq uint64) *jetstream.RawStreamMsg {
	s.t.Helper()
	js, err := jetstream.New(s.connect())
	if err != nil {
		s.t.Fatal(err)
	}
	stream, err := js.Stream(s.t.Context(), "FL_Q_"+queue)
	if err != nil {
		s.t.Fatal(err)
	}
	m, err := stream.GetMsg(s.t.Context(), seq)
	if err != nil {
		s.t.Fatal(err)
	}
	return m
}

// Payloads of min_bytes or more rest compressed, and so does one whose publisher asks for it. The app sees what was
// published, byte for byte, on every path; headers, content type and trace context arrive as they were sent.
func TestPayloadsRestCompressedAndArriveAsPublished(t *testing.T) {
	t.Parallel()
	server := startNATS(t)
	a := startAgent(t, settings{nats: server.url, yaml: compressedQueue})
	noise := make([]byte, 4096)
	for i := range noise {
		noise[i] = byte(rand.Uint32())
	}
	for name, c := range map[string]struct {
		queue, capsule, data string
		headers              []string
		compressed           bool
	}{
		"of min_bytes":    {"jobs", "main", strings.Repeat("é", 512), nil, true},
		"a byte below":    {"jobs", "main", strings.Repeat("a", 1023), nil, false},
		"asked for":       {"jobs", "main", strings.Repeat("a", 1023), []string{api.HeaderCompress, "gzip"}, true},
		"binary":          {"jobs", "main", strings.Repeat("\x00\xff\xfe", 9000), nil, true},
		"noise":           {"jobs", "main", string(noise), []string{api.HeaderCompress, "gzip"}, false},
		"gzip already":    {"jobs", "main", gzipped(t, string(noise)), []string{"Content-Encoding", "gzip"}, false},
		"another queue":   {"plain", "other", strings.Repeat("a", 1024), []string{api.HeaderCompress, "gzip"}, true},
		"nobody wants it": {"plain", "other", strings.Repeat("a", 60<<10), nil, false},
	} {
		headers := append([]string{
			"Content-Type", "image/png", "traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate", "a=1",
			api.HeaderPrefix + "X-Shop", "17",
		}, c.headers...)
		m := server.stored(c.queue, a.publish(c.queue, c.data, headers...).Seq)
		equal(t, name+": compressed", m.Header.Get("Content-Encoding") == "gzip", c.compressed)
		equal(t, name+": smaller", len(m.Data) < len(c.data), c.compressed)

		var peeked api.PeekList
		a.get("/v1/queues/"+c.queue+"/peek", &peeked)
		if len(peeked.Messages) != 1 {
			t.Fatalf("%s: %d messages are waiting", name, len(peeked.Messages))
		}
		look := peeked.Messages[0]
		equal(t, name+": peeked", string((&api.Delivery{Data: look.Data, DataBase64: look.DataBase64}).Payload()), c.data)

		app := a.app(c.capsule)
		d := app.pull(1, patience)[0]
		equal(t, name+": pulled", string(d.Payload()), c.data)
		equal(t, name+": content type", d.ContentType, "image/png")
		equal(t, name+": headers", fmt.Sprint(d.Headers), "map[traceparent:00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01 tracestate:a=1 x-shop:17]")
		equal(t, name+": nack", a.say(d, api.Settlement{Result: api.Nack, Delay: "0s"}), api.StatusOK)

		answer, body, err := a.call(a.http, "POST", "/v1/capsules/"+c.capsule+"/next?wait=10s", nil)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, name+": next, after a retry", string(body), c.data)
		equal(t, name+": content encoding of next", answer.Header.Get("Content-Encoding"), "")
		equal(t, name+": trace parent of next", answer.Header.Get("traceparent"), d.Headers["traceparent"])
		if _, _, err := a.call(a.http, "POST", "/v1/messages/"+answer.Header.Get(api.HeaderToken)+"/ack", nil); err != nil {
			t.Fatal(err)
		}
	}
	// Lines of a batch follow their queue.
	text := strings.Repeat("batch ", 1000)
	results := a.batchText("jobs", fmt.Appendf(nil, "{\"data\":%q}\n{\"data\":\"short\"}\n", text))
	equal(t, "batch: a long line is compressed", server.stored("jobs", results[0].Seq).Header.Get("Content-Encoding"), "gzip")
	equal(t, "batch: a short one is not", server.stored("jobs", results[1].Seq).Header.Get("Content-Encoding"), "")
	equal(t, "batch", strings.Join(data(a.app("main").take(2, 2)), "|"), text+"|short")
	// max_payload is of the body as published.
	if _, refused := a.tryPublish("plain", strings.Repeat("a", 64<<10+1), api.HeaderCompress, "gzip"); refused == nil || refused.Code != api.CodePayloadTooLarge {
		t.Errorf("above max_payload, compressed: %v, want %s", refused, api.CodePayloadTooLarge)
	}
}

// A payload that is damaged, or expands without end, is never delivered, and nothing that waits with it is held up.
func TestHostileCompressedPayloadsAreNotDelivered(t *testing.T) {
	t.Parallel()
	server := startNATS(t)
	a := startAgent(t, settings{nats: server.url, yaml: compressedQueue})
	publish := server.publisher()
	bomb := gzipped(t, strings.Repeat("\x00", 200<<20))
	for range 3 {
		injected(t, "bomb", "200 MiB of zeros")
		publish("fl.q.jobs.p0._", bomb, "Content-Encoding", "gzip")
		publish("fl.q.plain.p0._", gzipped(t, strings.Repeat("a", 64<<10+1)), "Content-Encoding", "gzip")
		publish("fl.q.plain.p0._", "no gzip at all", "Content-Encoding", "gzip")
	}
	publish("fl.q.jobs.p0._", gzipped(t, "good"), "Content-Encoding", "gzip")
	publish("fl.q.plain.p0._", gzipped(t, strings.Repeat("a", 64<<10)), "Content-Encoding", "gzip")
	equal(t, "behind bombs", strings.Join(data(a.app("main").pull(10, patience)), " "), "good")
	equal(t, "behind damaged ones", strings.Join(data(a.app("other").pull(10, patience)), " "), strings.Repeat("a", 64<<10))
	if size := residentMiB(t, a); size > 600 { // three bombs would be as large
		t.Errorf("the agent has %d MiB resident", size)
	}
}
