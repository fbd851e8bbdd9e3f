package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
)

// Verdict is what can be said of a difference.
type Verdict string

// The verdicts.
const (
	Better Verdict = "better"
	Worse  Verdict = "worse"
	// Noise: the rounds of the two runs overlap, so that the difference means nothing.
	Noise Verdict = "within the noise"
	// TooFew: with fewer than minRounds rounds in one of the runs, nothing can be said.
	TooFew Verdict = "too few rounds to tell"
)

// minRounds is how many rounds of each run it takes to tell a difference from noise.
const minRounds = 3

// Change is one figure of two reports.
type Change struct {
	Name string  `json:"name"`
	Unit string  `json:"unit"`
	Then float64 `json:"then"` // medians
	Now  float64 `json:"now"`
	// Ratio is Now / Then. Low and High are the least and the most that it could be, of any round now to any round then.
	Ratio   float64 `json:"ratio"`
	Low     float64 `json:"low"`
	High    float64 `json:"high"`
	Verdict Verdict `json:"verdict"`
}

// Comparison is what two reports have in common.
type Comparison struct {
	Changes []Change `json:"changes"`
	// Notes say what makes the two runs different, other than the program.
	Notes []string `json:"notes"`
}

// Compare compares what both reports have measured. A difference counts only when every round of the one run is on the same
// side of every round of the other.
func Compare(then, now *Report) Comparison {
	var c Comparison
	before := then.Figures()
	for _, f := range now.Figures() {
		i := slices.IndexFunc(before, func(g Figure) bool { return g.Name == f.Name && g.Unit == f.Unit })
		if i >= 0 && len(f.Values) > 0 && len(before[i].Values) > 0 {
			c.Changes = append(c.Changes, change(before[i], f))
		}
	}
	c.Notes = differences(then, now)
	return c
}

func change(then, now Figure) Change {
	thenLow, thenHigh := spread(then.Values)
	nowLow, nowHigh := spread(now.Values)
	c := Change{Name: now.Name, Unit: now.Unit, Then: median(then.Values), Now: median(now.Values)}
	if thenLow <= 0 { // cannot be divided by; nothing that is measured is 0
		c.Verdict = Noise
		return c
	}
	c.Ratio, c.Low, c.High = c.Now/c.Then, nowLow/thenHigh, nowHigh/thenLow
	switch {
	case len(then.Values) < minRounds || len(now.Values) < minRounds:
		c.Verdict = TooFew
	case c.Low <= 1 && c.High >= 1:
		c.Verdict = Noise
	case (c.Ratio > 1) != now.Less:
		c.Verdict = Better
	default:
		c.Verdict = Worse
	}
	return c
}

// differences says in what the runs differ, other than the program.
func differences(then, now *Report) []string {
	var notes []string
	differ := func(what string, a, b any) {
		if a != b {
			notes = append(notes, fmt.Sprintf("%s: %v then, %v now", what, a, b))
		}
	}
	differ("messages of each row", then.Messages, now.Messages)
	differ("messages per pull", then.Pull, now.Pull)
	differ("bytes of a message", then.Bytes, now.Bytes)
	differ("server", then.Server, now.Server)
	differ("platform", then.Machine.Platform, now.Machine.Platform)
	differ("processor", then.Machine.CPU, now.Machine.CPU)
	differ("processors", then.Machine.CPUs, now.Machine.CPUs)
	differ("Go", then.Machine.Go, now.Machine.Go)
	if a, b := then.Neighbour, now.Neighbour; a != nil && b != nil {
		differ("the flood", a.settings(), b.settings())
	}
	for _, r := range []struct {
		when string
		*Report
	}{{"then", then}, {"now", now}} {
		if busy := r.Machine.LoadBefore; busy > float64(r.Machine.CPUs)/2 {
			notes = append(notes, fmt.Sprintf("the machine was busy with something else before the run %s: load %.1f", r.when, busy))
		}
	}
	return notes
}

// settings are n without what was measured.
func (n *Neighbour) settings() string {
	return fmt.Sprintf("%d messages, %d quiet tenants every %vms for %vms, work %vms × %d", n.Flood, n.Quiet, n.EveryMS, n.DuringMS, n.WorkMS, n.Slots)
}

// ReadReport reads a report that was written as JSON.
func ReadReport(in io.Reader) (*Report, error) {
	r := new(Report)
	if err := json.NewDecoder(in).Decode(r); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrReport, err)
	}
	if r.Format != ReportFormat {
		return nil, fmt.Errorf("%w: its format is %d, and this version compares format %d: measure again with the other version", ErrReport, r.Format, ReportFormat)
	}
	for _, row := range r.Rows {
		if len(row.Cells) != len(r.Rows[0].Cells) {
			return nil, fmt.Errorf("%w: its rows have different numbers of columns", ErrReport)
		}
	}
	return r, nil
}
