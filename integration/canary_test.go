package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"
)

// canary is a secret that is nowhere to be seen.
const canary = "c4n4ry-in-the-coal-mine"

// However an agent signs in, and whether it may, its secret is in no log, answer, metric, error, and nowhere in NATS.
func TestNoSecretIsShown(t *testing.T) {
	t.Parallel()
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := pair.Seed()
	if err != nil {
		t.Fatal(err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	byUser := fmt.Sprintf("authorization: {users: [{user: app, password: %q}]}", canary)
	for name, way := range map[string]struct {
		server string        // its configuration
		auth   []nats.Option // of the test's own connections
		secret string        // what must not be seen
		signIn string        // of the agent; %s is a file with the secret
	}{
		"password in the address":  {byUser, []nats.Option{nats.UserInfo("app", canary)}, canary, ""},
		"token in the address":     {fmt.Sprintf("authorization: {token: %q}", canary), []nats.Option{nats.Token(canary)}, canary, ""},
		"password from a variable": {byUser, []nats.Option{nats.UserInfo("app", canary)}, canary, ""},
		"password file":            {byUser, []nats.Option{nats.UserInfo("app", canary)}, canary, "user: app, password_file: %s"},
		"token file":               {fmt.Sprintf("authorization: {token: %q}", canary), []nats.Option{nats.Token(canary)}, canary, "token_file: %s"},
		"nkey":                     {fmt.Sprintf("authorization: {users: [{nkey: %s}]}", public), []nats.Option{nats.Nkey(public, pair.Sign)}, string(seed), "nkey: %s"},
	} {
		for _, may := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, may sign in %v", name, may), func(t *testing.T) {
				t.Parallel()
				server := startNATSWith(t, way.server, way.auth...)
				address := fmt.Sprintf("nats://127.0.0.1:%d", server.port)
				secret, password := way.secret, canary
				if !may {
					password += "-of-another"
					if secret == canary {
						secret = password
					}
				}
				w := watched{t: t, secret: secret}
				if !may && strings.Contains(name, "nkey") {
					other, _ := nkeys.CreateUser()
					text, _ := other.Seed()
					w.secret = string(text)
				}
				if name == "password in the address" {
					address = fmt.Sprintf("nats://app:%s@127.0.0.1:%d", password, server.port)
				}
				if name == "token in the address" {
					address = fmt.Sprintf("nats://%s@127.0.0.1:%d", password, server.port)
				}
				if name == "password from a variable" {
					address = fmt.Sprintf("nats://app:${NATS_PASSWORD}@127.0.0.1:%d", server.port)
				}
				w.agent(server, address, way.signIn, password, may)
			})
		}
	}
}

// watched looks for a secret in all that an agent shows.
type watched struct {
	t      *testing.T
	secret string
}

// look fails the test when a text has the secret.
func (w *watched) look(where, text string) {
	w.t.Helper()
	if strings.Contains(text, w.secret) || strings.Contains(text, canary) {
		w.t.Errorf("%s shows the secret: %.600s", where, text)
	}
}

// agent runs one through what it does, and looks everywhere.
func (w *watched) agent(server *natsServer, address, signIn, password string, may bool) {
	t := w.t
	dir := folder(t)
	file, secretFile := filepath.Join(dir, "fairlead.yaml"), filepath.Join(dir, "secret")
	if signIn != "" {
		signIn = ", " + fmt.Sprintf(signIn, secretFile)
	}
	a := newAgent(t, dir, filepath.Join(dir, "agent.sock"))
	probes := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	text := fmt.Sprintf("agent: {drain_timeout: 1s}\nnats: {url: \"%s\"%s}\nlisten: {socket: %s, probes_http: \"%s\", dashboard_http: \"\"}\nlog: {level: trace, format: text}\nqueues: [{name: jobs, fair_share: true, single_active_consumer: true}]\ncapsules: [{name: work, queues: [jobs]}]\n",
		address, signIn, a.socket, probes)
	for path, content := range map[string]string{file: text, secretFile: w.secret + "\n"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), fairlead, args...)
		cmd.Env = environment(append(a.env(), "NATS_PASSWORD="+password)...)
		out, _ := cmd.CombinedOutput()          // also failures say things
		if len(out) == 0 && args[0] != "pull" { // which can find nothing
			t.Errorf("%q says nothing", args)
		}
		w.look(strings.Join(args, " "), string(out))
	}
	a.process = start(t, "agent", exec.Command(fairlead, "run", "--config", file), "NATS_PASSWORD="+password)
	a.ready()
	run("publish", "jobs", "--key", "acme", "hello")
	run("pull", "work", "--wait", "0s")
	for _, args := range [][]string{{"status"}, {"status", "-o", "json"}, {"queues"}, {"queues", "jobs", "-o", "json"}, {"dead", "list", "jobs"}, {"dead", "list", "jobs", "-o", "json"}} {
		run(args...)
	}
	run("validate", "--config", file)
	run("validate", "--config", file, "--connect", "--timeout", "3s")
	run("setup", "--config", file)
	for _, path := range []string{"/readyz", "/metrics"} {
		_, body, err := probe(probes, path)
		if err != nil {
			t.Fatal(err)
		}
		w.look(path, body)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(text, "queues: [jobs]", "queues: [job]", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	run("validate", "--config", file)
	if may {
		w.stored(server)
	}
	a.stop()
	w.look("the agent's log", a.errs.String())
	w.look("the agent's output", a.out.String())
	if may && !strings.Contains(a.errs.String(), "connected to NATS") || !may && strings.Contains(a.errs.String(), "connected to NATS") {
		t.Errorf("the agent signed in, or did not, against the test's intention: %s", tail(a.errs.String()))
	}
}

// stored looks at what is kept in NATS.
func (w *watched) stored(server *natsServer) {
	t := w.t
	js, err := jetstream.New(server.connect())
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for info := range js.ListStreams(t.Context()).Info() {
		text, err := json.Marshal(info)
		if err != nil {
			t.Fatal(err)
		}
		w.look("stream "+info.Config.Name, string(text))
		stream, err := js.Stream(t.Context(), info.Config.Name)
		if err != nil {
			t.Fatal(err)
		}
		for seq := info.State.FirstSeq; seq <= info.State.LastSeq && info.State.Msgs > 0; seq++ {
			m, err := stream.GetMsg(t.Context(), seq)
			if err != nil {
				continue // deleted
			}
			seen++
			w.look("a message of "+info.Config.Name, fmt.Sprintf("%s %v %s", m.Subject, m.Header, m.Data))
		}
	}
	if seen == 0 {
		t.Error("nothing was found in NATS: the test looks at the wrong place")
	}
}

// A secret that others can read is none: the agent says so, and what to do, before it signs in with it.
func TestASecretForEverybodyIsRefused(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	file, secret := filepath.Join(dir, "fairlead.yaml"), filepath.Join(dir, "token")
	for path, text := range map[string]string{
		secret: canary,
		file:   "nats: {url: \"nats://127.0.0.1:1\", token_file: " + secret + "}\nlisten: {socket: " + filepath.Join(dir, "agent.sock") + ", probes_http: \"\", dashboard_http: \"\"}\nqueues: [{name: jobs}]\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(secret, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"run"}, {"setup"}, {"validate", "--connect"}} {
		_, stderr, code := command(t, nil, append(args, "--config", file)...)
		if code != 78 || !strings.Contains(stderr, "nats.token_file") || !strings.Contains(stderr, "chmod 0400") || strings.Contains(stderr, canary) {
			t.Errorf("%q: exit code %d, %s", args, code, stderr)
		}
	}
}
