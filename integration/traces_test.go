package integration

import (
	"net"
	"strings"
	"testing"
	"time"

	traces "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/fairlead/fairlead/agent/api"
)

const (
	appTrace = "0af7651916cd43dd8448eb211c80319c"
	appSpan  = "b7ad6b7169203331"
)

// traceparent is what an app sends that records the trace of this digit.
func traceparent(digit string) (header, trace string) {
	trace = appTrace[:31] + digit
	return "00-" + trace + "-" + appSpan + "-01", trace
}

// A message is one trace from its publisher's span to its settlement, and whoever works on it can continue it.
func TestTraces(t *testing.T) {
	t.Parallel()
	c := startCollector(t)
	server := startNATS(t)
	a := startAgent(t, settings{nats: server.url, yaml: threeLevels, env: c.env("OTEL_SERVICE_NAME=orders", "OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20canary-token")})
	app := a.app("main")

	header, trace := traceparent("1")
	a.publish("jobs", "canary-payload", "traceparent", header, "tracestate", "vendor=1", api.HeaderKey, "canary-tenant", api.HeaderID, "canary-id", api.HeaderPrefix+"X", "canary-header")
	d := app.pull(1, patience)[0]
	equal(t, "ack", a.say(d, api.Settlement{Result: api.Ack}), api.StatusOK)
	all := c.await(trace, "publish jobs", "wait jobs", "deliver jobs", "settle jobs")
	publish, wait, deliver, settle := all["publish jobs"], all["wait jobs"], all["deliver jobs"], all["settle jobs"]
	equal(t, "publish's parent", publish.parent, appSpan)
	equal(t, "wait's parent", wait.parent, publish.id)
	equal(t, "deliver's parent", deliver.parent, publish.id)
	equal(t, "settle's parent", settle.parent, deliver.id)
	equal(t, "what the app gets", d.Headers["traceparent"], "00-"+trace+"-"+publish.id+"-01")
	equal(t, "trace state", d.Headers["tracestate"], "vendor=1")
	equal(t, "publish's kind", publish.kind, traces.Span_SPAN_KIND_PRODUCER)
	equal(t, "deliver's kind", deliver.kind, traces.Span_SPAN_KIND_CONSUMER)
	equal(t, "result", settle.attributes["fairlead.result"], "ack")
	if publish.began > wait.ended || wait.ended > deliver.ended || deliver.began > settle.began || settle.ended > deliver.ended {
		t.Errorf("out of order: %+v", all)
	}

	// A line of a batch, a failure and its second try, and next.
	header, trace = traceparent("2")
	a.batchText("jobs", []byte(`{"data":"m","headers":{"traceparent":"`+header+`"}}`))
	d = app.pull(1, patience)[0]
	equal(t, "nack", a.say(d, api.Settlement{Result: api.Nack, Delay: "0s", Reason: "canary-reason"}), api.StatusOK)
	first := c.await(trace, "publish jobs", "wait jobs", "deliver jobs", "settle jobs")
	if !first["deliver jobs"].failed || first["publish jobs"].failed {
		t.Errorf("a nack is no failure: %+v", first)
	}
	d = app.pull(1, patience)[0]
	equal(t, "attempt", d.Attempt, 2)
	equal(t, "the second try's context", d.Headers["traceparent"], "00-"+trace+"-"+first["publish jobs"].id+"-01")
	equal(t, "ack", a.say(d, api.Settlement{Result: api.Ack}), api.StatusOK)
	eventually(t, "the second try is a span of the same trace", patience, func() bool {
		return c.await(trace, "publish jobs", "wait jobs", "deliver jobs", "settle jobs")["settle jobs"].attributes["fairlead.result"] == "ack"
	})

	// Without a context, the publish begins a trace.
	a.publish("jobs", "m")
	d = app.pull(1, patience)[0]
	parts := strings.Split(d.Headers["traceparent"], "-")
	if len(parts) != 4 {
		t.Fatalf("the app gets the context %q", d.Headers["traceparent"])
	}
	equal(t, "ack", a.say(d, api.Settlement{Result: api.Ack}), api.StatusOK)
	own := c.await(parts[1], "publish jobs", "wait jobs", "deliver jobs", "settle jobs")
	equal(t, "its parent", own["publish jobs"].parent, "")
	equal(t, "its id", own["publish jobs"].id, parts[2])

	// A trace that is not recorded stays so.
	header = "00-" + appTrace[:31] + "3-" + appSpan + "-00"
	a.publish("jobs", "m", "traceparent", header)
	d = app.pull(1, patience)[0]
	if got := d.Headers["traceparent"]; !strings.HasPrefix(got, header[:35]) || !strings.HasSuffix(got, "-00") {
		t.Errorf("the app gets the context %q of an unrecorded trace", got)
	}
	equal(t, "ack", a.say(d, api.Settlement{Result: api.Ack}), api.StatusOK)

	// The last spans are sent before the agent ends.
	header, trace = traceparent("4")
	a.publish("jobs", "m", "traceparent", header)
	a.stop()
	c.await(trace, "publish jobs")

	c.mu.Lock()
	defer c.mu.Unlock()
	equal(t, "credentials for the collector", c.headers.Get("Authorization"), "Bearer canary-token")
	if !c.services["orders"] || len(c.services) != 1 {
		t.Errorf("services: %v", c.services)
	}
	if strings.Contains(string(c.raw), "canary") {
		t.Error("a span has a payload, a key, an id, a header or a reason in it")
	}
	if text := a.errs.String(); strings.Contains(text, "canary-token") {
		t.Error("the log has credentials in it")
	}
	for _, s := range c.spans {
		if s.trace == appTrace[:31]+"3" {
			t.Errorf("a span of an unrecorded trace: %+v", s)
		}
	}
}

