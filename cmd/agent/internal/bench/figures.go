package bench

import (
	"fmt"
	"slices"
)

// Figure is one measured thing in a form that reports of other days, and of other machines, can be compared by: throughput as a
// ratio to what the same run measured beside it.
type Figure struct {
	Name   string
	Unit   string    // "of bare", "of 1 agent", "ms", …
	Less   bool      // less is better
	Values []float64 // one per round, or per part of one
}

// Figures are all that a report has, in the order in which they are shown.
func (r *Report) Figures() []Figure {
	var all []Figure
	for i, row := range r.Rows {
		if i == 0 {
			continue // it is what the others are measured by
		}
		for c, cell := range row.Cells {
			name := fmt.Sprintf("%s, connections: %d", row.Name, cell.Connections)
			all = append(all, Figure{Name: name, Unit: "of bare", Values: ratios(cell.All, r.Rows[0].Cells[c].All)})
		}
	}
	if len(r.DeliveryParts) > 0 {
		all = append(all, Figure{Name: "publish to delivery, p50", Unit: "ms", Less: true, Values: scaled(r.DeliveryParts)})
	}
	if r.Neighbour != nil {
		for _, s := range r.Neighbour.Systems {
			if s.Name == plainName {
				continue // how long a plain consumer makes others wait follows from the flood
			}
			var p50, p99 []float64
			for _, round := range s.All {
				p50, p99 = append(p50, round.Quiet.P50), append(p99, round.Quiet.P99)
			}
			all = append(all, Figure{Name: "beside a noisy neighbour, p50", Unit: "ms", Less: true, Values: scaled(p50)},
				Figure{Name: "beside a noisy neighbour, p99", Unit: "ms", Less: true, Values: scaled(p99)})
		}
	}
	for i, a := range r.Agents {
		if i == 0 {
			continue
		}
		all = append(all, Figure{
			Name: fmt.Sprintf("agents: %d", a.Agents), Unit: fmt.Sprintf("of agents: %d", r.Agents[0].Agents),
			Values: ratios(rates(a.All), rates(r.Agents[0].All)),
		})
	}
	return all
}

func rates(rounds []AgentsRound) []float64 {
	values := make([]float64, len(rounds))
	for i, r := range rounds {
		values[i] = r.PerSecond
	}
	return values
}

// ratios divides what was measured in the same round.
func ratios(values, by []float64) []float64 {
	out := make([]float64, 0, len(values))
	for i := range min(len(values), len(by)) {
		if by[i] > 0 {
			out = append(out, values[i]/by[i])
		}
	}
	return out
}

// scaled turns microseconds into milliseconds.
func scaled(us []float64) []float64 {
	out := make([]float64, len(us))
	for i, v := range us {
		out[i] = v / 1000
	}
	return out
}

// spread returns the least and the most of values.
func spread(values []float64) (low, high float64) {
	if len(values) == 0 {
		return 0, 0
	}
	return slices.Min(values), slices.Max(values)
}
