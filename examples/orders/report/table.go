//go:build unix

package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
)

// A group is all orders of one tenant or of one level.
type group struct {
	name        string
	fair, plain []begun
}

// print writes the comparison: a line per tenant, the largest first, and a line per level.
func print(w io.Writer, concurrency int, fair, plain []begun) error {
	text := fmt.Sprintf("%d orders were waiting, %d were handled at a time.\nWaits: how many orders were begun before, and seconds.\n",
		len(fair), concurrency)
	text += section("tenant", groups(fair, plain, func(b begun) string { return b.tenant }))
	byLevel := groups(fair, plain, func(b begun) string { return b.level })
	slices.SortFunc(byLevel, func(a, b group) int {
		return cmp.Compare(slices.Index(levels, a.name), slices.Index(levels, b.name))
	})
	text += section("level", byLevel)
	_, err := io.WriteString(w, text)
	return err
}

// section is one block of the comparison.
func section(what string, all []group) string {
	const line = "%-13s %6v  %15s %15s  %15s %15s\n"
	text := fmt.Sprintf("\n%20s  %31s  %31s\n", "", "through Fairlead", "one plain consumer")
	text += fmt.Sprintf(line, what, "orders", "p50", "p99", "p50", "p99")
	for _, g := range all {
		text += fmt.Sprintf(line, g.name, len(g.fair), percentile(g.fair, 50), percentile(g.fair, 99),
			percentile(g.plain, 50), percentile(g.plain, 99))
	}
	return text
}

// groups puts the orders of both runs together by name, the largest group first.
func groups(fair, plain []begun, name func(begun) string) []group {
	byName := map[string]*group{}
	for _, b := range fair {
		g := byName[name(b)]
		if g == nil {
			g = &group{name: name(b)}
			byName[g.name] = g
		}
		g.fair = append(g.fair, b)
	}
	for _, b := range plain {
		if g := byName[name(b)]; g != nil {
			g.plain = append(g.plain, b)
		}
	}
	all := make([]group, 0, len(byName))
	for _, g := range byName {
		all = append(all, *g)
	}
	slices.SortFunc(all, func(a, b group) int {
		return cmp.Or(cmp.Compare(len(b.fair), len(a.fair)), cmp.Compare(a.name, b.name))
	})
	return all
}

// percentile is the wait that p percent of the orders did not exceed (nearest rank). The orders are in the order in which
// they were begun, which is also the order of their waits.
func percentile(orders []begun, p int) string {
	if len(orders) == 0 {
		return "-"
	}
	b := orders[(len(orders)*p+99)/100-1]
	return fmt.Sprintf("%d (%.1f s)", b.before, b.wait.Seconds())
}
