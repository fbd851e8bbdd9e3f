package monitoring

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

const root = "../../.."

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// documented are the metrics of the table in docs/operations.md and their labels. A histogram has its three series.
func documented(t *testing.T) map[string][]string {
	t.Helper()
	row := regexp.MustCompile("(?m)^\\| `(fairlead_[a-z_]+)` \\| (counter|gauge|histogram) \\| ([^|]*) \\|")
	quoted := regexp.MustCompile("`([a-z_]+)`")
	all := map[string][]string{}
	for _, m := range row.FindAllStringSubmatch(string(read(t, "docs/operations.md")), -1) {
		var names []string
		for _, l := range quoted.FindAllStringSubmatch(m[3], -1) {
			names = append(names, l[1])
		}
		if m[2] != "histogram" {
			all[m[1]] = names
			continue
		}
		all[m[1]+"_bucket"] = append(slices.Clone(names), "le")
		all[m[1]+"_count"], all[m[1]+"_sum"] = names, names
	}
	if len(all) < 50 {
		t.Fatalf("docs/operations.md documents %d metrics: has its table moved?", len(all))
	}
	return all
}

// added are the labels that Prometheus adds to what it scrapes.
var added = []string{"job", "instance", "namespace"}

var expressions = parser.NewParser(parser.Options{})

// checkExpression fails the test for what is wrong with an expression.
func checkExpression(t *testing.T, where, text string, metrics map[string][]string) {
	t.Helper()
	for _, problem := range problems(text, metrics) {
		t.Errorf("%s: %s", where, problem)
	}
}

// problems parses an expression and looks for metrics and labels that do not exist.
func problems(text string, metrics map[string][]string) (found []string) {
	expr, err := expressions.ParseExpr(text)
	if err != nil {
		return []string{fmt.Sprintf("%v in %s", err, text)}
	}
	known := slices.Clone(added) // of all metrics in the expression, for what groups by them
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		v, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		names, ok := metrics[v.Name]
		if !ok {
			found = append(found, "there is no metric "+v.Name)
			return nil
		}
		known = append(known, names...)
		for _, m := range v.LabelMatchers {
			if m.Name != labels.MetricName && !slices.Contains(names, m.Name) && !slices.Contains(added, m.Name) {
				found = append(found, v.Name+" has no label "+m.Name)
			}
		}
		return nil
	})
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		for _, name := range grouping(node) {
			if !slices.Contains(known, name) {
				found = append(found, "no metric in it has the label "+name)
			}
		}
		return nil
	})
	return found
}

// grouping are the labels that an operator goes by.
func grouping(node parser.Node) []string {
	switch n := node.(type) {
	case *parser.AggregateExpr:
		return n.Grouping
	case *parser.BinaryExpr:
		if n.VectorMatching != nil {
			return n.VectorMatching.MatchingLabels
		}
	}
	return nil
}

// anchors are the sections of a page, as GitHub names them in addresses.
func anchors(page string) map[string]bool {
	all := map[string]bool{}
	odd := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	for line := range strings.Lines(page) {
		if title, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); ok && strings.HasPrefix(line, "#") {
			all[strings.ReplaceAll(odd.ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), ""), " ", "-")] = true
		}
	}
	return all
}

// What does not exist is found, so that the checks below mean something.
func TestMistakesAreFound(t *testing.T) {
	metrics := documented(t)
	metrics["up"] = nil
	for _, text := range []string{
		`rate(fairlead_no_such_thing_total[5m])`, `fairlead_paused{queu="x"}`, `sum by (priority) (fairlead_paused)`, `sum(fairlead_paused`,
		`fairlead_wait_seconds`, `fairlead_ready and on (queue) fairlead_draining`,
	} {
		if problems(text, metrics) == nil {
			t.Errorf("%s passes", text)
		}
	}
}
