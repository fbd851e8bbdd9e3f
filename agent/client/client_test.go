package client_test

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/client"
	"github.com/fairlead/fairlead/agent/client/clienttest"
)

// connect returns a client of a, and a context that ends with the test.
func connect(t *testing.T, a *clienttest.Agent) (*client.Client, context.Context) {
	t.Helper()
	c := client.New(a.Socket)
	t.Cleanup(c.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return c, ctx
}

// serve answers every request on a new socket with handler.
func serve(t *testing.T, handler http.HandlerFunc) (*client.Client, context.Context) {
	t.Helper()
	dir, err := os.MkdirTemp("", "fl")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	listener, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	c := client.New(filepath.Join(dir, "s"))
	t.Cleanup(func() { c.Close(); _ = server.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return c, ctx
}

func TestNobodyThere(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{
		"no file":      filepath.Join(dir, "none"),
		"no folder":    filepath.Join(dir, "none", "none"),
		"not a dir":    filepath.Join(file, "none"),
		"plain file":   file,
		"stale socket": staleSocket(t),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := client.New(path).Status(t.Context())
			if !errors.Is(err, client.ErrNoAgent) {
				t.Fatalf("got %v, want ErrNoAgent", err)
			}
			if !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "FAIRLEAD_SOCKET") {
				t.Errorf("%q does not say which socket, or what to do", err)
			}
			if !client.IsRetryable(err) {
				t.Error("an agent may start any moment: want retryable")
			}
		})
	}
}

// staleSocket returns the path of a socket file that nobody listens on.
func staleSocket(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	listener.SetUnlinkOnClose(false)
	_ = listener.Close()
	return path
}

func TestNotAllowed(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may open every socket")
	}
	a := clienttest.New(t)
	if err := os.Chmod(a.Socket, 0); err != nil {
		t.Fatal(err)
	}
	c, ctx := connect(t, a)
	if _, err := c.Status(ctx); !errors.Is(err, fs.ErrPermission) || errors.Is(err, client.ErrNoAgent) {
		t.Fatalf("got %v, want a permission error", err)
	}
}

func TestAgentsErrorsArriveAsTheyAre(t *testing.T) {
	for name, row := range map[string]struct {
		status int
		body   string
		want   api.Error
	}{
		"with reason": {429, `{"error":{"code":"queue_full","message":"wait","reason":"max_bytes"}}`,
			api.Error{Code: api.CodeQueueFull, Message: "wait", Reason: "max_bytes"}},
		"not ours": {502, "<html>bad gateway</html>", api.Error{Code: api.CodeInternal}},
		"empty":    {500, "", api.Error{Code: api.CodeInternal}},
		"no code":  {400, `{"error":{}}`, api.Error{Code: api.CodeInternal}},
		"huge":     {400, strings.Repeat("x", 1<<20), api.Error{Code: api.CodeInternal}},
	} {
		t.Run(name, func(t *testing.T) {
			c, ctx := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(row.status)
				_, _ = w.Write([]byte(row.body))
			})
			_, err := c.Publish(ctx, "q", client.Message{})
			var got *api.Error
			if !errors.As(err, &got) {
				t.Fatalf("got %v, want an *api.Error", err)
			}
			if got.Code != row.want.Code || row.want.Message != "" && *got != row.want {
				t.Errorf("got %+v, want %+v", got, row.want)
			}
			if len(got.Message) > 2000 {
				t.Errorf("a message of %d bytes", len(got.Message))
			}
		})
	}
}

func TestAnAnswerThatBreaksOffIsALostConnection(t *testing.T) {
	for name, answer := range map[string]string{
		"nothing at all": "",
		"half a head":    "HTTP/1.1 200 OK\r\nContent-",
		"half a body":    "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{",
		"half a chunk":   "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n50\r\n{",
		"not HTTP":       "what?\r\n\r\n",
		"not JSON":       "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{",
	} {
		t.Run(name, func(t *testing.T) {
			c, ctx := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				conn, _, err := w.(http.Hijacker).Hijack()
				if err != nil {
					return
				}
				_, _ = conn.Write([]byte(answer))
				_ = conn.Close()
			})
			_, err := c.Status(ctx)
			if !errors.Is(err, client.ErrConnectionLost) || !client.IsRetryable(err) {
				t.Fatalf("got %v, want ErrConnectionLost", err)
			}
		})
	}
}

func TestAnAnswerThatIsTooLarge(t *testing.T) {
	t.Run("said to be", func(t *testing.T) {
		c, ctx := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "300000000000")
			w.WriteHeader(http.StatusOK)
		})
		if _, err := c.Status(ctx); !errors.Is(err, client.ErrAnswerTooLarge) {
			t.Fatalf("got %v", err)
		}
	})
	t.Run("claims much, sends little", func(t *testing.T) {
		c, ctx := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "268435456")
			_, _ = w.Write([]byte("{"))
		})
		if _, err := c.Status(ctx); !errors.Is(err, client.ErrConnectionLost) {
			t.Fatalf("got %v", err)
		}
	})
}

func TestContextsEndCalls(t *testing.T) {
	a := clienttest.New(t)
	c, _ := connect(t, a)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := c.Pull(ctx, client.PullRequest{Capsule: "default", Wait: time.Hour})
		ended <- err
	}()
	a.Await(t, "the pull", func() bool { return a.Requests() == 1 })
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) || client.IsRetryable(err) {
		t.Fatalf("got %v, want context.Canceled", err)
	}
}

func TestWaitReady(t *testing.T) {
	t.Parallel() // it waits most of the time
	dir, err := os.MkdirTemp("", "fl")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "agent.sock")
	c := client.New(path)
	defer c.Close()

	short, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond) // long enough for one try on a slow machine
	defer cancel()
	err = c.WaitReady(short)
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, client.ErrNoAgent) {
		t.Fatalf("got %v, want that the time is over and why", err)
	}

	ready := make(chan error, 1)
	go func() { ready <- c.WaitReady(t.Context()) }()
	a, err := clienttest.Start(path)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Stop()
	if err := <-ready; err != nil {
		t.Fatal(err)
	}
}

func TestParseSocket(t *testing.T) {
	for address, want := range map[string]string{
		"unix:///run/a.sock": "/run/a.sock",
		"unix:/run/a.sock":   "/run/a.sock",
		"unix:a.sock":        "a.sock",
		"/run/a.sock":        "/run/a.sock",
		"./a.sock":           "./a.sock",
	} {
		if got, err := client.ParseSocket(address); err != nil || got != want {
			t.Errorf("ParseSocket(%q) = %q, %v; want %q", address, got, err, want)
		}
	}
	for _, address := range []string{
		"", "unix:", "unix://", "unix://host/path", "http://localhost:80", "tcp://a", "/a\x00b", "/" + strings.Repeat("a", 107),
	} {
		if got, err := client.ParseSocket(address); !errors.Is(err, client.ErrNotSocket) {
			t.Errorf("ParseSocket(%q) = %q, %v; want ErrNotSocket", address, got, err)
		}
	}
}
