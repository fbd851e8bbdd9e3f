package client_test

import (
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/client"
)

// benchmarkPull pulls body, 64 frames, over a socket, and sends 64 settlements each time.
func benchmarkPull(b *testing.B, body []byte) {
	listener, err := net.Listen("unix", filepath.Join(b.TempDir(), "s"))
	if err != nil {
		b.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", api.TypeFrames)
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body)
	})}
	go func() { _ = server.Serve(listener) }()
	c := client.New(listener.Addr().String())
	defer func() { c.Close(); _ = server.Close() }()
	var settle []api.Settlement
	b.ReportAllocs()
	for b.Loop() {
		got, err := c.Pull(b.Context(), client.PullRequest{Capsule: "c", Max: 64, Settle: settle})
		if err != nil || len(got.Deliveries) != 64 {
			b.Fatal(err)
		}
		settle = settle[:0]
		for i := range got.Deliveries {
			settle = append(settle, api.Settlement{Token: got.Deliveries[i].Token, Result: api.Ack})
		}
	}
	b.ReportMetric(float64(b.N)*64/b.Elapsed().Seconds(), "msg/s")
}
