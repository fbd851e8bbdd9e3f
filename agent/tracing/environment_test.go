package tracing

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
)

func process(env map[string]string) Process {
	lookup := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	return Process{Lookup: lookup, Logger: hclog.NewNullLogger(), Version: "1.2.3", Agent: "agent-1"}
}

// Nothing asks for traces: there are none.
func TestOffByDefault(t *testing.T) {
	for name, env := range map[string]map[string]string{
		"nothing":          {},
		"empty":            {"OTEL_EXPORTER_OTLP_ENDPOINT": ""},
		"a service's name": {"OTEL_SERVICE_NAME": "x", "OTEL_TRACES_SAMPLER": "always_on"},
		"none":             {"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"},
		"disabled":         {"OTEL_SDK_DISABLED": "TRUE", "OTEL_TRACES_EXPORTER": "otlp"},
	} {
		if tracer, err := FromEnvironment(t.Context(), process(env)); tracer != nil || err != nil {
			t.Errorf("%s: %v, %v", name, tracer, err)
		}
	}
	if err := (*Tracer)(nil).Stop(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestOnWhenAskedFor(t *testing.T) {
	for name, env := range map[string]map[string]string{
		"an address":            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"},
		"an address for traces": {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://127.0.0.1:1/v1/traces"},
		"an exporter":           {"OTEL_TRACES_EXPORTER": "otlp"},
		"all of it": {
			"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_HEADERS": "a=b,c=d%20e",
			"OTEL_EXPORTER_OTLP_COMPRESSION": "gzip", "OTEL_EXPORTER_OTLP_TIMEOUT": "5000", "OTEL_TRACES_SAMPLER": "parentbased_traceidratio",
			"OTEL_TRACES_SAMPLER_ARG": "0.25", "OTEL_PROPAGATORS": "tracecontext,baggage", "OTEL_BSP_MAX_QUEUE_SIZE": "100", "OTEL_SDK_DISABLED": "false",
		},
	} {
		tracer, err := FromEnvironment(t.Context(), process(env))
		if tracer == nil || err != nil {
			t.Errorf("%s: %v, %v", name, tracer, err)
			continue
		}
		if err := tracer.Stop(context.Background()); err != nil {
			t.Errorf("%s: stop: %v", name, err)
		}
	}
}

// Whatever cannot be used is named, with what would be right, and no value that may be secret is repeated.
func TestMistakesAreTold(t *testing.T) {
	on := "OTEL_EXPORTER_OTLP_ENDPOINT"
	for name, c := range map[string]struct {
		env  map[string]string
		want string
	}{
		"exporter":       {map[string]string{"OTEL_TRACES_EXPORTER": "zipkin"}, `OTEL_TRACES_EXPORTER is "zipkin": give otlp or none`},
		"disabled":       {map[string]string{"OTEL_SDK_DISABLED": "yes"}, `OTEL_SDK_DISABLED is "yes": give true or false`},
		"protocol":       {map[string]string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/json"}, `OTEL_EXPORTER_OTLP_TRACES_PROTOCOL is "http/json": give http/protobuf or grpc`},
		"no scheme":      {map[string]string{on: "collector:4318"}, "OTEL_EXPORTER_OTLP_ENDPOINT is no address such as http://collector:4318"},
		"other scheme":   {map[string]string{on: "ftp://u:s3cret@collector"}, "OTEL_EXPORTER_OTLP_ENDPOINT is no address"},
		"no URL":         {map[string]string{on: "http://u:s3cret@%zz"}, "OTEL_EXPORTER_OTLP_ENDPOINT is no address"},
		"compression":    {map[string]string{"OTEL_EXPORTER_OTLP_COMPRESSION": "zip"}, "give gzip or none"},
		"timeout":        {map[string]string{"OTEL_EXPORTER_OTLP_TIMEOUT": "10s"}, `OTEL_EXPORTER_OTLP_TIMEOUT is "10s": give a whole number`},
		"headers":        {map[string]string{"OTEL_EXPORTER_OTLP_HEADERS": "Authorization: Bearer s3cret"}, "OTEL_EXPORTER_OTLP_HEADERS is not a list such as name=value"},
		"headers' codes": {map[string]string{"OTEL_EXPORTER_OTLP_HEADERS": "a=s3cret%"}, "OTEL_EXPORTER_OTLP_HEADERS is not a list"},
		"certificate":    {map[string]string{"OTEL_EXPORTER_OTLP_CERTIFICATE": "/no/such/file"}, "OTEL_EXPORTER_OTLP_CERTIFICATE names a file that cannot be read"},
		"sampler":        {map[string]string{"OTEL_TRACES_SAMPLER": "sometimes"}, `OTEL_TRACES_SAMPLER is "sometimes": give always_on or`},
		"ratio":          {map[string]string{"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "25%"}, `OTEL_TRACES_SAMPLER_ARG is "25%": give a number from 0 to 1`},
		"ratio's range":  {map[string]string{"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "NaN"}, "OTEL_TRACES_SAMPLER_ARG"},
		"propagators":    {map[string]string{"OTEL_PROPAGATORS": "b3"}, `OTEL_PROPAGATORS has "b3"`},
		"queue":          {map[string]string{"OTEL_BSP_MAX_QUEUE_SIZE": "0"}, "OTEL_BSP_MAX_QUEUE_SIZE"},
		"several":        {map[string]string{"OTEL_PROPAGATORS": "b3", "OTEL_TRACES_SAMPLER": "x"}, "; OTEL_PROPAGATORS"},
	} {
		if _, ok := c.env[on]; !ok {
			c.env[on] = "http://127.0.0.1:1"
		}
		tracer, err := FromEnvironment(t.Context(), process(c.env))
		if tracer != nil || !errors.Is(err, ErrEnvironment) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want it to say %s", name, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: a secret is repeated: %v", name, err)
		}
	}
}
