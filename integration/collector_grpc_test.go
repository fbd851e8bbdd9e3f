package integration

import (
	"context"
	"net"
	"testing"

	collect "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// grpcCollector receives what a collector does, over gRPC.
type grpcCollector struct {
	collect.UnimplementedTraceServiceServer
	*collector
	url     string
	sent    metadata.MD // with the last request; guarded by the collector's lock
	stopped chan struct{}
}

func startGRPCCollector(t *testing.T) *grpcCollector {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &grpcCollector{
		collector: &collector{t: t, services: map[string]bool{}}, url: "http://" + l.Addr().String(), stopped: make(chan struct{}),
	}
	server := grpc.NewServer()
	collect.RegisterTraceServiceServer(server, c)
	go func() {
		defer close(c.stopped)
		_ = server.Serve(l) // ends with Stop
	}()
	t.Cleanup(func() { server.Stop(); <-c.stopped })
	return c
}

// Export implements collect.TraceServiceServer.
func (c *grpcCollector) Export(ctx context.Context, request *collect.ExportTraceServiceRequest) (*collect.ExportTraceServiceResponse, error) {
	sent, _ := metadata.FromIncomingContext(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent = sent
	c.keepLocked(request)
	return &collect.ExportTraceServiceResponse{}, nil
}
