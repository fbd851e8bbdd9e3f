package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/agent/api"
)

// The server's limit counts headers: a payload that the queue allows can be too large for it by a little. The publisher is told with
// numbers, and validate warns of such a queue before.
func TestAPayloadThatIsTooLargeForTheServerByALittle(t *testing.T) {
	t.Parallel()
	server := startNATS(t)
	file := func(limit string) string {
		return fmt.Sprintf("queues: [{name: jobs, limits: {max_payload: %s}}]\ncapsules: [{name: main, queues: [jobs]}]\n", limit)
	}
	for limit, warned := range map[string]bool{"1MiB": true, "1023KiB": false} {
		path := filepath.Join(folder(t), "fairlead.yaml")
		if err := os.WriteFile(path, []byte("nats: {url: \""+server.url+"\"}\n"+file(limit)), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, stderr, code := command(t, nil, "validate", "--config", path, "--connect"); code != 0 || strings.Contains(stderr, "queue jobs: limits.max_payload allows 1048576 bytes") != warned {
			t.Errorf("max_payload %s: exit code %d: %s", limit, code, stderr)
		}
	}
	a := startAgent(t, settings{nats: server.url, yaml: file("1MiB")})
	_, refused := a.tryPublish("jobs", strings.Repeat("x", 1<<20))
	if refused == nil || refused.Code != api.CodePayloadTooLarge || !strings.Contains(refused.Message, "it has 1048576 bytes") || !strings.Contains(refused.Message, "may have 1048576") {
		t.Errorf("a payload of 1 MiB: %v", refused)
	}
	if _, refused := a.tryPublish("jobs", strings.Repeat("x", 1<<20-512)); refused != nil {
		t.Errorf("half a KiB less: %v", refused)
	}
	if _, refused := a.tryPublish("jobs", strings.Repeat("x", 1<<20+1)); refused == nil || !strings.Contains(refused.Message, "a message of queue jobs may have 1048576 bytes") {
		t.Errorf("beyond the queue's own limit: %v", refused)
	}
}
