package monitoring

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/template"
	"go.yaml.in/yaml/v3"
)

// unitTests is a file of promtool test rules.
type unitTests struct {
	RuleFiles          []string       `yaml:"rule_files"`
	EvaluationInterval model.Duration `yaml:"evaluation_interval"`
	Tests              []unitTest
}

type unitTest struct {
	Name        string
	Interval    model.Duration
	InputSeries []struct{ Series, Values string } `yaml:"input_series"`
	Alerts      []expectation                     `yaml:"alert_rule_test"`
}

type expectation struct {
	At     model.Duration `yaml:"eval_time"`
	Alert  string         `yaml:"alertname"`
	Firing []firing       `yaml:"exp_alerts"`
}

// firing is an alert that fires.
type firing struct {
	Labels      map[string]string `yaml:"exp_labels"`
	Annotations map[string]string `yaml:"exp_annotations"`
}

func (f firing) String() string { return fmt.Sprint(f.Labels, f.Annotations) }

// TestAlertsFire evaluates the rules with Prometheus's engine, as promtool does, on the series of their test file.
func TestAlertsFire(t *testing.T) {
	var file unitTests
	decoder := yaml.NewDecoder(bytes.NewReader(read(t, "deploy/prometheus/fairlead.rules.test.yaml")))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil {
		t.Fatal(err)
	}
	rules := map[string]rulefmt.Rule{}
	for _, r := range alerts(t) {
		rules[r.Alert] = r
	}
	fired, silent := map[string]bool{}, map[string]bool{}
	for _, c := range file.Tests {
		t.Run(c.Name, func(t *testing.T) {
			var series memory
			for _, s := range c.InputSeries {
				series.add(t, s.Series, s.Values, time.Duration(c.Interval))
			}
			e := newEvaluation(series, time.Duration(file.EvaluationInterval))
			for _, want := range c.Alerts {
				rule, ok := rules[want.Alert]
				if !ok {
					t.Fatalf("there is no alert %s", want.Alert)
				}
				e.check(t, rule, want)
				fired[want.Alert] = fired[want.Alert] || len(want.Firing) > 0
				silent[want.Alert] = silent[want.Alert] || len(want.Firing) == 0
			}
		})
	}
	for name := range rules {
		if !fired[name] || !silent[name] {
			t.Errorf("%s: a test in which it fires: %v; one in which it does not: %v", name, fired[name], silent[name])
		}
	}
}

// evaluation evaluates rules on series.
type evaluation struct {
	engine *promql.Engine
	series memory
	every  time.Duration
}

func newEvaluation(series memory, every time.Duration) *evaluation {
	return &evaluation{promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute, Parser: expressions}), series, every}
}

// check compares what fires at a time with what a test expects.
func (e *evaluation) check(t *testing.T, rule rulefmt.Rule, want expectation) {
	t.Helper()
	got := e.firing(t, rule, time.Duration(want.At))
	expected := slices.Clone(want.Firing)
	for i := range expected {
		expected[i].Labels = maps.Clone(expected[i].Labels)
		expected[i].Labels[model.AlertNameLabel] = rule.Alert
	}
	for _, f := range [][]firing{got, expected} {
		slices.SortFunc(f, func(a, b firing) int { return bytes.Compare([]byte(a.String()), []byte(b.String())) })
	}
	if fmt.Sprint(got) != fmt.Sprint(expected) {
		t.Errorf("%s after %v:\ngot  %v\nwant %v", rule.Alert, want.At, got, expected)
	}
}

// firing evaluates a rule again and again up to a time. An alert fires once its expression has held for as long as the rule
// says, without a gap.
func (e *evaluation) firing(t *testing.T, rule rulefmt.Rule, until time.Duration) []firing {
	t.Helper()
	since := map[string]time.Duration{}
	var result []firing
	for at := time.Duration(0); at <= until; at += e.every {
		result = nil
		still := map[string]time.Duration{}
		for _, s := range e.query(t, rule.Expr, at) {
			id := s.Metric.String()
			began, ok := since[id]
			if !ok {
				began = at
			}
			still[id] = began
			if at-began >= time.Duration(rule.For) {
				result = append(result, fill(t, rule, s, at))
			}
		}
		since = still
	}
	return result
}

func (e *evaluation) query(t *testing.T, expr string, at time.Duration) promql.Vector {
	t.Helper()
	q, err := e.engine.NewInstantQuery(context.Background(), e.series, nil, expr, time.UnixMilli(at.Milliseconds()))
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	v, err := q.Exec(context.Background()).Vector()
	if err != nil {
		t.Fatal(err)
	}
	return slices.Clone(v)
}

// fill makes the labels and annotations of an alert out of what its expression found.
func fill(t *testing.T, rule rulefmt.Rule, s promql.Sample, at time.Duration) firing {
	t.Helper()
	f := firing{Labels: s.Metric.Map(), Annotations: map[string]string{}}
	data := template.AlertTemplateData(f.Labels, nil, "", s)
	expand := func(text string) string {
		const variables = "{{$labels := .Labels}}{{$value := .Value}}"
		expanded, err := template.NewTemplateExpander(context.Background(), variables+text, rule.Alert, data, model.Time(at.Milliseconds()), nil, nil, nil).Expand()
		if err != nil {
			t.Errorf("%s: %v", rule.Alert, err)
		}
		return expanded
	}
	for name, text := range rule.Annotations {
		f.Annotations[name] = expand(text)
	}
	f.Labels = maps.Clone(f.Labels)
	delete(f.Labels, labels.MetricName)
	maps.Copy(f.Labels, rule.Labels)
	f.Labels[model.AlertNameLabel] = rule.Alert
	return f
}
