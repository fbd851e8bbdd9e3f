package dashboard

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/overview"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeOverviews are shot by hand.
type fakeOverviews struct {
	mu       sync.Mutex
	watching int
	last     *overview.Shot
	next     chan struct{}
}

func (f *fakeOverviews) Watch() func() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watching++
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.watching--
	}
}

func (f *fakeOverviews) After(ctx context.Context, number uint64) (*overview.Shot, error) {
	for {
		f.mu.Lock()
		last, next := f.last, f.next
		f.mu.Unlock()
		if last != nil && last.Number > number {
			return last, nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (f *fakeOverviews) shoot(number uint64, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = &overview.Shot{Number: number, Overview: &api.Overview{}, JSON: []byte(text)}
	close(f.next)
	f.next = make(chan struct{})
}

func (f *fakeOverviews) viewers() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.watching
}

func serve(t *testing.T, address string) (*Server, *fakeOverviews) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeOverviews{next: make(chan struct{})}
	s := Start(l, Options{Address: address, Overviews: f})
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		for range 2 {
			if err := s.Stop(ctx); err != nil {
				t.Errorf("stop: %v", err)
			}
		}
	})
	return s, f
}

func request(t *testing.T, s *Server, method, path, host string) (int, string, http.Header) {
	t.Helper()
	r, err := http.NewRequest(method, strings.TrimSuffix(s.URL(), "/")+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if host != "" {
		r.Host = host
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body), answer.Header
}

func TestPaths(t *testing.T) {
	s, _ := serve(t, "127.0.0.1:9465")
	for _, c := range []struct {
		method, path string
		status       int
		kind, part   string
	}{
		{"GET", "/", 200, "text/html; charset=utf-8", "<title>Fairlead</title>"},
		{"GET", "/app.js", 200, "text/javascript; charset=utf-8", "EventSource"},
		{"GET", "/app.css", 200, "text/css; charset=utf-8", "prefers-color-scheme: dark"},
		{"GET", "/icon.svg", 200, "image/svg+xml", "<svg"},
		{"HEAD", "/", 200, "text/html; charset=utf-8", ""},
		{"HEAD", "/events", 200, "text/event-stream", ""},
		{"GET", "/index.html", 404, "text/plain; charset=utf-8", "there is one page"},
		{"GET", "/page/app.js", 404, "text/plain; charset=utf-8", ""},
		{"GET", "/v1/status", 404, "text/plain; charset=utf-8", ""},
		{"POST", "/", 405, "text/plain; charset=utf-8", "read-only"},
		{"PUT", "/events", 405, "text/plain; charset=utf-8", "read-only"},
		{"DELETE", "/app.js", 405, "text/plain; charset=utf-8", "read-only"},
	} {
		status, body, h := request(t, s, c.method, c.path, "")
		if status != c.status || h.Get("Content-Type") != c.kind || !strings.Contains(body, c.part) {
			t.Errorf("%s %s: %d %s %.80q", c.method, c.path, status, h.Get("Content-Type"), body)
		}
		if c.method == "HEAD" && body != "" {
			t.Errorf("HEAD %s has a body", c.path)
		}
		csp := h.Get("Content-Security-Policy")
		if !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") || strings.Contains(csp, "http") ||
			h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Cache-Control") != "no-store" {
			t.Errorf("%s %s: headers %v", c.method, c.path, h)
		}
	}
}

// The page is what its policy says: no code or style inside of the HTML, nothing from elsewhere, and nothing is made HTML of.
func TestThePageKeepsItsPolicy(t *testing.T) {
	for _, a := range assets {
		data, err := files.ReadFile(a.file)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(string(data), "http://www.w3.org/2000/svg", "")
		for _, no := range []string{"http://", "https://", "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", " style=\"", " onclick", "@import"} {
			if strings.Contains(text, no) {
				t.Errorf("%s has %q", a.file, no)
			}
		}
	}
}

