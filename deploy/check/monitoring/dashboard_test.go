package monitoring

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"go.yaml.in/yaml/v3"
)

const dashboardFile = "deploy/grafana/fairlead.json"

// board is what the checks look at.
type board struct {
	UID    string
	Panels []struct {
		ID          int
		Type, Title string
		Datasource  struct{ Type, UID string }
		GridPos     struct{ H, W, X, Y int }
		Targets     []struct {
			Expr       string
			Datasource struct{ Type, UID string }
		}
	}
	Templating struct {
		List []struct{ Name, Type, Definition string }
	}
	Annotations struct {
		List []struct{ Name, Expr string }
	}
}

func readBoard(t *testing.T) board {
	t.Helper()
	var b board
	if err := json.Unmarshal(read(t, dashboardFile), &b); err != nil {
		t.Fatal(err)
	}
	return b
}

// Grafana's own schema, of the dashboard and of the options of every kind of panel in it, has no complaint.
func TestDashboardFollowsTheSchema(t *testing.T) {
	plugins.RegisterDefaultPlugins()
	var d dashboard.Dashboard
	// It returns an empty list of problems, which is no nil error, when there are none.
	if err := d.UnmarshalJSONStrict(read(t, dashboardFile)); err != nil && err.Error() != "" {
		t.Fatal(err)
	}
	if err := d.Validate(); err != nil {
		t.Error(err)
	}
}

// Variables that Grafana fills in, as they could be.
var filled = strings.NewReplacer("$__rate_interval", "1m", "$job", ".*", "$namespace", ".*", "$queue", ".*")

func TestDashboardExpressions(t *testing.T) {
	metrics := documented(t)
	b := readBoard(t)
	asked := map[string]bool{}
	for _, p := range b.Panels {
		if p.Type == "row" {
			continue
		}
		if len(p.Targets) == 0 {
			t.Errorf("panel %s asks nothing", p.Title)
		}
		for _, target := range p.Targets {
			if strings.Contains(filled.Replace(target.Expr), "$") {
				t.Errorf("panel %s: unknown variable in %s", p.Title, target.Expr)
			}
			checkExpression(t, "panel "+p.Title, filled.Replace(target.Expr), metrics)
			if p.Datasource.UID != "${datasource}" || target.Datasource.UID != "${datasource}" {
				t.Errorf("panel %s does not ask the data source that was chosen", p.Title)
			}
			for name := range metrics {
				asked[name] = asked[name] || strings.Contains(target.Expr, name+"{")
			}
		}
	}
	// What somebody who looks for unfairness, or at night for a cause, has to see.
	for _, name := range []string{
		"fairlead_waiting_messages", "fairlead_oldest_age_seconds", "fairlead_delivered_total", "fairlead_settled_total", "fairlead_wait_seconds_bucket",
		"fairlead_tenants_waiting_messages", "fairlead_key_waiting_messages", "fairlead_lease_state", "fairlead_lease_fence", "fairlead_peers", "fairlead_broker_connected",
		"fairlead_capsule_credit_messages", "fairlead_dead_letters", "fairlead_refused_total", "fairlead_pick_to_delivery_seconds_bucket", "fairlead_paused",
	} {
		if !asked[name] {
			t.Errorf("no panel shows %s", name)
		}
	}
	for _, v := range b.Templating.List {
		text, ok := strings.CutPrefix(v.Definition, "label_values(")
		if v.Type != "query" {
			continue
		}
		if selector, label, cut := cutLast(strings.TrimSuffix(text, ")"), ", "); !ok || !cut || label != v.Name {
			t.Errorf("variable %s is filled by %s", v.Name, v.Definition)
		} else {
			checkExpression(t, "variable "+v.Name, filled.Replace(selector), metrics)
		}
	}
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// Panels neither overlap nor leave the grid of 24 columns, and each has a number of its own.
func TestDashboardLayout(t *testing.T) {
	b := readBoard(t)
	ids, taken := map[int]bool{}, map[[2]int]string{}
	for _, p := range b.Panels {
		if ids[p.ID] {
			t.Errorf("%s has the number of another panel", p.Title)
		}
		ids[p.ID] = true
		if p.GridPos.W < 1 || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("%s is outside of the grid", p.Title)
		}
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other, ok := taken[[2]int{x, y}]; ok {
					t.Fatalf("%s lies over %s", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
}

// What Grafana provisions is what is there.
func TestProvisioning(t *testing.T) {
	var dashboards struct {
		APIVersion int `yaml:"apiVersion"`
		Providers  []struct {
			Name, Type string
			Options    struct{ Path string }
		}
	}
	var sources struct {
		APIVersion  int `yaml:"apiVersion"`
		Datasources []struct{ Name, Type, Access, URL string }
	}
	for path, to := range map[string]any{
		"deploy/grafana/provisioning/dashboards/fairlead.yaml":    &dashboards,
		"deploy/grafana/provisioning/datasources/prometheus.yaml": &sources,
	} {
		if err := yaml.Unmarshal(read(t, path), to); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	if dashboards.APIVersion != 1 || len(dashboards.Providers) != 1 || dashboards.Providers[0].Type != "file" || dashboards.Providers[0].Options.Path == "" {
		t.Errorf("dashboards: %+v", dashboards)
	}
	if sources.APIVersion != 1 || len(sources.Datasources) != 1 || sources.Datasources[0].Type != "prometheus" || sources.Datasources[0].URL == "" {
		t.Errorf("data sources: %+v", sources)
	}
}
