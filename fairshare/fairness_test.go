package fairshare

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// script is a workload: what arrives before each delivery.
type script struct {
	name    string
	weights map[string]Weight
	// arrivals gives the keys that publish one message each before delivery i.
	// served is the key of delivery i-1, "" at first or after an idle step.
	arrivals func(i int, served string) []string
	steps    int
}

// play runs the script and gives the deliveries in order.
func play(d discipline, s script) []string {
	var out []string
	served := ""
	for i := range s.steps {
		for _, key := range s.arrivals(i, served) {
			d.arrive(key, s.weights[key])
		}
		served, _ = d.next()
		out = append(out, served)
	}
	return out
}

// outruns checks the one-sided promise: over no stretch of time does a key get
// more than one turn each ahead of victim, which waits all the time, in service
// per weight, not even by leaving and coming back. It describes a violation.
func outruns(s script, victim string, deliveries []string) error {
	for _, key := range sortedKeys(s.weights) {
		if key == victim {
			continue
		}
		perTurn := 1000 / float64(s.weights[key])
		victimTurn := 1000 / float64(s.weights[victim])
		lead, lowest := 0.0, 0.0
		for i, d := range deliveries {
			switch d {
			case key:
				lead += perTurn
			case victim:
				lead -= victimTurn
			}
			lowest = min(lowest, lead)
			if lead-lowest > perTurn+victimTurn+1e-6 {
				return fmt.Errorf("%s outruns %s by %.2f by delivery %d, allowed are %.2f", key, victim, lead-lowest, i, perTurn+victimTurn)
			}
		}
	}
	return nil
}

// diverges checks the bound between keys that wait all the time: at every moment
// their service per weight differs by one turn each at most.
func diverges(s script, keys, deliveries []string) error {
	served := map[string]float64{}
	for i, d := range deliveries {
		served[d] += 1000 / float64(s.weights[d])
		for _, a := range keys {
			for _, b := range keys {
				allowed := 1000/float64(s.weights[a]) + 1000/float64(s.weights[b])
				if served[a]-served[b] > allowed+1e-6 {
					return fmt.Errorf("%s leads %s by %.2f at delivery %d, allowed are %.2f", a, b, served[a]-served[b], i, allowed)
				}
			}
		}
	}
	return nil
}

func sortedKeys(m map[string]Weight) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// backlog gives each key n messages at once, one key after the other.
func backlog(n int, keys ...string) []string {
	var all []string
	for _, key := range keys {
		all = append(all, slices.Repeat([]string{key}, n)...)
	}
	return all
}

var (
	// deep: both wait from the start, one after the other.
	deep = script{
		name: "deep", steps: 400, weights: map[string]Weight{"a": 3000, "b": 1000, "c": 500},
		arrivals: func(i int, _ string) []string {
			if i > 0 {
				return nil
			}
			return backlog(400, "a", "b", "c")
		},
	}
	// flapping: f has one message at a time, and the next as soon as it is done.
	flapping = script{
		name: "flapping", steps: 600, weights: map[string]Weight{"f": 1000, "b": 1000},
		arrivals: func(i int, served string) []string {
			switch {
			case i == 0:
				return append(backlog(600, "b"), "f")
			case served == "f":
				return []string{"f"}
			}
			return nil
		},
	}
	// flock: fifty that flap at once, each with one message at a time.
	flock = script{
		name: "flock", steps: 2000, weights: flockWeights(),
		arrivals: func(i int, served string) []string {
			switch {
			case i == 0:
				all := backlog(2000, "b")
				for k := range 50 {
					all = append(all, fmt.Sprintf("f%d", k))
				}
				return all
			case strings.HasPrefix(served, "f"):
				return []string{served}
			}
			return nil
		},
	}
	// sleeper: s works a little, sleeps for long, and comes back with plenty.
	sleeper = script{
		name: "sleeper", steps: 1000, weights: map[string]Weight{"s": 1000, "b": 1000},
		arrivals: func(i int, _ string) []string {
			switch i {
			case 0:
				return append(backlog(1000, "b"), "s", "s")
			case 500:
				return backlog(400, "s")
			}
			return nil
		},
	}
	scripts = []script{deep, flapping, flock, sleeper}
)

