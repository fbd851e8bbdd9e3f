package bench

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// WriteSVG draws what the report has as a picture: throughput with the bare loop as the base line, how long quiet tenants wait
// beside a flood, and what many agents do together. A whisker goes from the worst round to the best.
func (r *Report) WriteSVG(out io.Writer) error {
	var panels []panel
	if len(r.Rows) > 0 {
		panels = append(panels, r.throughputPanel())
	}
	if r.Neighbour != nil {
		panels = append(panels, r.neighbourPanel())
	}
	if len(r.Agents) > 0 {
		panels = append(panels, r.agentsPanel())
	}
	if len(r.Takes) > 0 || r.Delivery.Count > 0 {
		panels = append(panels, r.latencyPanel())
	}
	return draw(out, r.summary(), r.footer(), panels)
}

func (r *Report) throughputPanel() panel {
	p := panel{title: "Throughput: messages delivered and finished", axis: "messages per second"}
	for c, cell := range r.Rows[0].Cells {
		g := group{title: counted(cell.Connections, "connection"), base: cell.PerSecond, baseText: "bare loop"}
		for i, row := range r.Rows {
			b := bar{label: row.Name, value: row.Cells[c].PerSecond, class: "ours"}
			b.low, b.high = spread(row.Cells[c].All)
			b.text = fmt.Sprintf("%s/s, %.2f of bare", thousands(b.value), row.Cells[c].OfBare)
			if i == 0 {
				b.class, b.text = "base", thousands(b.value)+"/s"
			}
			g.bars = append(g.bars, b)
		}
		p.groups = append(p.groups, g)
	}
	return p
}

func (r *Report) neighbourPanel() panel {
	n := r.Neighbour
	p := panel{
		title: fmt.Sprintf("A noisy neighbour: how long messages of %d quiet tenants wait", n.Quiet),
		axis:  "milliseconds from publish to worker, logarithmic", log: true,
	}
	for _, part := range []struct {
		name string
		of   func(Times) float64
	}{{"p50", func(t Times) float64 { return t.P50 }}, {"p99", func(t Times) float64 { return t.P99 }}} {
		g := group{title: part.name}
		for _, s := range n.Systems {
			var values []float64
			for _, round := range s.All {
				values = append(values, part.of(round.Quiet)/1000)
			}
			b := bar{label: s.Name, value: median(values), class: "ours"}
			if s.Name == plainName {
				b.class = "other"
			}
			b.low, b.high = spread(values)
			b.text = fmt.Sprintf("%s ms, %.1f%% in time", significant(b.value), 100*s.Served)
			g.bars = append(g.bars, b)
		}
		p.groups = append(p.groups, g)
	}
	return p
}

func (r *Report) agentsPanel() panel {
	p := panel{title: "Many agents on one queue, weights 3 to 1", axis: "messages per second, all agents together"}
	g := group{base: r.Agents[0].PerSecond, baseText: counted(r.Agents[0].Agents, "agent")}
	for _, a := range r.Agents {
		b := bar{label: counted(a.Agents, "agent"), value: a.PerSecond, class: "ours"}
		b.low, b.high = spread(rates(a.All))
		b.text = fmt.Sprintf("shares within %.2f%%, %.1f%% in vain", 100*a.ShareError, 100*a.EmptyPulls)
		g.bars = append(g.bars, b)
	}
	p.groups = []group{g}
	return p
}

func (r *Report) latencyPanel() panel {
	p := panel{title: "Single messages", axis: "milliseconds, logarithmic", log: true}
	add := func(name string, t Times) {
		if t.Count == 0 {
			return
		}
		p.groups = append(p.groups, group{title: name, bars: []bar{
			{label: "p50", value: t.P50 / 1000, text: fmt.Sprintf("%.2f ms", t.P50/1000), class: "ours"},
			{label: "p99", value: t.P99 / 1000, text: fmt.Sprintf("%.2f ms", t.P99/1000), class: "base"},
		}})
	}
	add("publish to delivery", r.Delivery)
	for _, t := range r.Takes {
		add(fmt.Sprintf("take with %s waiting", thousands(float64(t.Waiting))), t.Times)
	}
	return p
}

// summary says in a sentence or two what the picture shows, for those who cannot see it.
func (r *Report) summary() string {
	var parts []string
	for i, row := range r.Rows {
		for _, cell := range row.Cells {
			if i > 0 {
				parts = append(parts, fmt.Sprintf("%s with %s: %.2f of a bare JetStream loop", row.Name, counted(cell.Connections, "connection"), cell.OfBare))
			}
		}
	}
	if r.Neighbour != nil {
		for _, s := range r.Neighbour.Systems {
			parts = append(parts, fmt.Sprintf("quiet tenants beside a flood, %s: p50 %s ms, p99 %s ms", s.Name, significant(s.P50/1000), significant(s.P99/1000)))
		}
	}
	for _, a := range r.Agents {
		parts = append(parts, fmt.Sprintf("%s: %s messages per second, shares within %.2f%%", counted(a.Agents, "agent"), thousands(a.PerSecond), 100*a.ShareError))
	}
	return strings.Join(parts, "; ") + "."
}

// footer says where it was measured.
func (r *Report) footer() string {
	cpu := r.Machine.CPU
	if cpu == "" {
		cpu = r.Machine.Platform
	}
	return fmt.Sprintf("fairlead %s, %s, %s, %s, load before %.1f. Only ratios within one run can be compared.",
		r.Version, r.At.Format("2006-01-02"), cpu, counted(r.Machine.CPUs, "processor"), r.Machine.LoadBefore)
}

// thousands writes a number without decimals, its thousands apart.
func thousands(v float64) string {
	digits := strconv.FormatInt(int64(math.Round(v)), 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// significant writes three digits that count.
func significant(v float64) string {
	if v >= 100 {
		return thousands(v)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// counted writes a number and what it counts.
func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
