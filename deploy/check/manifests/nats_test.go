package manifests

import (
	"strings"
	"testing"
)

// The permissions in deploy/ are those that the agent prints for the files in deploy/.
func TestPermissionsAreThoseOfTheFiles(t *testing.T) {
	file := write(t, t.TempDir(), "fairlead.yaml", read(t, "compose/fairlead.yaml"))
	for _, folder := range []string{"nats/", "kubernetes/nats/"} {
		for name, flags := range map[string][]string{"agent.conf": nil, "setup.conf": {"--setup"}} {
			want := must(t, []string{"NATS_USER=x"}, fairlead, append([]string{"permissions", "--config", file}, flags...)...)
			if read(t, folder+name) != want {
				t.Errorf("deploy/%s%s is not what fairlead permissions prints", folder, name)
			}
		}
	}
	if read(t, "compose/worker.sh") != read(t, "kubernetes/base/worker.sh") {
		t.Error("the two workers differ")
	}
}

// serverFiles puts what nats-server reads into one folder.
func serverFiles(t *testing.T, folder string) string {
	t.Helper()
	dir := t.TempDir()
	conf := strings.ReplaceAll(read(t, folder+"/nats.conf"), "/data", dir+"/data")
	conf = strings.ReplaceAll(conf, "http_port: 8222", "http: 127.0.0.1:-1")
	for _, name := range []string{"agent.conf", "setup.conf"} {
		write(t, dir, name, read(t, "nats/"+name))
	}
	return write(t, dir, "nats.conf", conf)
}

// nats-server takes its files.
func TestNATSTakesTheConfiguration(t *testing.T) {
	for _, folder := range []string{"compose", "kubernetes/nats"} {
		must(t, []string{"AGENT_PASSWORD=a", "SETUP_PASSWORD=s", "POD_NAME=nats-0"}, natsServer, "-t", "-c", serverFiles(t, folder))
	}
}
