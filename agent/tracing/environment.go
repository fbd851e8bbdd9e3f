package tracing

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/go-hclog"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// Process is the process that is traced.
type Process struct {
	// Lookup is os.LookupEnv, or what stands for it. What the SDK itself reads, it reads from the process's environment.
	Lookup  func(name string) (string, bool)
	Logger  hclog.Logger
	Version string
	Agent   string // the agent's id
}

// FromEnvironment returns the Tracer that the OTEL_ variables ask for, or nil when they ask for none: that is when none of
// OTEL_TRACES_EXPORTER, OTEL_EXPORTER_OTLP_ENDPOINT and OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is set, or the first says none, or
// OTEL_SDK_DISABLED says true. Errors wrap [ErrEnvironment] and name every variable that cannot be used. The collector need
// not be there.
//
// What cannot be sent later on is logged, at most twice a minute. The SDK reports that process-wide, so that the log is that
// of the last call.
func FromEnvironment(ctx context.Context, p Process) (*Tracer, error) {
	e := &environment{lookup: p.Lookup}
	if !e.wanted() {
		return nil, e.failure()
	}
	protocol := e.check()
	if err := e.failure(); err != nil {
		return nil, err
	}
	who, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithHost(),
		resource.WithAttributes(semconv.ServiceName("fairlead"), semconv.ServiceVersion(p.Version), semconv.ServiceInstanceID(p.Agent)),
		resource.WithFromEnv()) // the last one wins
	if err != nil {
		return nil, fmt.Errorf("%w: OTEL_RESOURCE_ATTRIBUTES is not a list such as team=payments,stage=live", ErrEnvironment)
	}
	exporter, err := newExporter(ctx, protocol)
	if err != nil {
		return nil, fmt.Errorf("%w: the exporter cannot be made: %w", ErrEnvironment, err)
	}
	otel.SetErrorHandler(&failures{log: p.Logger})
	return New(sdk.NewBatchSpanProcessor(exporter), who), nil
}

func newExporter(ctx context.Context, protocol string) (*otlptrace.Exporter, error) {
	if protocol == protocolGRPC {
		return otlptracegrpc.New(ctx)
	}
	return otlptracehttp.New(ctx)
}

const (
	protocolHTTP = "http/protobuf"
	protocolGRPC = "grpc"
)

// environment collects what is wrong with the variables.
type environment struct {
	lookup   func(name string) (string, bool)
	problems []string
}

// get returns a variable; empty is unset, as the specification says.
func (e *environment) get(name string) string {
	value, _ := e.lookup(name)
	return strings.TrimSpace(value)
}

// signal returns a variable of the exporter of traces and its name: the one for traces alone, else the common one.
func (e *environment) signal(name string) (value, variable string) {
	variable = "OTEL_EXPORTER_OTLP_TRACES_" + name
	if value = e.get(variable); value == "" {
		variable = "OTEL_EXPORTER_OTLP_" + name
		value = e.get(variable)
	}
	return value, variable
}

func (e *environment) problem(variable, format string, args ...any) {
	e.problems = append(e.problems, variable+" "+fmt.Sprintf(format, args...))
}

func (e *environment) failure() error {
	if e.problems == nil {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrEnvironment, strings.Join(e.problems, "; "))
}

// wanted tells whether anybody asks for traces.
func (e *environment) wanted() bool {
	e.oneOf("OTEL_SDK_DISABLED", "true", "false")
	if strings.EqualFold(e.get("OTEL_SDK_DISABLED"), "true") {
		return false
	}
	endpoint, _ := e.signal("ENDPOINT")
	exporter := e.get("OTEL_TRACES_EXPORTER")
	if exporter == "none" || exporter == "" && endpoint == "" {
		return false
	}
	e.oneOf("OTEL_TRACES_EXPORTER", "otlp", "none")
	return true
}

// check looks at all that is set, and returns the protocol.
func (e *environment) check() (protocol string) {
	protocol, variable := e.signal("PROTOCOL")
	if protocol == "" {
		protocol = protocolHTTP
	}
	if protocol != protocolHTTP && protocol != protocolGRPC {
		e.problem(variable, "is %q: give %s or %s", protocol, protocolHTTP, protocolGRPC)
	}
	if endpoint, variable := e.signal("ENDPOINT"); endpoint != "" {
		if u, err := url.Parse(endpoint); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			e.problem(variable, "is no address such as http://collector:4318") // it can have a password in it
		}
	}
	if compression, variable := e.signal("COMPRESSION"); compression != "" && compression != "gzip" && compression != "none" {
		e.problem(variable, "is %q: give gzip or none", compression)
	}
	if timeout, variable := e.signal("TIMEOUT"); timeout != "" {
		e.number(variable, timeout)
	}
	e.headers()
	e.files()
	e.sampler()
	e.propagators()
	for _, name := range []string{"OTEL_BSP_SCHEDULE_DELAY", "OTEL_BSP_EXPORT_TIMEOUT", "OTEL_BSP_MAX_QUEUE_SIZE", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE"} {
		if value := e.get(name); value != "" {
			e.number(name, value)
		}
	}
	return protocol
}

func (e *environment) oneOf(name string, values ...string) {
	if value := e.get(name); value != "" && !slices.Contains(values, strings.ToLower(value)) {
		e.problem(name, "is %q: give %s", value, strings.Join(values, " or "))
	}
}

// mostNumber bounds what is counted in milliseconds and in spans.
const mostNumber = 1_000_000

func (e *environment) number(name, value string) {
	if n, err := strconv.Atoi(value); err != nil || n < 1 || n > mostNumber {
		e.problem(name, "is %q: give a whole number from 1 to %d, without a unit", value, mostNumber)
	}
}

// headers can be credentials: no part of them is repeated.
func (e *environment) headers() {
	list, variable := e.signal("HEADERS")
	if list == "" {
		return
	}
	for item := range strings.SplitSeq(list, ",") {
		name, value, ok := strings.Cut(item, "=")
		if _, err := url.PathUnescape(value); !ok || strings.TrimSpace(name) == "" || err != nil {
			e.problem(variable, "is not a list such as name=value,other=value, with values percent-encoded")
			return
		}
	}
}

func (e *environment) files() {
	for _, name := range []string{"CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY"} {
		path, variable := e.signal(name)
		if path == "" {
			continue
		}
		if _, err := os.ReadFile(path); err != nil {
			e.problem(variable, "names a file that cannot be read: %v", err)
		}
	}
}

var samplers = []string{"always_on", "always_off", "traceidratio", "parentbased_always_on", "parentbased_always_off", "parentbased_traceidratio"}

func (e *environment) sampler() {
	e.oneOf("OTEL_TRACES_SAMPLER", samplers...)
	argument := e.get("OTEL_TRACES_SAMPLER_ARG")
	if argument == "" || !strings.HasSuffix(strings.ToLower(e.get("OTEL_TRACES_SAMPLER")), "traceidratio") {
		return
	}
	if ratio, err := strconv.ParseFloat(argument, 64); err != nil || !(ratio >= 0 && ratio <= 1) {
		e.problem("OTEL_TRACES_SAMPLER_ARG", "is %q: give a number from 0 to 1", argument)
	}
}

// propagators: a message carries the headers of W3C Trace Context, and nothing else of this kind.
func (e *environment) propagators() {
	list := e.get("OTEL_PROPAGATORS")
	if list == "" {
		return
	}
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name != "tracecontext" && name != "baggage" {
			e.problem("OTEL_PROPAGATORS", "has %q: messages carry tracecontext only", name)
		}
	}
}