func flockWeights() map[string]Weight {
	w := map[string]Weight{"b": 2000}
	for k := range 50 {
		w[fmt.Sprintf("f%d", k)] = Weight(500 + 100*k)
	}
	return w
}

// check applies what is promised for the script: b waits all the time in each.
func check(s script, deliveries []string) error {
	if s.name == "deep" {
		return diverges(s, []string{"a", "b", "c"}, deliveries)
	}
	return outruns(s, "b", deliveries)
}

func TestNobodyOutrunsABackloggedTenant(t *testing.T) {
	for _, s := range scripts {
		for seed := range uint64(20) {
			if err := check(s, play(newLanes(New(seed)), s)); err != nil {
				t.Errorf("%s, seed %d: %v", s.name, seed, err)
			}
		}
	}
}

// Random comings and goings, all weights, against a tenant that always waits.
func TestNobodyOutrunsABackloggedTenantAtRandom(t *testing.T) {
	for seed := range uint64(60) {
		s := randomScript(seed)
		if err := check(s, play(newLanes(New(seed)), s)); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}

func randomScript(seed uint64) script {
	rnd := rand.New(rand.NewPCG(seed, 3))
	s := script{name: "random", steps: 1500, weights: map[string]Weight{"b": Weight(1 + rnd.IntN(20_000))}}
	for k := range 6 {
		s.weights[fmt.Sprintf("k%d", k)] = Weight(1 + rnd.IntN(20_000))
	}
	s.arrivals = func(i int, served string) []string {
		if i == 0 {
			return backlog(s.steps, "b")
		}
		var all []string
		if served != "b" && served != "" && rnd.IntN(2) == 0 {
			all = append(all, served)
		}
		if rnd.IntN(4) == 0 {
			all = append(all, slices.Repeat([]string{fmt.Sprintf("k%d", rnd.IntN(6))}, 1+rnd.IntN(12))...)
		}
		return all
	}
	return s
}

// Each control must fail at one of the checks at least, and the one that has no
// mistake must pass all: else the checks prove nothing.
func TestControlsFail(t *testing.T) {
	for _, control := range []struct {
		name  string
		make  func() discipline
		fails []string
	}{
		{"no mistake", func() discipline { return newNaive(naiveStride{}) }, nil},
		{"arrival order", func() discipline { return &arrivalOrder{} }, []string{"deep"}},
		{"forgets debt", func() discipline { return newNaive(naiveStride{forgetsDebt: true}) }, []string{"flapping", "flock"}},
		{"no virtual time", func() discipline { return newNaive(naiveStride{noVirtualTime: true}) }, []string{"sleeper"}},
	} {
		for _, s := range scripts {
			err := check(s, play(control.make(), s))
			if want := slices.Contains(control.fails, s.name); (err != nil) != want {
				t.Errorf("%s, %s: %v, want a violation: %v", control.name, s.name, err, want)
			}
		}
	}
}

// Ties are broken by the keys, never by who happened to come first. Replaying
// one history cannot show that; permuting arrivals of the same instant does.
func TestSameInstantArrivalsCommute(t *testing.T) {
	if d := permuted(func() discipline { return newLanes(New(9)) }); d != "" {
		t.Error(d)
	}
	if permuted(func() discipline { return newNaive(naiveStride{tiesByArrival: true}) }) == "" {
		t.Error("the control, which breaks ties by arrival, passes: the check is blind")
	}
}

func permuted(make func() discipline) string {
	rnd := rand.New(rand.NewPCG(4, 4))
	keys := []string{"a", "b", "c", "d", "e", "f", "g"}
	weights := []Weight{1000, 1000, 2000, 2000, 500, 1000, 3000}
	var first []string
	for try := range 20 {
		d := make()
		for _, i := range rnd.Perm(len(keys)) {
			for range 20 {
				d.arrive(keys[i], weights[i])
			}
		}
		var got []string
		for range 60 {
			key, _ := d.next()
			got = append(got, key)
		}
		if try == 0 {
			first = got
		} else if !slices.Equal(first, got) {
			return fmt.Sprintf("the order of arrival shows:\n%v\n%v", first, got)
		}
	}
	return ""
}
