package probes

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve starts a server on a free port.
func serve(t *testing.T, o Options) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if o.Ready == nil {
		o.Ready = func() error { return nil }
	}
	if o.Metrics == nil {
		o.Metrics = http.NotFoundHandler()
	}
	s := Start(l, o)
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			t.Errorf("stop: %v", err)
		}
		if err := s.Stop(ctx); err != nil {
			t.Errorf("the second stop: %v", err)
		}
	})
	return s.Address()
}

func ask(t *testing.T, method, url string) (status int, body string, h http.Header) {
	t.Helper()
	r, err := http.NewRequest(method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(data), answer.Header
}

func TestPaths(t *testing.T) {
	var problem atomic.Pointer[error]
	address := serve(t, Options{
		Ready: func() error {
			if err := problem.Load(); err != nil {
				return *err
			}
			return nil
		},
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "numbers") }),
	})
	away := errors.New("NATS cannot be reached")
	for _, c := range []struct {
		method, path string
		problem      *error
		status       int
		body         string
	}{
		{"GET", "/livez", nil, 200, "ok\n"},
		{"GET", "/readyz", nil, 200, "ok\n"},
		{"GET", "/livez", &away, 200, "ok\n"},
		{"GET", "/readyz", &away, 503, "not ready: NATS cannot be reached\n"},
		{"HEAD", "/readyz", &away, 503, ""},
		{"HEAD", "/livez", &away, 200, ""},
		{"GET", "/metrics", &away, 200, "numbers"},
		{"GET", "/", nil, 404, "there are /livez, /readyz and /metrics here\n"},
		{"GET", "/livez/", nil, 404, "there are /livez, /readyz and /metrics here\n"},
		{"POST", "/livez", nil, 405, "this address is read-only: use GET or HEAD\n"},
		{"DELETE", "/metrics", nil, 405, "this address is read-only: use GET or HEAD\n"},
	} {
		problem.Store(c.problem)
		status, body, h := ask(t, c.method, "http://"+address+c.path)
		if status != c.status || body != c.body {
			t.Errorf("%s %s: %d %q, want %d %q", c.method, c.path, status, body, c.status, c.body)
		}
		if status == 405 && h.Get("Allow") != "GET, HEAD" {
			t.Errorf("%s %s: Allow is %q", c.method, c.path, h.Get("Allow"))
		}
	}
}

func TestLiveWhileMetricsHang(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	address := serve(t, Options{Metrics: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(entered)
		<-release
	})})
	done := make(chan struct{})
	go func() {
		defer close(done)
		if answer, err := http.Get("http://" + address + "/metrics"); err == nil {
			answer.Body.Close()
		}
	}()
	<-entered
	if status, _, _ := ask(t, "GET", "http://"+address+"/livez"); status != 200 {
		t.Errorf("livez: %d", status)
	}
	close(release)
	<-done
}

func TestBounds(t *testing.T) {
	address := serve(t, Options{})
	t.Run("headers", func(t *testing.T) {
		r, _ := http.NewRequest("GET", "http://"+address+"/livez", nil)
		r.Header.Set("X", strings.Repeat("x", 64<<10))
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return // hung up on while it was still writing
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("status %d", answer.StatusCode)
		}
	})
	t.Run("connections", func(t *testing.T) {
		http.DefaultClient.CloseIdleConnections()
		var open []net.Conn
		defer func() {
			for _, c := range open {
				c.Close()
			}
		}()
		dial := func() net.Conn {
			c, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, c)
			_ = c.SetDeadline(time.Now().Add(4 * time.Second)) // sooner than the server gives up on a silent client
			return c
		}
		alive := func(c net.Conn) bool {
			fmt.Fprint(c, "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
			answer, err := http.ReadResponse(bufio.NewReader(c), nil)
			return err == nil && answer.StatusCode == 200
		}
		refused := 0
		for range MaxConnections + 8 {
			if c := dial(); !alive(c) {
				refused++
			}
		}
		// The connections of earlier tests may still have a slot for a moment.
		if refused < 8 || refused > 12 {
			t.Errorf("%d connections of %d were refused", refused, len(open))
		}
		if !alive(open[0]) {
			t.Error("the first one was hung up on")
		}
	})
}
