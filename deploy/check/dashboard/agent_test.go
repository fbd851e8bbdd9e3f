package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// binary is the agent, built once.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "fairlead-dashboard")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "fairlead")
	build := exec.Command("go", "build", "-o", path, "./cmd/agent")
	build.Dir = filepath.Join("..", "..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

const queues = `queues:
  - name: orders
    priority_levels: [high, medium, low]
    fair_share: {enabled: true, weights: {premium: 3}}
    retry: {max_attempts: 1}
  - {name: ledger, priority_levels: 2, single_active_consumer: true}
capsules:
  - {name: primary, queues: [ledger, orders], concurrency: 32}
`

// agent is a real agent with an embedded server.
type agent struct {
	t       *testing.T
	dir     string
	address string // of the dashboard
	process *exec.Cmd
	http    *http.Client
}

func newAgent(t *testing.T) *agent {
	t.Helper()
	dir, err := os.MkdirTemp("", "fl") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	a := &agent{t: t, dir: dir, address: l.Addr().String()}
	l.Close()
	a.http = &http.Client{Transport: &http.Transport{
		MaxIdleConnsPerHost: 16,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(dir, "a.sock"))
		},
	}}
	file := fmt.Sprintf("agent: {id: orders-7f9c}\nnats: {embedded: {store_dir: %s/js}}\nlisten: {socket: %s/a.sock, probes_http: \"\", dashboard_http: %q}\n%s", dir, dir, a.address, queues)
	if err := os.WriteFile(filepath.Join(dir, "f.yaml"), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	a.start()
	t.Cleanup(func() {
		a.stop()
		os.RemoveAll(dir)
	})
	return a
}

func (a *agent) start() {
	a.t.Helper()
	path, err := binary()
	if err != nil {
		a.t.Fatal(err)
	}
	var log bytes.Buffer
	a.process = exec.Command(path, "run", "--config", filepath.Join(a.dir, "f.yaml"))
	a.process.Stderr = &log
	if err := a.process.Start(); err != nil {
		a.t.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); ; {
		if answer, err := a.http.Get("http://agent/v1/status"); err == nil {
			answer.Body.Close()
			return
		}
		if time.Now().After(deadline) {
			a.kill()
			a.t.Fatalf("the agent does not answer: %s", log.String())
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (a *agent) stop() {
	if a.process != nil {
		_ = a.process.Process.Signal(syscall.SIGTERM)
		_ = a.process.Wait()
		a.process = nil
	}
}

func (a *agent) kill() {
	_ = a.process.Process.Kill()
	_ = a.process.Wait()
	a.process = nil
}

// publish stores n messages of a tenant.
func (a *agent) publish(queue, key string, level, n int) {
	a.t.Helper()
	line, err := json.Marshal(map[string]any{"data": "x", "key": key, "priority": level})
	if err != nil {
		a.t.Fatal(err)
	}
	body := strings.Repeat(string(line)+"\n", n)
	answer, err := a.http.Post("http://agent/v1/queues/"+queue+"/batch", "application/x-ndjson", strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	defer answer.Body.Close()
	var all bytes.Buffer
	_, _ = all.ReadFrom(answer.Body)
	if answer.StatusCode != http.StatusOK || strings.Contains(all.String(), `"error"`) {
		a.t.Fatalf("publish: %d %.300s", answer.StatusCode, all.String())
	}
}

// delivery is a line of a pull's answer.
type delivery struct {
	Token string `json:"token"`
	Key   string `json:"key"`
}

// reasons are why messages of some tenants are rejected.
var reasons = map[string]string{"broken": "card expired <b>in</b> March", "zenith": "no such account"}

// work pulls and settles until ctx ends: hands at a time, each of which takes its time for a message.
func (a *agent) work(ctx context.Context, hands int, each time.Duration) (wait func()) {
	var all sync.WaitGroup
	for range hands {
		all.Go(func() {
			var done []map[string]string
			for ctx.Err() == nil {
				body, _ := json.Marshal(done)
				if done == nil {
					body = nil
				}
				r, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://agent/v1/capsules/primary/pull?max=1&wait=5s", bytes.NewReader(body))
				answer, err := a.http.Do(r)
				if err != nil {
					select { // the agent is away
					case <-time.After(100 * time.Millisecond):
					case <-ctx.Done():
					}
					continue
				}
				done = nil
				for lines := json.NewDecoder(answer.Body); lines.More(); {
					var d delivery
					if lines.Decode(&d) != nil {
						break
					}
					if d.Token == "" {
						continue
					}
					select {
					case <-time.After(each):
					case <-ctx.Done():
					}
					result := map[string]string{"token": d.Token, "result": "ack"}
					if reason := reasons[d.Key]; reason != "" {
						result["result"], result["reason"] = "reject", reason
					}
					done = append(done, result)
				}
				answer.Body.Close()
			}
		})
	}
	return all.Wait
}

// trickle publishes a message of each tenant every so often, until ctx ends.
func (a *agent) trickle(ctx context.Context, every time.Duration, keys ...string) (wait func()) {
	var all sync.WaitGroup
	all.Go(func() {
		for ticks := time.NewTicker(every); ; {
			select {
			case <-ctx.Done():
				ticks.Stop()
				return
			case <-ticks.C:
				for _, key := range keys {
					r, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://agent/v1/queues/orders/messages", strings.NewReader("x"))
					r.Header.Set("Fairlead-Key", key)
					if answer, err := a.http.Do(r); err == nil {
						answer.Body.Close()
					}
				}
			}
		}
	})
	return all.Wait
}

// publishMany stores a message of each of n tenants.
func (a *agent) publishMany(queue string, n int) {
	a.t.Helper()
	var body strings.Builder
	for i := range n {
		fmt.Fprintf(&body, "{\"data\":\"x\",\"key\":\"tenant%05d\",\"priority\":1}\n", i)
	}
	answer, err := a.http.Post("http://agent/v1/queues/"+queue+"/batch", "application/x-ndjson", strings.NewReader(body.String()))
	if err != nil {
		a.t.Fatal(err)
	}
	defer answer.Body.Close()
	var all bytes.Buffer
	_, _ = all.ReadFrom(answer.Body)
	if strings.Contains(all.String(), `"error"`) {
		a.t.Fatalf("publish: %.300s", all.String())
	}
}
