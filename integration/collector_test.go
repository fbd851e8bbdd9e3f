package integration

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	collect "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	traces "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// A collector receives spans as an OpenTelemetry collector does: OTLP over HTTP, in protobuf.
type collector struct {
	t      *testing.T
	server *httptest.Server

	mu       sync.Mutex
	spans    []span
	services map[string]bool
	headers  http.Header // of the last request
	raw      []byte      // all that was received
}

// span is what tests look at.
type span struct {
	name, trace, id, parent string
	kind                    traces.Span_SpanKind
	failed                  bool
	began, ended            uint64
	attributes              map[string]string
}

func startCollector(t *testing.T) *collector {
	c := &collector{t: t, services: map[string]bool{}}
	c.server = httptest.NewServer(http.HandlerFunc(c.receive))
	t.Cleanup(c.server.Close)
	return c
}

// env sends an agent's spans here, at once.
func (c *collector) env(more ...string) []string {
	return append([]string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.server.URL, "OTEL_BSP_SCHEDULE_DELAY=20"}, more...)
}

func (c *collector) receive(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var request collect.ExportTraceServiceRequest
	if err != nil || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" || proto.Unmarshal(body, &request) != nil {
		c.t.Errorf("the collector got %s %s, %s: %v", r.Method, r.URL, r.Header, err)
		http.Error(w, "no", http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.headers, c.raw = r.Header, append(c.raw, body...)
	c.keepLocked(&request)
}

// keepLocked takes over the spans of one request.
func (c *collector) keepLocked(request *collect.ExportTraceServiceRequest) {
	for _, resource := range request.ResourceSpans {
		c.services[texts(resource.Resource.GetAttributes())["service.name"]] = true
		for _, scope := range resource.ScopeSpans {
			for _, s := range scope.Spans {
				c.spans = append(c.spans, span{
					name: s.Name, trace: hex.EncodeToString(s.TraceId), id: hex.EncodeToString(s.SpanId), parent: hex.EncodeToString(s.ParentSpanId), kind: s.Kind,
					failed: s.Status.GetCode() == traces.Status_STATUS_CODE_ERROR, began: s.StartTimeUnixNano, ended: s.EndTimeUnixNano, attributes: texts(s.Attributes),
				})
			}
		}
	}
}

func texts(list []*common.KeyValue) map[string]string {
	all := map[string]string{}
	for _, a := range list {
		all[a.Key] = a.Value.GetStringValue()
	}
	return all
}

// await waits until a trace has so many spans, and returns them by name.
func (c *collector) await(trace string, names ...string) map[string]span {
	c.t.Helper()
	var found map[string]span
	eventually(c.t, "the collector has "+strings.Join(names, ", ")+" of trace "+trace, patience, func() bool {
		found = map[string]span{}
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, s := range c.spans {
			if s.trace == trace {
				found[s.name] = s
			}
		}
		for _, name := range names {
			if _, ok := found[name]; !ok {
				return false
			}
		}
		return true
	})
	if len(found) != len(names) {
		c.t.Errorf("trace %s has the spans %v, want %v", trace, found, names)
	}
	return found
}
