package monitoring

import (
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
)

const (
	rulesFile = "deploy/prometheus/fairlead.rules.yaml"
	runbook   = "https://github.com/fairlead/fairlead/blob/main/docs/operations.md#"
)

// alerts are the rules, read as Prometheus reads them.
func alerts(t *testing.T) []rulefmt.Rule {
	t.Helper()
	groups, errs := rulefmt.Parse(read(t, rulesFile), false, model.UTF8Validation, expressions, slog.New(slog.DiscardHandler))
	for _, err := range errs {
		t.Fatal(err)
	}
	var all []rulefmt.Rule
	for _, g := range groups.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

func TestAlerts(t *testing.T) {
	metrics := documented(t)
	metrics["up"] = nil // Prometheus's own
	operations := string(read(t, "docs/operations.md"))
	sections := anchors(operations)
	seen := map[string]bool{}
	for _, r := range alerts(t) {
		name := r.Alert
		if name == "" || seen[name] {
			t.Errorf("%q is no name, or a second one", name)
		}
		seen[name] = true
		checkExpression(t, name, r.Expr, metrics)
		if !slices.Contains([]string{"critical", "warning", "info"}, r.Labels["severity"]) {
			t.Errorf("%s has the severity %q", name, r.Labels["severity"])
		}
		if r.For <= 0 {
			t.Errorf("%s fires at once: a single scrape must wake nobody", name)
		}
		if r.Annotations["summary"] == "" {
			t.Errorf("%s has no summary", name)
		}
		section, ok := strings.CutPrefix(r.Annotations["runbook_url"], runbook)
		if !ok || section != strings.ToLower(name) || !sections[section] {
			t.Errorf("%s: its runbook is %s, and there is no such section", name, r.Annotations["runbook_url"])
		}
		if text := sectionOf(operations, name); !strings.Contains(text, "**Do:**") || !strings.Contains(text, "("+r.Labels["severity"]+")") {
			t.Errorf("the section of %s in docs/operations.md does not say what to do, or not that it is (%s)", name, r.Labels["severity"])
		}
	}
	if len(seen) < 20 {
		t.Errorf("only %d alerts", len(seen))
	}
	for line := range strings.Lines(operations) { // and none that is not
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "### Fairlead"); ok && !seen["Fairlead"+name] {
			t.Errorf("docs/operations.md tells of an alert Fairlead%s", name)
		}
	}
}

// sectionOf is what is under a heading of the third level.
func sectionOf(page, name string) string {
	_, text, _ := strings.Cut(page, "\n### "+name+"\n")
	text, _, _ = strings.Cut(text, "\n#")
	return text
}
