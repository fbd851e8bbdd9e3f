package trend

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
)

var start = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func at(d time.Duration) time.Time { return start.Add(d) }

func got(n uint64, each time.Duration) Got {
	return Got{Deliveries: n, Waits: n, Waited: time.Duration(n) * each, Longest: each, Weight: 1}
}

func near(t *testing.T, what string, have, want float64) {
	t.Helper()
	if math.Abs(have-want) > 1e-9 {
		t.Errorf("%s: %v, want %v", what, have, want)
	}
}

// A noisy neighbour: one tenant floods, three trickle. Equal weights.
func TestNoisyNeighbour(t *testing.T) {
	var q Queue
	sample := func(after time.Duration, flood uint64) Sample {
		s := Sample{At: at(after), Total: 3, Waiting: flood + 3, Tenants: []Tenant{
			{Key: "flood", Waiting: flood, InFlight: 4, Weight: 1}, {Key: "a", Waiting: 2, Weight: 1}, {Key: "b", Waiting: 1, Weight: 1}}}
		s.Got = map[string]Got{"flood": got(85, time.Second), "a": got(5, 10*time.Millisecond), "b": got(5, 20*time.Millisecond), "c": got(5, 40*time.Millisecond)}
		return s
	}
	first := q.Add(sample(0, 10_000), 10)
	if first.Window != 0 || first.PerSecond != 0 || first.Got.Deliveries != 0 {
		t.Errorf("a first sample says %+v: what it got was in an unknown time", first)
	}
	if !first.Tenants[0].Noisy || first.Tenants[0].Key != "flood" {
		t.Errorf("the noisy one does not show at once: %+v", first.Tenants[0])
	}
	v := q.Add(sample(time.Second, 9_000), 10)
	if v.Window != time.Second || v.Active != 4 {
		t.Errorf("window %v, %d active", v.Window, v.Active)
	}
	near(t, "rate", v.PerSecond, 100)
	near(t, "share", v.Tenants[0].Share, 0.85)
	near(t, "fair share", v.Tenants[0].Fair, 0.25)
	if v.Noisy.Tenants != 1 || v.Quiet.Tenants != 3 {
		t.Errorf("%d noisy, %d quiet", v.Noisy.Tenants, v.Quiet.Tenants)
	}
	if v.Quiet.Got.Longest != 40*time.Millisecond || v.Noisy.Got.Longest != time.Second {
		t.Errorf("longest waits: quiet %v, noisy %v", v.Quiet.Got.Longest, v.Noisy.Got.Longest)
	}
	if want := 70 * time.Millisecond / 3; v.Quiet.Got.Mean() != want {
		t.Errorf("quiet tenants waited %v on average, want %v", v.Quiet.Got.Mean(), want)
	}
	keys := fmt.Sprint(v.Tenants[0].Key, v.Tenants[1].Key, v.Tenants[2].Key, v.Tenants[3].Key)
	if keys != fmt.Sprint("flood", "a", "b", "c") {
		t.Errorf("order %s", keys)
	}
}

func TestWho(t *testing.T) {
	for _, c := range []struct {
		name    string
		waiting []uint64
		noisy   int
	}{
		{"a lone tenant has nobody to disturb", []uint64{5000}, 0},
		{"all alike", []uint64{50, 50, 50}, 0},
		{"a trifle", []uint64{2, 1, 1}, 0},
		{"nine are none", []uint64{9, 0, 0}, 0},
		{"ten are", []uint64{10, 1}, 1},
		{"two of four", []uint64{1000, 1000, 3, 1}, 2},
		{"most", []uint64{1000, 1000, 1}, 2},
		{"not only the loudest", []uint64{10000, 500, 0, 0, 0, 0}, 2},
		{"nothing", nil, 0},
	} {
		s := Sample{At: start, Total: len(c.waiting)}
		for i, n := range c.waiting {
			s.Tenants = append(s.Tenants, Tenant{Key: fmt.Sprint(i), Waiting: n, Weight: 1})
			s.Waiting += n
		}
		var q Queue
		if v := q.Add(s, 10); v.Noisy.Tenants != c.noisy {
			t.Errorf("%s: %d are noisy, want %d", c.name, v.Noisy.Tenants, c.noisy)
		}
	}
}

