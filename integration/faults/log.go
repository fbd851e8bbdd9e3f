package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// event is a line of the event log, as the scenarios write it.
type event struct {
	Test    string `json:"test"`
	Fault   string `json:"fault"`
	Target  string `json:"target"`
	Promise string `json:"promise"`
	Held    bool   `json:"held"`
	Figures string `json:"figures"`
}

// readEvents reads an event log. A line that cannot be read is an error: it may have been a verdict.
func readEvents(r io.Reader) ([]event, error) {
	var all []event
	for lines := bufio.NewScanner(r); lines.Scan(); {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("faults: event log: %q: %w", lines.Text(), err)
		}
		all = append(all, e)
	}
	return all, nil
}

// line is one line of the table.
type line struct {
	row      row
	injected string
	held     bool
	figures  string
}

// judge makes a row's line from how its tests ended and what the event log has of them.
func judge(r row, passed map[string]bool, events []event) line {
	l := line{row: r, held: true}
	var figures []string
	for _, test := range r.tests {
		if !passed[test] {
			l.held = false
			figures = append(figures, test+" did not pass")
		}
	}
	counts := map[string]int{}
	aimed := r.target == ""
	verdicts := 0
	for _, e := range events {
		root, _, _ := strings.Cut(e.Test, "/")
		if !slices.Contains(r.tests, root) {
			continue
		}
		if e.Fault != "" {
			counts[e.Fault]++
			aimed = aimed || strings.Contains(e.Target, r.target)
		}
		if e.Promise != "" {
			verdicts++
			if !e.Held {
				l.held = false
				figures = append(figures, e.Promise+": "+e.Figures)
			} else if !slices.ContainsFunc(figures, func(f string) bool { return strings.HasPrefix(f, e.Promise+": ") }) {
				figures = append(figures, e.Promise+": "+e.Figures)
			}
		}
	}
	for _, kind := range r.kinds {
		if counts[kind] == 0 {
			l.held = false
			figures = append(figures, kind+" was not injected")
		}
	}
	if !aimed {
		l.held = false
		figures = append(figures, "nothing hit "+r.target)
	}
	var what []string
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		what = append(what, fmt.Sprintf("%d × %s", counts[kind], kind))
	}
	if len(counts) == 0 {
		what = append(what, fmt.Sprintf("%d scenarios", len(r.tests)))
	}
	l.injected = strings.Join(what, ", ")
	l.figures = strings.Join(figures, "; ")
	if l.figures == "" {
		l.figures = fmt.Sprintf("%d of %d scenarios passed", len(r.tests), len(r.tests))
	} else {
		l.figures = fmt.Sprintf("%d verdicts, of them %s", verdicts, l.figures)
	}
	return l
}

// table writes the lines as Markdown, which is also readable in a terminal, and tells whether all was held.
func table(w io.Writer, lines []line) (held bool) {
	held = true
	fmt.Fprintln(w, "| fault | injected | promise | held |\n| --- | --- | --- | --- |")
	for _, l := range lines {
		word := "yes"
		if !l.held {
			word, held = "**no**", false
		}
		fmt.Fprintf(w, "| %s: %s | %s | %s | %s: %s |\n", l.row.name, l.row.fault, l.injected, l.row.promises, word, l.figures)
	}
	return held
}
