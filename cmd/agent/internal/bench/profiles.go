package bench

import (
	"fmt"
	"slices"
	"strings"
)

// Profile is one thing that can be measured.
type Profile struct {
	Name  string
	Shows string // what it is for, in one line
	Quick bool   // measured unless others are named
}

// The names of the profiles that are more than a kind of queue.
const (
	noisyNeighbour = "noisy-neighbour"
	manyAgents     = "many-agents"
	latency        = "latency"
)

// Profiles are all there are, in the order in which they are run.
var Profiles = []Profile{
	{"one-tenant", "throughput beside a bare JetStream loop: 1 level, no keys", true},
	{"10-tenants", "the same with 3 levels × 10 tenants", true},
	{"1000-tenants", "the same with 3 levels × 1,000 tenants", true},
	{latency, "publish to delivery of single messages, and the cost of a take with few and with many waiting", true},
	{noisyNeighbour, "how long quiet tenants wait beside a flood, with Fairlead and with one plain consumer", false},
	{manyAgents, "1, 2, 4 and 8 agents on one queue: rate, shares by weight, pulls in vain", false},
}

// AllProfiles stands for all of them.
const AllProfiles = "all"

// runs reports whether a profile was chosen.
func (o *Options) runs(name string) bool {
	if len(o.Profiles) == 0 {
		i := slices.IndexFunc(Profiles, func(p Profile) bool { return p.Name == name })
		return i >= 0 && Profiles[i].Quick
	}
	return slices.Contains(o.Profiles, name) || slices.Contains(o.Profiles, AllProfiles)
}

// layouts are the kinds of queues that were chosen.
func (o *Options) layouts() []layout {
	var chosen []layout
	for _, l := range layouts {
		if o.runs(l.profile) {
			chosen = append(chosen, l)
		}
	}
	return chosen
}

// checkProfiles says which names are none.
func (o *Options) checkProfiles(check func(ok bool, format string, args ...any)) {
	names := make([]string, 0, len(Profiles)+1)
	for _, p := range Profiles {
		names = append(names, p.Name)
	}
	names = append(names, AllProfiles)
	for _, name := range o.Profiles {
		check(slices.Contains(names, name), "profile: there is no %q: one of %s", fmt.Sprintf("%.40s", name), strings.Join(names, ", "))
	}
}
