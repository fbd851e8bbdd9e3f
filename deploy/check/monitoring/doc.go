// Package monitoring checks the alert rules, the dashboard and the other files for Prometheus and Grafana.
//
// # Guarantees
//
//   - The rules are read by Prometheus's own reader, and every expression, also those of the dashboard, by its PromQL parser.
//   - Each metric in them is in the table of docs/operations.md, which a test of the agent compares with what it shows,
//     and each label is one of that metric or one that Prometheus adds.
//   - Each alert says how bad it is, what is the matter, and where it is told what to do: a section that exists.
//   - deploy/prometheus/fairlead.rules.test.yaml, in promtool's format, holds when Prometheus's engine evaluates it; in it
//     every alert fires at least once, and is silent at least once.
//   - The dashboard is what Grafana's schema allows.
package monitoring
