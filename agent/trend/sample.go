package trend

import "time"

// Window is the time over which rates, shares and waits are taken.
const Window = 5 * time.Second

// Sample is what is known of a queue at a time.
type Sample struct {
	At      time.Time
	Tenants []Tenant // with messages; may be cut, but not before those with the most waiting
	Total   int      // tenants with messages, also those that were cut
	Waiting uint64   // of all of them
	// Got is what was delivered since the sample before, by key. Add keeps it; it must not be changed.
	Got map[string]Got
	// Others is what was delivered to tenants that are not in Got, because there were too many.
	Others Got
}

// Tenant is what a queue holds for one key.
type Tenant struct {
	Key      string // "" is unkeyed
	Waiting  uint64
	InFlight uint64
	Weight   float64 // above 0
	Paused   bool
}

// Got is what one tenant got in some time.
type Got struct {
	Deliveries uint64
	// Waits is how many of the deliveries were first attempts, Waited how long those had waited together, and Longest how
	// long the one that had waited longest. What was returned has waited for its backoff, too, and does not count.
	Waits   uint64
	Waited  time.Duration
	Longest time.Duration
	Weight  float64 // with which it was delivered last; 0 is unknown
}

// Add adds what was delivered to the same tenant at another time; the weight is the other's, if it is known.
func (g *Got) Add(other Got) {
	g.Deliveries += other.Deliveries
	g.Waits += other.Waits
	g.Waited += other.Waited
	g.Longest = max(g.Longest, other.Longest)
	if other.Weight > 0 {
		g.Weight = other.Weight
	}
}

// Mean is how long first attempts had waited on average; 0 when there were none.
func (g Got) Mean() time.Duration {
	if g.Waits == 0 {
		return 0
	}
	return g.Waited / time.Duration(g.Waits)
}
