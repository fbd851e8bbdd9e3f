package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/fairlead/fairlead/cmd/agent/internal/bench"
)

func printProfiles(w io.Writer) error {
	t := newTable(w, "PROFILE", "default", "shows")
	for _, p := range bench.Profiles {
		t.row(p.Name, map[bool]string{true: "yes", false: "no"}[p.Quick], p.Shows)
	}
	t.row(bench.AllProfiles, "no", "everything")
	return t.flush()
}

// printBench shows a report as tables, one for each kind of profile that was run.
func printBench(w io.Writer, r *bench.Report) error {
	fmt.Fprintf(w, "%s messages of %d bytes, pulls of %d, median of %s\n", grouped(r.Messages), r.Bytes, r.Pull, count(r.Rounds, "round"))
	for _, part := range []func(io.Writer, *bench.Report) *table{rowsTable, singlesTable, neighbourTable, agentsTable} {
		t := part(w, r)
		if t == nil {
			continue
		}
		if err := t.flush(); err != nil {
			return err
		}
	}
	return nil
}

// benchTable begins a table under an empty line.
func benchTable(w io.Writer, heads ...any) *table {
	fmt.Fprintln(w)
	return newTable(w, heads...)
}

func rowsTable(w io.Writer, r *bench.Report) *table {
	if len(r.Rows) == 0 {
		return nil
	}
	heads := []any{"MESSAGES PER SECOND"}
	for _, cell := range r.Rows[0].Cells {
		heads = append(heads, count(cell.Connections, "connection"), "of bare")
	}
	t := benchTable(w, heads...)
	for _, row := range r.Rows {
		cells := []any{row.Name}
		for _, cell := range row.Cells {
			cells = append(cells, grouped(int(cell.PerSecond)), decimals(cell.OfBare))
		}
		t.row(cells...)
	}
	return t
}

func singlesTable(w io.Writer, r *bench.Report) *table {
	if r.Delivery.Count == 0 && len(r.Takes) == 0 {
		return nil
	}
	t := benchTable(w, "SINGLE MESSAGES", "count", "p50", "p99")
	if r.Delivery.Count > 0 {
		t.row("publish to delivery, low load", r.Delivery.Count, micros(r.Delivery.P50), micros(r.Delivery.P99))
	}
	for _, takes := range r.Takes {
		t.row("take with "+grouped(takes.Waiting)+" waiting", takes.Count, micros(takes.P50), micros(takes.P99))
	}
	return t
}

func neighbourTable(w io.Writer, r *bench.Report) *table {
	n := r.Neighbour
	if n == nil {
		return nil
	}
	t := benchTable(w, "NOISY NEIGHBOUR", "quiet wait p50", "quiet wait p99", "quiet served in time", "share of the quiet", "of the noisy one")
	for _, s := range n.Systems {
		t.row(s.Name, micros(s.P50), micros(s.P99), percent(s.Served), percent(s.QuietShare), percent(1-s.QuietShare))
	}
	return t
}

func agentsTable(w io.Writer, r *bench.Report) *table {
	if len(r.Agents) == 0 {
		return nil
	}
	first := count(r.Agents[0].Agents, "agent")
	t := benchTable(w, "MANY AGENTS", "messages per second", "of "+first, "shares within", "lane pulls in vain")
	for _, agents := range r.Agents {
		t.row(count(agents.Agents, "agent"), grouped(int(agents.PerSecond)), decimals(agents.OfFirst), percent(agents.ShareError), percent(agents.EmptyPulls))
	}
	return t
}

func printComparison(w io.Writer, then *bench.Report, c *bench.Comparison) error {
	fmt.Fprintf(w, "\nCompared with %s of %s\n", then.Version, then.At.Format("2006-01-02 15:04"))
	for _, note := range c.Notes {
		fmt.Fprintf(w, "note: %s\n", note)
	}
	if len(c.Changes) == 0 {
		_, err := fmt.Fprintln(w, "the two have nothing in common that was measured")
		return err
	}
	t := benchTable(w, "CHANGE", "unit", "then", "now", "ratio", "of any two rounds", "verdict")
	for _, change := range c.Changes {
		t.row(change.Name, change.Unit, significant(change.Then), significant(change.Now), decimals(change.Ratio),
			decimals(change.Low)+" to "+decimals(change.High), string(change.Verdict))
	}
	return t.flush()
}

func decimals(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) }

// significant writes three digits that count.
func significant(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) }

// percent writes a part of 1.
func percent(v float64) string { return strconv.FormatFloat(100*v, 'f', 1, 64) + "%" }

// micros shows microseconds as milliseconds.
func micros(us float64) string { return strconv.FormatFloat(us/1000, 'f', 2, 64) + " ms" }

// grouped writes n with commas.
func grouped(n int) string {
	digits, sign := strconv.Itoa(n), ""
	if strings.HasPrefix(digits, "-") {
		digits, sign = digits[1:], "-"
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}