// Without traces, what a publisher sends arrives byte for byte, whatever it is, and nothing is added.
// The same spans go out over gRPC, to whoever prefers that.
func TestTracesOverGRPC(t *testing.T) {
	t.Parallel()
	c := startGRPCCollector(t)
	a := startAgent(t, settings{yaml: threeLevels, env: []string{
		"OTEL_EXPORTER_OTLP_PROTOCOL=grpc", "OTEL_EXPORTER_OTLP_ENDPOINT=" + c.url, "OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20x",
		"OTEL_SERVICE_NAME=orders", "OTEL_BSP_SCHEDULE_DELAY=20",
	}})
	app := a.app("main")
	header, trace := traceparent("1")
	a.publish("jobs", "m", "traceparent", header)
	equal(t, "ack", a.say(app.pull(1, patience)[0], api.Settlement{Result: api.Ack}), api.StatusOK)
	all := c.await(trace, "publish jobs", "wait jobs", "deliver jobs", "settle jobs")
	equal(t, "publish's parent", all["publish jobs"].parent, appSpan)
	equal(t, "settle's parent", all["settle jobs"].parent, all["deliver jobs"].id)
	c.mu.Lock()
	defer c.mu.Unlock()
	equal(t, "the service", c.services["orders"], true)
	equal(t, "the header", strings.Join(c.sent["authorization"], ""), "Bearer x")
}

func TestWithoutTracesHeadersPass(t *testing.T) {
	t.Parallel()
	a := startAgent(t, settings{yaml: threeLevels, env: []string{"OTEL_SERVICE_NAME=orders"}})
	app := a.app("main")
	header, _ := traceparent("1")
	for _, sent := range []string{header, "00-odd", ""} {
		a.publish("jobs", "m", "traceparent", sent, "tracestate", "a=1,b=2")
		d := app.pull(1, patience)[0]
		equal(t, "traceparent", d.Headers["traceparent"], sent)
		equal(t, "tracestate", d.Headers["tracestate"], "a=1,b=2")
		equal(t, "ack", a.say(d, api.Settlement{Result: api.Ack}), api.StatusOK)
	}
}

// A collector that takes connections and never answers holds up no message, and not the end of the agent.
func TestADeadCollectorHoldsUpNothing(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for name, endpoint := range map[string]string{"silent": silent.Addr().String(), "absent": "127.0.0.1:1"} {
		t.Run(name, func(t *testing.T) {
			a := startAgent(t, settings{yaml: threeLevels, env: []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + endpoint, "OTEL_BSP_SCHEDULE_DELAY=10", "OTEL_BSP_MAX_QUEUE_SIZE=64", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE=8", "OTEL_EXPORTER_OTLP_TIMEOUT=500"}})
			a.batch("jobs", notes(2000, "m", note{})...)
			app := a.app("main")
			app.take(2000, 64)
			app.flush()
			began := time.Now()
			a.stop()
			if took := time.Since(began); took > 15*time.Second {
				t.Errorf("it took %v to end", took)
			}
			if text := a.errs.String(); strings.Count(text, "spans cannot be sent") > 3 {
				t.Errorf("the log is flooded:\n%s", tail(text))
			}
		})
	}
}

// Who asks for traces in a way that cannot be is told at the start, of all mistakes.
func TestBadTraceSettingsAreTold(t *testing.T) {
	t.Parallel()
	p := launch(t, settings{yaml: threeLevels, env: []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=collector:4318", "OTEL_TRACES_SAMPLER=sometimes", "OTEL_EXPORTER_OTLP_HEADERS=Authorization: canary-token",
	}})
	equal(t, "exit code", p.wait(patience), 78)
	for _, name := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_TRACES_SAMPLER", "OTEL_EXPORTER_OTLP_HEADERS"} {
		if text := p.errs.String(); !strings.Contains(text, name) || strings.Contains(text, "canary-token") {
			t.Errorf("%s is not told, or a secret is:\n%s", name, text)
		}
	}
}
