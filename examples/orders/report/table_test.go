//go:build unix

package main

import (
	"strings"
	"testing"
	"time"
)

func TestTableComparesWaitsByTenantAndLevel(t *testing.T) {
	run := func(text string) (all []begun) {
		for i, tenant := range strings.Split(text, "") {
			all = append(all, begun{tenant: tenant, level: levels[i%2], before: i, wait: time.Duration(i) * time.Second})
		}
		return all
	}
	var out strings.Builder
	if err := print(&out, 4, run("abababaaaa"), run("aaaaaaabbb")); err != nil {
		t.Fatal(err)
	}
	want := `10 orders were waiting, 4 were handled at a time.
Waits: how many orders were begun before, and seconds.

                                     through Fairlead               one plain consumer
tenant        orders              p50             p99              p50             p99
a                  7        6 (6.0 s)       9 (9.0 s)        3 (3.0 s)       6 (6.0 s)
b                  3        3 (3.0 s)       5 (5.0 s)        8 (8.0 s)       9 (9.0 s)

                                     through Fairlead               one plain consumer
level         orders              p50             p99              p50             p99
high               5        4 (4.0 s)       8 (8.0 s)        4 (4.0 s)       8 (8.0 s)
medium             5        5 (5.0 s)       9 (9.0 s)        5 (5.0 s)       9 (9.0 s)
`
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

func TestPercentileIsTheNearestRank(t *testing.T) {
	orders := make([]begun, 200)
	for i := range orders {
		orders[i].before = i
	}
	for _, c := range []struct {
		n, p int
		want string
	}{{200, 99, "197 (0.0 s)"}, {200, 50, "99 (0.0 s)"}, {1, 99, "0 (0.0 s)"}, {2, 50, "0 (0.0 s)"}, {0, 50, "-"}} {
		if got := percentile(orders[:c.n], c.p); got != c.want {
			t.Errorf("p%d of %d: %s, want %s", c.p, c.n, got, c.want)
		}
	}
}
