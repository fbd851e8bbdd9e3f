package integration

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/fairlead/fairlead/agent/api"
)

// The coordination bucket is deleted under agents that share work. They go on; when an operator has made it again, they
// find each other again, without a restart.
func TestAgentsFindEachOtherInANewBucket(t *testing.T) {
	t.Parallel()
	server := startNATS(t)
	primary := startAgent(t, roleSettings(server, "primary", 10))
	standby := startAgent(t, roleSettings(server, "standby", 0))
	first, second := primary.busy(), standby.busy()
	eventually(t, "the standby backs off", patience, standby.backsOff)
	js, err := jetstream.New(server.connect())
	if err != nil {
		t.Fatal(err)
	}
	injected(t, "deleted", "bucket")
	if err := js.DeleteKeyValue(t.Context(), "fairlead"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the status says so", patience, func() bool {
		var s api.AgentStatus
		standby.get("/v1/status", &s)
		return len(s.Warnings) > 0
	})
	handOut(t, standby, 20, first, second)
	if _, stderr, code := command(t, nil, "setup", "--config", filepath.Join(standby.dir, "fairlead.yaml")); code != 0 {
		t.Fatalf("setup: exit code %d: %s", code, stderr)
	}
	began := time.Now()
	eventually(t, "the standby hears of the primary again", patience, func() bool {
		var s api.AgentStatus
		standby.get("/v1/status", &s)
		return len(s.Warnings) == 0 && len(s.Peers) == 1 && s.Peers[0].AgeSeconds < 0.5
	})
	t.Logf("they found each other after %v", time.Since(began))
	eventually(t, "the standby backs off again", patience, standby.backsOff)
	primary.stop()
	eventually(t, "the standby is at full speed after a clean stop", time.Second, func() bool { return !standby.backsOff() })
	handOut(t, standby, 20, second)
}