func TestWeights(t *testing.T) {
	var q Queue
	s := Sample{At: start, Total: 2, Waiting: 20, Tenants: []Tenant{{Key: "acme", Waiting: 10, Weight: 3}, {Key: "zeta", Waiting: 10, Weight: 1}}}
	q.Add(s, 5)
	s.At = at(time.Second)
	s.Got = map[string]Got{"acme": {Deliveries: 30, Weight: 3}, "zeta": {Deliveries: 10, Weight: 1}}
	v := q.Add(s, 5)
	near(t, "share of weight 3", v.Tenants[0].Share, 0.75)
	near(t, "fair share of weight 3", v.Tenants[0].Fair, 0.75)
	// What it was charged with counts more than what the list says: the weight was in the messages' own headers.
	s.At, s.Got = at(2*time.Second), map[string]Got{"zeta": {Deliveries: 1, Weight: 9}}
	v = q.Add(s, 5)
	near(t, "fair share after", v.Tenants[0].Fair, 0.25)
}

// Rates are of the last seconds: what was long ago is forgotten, and a gap or a clock that was set back begins anew.
func TestWindow(t *testing.T) {
	var q Queue
	add := func(after time.Duration, n uint64) View {
		return q.Add(Sample{At: at(after), Got: map[string]Got{"a": got(n, 0)}}, 5)
	}
	add(0, 7)
	for s := 1; s <= 30; s++ {
		v := add(time.Duration(s)*time.Second, 10)
		near(t, fmt.Sprintf("rate after %ds", s), v.PerSecond, 10)
		if v.Window > Window {
			t.Fatalf("the window has grown to %v", v.Window)
		}
		if len(q.kept) > 7 {
			t.Fatalf("%d samples are kept", len(q.kept))
		}
	}
	for s := 31; s <= 36; s++ {
		add(time.Duration(s)*time.Second, 0)
	}
	if v := add(37*time.Second, 0); v.PerSecond != 0 || v.Active != 0 {
		t.Errorf("a tenant is active long after its last delivery: %+v", v)
	}
	if v := add(time.Hour, 1000); v.Window != 0 || v.PerSecond != 0 {
		t.Errorf("after a gap: %+v", v)
	}
	if v := add(time.Minute, 1000); v.Window != 0 {
		t.Errorf("after the clock was set back: window %v", v.Window)
	}
}

// Whatever is cut, shares add up, and everybody is counted once.
func TestNothingIsLostByTheBounds(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for round := range 300 {
		var q Queue
		tenants, cut, rows := r.IntN(60), r.IntN(40), r.IntN(20)
		for step := range 3 {
			s := Sample{At: at(time.Duration(step) * time.Second), Got: map[string]Got{}}
			for i := range tenants {
				n := uint64(r.IntN(50)) + 1
				s.Waiting += n
				s.Total++
				s.Tenants = append(s.Tenants, Tenant{Key: fmt.Sprint("k", i), Waiting: n, Weight: 1})
				if r.IntN(2) == 0 {
					s.Got[fmt.Sprint("k", i)] = got(uint64(r.IntN(9))+1, 0)
				}
			}
			sortByWaiting(s.Tenants)
			s.Tenants = s.Tenants[:min(cut, len(s.Tenants))]
			if r.IntN(3) == 0 {
				s.Others = got(5, time.Second)
			}
			v := q.Add(s, rows)
			check(t, round, s, v, rows)
		}
	}
}

