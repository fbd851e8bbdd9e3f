package tracing

import (
	"context"
	"errors"
	"maps"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/broker"
	"github.com/fairlead/fairlead/agent/delivery"
)

// Attributes that the conventions have no name for.
const (
	attributePriority = attribute.Key("fairlead.priority")
	attributeAttempt  = attribute.Key("fairlead.attempt")
	attributeSeq      = attribute.Key("fairlead.seq")
	attributeResult   = attribute.Key("fairlead.result")
)

// carried reads and writes the context that a message carries: the headers of W3C Trace Context.
var carried = propagation.TraceContext{}

// Tracer makes spans. Its methods are safe for several goroutines, and do not block.
type Tracer struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
}

// New returns a Tracer whose spans go to a processor.
func New(spans sdk.SpanProcessor, who *resource.Resource) *Tracer {
	// The sampler is what OTEL_TRACES_SAMPLER says, and else that of the parent, and always without one.
	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(spans), sdk.WithResource(who))
	return &Tracer{provider: provider, tracer: provider.Tracer("github.com/fairlead/fairlead")}
}

// Stop sends the spans that are left, and waits for that until ctx ends at most. The tracer is of no use afterwards. It can
// be called twice, and of a nil Tracer.
func (t *Tracer) Stop(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return t.provider.Shutdown(ctx)
}

// Published is told what became of a publish.
type Published func(broker.Receipt, error)

// Publish begins the span of a publish, and gives p its context. What it returns is to be called once.
func (t *Tracer) Publish(queue string, p *broker.Publication) Published {
	ctx := carried.Extract(context.Background(), propagation.MapCarrier(p.Headers))
	ctx, span := t.tracer.Start(ctx, "publish "+queue, trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(
		semconv.MessagingSystemKey.String("nats"), semconv.MessagingDestinationName(queue),
		semconv.MessagingOperationName("publish"), semconv.MessagingOperationTypeSend,
		semconv.MessagingMessageBodySize(len(p.Data)),
	))
	headers := maps.Clone(p.Headers) // the caller's own stay as they are
	if headers == nil {
		headers = map[string]string{}
	}
	carried.Inject(ctx, propagation.MapCarrier(headers))
	p.Headers = headers
	return func(r broker.Receipt, err error) {
		if err != nil {
			code := errorType(err)
			span.SetAttributes(semconv.ErrorTypeKey.String(code))
			span.SetStatus(codes.Error, code)
		} else {
			span.SetAttributes(attributePriority.Int(r.Level), attributeSeq.Int64(int64(r.Seq)))
			if r.Duplicate {
				span.SetAttributes(attributeResult.String("duplicate"))
			}
		}
		span.End()
	}
}

// errorType is the code of an error. Its text can have more in it than a trace should.
func errorType(err error) string {
	if e := new(api.Error); errors.As(err, &e) {
		return string(e.Code)
	}
	return "_OTHER"
}

// Handed implements delivery.Observer: the wait of a message is over.
func (t *Tracer) Handed(ds []delivery.Delivery) {
	now := time.Now()
	for i := range ds {
		m := ds[i].Message
		ctx := of(m)
		if m.Attempt > 1 || !trace.SpanContextFromContext(ctx).IsValid() {
			continue // it has waited for its backoff, too; or belongs to no trace yet
		}
		_, span := t.tracer.Start(ctx, "wait "+m.Queue, trace.WithTimestamp(earlier(m.EnqueuedAt, now)), trace.WithAttributes(
			semconv.MessagingSystemKey.String("nats"), semconv.MessagingDestinationName(m.Queue),
			semconv.MessagingOperationName("wait"),
			attributePriority.Int(m.Level), attributeSeq.Int64(int64(m.Seq)),
		))
		span.End(trace.WithTimestamp(now))
	}
}

// Ended implements delivery.Observer: a delivery is over, and the settlement that ended it.
func (t *Tracer) Ended(m *broker.Message, how delivery.Result, took delivery.Took) {
	now := time.Now()
	common := []attribute.KeyValue{
		semconv.MessagingSystemKey.String("nats"), semconv.MessagingDestinationName(m.Queue),
		attributePriority.Int(m.Level), attributeSeq.Int64(int64(m.Seq)), attributeAttempt.Int(m.Attempt), attributeResult.String(how.String()),
	}
	ctx, span := t.tracer.Start(of(m), "deliver "+m.Queue, trace.WithSpanKind(trace.SpanKindConsumer), trace.WithTimestamp(now.Add(-took.Held)),
		trace.WithAttributes(common...),
		trace.WithAttributes(semconv.MessagingOperationName("deliver"), semconv.MessagingOperationTypeReceive))
	if took.Settling > 0 {
		_, settle := t.tracer.Start(ctx, "settle "+m.Queue, trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(now.Add(-took.Settling)),
			trace.WithAttributes(common...),
			trace.WithAttributes(semconv.MessagingOperationName(how.String()), semconv.MessagingOperationTypeSettle))
		settle.End(trace.WithTimestamp(now))
	}
	if how != delivery.Acked && how != delivery.AlreadyFinished && how != delivery.Drained {
		span.SetAttributes(semconv.ErrorTypeKey.String(how.String()))
		span.SetStatus(codes.Error, how.String())
	}
	span.End(trace.WithTimestamp(now))
}

// of returns the trace that a message belongs to.
func of(m *broker.Message) context.Context {
	return carried.Extract(context.Background(), propagation.MapCarrier(m.Headers))
}

// earlier returns the earlier of two times: clocks of two hosts can disagree about a wait.
func earlier(a, b time.Time) time.Time {
	if a.After(b) {
		return b
	}
	return a
}
