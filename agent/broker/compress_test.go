package broker

import (
	"bytes"
	"compress/gzip"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/fairlead/fairlead/agent/broker/wire"
	"github.com/fairlead/fairlead/agent/payload"
	"github.com/fairlead/fairlead/config"
)

func gzipFrom(min int64) func(*config.Queue) {
	return func(q *config.Queue) { q.Compress = &config.Compress{Algorithm: "gzip", MinBytes: min} }
}

// at reads what the stream holds.
func (r *rig) at(seq uint64) *wire.Stored {
	r.t.Helper()
	m, err := r.wire.Read(within(r.t), r.names.Stream(r.q.Name), wire.Look{Seq: seq})
	if err != nil || m == nil {
		r.t.Fatal(m, err)
	}
	return m
}

// What is stored compressed is what the queue or the publisher wants so, and what gets smaller by it.
func TestPayloadsRestCompressed(t *testing.T) {
	r := newRig(t, gzipFrom(1000))
	text := strings.Repeat("fairlead ", 200)
	noise := make([]byte, 5000)
	for i := range noise {
		noise[i] = byte(rand.Uint32())
	}
	a := r.asker()
	for name, tt := range map[string]struct {
		data     []byte
		compress bool
		want     bool
	}{
		"of min_bytes":       {[]byte(text[:1000]), false, true},
		"above":              {[]byte(text), false, true},
		"a byte below":       {[]byte(text[:999]), false, false},
		"below, and wanted":  {[]byte(text[:999]), true, true},
		"does not shrink":    {noise, true, false},
		"too short to help":  {[]byte("aaaaaaaaaaaaaaaaaaaaaa"), true, false},
		"nothing":            {nil, true, false},
		"gzip by itself":     {gzipped(t, noise), false, false},
		"a binary one":       {bytes.Repeat([]byte{0, 255}, 700), false, true},
		"bigger than a page": {bytes.Repeat([]byte("0123456789"), 50_000), false, true},
	} {
		receipt, err := r.Publish(within(t), r.q, Publication{
			Level: 1, Key: "a", Data: tt.data, Compress: tt.compress, ContentType: "text/plain",
			Headers: map[string]string{"traceparent": "00-1", "x-a": "1"},
		})
		if err != nil {
			t.Fatal(err)
		}
		s := r.at(receipt.Seq)
		if got := s.Header.Get("Content-Encoding") == "gzip"; got != tt.want || tt.want != (len(s.Data) < len(tt.data)) {
			t.Errorf("%s: compressed %v, %d bytes of %d, want %v", name, got, len(s.Data), len(tt.data), tt.want)
		}
		if found, err := r.Peek(within(t), r.q, Peek{Max: 1}); err != nil || len(found) != 1 || !bytes.Equal(found[0].Data, tt.data) {
			t.Errorf("%s: peek does not show what was published: %v", name, err)
		}
		m := a.take(a.at(1, "a"), 1)[0]
		got, err := m.Payload(0)
		if err != nil || !bytes.Equal(got, tt.data) || m.Compressed != tt.want {
			t.Errorf("%s: %d bytes of %d, compressed %v, %v", name, len(got), len(tt.data), m.Compressed, err)
		}
		if m.ContentType != "text/plain" || len(m.Headers) != 2 || m.Headers["traceparent"] != "00-1" || m.Headers["x-a"] != "1" {
			t.Errorf("%s: headers %v, content type %s", name, m.Headers, m.ContentType)
		}
		r.finished(m)
	}
	r.q.Compress = nil
	plain := r.publish(1, "a", text)
	if s := r.at(plain.Seq); string(s.Data) != text || s.Header.Get("Content-Encoding") != "" {
		t.Errorf("compressed although nobody wants it: %v", s.Header)
	}
}

func gzipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// A payload that is bigger than the server takes fits when it is compressed.
func TestCompressionComesBeforeTheServersLimit(t *testing.T) {
	r := newRig(t, nil)
	data := bytes.Repeat([]byte("a"), int(r.MaxPayload())+1)
	if _, err := r.Publish(within(t), r.q, Publication{Level: 0, Data: data}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("uncompressed: %v, want ErrTooLarge", err)
	}
	if _, err := r.Publish(within(t), r.q, Publication{Level: 0, Data: data, Compress: true}); err != nil {
		t.Fatal(err)
	}
	a := r.asker()
	if got, err := a.take(a.at(0, ""), 1)[0].Payload(0); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// Raw publishers can compress too; whatever else they say of their payload's encoding is handed on with it, as it is.
func TestContentEncodingOfRawPublishers(t *testing.T) {
	r := newRig(t, nil)
	a := r.asker()
	zipped := string(gzipped(t, []byte("hello")))
	for _, tt := range []struct{ name, value, data, want, header string }{
		{"Content-Encoding", "gzip", zipped, "hello", ""},
		{"content-encoding", " GZIP ", zipped, "hello", ""},
		{"Content-Encoding", "br", zipped, zipped, "br"},
		{"Content-Encoding", "gzip, br", zipped, zipped, "gzip, br"},
		{"Content-Encoding", "", zipped, zipped, ""},
		{"X-Encoding", "gzip", zipped, zipped, ""},
	} {
		r.raw("p0.a", tt.data, tt.name, tt.value)
		m := a.take(a.at(0, "a"), 1)[0]
		got, err := m.Payload(0)
		if err != nil || string(got) != tt.want || m.Headers["content-encoding"] != tt.header {
			t.Errorf("%s: %q: %q, %v, content-encoding %q", tt.name, tt.value, got, err, m.Headers["content-encoding"])
		}
		r.finished(m)
	}
}

func TestPayloadsThatCannotBeExpanded(t *testing.T) {
	r := newRig(t, func(q *config.Queue) { q.Limits.MaxPayload = 1000 })
	a := r.asker()
	bomb := string(gzipped(t, make([]byte, 1001)))
	for _, tt := range []struct {
		data, size string
		want       error
	}{
		{"no gzip", "", payload.ErrDamaged},
		{string(gzipped(t, []byte("hello"))[:20]), "", payload.ErrDamaged},
		{bomb, "", payload.ErrTooLarge},
		{bomb, "-5", payload.ErrTooLarge},
		{bomb, "99999999999999999999", nil}, // no limit but the hard one: the next lines
		{bomb, "1000", payload.ErrTooLarge},
		{bomb, "1001", nil}, // published before max_payload was lowered
		{string(gzipped(t, make([]byte, payload.Most+1))), "9223372036854775807", payload.ErrTooLarge},
	} {
		r.raw("p0.a", tt.data, "Content-Encoding", "gzip", headerSize, tt.size)
		m := a.take(a.at(0, "a"), 1)[0]
		if got, err := m.Payload(1000); !errors.Is(err, tt.want) || err != nil && got != nil {
			t.Errorf("%d bytes, size %q: %v, want %v", len(tt.data), tt.size, err, tt.want)
		}
		found, err := r.Peek(within(t), r.q, Peek{Max: 1})
		if err != nil || len(found) != 1 {
			t.Fatal(found, err)
		}
		if damaged := found[0].Headers["content-encoding"] == "gzip"; damaged != (tt.want != nil) || damaged && string(found[0].Data) != tt.data {
			t.Errorf("size %q: peek shows %v, %d bytes", tt.size, found[0].Headers, len(found[0].Data))
		}
		r.finished(m)
	}
}

// A message that is moved to where it belongs stays as compressed as it was.
func TestRepairKeepsCompressedPayloads(t *testing.T) {
	r := newRig(t, nil)
	r.raw("px.a", string(gzipped(t, []byte("hello"))), "Content-Encoding", "gzip", headerSize, "5")
	if moved, err := r.Repair(within(t), r.q, []string{"fl.q.orders.px.a"}); moved != 1 || err != nil {
		t.Fatal(moved, err)
	}
	a := r.asker()
	m := a.take(a.at(2, "a"), 1)[0]
	if got, err := m.Payload(0); err != nil || string(got) != "hello" {
		t.Errorf("%q, %v", got, err)
	}
}

// Nothing is asked of messages that are not compressed.
func BenchmarkPayload(b *testing.B) {
	m := &Message{Data: []byte("x")}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.Payload(0); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSetHeaders(b *testing.B) {
	h := nats.Header{"Fairlead-Weight": {"2"}, "Content-Type": {"text/plain"}, "Nats-Msg-Id": {"a:1"}, "x-a": {"1"}}
	b.ReportAllocs()
	for b.Loop() {
		var m Message
		m.setHeaders(h)
	}
}
