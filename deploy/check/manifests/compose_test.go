package manifests

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

// project loads the Compose file as docker compose does.
func project(t *testing.T) *types.Project {
	t.Helper()
	o, err := cli.NewProjectOptions([]string{filepath.Join(root, "deploy/compose/compose.yaml")},
		cli.WithEnv([]string{"AGENT_PASSWORD=a", "SETUP_PASSWORD=s"}), cli.WithResolvedPaths(true))
	if err != nil {
		t.Fatal(err)
	}
	p, err := o.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestComposeTakesTheFile(t *testing.T) {
	p := project(t)
	agent, app, setup := p.Services["agent"], p.Services["app"], p.Services["setup"]
	if len(p.Services) != 4 || agent.Name == "" || app.Name == "" || setup.Name == "" {
		t.Fatalf("the services are %v", p.ServiceNames())
	}
	for _, s := range []types.ServiceConfig{agent, app} {
		if !slices.ContainsFunc(s.Volumes, func(v types.ServiceVolumeConfig) bool { return v.Source == "socket" && v.Target == "/run/fairlead" }) {
			t.Errorf("%s does not have the socket", s.Name)
		}
	}
	for _, s := range []types.ServiceConfig{agent, setup} {
		if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) || s.User == "" {
			t.Errorf("%s may do more than it needs", s.Name)
		}
		if len(s.Secrets) != 1 || s.Secrets[0].Source != s.Name+"_password" {
			t.Errorf("%s: secrets are %+v", s.Name, s.Secrets)
		}
		valid(t, read(t, "compose/fairlead.yaml"), "NATS_USER="+*s.Environment["NATS_USER"])
	}
	if on := app.DependsOn["agent"].Condition; on != types.ServiceConditionHealthy {
		t.Errorf("the app waits for the agent to be %q", on)
	}
	if on := agent.DependsOn["setup"].Condition; on != types.ServiceConditionCompletedSuccessfully {
		t.Errorf("the agent waits for the setup to be %q", on)
	}
}

// Without passwords Compose says so, instead of starting a server that anybody may use.
func TestComposeWantsPasswords(t *testing.T) {
	o, err := cli.NewProjectOptions([]string{filepath.Join(root, "deploy/compose/compose.yaml")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.LoadProject(t.Context()); err == nil {
		t.Error("it is loaded without passwords")
	}
}
