package tracing

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/broker"
	"github.com/fairlead/fairlead/agent/delivery"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	traceID  = "0af7651916cd43dd8448eb211c80319c"
	parentID = "b7ad6b7169203331"
	sampled  = "00-" + traceID + "-" + parentID + "-01"
	not      = "00-" + traceID + "-" + parentID + "-00"
)

func recording(t testing.TB) (*Tracer, *tracetest.SpanRecorder) {
	t.Helper()
	r := tracetest.NewSpanRecorder()
	tracer := New(r, resource.Empty())
	t.Cleanup(func() { _ = tracer.Stop(context.Background()) })
	return tracer, r
}

// named returns the one span of a name.
func named(t *testing.T, r *tracetest.SpanRecorder, name string) sdk.ReadOnlySpan {
	t.Helper()
	var found []sdk.ReadOnlySpan
	for _, s := range r.Ended() {
		if s.Name() == name {
			found = append(found, s)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d spans are named %s", len(found), name)
	}
	return found[0]
}

func attributes(s sdk.ReadOnlySpan) map[string]string {
	all := map[string]string{}
	for _, a := range s.Attributes() {
		all[string(a.Key)] = a.Value.String()
	}
	return all
}

// The whole life of a message is one trace, in the right order, and each span has the time of what it is about.
func TestALifeIsOneTrace(t *testing.T) {
	tracer, r := recording(t)
	began := time.Now()
	mine := map[string]string{"traceparent": sampled, "tracestate": "vendor=1", "x-secret": "s3cret"}
	p := broker.Publication{Level: 1, Key: "tenant-s3cret", ID: "id-s3cret", Headers: mine, Data: []byte("payload s3cret")}
	published := tracer.Publish("orders", &p)
	published(broker.Receipt{Seq: 17, Level: 1}, nil)
	if mine["traceparent"] != sampled {
		t.Error("the caller's own headers were changed")
	}
	if p.Headers["traceparent"] == sampled || p.Headers["tracestate"] != "vendor=1" || p.Headers["x-secret"] != "s3cret" {
		t.Errorf("headers are stored as %v", p.Headers)
	}
	enqueued := time.Now().Add(-time.Minute)
	m := &broker.Message{Queue: "orders", Seq: 17, Level: 1, Key: p.Key, ID: p.ID, Attempt: 1, EnqueuedAt: enqueued, Headers: p.Headers, Data: p.Data}
	tracer.Handed([]delivery.Delivery{{Message: m}})
	tracer.Ended(m, delivery.Acked, delivery.Took{Held: time.Second, Settling: 10 * time.Millisecond})

	elapsed := time.Since(began)

	publish, wait, deliver, settle := named(t, r, "publish orders"), named(t, r, "wait orders"), named(t, r, "deliver orders"), named(t, r, "settle orders")
	for _, c := range []struct {
		span   sdk.ReadOnlySpan
		parent string
		kind   trace.SpanKind
		took   time.Duration
		op     string
	}{
		{publish, parentID, trace.SpanKindProducer, 0, "send"},
		{wait, publish.SpanContext().SpanID().String(), trace.SpanKindInternal, time.Minute, ""},
		{deliver, publish.SpanContext().SpanID().String(), trace.SpanKindConsumer, time.Second, "receive"},
		{settle, deliver.SpanContext().SpanID().String(), trace.SpanKindClient, 10 * time.Millisecond, "settle"},
	} {
		s := c.span
		if s.SpanContext().TraceID().String() != traceID || s.Parent().SpanID().String() != c.parent || s.SpanKind() != c.kind {
			t.Errorf("%s: trace %v, parent %v, kind %v", s.Name(), s.SpanContext().TraceID(), s.Parent().SpanID(), s.SpanKind())
		}
		if took := s.EndTime().Sub(s.StartTime()); took < c.took || took > c.took+elapsed {
			t.Errorf("%s took %v, want %v", s.Name(), took, c.took)
		}
		a := attributes(s)
		if a["messaging.system"] != "nats" || a["messaging.destination.name"] != "orders" || a["messaging.operation.type"] != c.op || a["fairlead.seq"] != "17" {
			t.Errorf("%s has %v", s.Name(), a)
		}
		if s.Status().Code == codes.Error {
			t.Errorf("%s failed", s.Name())
		}
		if text := fmt.Sprint(s.Name(), a); strings.Contains(text, "s3cret") {
			t.Errorf("a span tells what is nobody's business: %s", text)
		}
	}
	if want := "00-" + traceID + "-" + publish.SpanContext().SpanID().String() + "-01"; p.Headers["traceparent"] != want {
		t.Errorf("the message carries %s, want %s", p.Headers["traceparent"], want)
	}
}

// A trace that nobody records is not recorded here, and is continued all the same.
func TestAnUnsampledTraceStaysSo(t *testing.T) {
	tracer, r := recording(t)
	p := broker.Publication{Headers: map[string]string{"traceparent": not}}
	tracer.Publish("orders", &p)(broker.Receipt{}, nil)
	m := &broker.Message{Queue: "orders", Attempt: 1, Headers: p.Headers, EnqueuedAt: time.Now()}
	tracer.Handed([]delivery.Delivery{{Message: m}})
	tracer.Ended(m, delivery.Acked, delivery.Took{Held: 1, Settling: 1})
	if n := len(r.Started()); n != 0 {
		t.Errorf("%d spans", n)
	}
	if got := p.Headers["traceparent"]; !strings.HasPrefix(got, "00-"+traceID) || !strings.HasSuffix(got, "-00") {
		t.Errorf("the message carries %s", got)
	}
}

// Without a context, or with one that is none, a publish begins a trace, and a delivery of what no agent published too.
func TestWhoBeginsATrace(t *testing.T) {
	for name, headers := range map[string]map[string]string{"none": nil, "damaged": {"traceparent": "00-xyz"}, "zero": {"traceparent": "00-" + strings.Repeat("0", 32) + "-" + parentID + "-01"}} {
		tracer, r := recording(t)
		p := broker.Publication{Headers: headers}
		tracer.Publish("orders", &p)(broker.Receipt{}, nil)
		if s := named(t, r, "publish orders"); s.Parent().IsValid() || !strings.Contains(p.Headers["traceparent"], s.SpanContext().TraceID().String()) {
			t.Errorf("%s: parent %v, the message carries %s", name, s.Parent(), p.Headers["traceparent"])
		}
		raw := &broker.Message{Queue: "raw", Attempt: 1, Headers: headers, EnqueuedAt: time.Now()}
		tracer.Handed([]delivery.Delivery{{Message: raw}})
		tracer.Ended(raw, delivery.Expired, delivery.Took{Held: time.Second})
		if s := named(t, r, "deliver raw"); s.Parent().IsValid() {
			t.Errorf("%s: the delivery of a message without a trace has the parent %v", name, s.Parent())
		}
		if n := len(r.Ended()); n != 2 {
			t.Errorf("%s: %d spans, want 2: a wait and a settlement belong to nothing here", name, n)
		}
	}
}

// Failures show as such, by their code.
func TestFailures(t *testing.T) {
	tracer, r := recording(t)
	p := broker.Publication{}
	tracer.Publish("orders", &p)(broker.Receipt{}, &api.Error{Code: api.CodeQueueFull, Message: "s3cret"})
	if s := named(t, r, "publish orders"); s.Status().Code != codes.Error || s.Status().Description != "queue_full" || attributes(s)["error.type"] != "queue_full" {
		t.Errorf("a refused publish: %v %v", s.Status(), attributes(s))
	}
	for how, failed := range map[delivery.Result]bool{
		delivery.Acked: false, delivery.AlreadyFinished: false, delivery.Drained: false, delivery.Nacked: true, delivery.Rejected: true, delivery.Expired: true,
		delivery.SessionLost: true, delivery.Unwritten: true, delivery.Revoked: true, delivery.Unknown: true,
	} {
		tracer, r := recording(t)
		tracer.Ended(&broker.Message{Queue: "orders", Attempt: 2}, how, delivery.Took{Held: time.Second})
		s := named(t, r, "deliver orders")
		if got := s.Status().Code == codes.Error; got != failed || attributes(s)["fairlead.result"] != how.String() || attributes(s)["fairlead.attempt"] != "2" {
			t.Errorf("%v: %v %v", how, s.Status(), attributes(s))
		}
	}
	// A second try has waited for its backoff: that is no wait of the queue.
	again := &broker.Message{Queue: "again", Attempt: 2, Headers: map[string]string{"traceparent": sampled}}
	tracer.Handed([]delivery.Delivery{{Message: again}})
	if slices.ContainsFunc(r.Ended(), func(s sdk.ReadOnlySpan) bool { return s.Name() == "wait again" }) {
		t.Error("a retry has a wait")
	}
}

// stuck is an exporter whose collector never answers.
type stuck struct{ released chan struct{} }

func (s stuck) ExportSpans(context.Context, []sdk.ReadOnlySpan) error { <-s.released; return nil }
func (s stuck) Shutdown(context.Context) error                        { return nil }

// A collector that never answers holds up nobody, and its spans do not pile up.
func TestADeadCollectorHoldsUpNobody(t *testing.T) {
	s := stuck{make(chan struct{})}
	defer close(s.released)
	tracer := New(sdk.NewBatchSpanProcessor(s, sdk.WithMaxQueueSize(100), sdk.WithBatchTimeout(time.Millisecond)), resource.Empty())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 50_000 {
			p := broker.Publication{}
			tracer.Publish("orders", &p)(broker.Receipt{}, nil)
		}
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatal("publishes wait for the collector")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	if err := tracer.Stop(ctx); err == nil || time.Since(began) > 10*time.Second {
		t.Errorf("stopped after %v: %v", time.Since(began), err)
	}
}

// BenchmarkTracer is what traces cost a message from publish to ack. Off, nothing of this package is called at all: what is
// left is the test for nil in package agent.
func BenchmarkTracer(b *testing.B) {
	for name, header := range map[string]string{"recorded": sampled, "unsampled": not} {
		b.Run(name, func(b *testing.B) {
			tracer := New(sdk.NewBatchSpanProcessor(tracetest.NewNoopExporter()), resource.Empty())
			defer func() { _ = tracer.Stop(context.Background()) }()
			m := &broker.Message{Queue: "orders", Attempt: 1, EnqueuedAt: time.Now(), Headers: map[string]string{"traceparent": header}}
			ds := []delivery.Delivery{{Message: m}}
			b.ReportAllocs()
			for b.Loop() {
				p := broker.Publication{Headers: m.Headers}
				tracer.Publish("orders", &p)(broker.Receipt{}, nil)
				tracer.Handed(ds)
				tracer.Ended(m, delivery.Acked, delivery.Took{Held: time.Millisecond, Settling: time.Microsecond})
			}
		})
	}
}