func check(t *testing.T, round int, s Sample, v View, rows int) {
	t.Helper()
	sum, count, waiting, deliveries := v.Rest.Share, v.Rest.Tenants, v.Rest.Waiting, v.Rest.Got.Deliveries
	fair := v.Rest.Fair
	seen := map[string]bool{}
	for _, row := range v.Tenants {
		sum, fair, count, waiting, deliveries = sum+row.Share, fair+row.Fair, count+1, waiting+row.Waiting, deliveries+row.Got.Deliveries
		if seen[row.Key] {
			t.Fatalf("round %d: %s has two rows", round, row.Key)
		}
		seen[row.Key] = true
	}
	if len(v.Tenants) > rows {
		t.Fatalf("round %d: %d rows, at most %d were asked for", round, len(v.Tenants), rows)
	}
	if count != v.Active || v.Quiet.Tenants+v.Noisy.Tenants != v.Active {
		t.Fatalf("round %d: %d tenants in rows and rest, %d quiet, %d noisy, %d in all", round, count, v.Quiet.Tenants, v.Noisy.Tenants, v.Active)
	}
	if waiting != s.Waiting || deliveries != v.Got.Deliveries || v.Quiet.Waiting+v.Noisy.Waiting != s.Waiting {
		t.Fatalf("round %d: %d of %d waiting, %d of %d deliveries", round, waiting, s.Waiting, deliveries, v.Got.Deliveries)
	}
	if v.Got.Deliveries > 0 {
		near(t, fmt.Sprintf("round %d: all shares", round), sum, 1)
	}
	if v.Active > 0 {
		near(t, fmt.Sprintf("round %d: all fair shares", round), fair, 1)
	}
}

func sortByWaiting(list []Tenant) {
	for i := range list {
		for j := i; j > 0 && list[j].Waiting > list[j-1].Waiting; j-- {
			list[j], list[j-1] = list[j-1], list[j]
		}
	}
}

// A crowd with backlogs does not hide who gets along without one.
func TestRowsForBoth(t *testing.T) {
	var q Queue
	s := Sample{At: start, Total: 100}
	for i := range 100 {
		s.Tenants = append(s.Tenants, Tenant{Key: fmt.Sprintf("crowd%02d", i), Waiting: 100, Weight: 1})
		s.Waiting += 100
	}
	q.Add(s, 4)
	s.At, s.Got = at(time.Second), map[string]Got{"brisk": got(50, 0), "crowd07": got(2, 0)}
	v := q.Add(s, 4)
	var keys []string
	for _, r := range v.Tenants {
		keys = append(keys, r.Key)
	}
	if want := []string{"crowd07", "crowd00", "brisk", "crowd01"}; !reflect.DeepEqual(keys, want) {
		t.Errorf("rows %v, want %v", keys, want)
	}
	if v.Rest.Tenants != 97 {
		t.Errorf("%d in the rest", v.Rest.Tenants)
	}
}

// Who has worked off a backlog got what had waited for it: that is no wait of a quiet tenant.
func TestNoisyForAWindowMore(t *testing.T) {
	var q Queue
	sample := func(after time.Duration, waiting uint64) View {
		return q.Add(Sample{At: at(after), Total: 2, Waiting: waiting + 1, Got: map[string]Got{"flood": got(10, time.Minute), "a": got(1, time.Millisecond)}, Tenants: []Tenant{
			{Key: "flood", Waiting: waiting, Weight: 1}, {Key: "a", Waiting: 1, Weight: 1}}}, 5)
	}
	sample(0, 100)
	sample(time.Second, 0)
	if v := sample(2*time.Second, 0); v.Noisy.Tenants != 1 || v.Quiet.Got.Longest != time.Millisecond {
		t.Errorf("just after: %d noisy, quiet ones waited %v", v.Noisy.Tenants, v.Quiet.Got.Longest)
	}
	for s := 3; s <= 5; s++ {
		sample(time.Duration(s)*time.Second, 0)
	}
	if v := sample(7*time.Second, 0); v.Noisy.Tenants != 0 {
		t.Error("noisy for ever")
	}
}