func TestHosts(t *testing.T) {
	for _, c := range []struct {
		address string
		yes, no []string
	}{
		{"127.0.0.1:9465",
			[]string{"localhost:9465", "127.0.0.1:9465", "127.0.0.1", "127.1.2.3:80", "[::1]:9465", "[::1]", "LOCALHOST", "localhost.:1", "fairlead.localhost:9465", "[::ffff:127.0.0.1]:1"},
			[]string{"", "evil.example", "evil.example:9465", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.5:9465", "0.0.0.0:9465", "evil-localhost", "[::2]:9465", "2130706433"}},
		{"dash.internal:80", []string{"dash.internal", "DASH.internal:80", "dash.internal.:80", "localhost"}, []string{"internal", "x.dash.internal", "10.0.0.5"}},
		{"10.0.0.5:9465", []string{"10.0.0.5:9465", "localhost:1"}, []string{"10.0.0.6:9465", "evil.example"}},
		{":9465", []string{"10.0.0.5:9465", "[2001:db8::1]:9465", "localhost:1", "127.0.0.1"}, []string{"evil.example:9465", "pod.default.svc", ""}},
		{"0.0.0.0:9465", []string{"192.168.1.4:9465"}, []string{"evil.example"}},
	} {
		h := hostsOf(c.address)
		for _, host := range c.yes {
			if !h.allows(host) {
				t.Errorf("at %s, %q is refused", c.address, host)
			}
		}
		for _, host := range c.no {
			if h.allows(host) {
				t.Errorf("at %s, %q is allowed", c.address, host)
			}
		}
	}
	s, f := serve(t, "127.0.0.1:9465")
	for _, path := range []string{"/", "/app.js", "/events"} {
		status, body, _ := request(t, s, "GET", path, "evil.example:9465")
		if status != http.StatusMisdirectedRequest || !strings.Contains(body, "listen.dashboard_http") {
			t.Errorf("%s under a foreign name: %d %s", path, status, body)
		}
	}
	if f.viewers() != 0 {
		t.Error("who is refused makes the agent look")
	}
}

// viewer reads events.
type viewer struct {
	t      *testing.T
	body   io.ReadCloser
	lines  *bufio.Reader
	cancel context.CancelFunc
}

func view(t *testing.T, s *Server, header ...string) (*viewer, int) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, "GET", s.URL()+"events", nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { answer.Body.Close() })
	return &viewer{t, answer.Body, bufio.NewReader(answer.Body), cancel}, answer.StatusCode
}

// next returns the next event's data; "" at the end.
func (v *viewer) next() string {
	for {
		line, err := v.lines.ReadString('\n')
		if err != nil {
			return ""
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			return strings.TrimSpace(data)
		}
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 10 s: %s", what)
		}
	}
}

func TestEvents(t *testing.T) {
	s, f := serve(t, "127.0.0.1:9465")
	f.shoot(1, `{"n":1}`)
	one, status := view(t, s)
	two, _ := view(t, s)
	if status != 200 || one.next() != `{"n":1}` || two.next() != `{"n":1}` {
		t.Fatal("the last overview is not shown at once")
	}
	f.shoot(2, `{"n":2}`)
	if one.next() != `{"n":2}` || two.next() != `{"n":2}` {
		t.Fatal("an overview is missing")
	}
	eventually(t, "two viewers", func() bool { return f.viewers() == 2 })
	two.cancel()
	eventually(t, "one viewer", func() bool { return f.viewers() == 1 })
	if _, status := view(t, s, "Sec-Fetch-Site", "cross-site"); status != http.StatusForbidden {
		t.Errorf("another site's page may look: %d", status)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := s.Stop(ctx); err != nil {
		t.Errorf("stop waits for viewers: %v", err)
	}
	if one.next() != "" || f.viewers() != 0 {
		t.Error("a viewer is left after Stop")
	}
}

func TestViewersAreBounded(t *testing.T) {
	s, f := serve(t, "127.0.0.1:9465")
	f.shoot(1, "{}")
	var first *viewer
	for i := range MaxViewers {
		v, status := view(t, s)
		if status != 200 {
			t.Fatalf("viewer %d: %d", i, status)
		}
		if first == nil {
			first = v
		}
	}
	v, status := view(t, s)
	if said, _ := io.ReadAll(v.body); status != http.StatusServiceUnavailable || !strings.Contains(string(said), fmt.Sprint(MaxViewers)) {
		t.Errorf("one too many: %d %s", status, said)
	}
	if status, _, _ := request(t, s, "GET", "/", ""); status != 200 {
		t.Errorf("the page while all places are taken: %d", status)
	}
	first.cancel()
	eventually(t, "a place", func() bool {
		v, status := view(t, s)
		if status != 200 {
			v.cancel()
		}
		return status == 200
	})
}

// Who does not read keeps nobody waiting, and sees the newest one when it does again.
func TestASlowViewer(t *testing.T) {
	s, f := serve(t, "127.0.0.1:9465")
	slow, _ := view(t, s)
	quick, _ := view(t, s)
	pad := strings.Repeat("x", 256<<10)
	for n := uint64(1); n <= 40; n++ {
		text := fmt.Sprintf(`{"n":%d,"pad":%q}`, n, pad)
		f.shoot(n, text)
		if got := quick.next(); got != text {
			t.Fatalf("overview %d: %.20s", n, got)
		}
	}
	last := ""
	seen := 0
	for !strings.HasPrefix(last, `{"n":40,`) {
		if last = slow.next(); last == "" {
			t.Fatal("the slow one was hung up on")
		}
		seen++
	}
	if seen == 40 {
		t.Log("the slow one missed none: buffers are large here")
	}
}
