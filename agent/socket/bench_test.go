package socket

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/broker"
	"github.com/fairlead/fairlead/agent/delivery"
	"github.com/fairlead/fairlead/agent/dispatch"
)

// endless hands out as many messages as are asked for, and finishes them at once.
type endless struct {
	*fakeAgent
	seq  uint64
	data []byte
}

func (e *endless) Pull(_ context.Context, _ string, r dispatch.Request) ([]*broker.Message, delivery.Owner, error) {
	msgs := make([]*broker.Message, r.Max)
	all := make([]broker.Message, r.Max)
	for i := range msgs {
		e.seq++
		all[i] = broker.Message{
			Queue: "orders", Level: 1, Key: "acme", Seq: e.seq, Attempt: 1, ContentType: "application/json", Headers: map[string]string{},
			Data: e.data, AckWait: 30 * time.Second, EnqueuedAt: time.Unix(1795953600, 123e6),
		}
		msgs[i] = &all[i]
	}
	return msgs, e, nil
}

func (e *endless) Released(*broker.Message, broker.Ending)            {}
func (e *endless) Finish(_ *broker.Message, done func(broker.Finish)) { done(broker.Finished) }

// BenchmarkPull pulls 64 messages of 256 bytes over a socket and acks the 64 before, on one connection. The client does no
// more than find the tokens. Per message.
func BenchmarkPull(b *testing.B) {
	const batch = 64
	for _, format := range []string{api.TypeNDJSON, api.TypeFrames} {
		b.Run(format, func(b *testing.B) {
			e := &endless{fakeAgent: newFakeAgent(), data: bytes.Repeat([]byte(`{"a":"b c"},    `), 16)}
			book := delivery.New(e, e)
			defer book.Close()
			r := newRig(b, func(o *Options) { o.Capsules, o.Book = e, book })
			c := r.dial()
			defer c.Close()
			_ = c.SetDeadline(time.Time{})
			in := bufio.NewReaderSize(c, 64<<10)
			var settle, request []byte
			b.ReportAllocs()
			b.ResetTimer()
			for n := 0; n < b.N; n += batch {
				request = fmt.Appendf(request[:0], "POST %s?max=64&wait=1s HTTP/1.1\r\nHost: x\r\nAccept: %s\r\nContent-Length: %d\r\n\r\n%s", pullPath, format, len(settle), settle)
				if _, err := c.Write(request); err != nil {
					b.Fatal(err)
				}
				res, err := http.ReadResponse(in, nil)
				if err != nil || res.StatusCode != 200 {
					b.Fatal(res, err)
				}
				body, err := io.ReadAll(res.Body)
				if err != nil {
					b.Fatal(err)
				}
				settle = appendAcks(settle[:0], body, format)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
			if s := book.Stats(); b.N > 10*batch && s.Acked < uint64(b.N)-2*batch {
				b.Errorf("%+v", s)
			}
		})
	}
}

// appendAcks appends the list that acks all deliveries of an answer.
func appendAcks(dst, body []byte, format string) []byte {
	mark := []byte(`{"token":"`)
	dst = append(dst, '[')
	for len(body) > 0 {
		var line []byte
		if format == api.TypeFrames {
			n := binary.BigEndian.Uint32(body)
			line, body = body[8:4+n], body[4+n:]
		} else {
			line, body, _ = bytes.Cut(body, []byte{'\n'})
		}
		token, _, _ := bytes.Cut(bytes.TrimPrefix(line, mark), []byte{'"'})
		if len(dst) > 1 {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, mark...), token...), `","result":"ack"}`...)
	}
	return append(dst, ']')
}

// BenchmarkEncode writes one delivery of 256 bytes.
func BenchmarkEncode(b *testing.B) {
	m := full()
	m.Data = bytes.Repeat([]byte(`{"a":"b c"},    `), 16)
	d := &delivery.Delivery{Token: "k3v9x2m7q4w8r-1a2b", Message: m, Deadline: time.Now()}
	for _, e := range []encoder{{}, {frames: true}} {
		b.Run(fmt.Sprintf("frames=%v", e.frames), func(b *testing.B) {
			buf := make([]byte, 0, 4096)
			b.ReportAllocs()
			for b.Loop() {
				buf = e.append(buf[:0], d, m.Data)
			}
		})
	}
}

// BenchmarkBatch publishes lines to a publisher that answers at once. Per message.
func BenchmarkBatch(b *testing.B) {
	r := newRig(b)
	r.server.Publisher = discarding{r.fakeAgent}
	res, err := r.client.Post("http://fairlead"+batchPath, api.TypeNDJSON, &manyLines{n: b.N})
	if err != nil {
		b.Fatal(err)
	}
	defer res.Body.Close()
	answers := 0
	for s := bufio.NewScanner(res.Body); s.Scan(); answers++ {
	}
	if answers != b.N {
		b.Fatalf("%d answers of %d", answers, b.N)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
}

type discarding struct{ *fakeAgent }

func (discarding) PublishAsync(_ string, _ broker.Publication, done func(broker.Receipt, error)) {
	done(broker.Receipt{Seq: 1}, nil)
}
