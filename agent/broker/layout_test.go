package broker

import (
	"slices"
	"testing"

	"github.com/fairlead/fairlead/agent/broker/names"
	"github.com/fairlead/fairlead/config"
	"github.com/fairlead/fairlead/fairshare"
)

func TestAddress(t *testing.T) {
	fair := NewLayout(definition(nil))
	plain := NewLayout(definition(arrivalOrder))
	for _, tt := range []struct {
		layout     Layout
		class, key string
		want       Address
		ok         bool
	}{
		{fair, "p0", "acme", Address{"p0", 0, "acme"}, true},
		{fair, "p2", "_", Address{"p2", 2, ""}, true},
		{fair, "p0", "a=2Eb", Address{"p0", 0, "a.b"}, true},
		{fair, "d", "acme", Address{"d", 1, "acme"}, true},
		{fair, "p3", "acme", Address{"p3", 2, "acme"}, true},
		{fair, "p99", "acme", Address{"p99", 2, "acme"}, true},
		{plain, "p0", "acme", Address{"p0", 0, ""}, true},
		{plain, "d", "=ZZ", Address{"p1", 1, ""}, true},
		{plain, "p0", "*", Address{"p0", 0, ""}, true},
		{fair, "p0", "=ZZ", Address{}, false},
		{fair, "p0", "*", Address{}, false},
		{fair, "px", "a", Address{}, false},
		{fair, "p", "a", Address{}, false},
		{fair, "p00", "a", Address{}, false},
		{fair, "p01", "a", Address{}, false},
		{fair, "p100", "a", Address{}, false},
		{fair, "p-1", "a", Address{}, false},
		{fair, "P0", "a", Address{}, false},
		{fair, "dd", "a", Address{}, false},
		{plain, "px", "a", Address{}, false},
	} {
		if got, ok := tt.layout.Address(tt.class, tt.key); got != tt.want || ok != tt.ok {
			t.Errorf("keyed %t: %s.%s is at %+v, %t, want %+v, %t", tt.layout.Keyed, tt.class, tt.key, got, ok, tt.want, tt.ok)
		}
	}
}

func TestLanesOfALayout(t *testing.T) {
	n := names.New("fl", "fairlead")
	layout := NewLayout(definition(nil))
	for _, tt := range []struct {
		a       Address
		filters []string
	}{
		{Address{"p0", 0, "a.b"}, []string{"fl.q.orders.p0.a=2Eb"}},
		{Address{"p1", 1, ""}, []string{"fl.q.orders.p1._"}},
		{Address{"d", 1, ""}, []string{"fl.q.orders.d._"}},
		{Address{"p7", 2, "x"}, []string{"fl.q.orders.p7.x"}},
	} {
		lane := newLane(n, layout, tt.a)
		if !slices.Equal(lane.filters, tt.filters) {
			t.Errorf("%+v reads %q, want %q", tt.a, lane.filters, tt.filters)
		}
		if a, _, ok := layout.laneAddress(n, lane.Name()); !ok || a != tt.a {
			t.Errorf("the lane %s is at %+v, %t, want %+v", lane.Name(), a, ok, tt.a)
		}
	}
	if lane := newLane(n, NewLayout(definition(arrivalOrder)), Address{"p1", 1, ""}); !slices.Equal(lane.filters, []string{"fl.q.orders.p1.*", "fl.q.orders.d.*"}) {
		t.Errorf("without fair share the default level reads %q", lane.filters)
	}
}

// Two layouts never share a lane; what does not shape lanes does not change their names.
func TestLaneNames(t *testing.T) {
	n := names.New("fl", "fairlead")
	name := func(change func(*config.Queue)) string {
		return newLane(n, NewLayout(definition(change)), Address{"p0", 0, ""}).Name()
	}
	base := name(nil)
	if limited := name(func(q *config.Queue) { q.Limits.MaxMessages = 5; q.Retry.MaxAttempts = 9 }); limited != base {
		t.Errorf("limits changed the lane from %s to %s", base, limited)
	}
	seen := map[string]bool{base: true}
	for _, change := range []func(*config.Queue){
		func(q *config.Queue) { q.Levels = 4 },
		func(q *config.Queue) { q.DefaultPriority = 0 },
		arrivalOrder,
		func(q *config.Queue) { q.OrderedKeys = true },
		func(q *config.Queue) { q.ConcurrencyPerKey = 2 },
		func(q *config.Queue) { q.SingleActiveConsumer = true },
	} {
		if other := name(change); seen[other] {
			t.Errorf("two layouts share the lane %s", other)
		} else {
			seen[other] = true
		}
	}
}

func TestWeights(t *testing.T) {
	for s, want := range map[string]int{"1": 1000, "0.001": 1, "1000": 1_000_000, "2.5": 2500, "3.140": 3140, "0000.5": 500} {
		if w, ok := ParseWeight(s); !ok || int(w) != want {
			t.Errorf("ParseWeight(%q) = %d, %t, want %d", s, w, ok, want)
		}
	}
	for _, s := range []string{"", "0", "-1", "+1", "NaN", "Inf", "1e-9", "1e9", "abc", ".5", "1.", "1.2345", "1000.001", "99999", "1,5", " 1"} {
		if w, ok := ParseWeight(s); ok {
			t.Errorf("ParseWeight(%q) = %d", s, w)
		}
	}
	for w := 1; w <= 1_000_000; w += 137 {
		if back, ok := ParseWeight(formatWeight(fairshare.Weight(w))); !ok || int(back) != w {
			t.Fatalf("%d came back from %q as %d", w, formatWeight(fairshare.Weight(w)), back)
		}
	}
}
