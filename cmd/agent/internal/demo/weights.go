package demo

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// Ratio is a proportion of two weights in lowest terms, each at least 1.
type Ratio [2]int64

// maxRound bounds how many turns may pass until both weights were served once, so that a demo can show several.
const maxRound = 100

// ParseRatio reads "3:1". Weights are natural numbers up to 1000.
func ParseRatio(s string) (Ratio, error) {
	left, right, ok := strings.Cut(s, ":")
	a, errA := strconv.ParseInt(left, 10, 32)
	b, errB := strconv.ParseInt(right, 10, 32)
	if !ok || errA != nil || errB != nil || a < 1 || b < 1 || a > 1000 || b > 1000 {
		return Ratio{}, fmt.Errorf("demo: %q: write two weights from 1 to 1000, such as 3:1", s)
	}
	d := divisor(a, b)
	r := Ratio{a / d, b / d}
	if r.window() > maxRound {
		return Ratio{}, fmt.Errorf("demo: %q: its windows have %d messages, and %d is the most that can be shown", s, r.window(), maxRound)
	}
	return r, nil
}

func divisor(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// window is how many messages the proportion spans.
func (r Ratio) window() int64 { return r[0] + r[1] }

// Weights publishes about n messages of two tenants with the weights of r, takes them with pulls of size, and prints the
// order and whether every window of it has exactly that proportion. If not, the error is ErrNotExact.
func Weights(ctx context.Context, s *Stage, r Ratio, size, n int) error {
	tenants := []tenant{
		{name: "acme", weight: strconv.FormatInt(r[0], 10), colour: "36"},
		{name: "globex", weight: strconv.FormatInt(r[1], 10), colour: "33"},
	}
	window := int(r.window())
	rounds := max(n/window, 2)
	// Both run dry at the same moment, so that all of the order is contested. One publishes everything before the other:
	// what came first must not matter.
	var backlog []message
	for t := range tenants {
		for range rounds * int(r[t]) {
			backlog = append(backlog, message{level: 1, tenant: t})
		}
	}
	if err := s.publish(ctx, tenants, backlog); err != nil {
		return err
	}
	order, err := s.work(ctx, tenants, len(backlog), size)
	if err != nil {
		return err
	}
	s.printf("a: %s, weight %d, %d messages; b: %s, weight %d, %d messages; pulls of %d\n",
		tenants[0].name, r[0], rounds*int(r[0]), tenants[1].name, r[1], rounds*int(r[1]), size)
	perRow := max(64/window, 1)
	for i, m := range order {
		switch {
		case i == 0:
		case i%(window*perRow) == 0:
			s.printf("\n")
		case i%window == 0:
			s.printf(" ")
		}
		s.printf("%s", s.paint(tenants[m.tenant].colour, string(rune('a'+m.tenant))))
	}
	s.printf("\n")
	bad, at := deviation(order, r)
	if bad > 0 {
		s.printf("not exact: %d of %d windows of %d do not have %d:%d, the first at %d\n", bad, len(order)-window+1, window, r[0], r[1], at+1)
		return ErrNotExact
	}
	s.printf("exact: every window of %d has %d:%d\n", window, r[0], r[1])
	return nil
}

// deviation counts the windows, at every offset, that do not have r's proportion, and says where the first begins.
func deviation(order []message, r Ratio) (bad, first int) {
	window := int(r.window())
	var count int64 // of the first tenant, in the window that ends at i
	for i, m := range order {
		if m.tenant == 0 {
			count++
		}
		if i >= window && order[i-window].tenant == 0 {
			count--
		}
		if i >= window-1 && count != r[0] {
			if bad == 0 {
				first = i - window + 1
			}
			bad++
		}
	}
	return bad, first
}
