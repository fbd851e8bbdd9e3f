package integration

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/api"
)

// probe asks an agent's TCP address.
func probe(address, path string) (status int, body string, err error) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	answer, err := client.Get("http://" + address + path)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(text), err
}

// probes waits until a path answers with a status, and returns what it says.
func (a *agent) probes(address, path string, want int) (body string) {
	a.t.Helper()
	eventually(a.t, fmt.Sprintf("%s answers %d", path, want), patience, func() bool {
		status, text, err := probe(address, path)
		body = text
		return err == nil && status == want
	})
	return body
}

// The process is alive whatever NATS does; it is ready while NATS is there, and not while it drains.
func TestProbes(t *testing.T) {
	t.Parallel()
	server := startNATS(t)
	server.kill()
	address := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	a := launch(t, settings{nats: server.url, probes: address, yaml: threeLevels})
	a.probes(address, "/livez", 200)
	a.ready()
	if said := a.probes(address, "/readyz", 503); !strings.Contains(said, "NATS cannot be reached") {
		t.Errorf("/readyz says %q", said)
	}
	server.start()
	a.probes(address, "/readyz", 200)
	server.kill()
	a.probes(address, "/readyz", 503)
	a.probes(address, "/livez", 200)
	server.start()
	a.probes(address, "/readyz", 200)

	a.publish("jobs", "held")
	held := a.app("main").pull(1, patience)
	a.signal(sigterm)
	if said := a.probes(address, "/readyz", 503); !strings.Contains(said, "drains") {
		t.Errorf("/readyz says %q", said)
	}
	a.probes(address, "/livez", 200)
	equal(t, "ack", a.say(held[0], api.Settlement{Result: api.Ack}), api.StatusOK)
	equal(t, "exit code", a.wait(patience), 0)
	if status, _, err := probe(address, "/livez"); err == nil {
		t.Errorf("a stopped agent answers %d", status)
	}
}

func TestReadinessWithoutTheBroker(t *testing.T) {
	t.Parallel()
	address := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	a := launch(t, settings{nats: "nats://127.0.0.1:1", probes: address, yaml: "readiness: {broker: false}\n" + threeLevels})
	if said := a.probes(address, "/readyz", 503); !strings.Contains(said, "starting") {
		t.Errorf("before the sockets answer, /readyz says %q", said)
	}
	a.ready()
	a.probes(address, "/readyz", 200)
}

// Two agents with the same address: the second one is told, and the first one is not disturbed.
func TestTheAddressOfProbesIsInUse(t *testing.T) {
	t.Parallel()
	server := startNATS(t)
	address := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	first := startAgent(t, settings{nats: server.url, probes: address, yaml: threeLevels})
	second := launch(t, settings{nats: server.url, probes: address, yaml: threeLevels})
	equal(t, "exit code", second.wait(patience), 1)
	if said := second.out.String() + second.errs.String(); !strings.Contains(said, "the address is in use: "+address) || !strings.Contains(said, "listen.probes_http") {
		t.Errorf("it says %s", said)
	}
	first.probes(address, "/readyz", 200)
}
