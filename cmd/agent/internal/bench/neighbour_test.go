package bench

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/client/clienttest"
)

// beside is a flood that takes a moment.
func beside(t *testing.T) Options {
	o := small(t)
	o.Profiles, o.Rounds = []string{noisyNeighbour}, 1
	o.Neighbour = NeighbourOptions{
		Flood: 400, Quiet: 4, Every: 20 * time.Millisecond, During: 200 * time.Millisecond, Work: 4 * time.Millisecond, Slots: 4,
	}
	return o
}

// inOrder makes an agent that shares nothing fairly.
func inOrder(a *clienttest.Agent) {
	a.Order = func(x, y *clienttest.Message) bool { return x.Seq < y.Seq }
}

// Under a fair share the noisy tenant has a turn or two while a message waits; the rest is room for a lot that is cut in two.
const fewTurns = 4

func TestNoisyNeighbour(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*clienttest.Agent)
		fair   bool
	}{{"fair", nil, true}, {"in the order of arrival", inOrder, false}} {
		t.Run(c.name, func(t *testing.T) {
			o := beside(t)
			o.Start = startChanged(c.change)
			r, err := Run(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Rows)+len(r.Takes)+len(r.Agents) > 0 || r.Delivery.Count > 0 {
				t.Errorf("more was measured than asked for: %+v", r)
			}
			plain, ours := r.Neighbour.Systems[0], r.Neighbour.Systems[1]
			for _, s := range []System{plain, ours} {
				round := s.All[0]
				if len(s.All) != 1 || round.Published != 40 || round.Quiet.Count != 40 || s.P50 <= 0 || s.P99 < s.P50 {
					t.Errorf("%+v", s)
				}
			}
			// The flood takes the worker two times as long as the quiet tenants publish: in the order of arrival all of it is
			// served before the first of theirs.
			if plain.Overtaken < 100 {
				t.Errorf("a plain consumer: %+v", plain)
			}
			if fair := ours.Overtaken <= fewTurns; fair != c.fair {
				t.Errorf("fair %v: plain %+v, ours %+v", c.fair, plain, ours)
			}
		})
	}
}

func TestAFloodThatIsNotCountedRightHasNoFigure(t *testing.T) {
	o := NeighbourOptions{Flood: 1, Quiet: 1, Every: time.Second, During: time.Second}
	noisy, quiet := arrival{messageID: messageID{noisyName, 0}, at: 5}, arrival{messageID: messageID{tenant(0), 0}, published: 2, at: 9}
	for name, arrivals := range map[string][]arrival{
		"lost": {noisy}, "twice": {noisy, noisy}, "one too many": {noisy, quiet, {messageID: messageID{tenant(0), 1}}},
	} {
		if _, err := o.judge(arrivals, published{end: 10}); !errors.Is(err, ErrCount) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for end, want := range map[time.Duration]int{10: 1, 8: 0} {
		r, err := o.judge([]arrival{noisy, quiet}, published{end: end})
		if err != nil || r.Delivered != want || r.Noisy != 1 || r.Quiet.Count != 1 || r.Quiet.Max != 0.007 {
			t.Errorf("%+v, %v", r, err)
		}
	}
}

func TestOvertaken(t *testing.T) {
	lot := func(asked, at time.Duration, ids ...messageID) (lot []arrival) {
		for _, id := range ids {
			lot = append(lot, arrival{messageID: id, asked: asked, at: at})
		}
		return lot
	}
	n, a0, a1, b0 := messageID{key: noisyName}, messageID{"a", 0}, messageID{"a", 1}, messageID{"b", 0}
	stored := map[messageID]time.Duration{a0: 5, a1: 6, b0: 25}
	for _, c := range []struct {
		name     string
		arrivals [][]arrival
		want     int
	}{
		{"nothing", nil, 0},
		{"those asked for before do not count", [][]arrival{lot(0, 9, n, n), lot(10, 19, a0)}, 0},
		{"those of the lots between", [][]arrival{lot(0, 9, n), lot(10, 19, n, n), lot(20, 29, n, a0, n)}, 3},
		{"a tenant's second message waits for its first", [][]arrival{lot(10, 19, n, a0), lot(20, 29, n, a1)}, 1},
		{"the most of all", [][]arrival{lot(10, 19, a0), lot(20, 29, n), lot(30, 39, n, n, b0), lot(40, 49, a1)}, 3},
	} {
		if got := overtaken(slices.Concat(c.arrivals...), stored); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestStamps(t *testing.T) {
	data := stamp("tenant-7", 42, 9*time.Second)
	got, err := unstamp(data)
	if want := (arrival{messageID: messageID{"tenant-7", 42}, published: 9 * time.Second}); err != nil || got != want || len(data) != payloadSize {
		t.Errorf("%+v, %v, %d bytes", got, err, len(data))
	}
	for _, wrong := range []string{"", "x", "a b c d", "a 1 x d"} {
		if _, err := unstamp([]byte(wrong)); !errors.Is(err, ErrCount) {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}

func TestTheWorstShareCounts(t *testing.T) {
	a := Agents{}
	for _, off := range []float64{0, 0.03, 0.01} {
		shares := map[string]float64{}
		for i := range shareTenants {
			shares[tenant(i)] = entitled(tenant(i))
		}
		shares[tenant(3)] += off
		a.All = append(a.All, AgentsRound{PerSecond: 100, Shares: shares, LanePulls: 50, EmptyPulls: 5})
	}
	if a.sum(); math.Abs(a.ShareError-0.03) > 1e-9 || math.Abs(a.EmptyPulls-0.1) > 1e-9 || a.PerSecond != 100 {
		t.Errorf("%+v", a)
	}
	// A tenant that got nothing at all is off by all that it should have had.
	delete(a.All[0].Shares, tenant(0))
	if a.sum(); math.Abs(a.ShareError-0.15) > 1e-9 {
		t.Errorf("%+v", a)
	}
	sum := 0.0
	for i := range shareTenants {
		sum += entitled(tenant(i))
	}
	if math.Abs(sum-1) > 1e-9 {
		t.Errorf("all are entitled to %v", sum)
	}
}

func TestUnknownProfilesAreRefused(t *testing.T) {
	o := DefaultOptions()
	o.Profiles = []string{"one-tenant", "two"}
	if err := o.Validate(); err == nil {
		t.Error("accepted")
	}
	for _, c := range []struct {
		profiles []string
		rows     int
		all      bool
	}{{nil, 3, false}, {[]string{"10-tenants"}, 1, false}, {[]string{AllProfiles}, 3, true}, {[]string{manyAgents}, 0, false}} {
		o.Profiles = c.profiles
		if err := o.Validate(); err != nil || len(o.layouts()) != c.rows || (o.runs(manyAgents) && o.runs(noisyNeighbour)) != c.all {
			t.Errorf("%v: %v, %d rows", c.profiles, err, len(o.layouts()))
		}
	}
}
