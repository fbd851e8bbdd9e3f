package fairshare

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// scenario is a workload for the simulator: tenants that publish at a rate, and
// workers that together take one message a tick.
type scenario struct {
	name    string
	tenants []tenant
	ticks   int
	pull    int
}

type tenant struct {
	key    string
	weight Weight
	start  int     // messages that wait at tick 0
	rate   float64 // messages per tick after that
	from   int     // tick at which the rate begins
	want   float64 // share of the deliveries that is due to it
	within float64 // how exact that is, as a share
}

// TestSimulatedShares runs the scenarios, checks the shares, and prints them:
//
//	go test ./fairshare -run TestSimulatedShares -v
func TestSimulatedShares(t *testing.T) {
	for _, s := range []scenario{
		{"equal tenants", []tenant{
			{"a", 1000, 5000, 0, 0, 1. / 3, .001}, {"b", 1000, 5000, 0, 0, 1. / 3, .001}, {"c", 1000, 5000, 0, 0, 1. / 3, .001},
		}, 6000, 8},
		{"weights 5:3:1:0.5", []tenant{
			{"gold", 5000, 9000, 0, 0, 5 / 9.5, .001}, {"silver", 3000, 9000, 0, 0, 3 / 9.5, .001},
			{"bronze", 1000, 9000, 0, 0, 1 / 9.5, .001}, {"free", 500, 9000, 0, 0, .5 / 9.5, .001},
		}, 9500, 64},
		// Those that ask for less than their share get all of it; the rest is
		// shared by the others.
		{"one flood, two that need little", []tenant{
			{"flood", 1000, 90_000, 0, 0, .85, .02}, {"small", 1000, 0, .1, 0, .1, .02}, {"tiny", 1000, 0, .05, 0, .05, .02},
		}, 10_000, 8},
		{"a light tenant comes late", []tenant{
			{"old", 1000, 20_000, 0, 0, .75, .01}, {"late", 1000, 0, 1, 5000, .25, .01},
		}, 10_000, 8},
		{"the flapping get no more", []tenant{
			{"deep", 3000, 20_000, 0, 0, .6, .01}, {"flap1", 1000, 0, .5, 0, .2, .01}, {"flap2", 1000, 0, .9, 0, .2, .01},
		}, 10_000, 1},
	} {
		t.Run(s.name, func(t *testing.T) { s.run(t) })
	}
}

func (s scenario) run(t *testing.T) {
	rnd := rand.New(rand.NewPCG(6, 6))
	l := newLanes(New(6))
	for _, x := range s.tenants {
		if x.start > 0 {
			l.publish(x.key, x.weight, x.start)
		}
	}
	n, total := map[string]int{}, 0
	for tick := 0; tick < s.ticks; tick += s.pull {
		for _, x := range s.tenants {
			for i := range s.pull {
				if tick+i >= x.from && rnd.Float64() < x.rate {
					l.publish(x.key, x.weight, 1)
				}
			}
		}
		for _, key := range l.pull(s.pull) {
			n[key]++
			total++
		}
	}
	for _, x := range s.tenants {
		share := float64(n[x.key]) / float64(total)
		t.Logf("%-8s weight %5.1f  %5.1f%% %s", x.key, float64(x.weight)/1000, 100*share, strings.Repeat("#", int(50*share+.5)))
		if share < x.want-x.within || share > x.want+x.within {
			t.Errorf("%s got %.4f, want %.4f", x.key, share, x.want)
		}
	}
	if total < s.ticks-s.pull {
		t.Error(fmt.Sprint("not work-conserving: ", total, " of ", s.ticks))
	}
}
