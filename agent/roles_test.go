package agent

import (
	"testing"

	"github.com/fairlead/fairlead/config"
)

// A capsule backs off for one of its own agent that has an app and a higher consumer priority: not for an equal one, not for a
// lower one, not for one without an app or that does not read the queue, and never where a lease decides.
func TestForWhomACapsuleBacksOff(t *testing.T) {
	a := startAgent(t, func(c *config.Config) {
		q := c.Queues[0]
		q.Name, q.SingleActiveConsumer = "leased", true
		c.Queues = append(c.Queues, q)
		base := c.Capsules[0]
		base.Queues = []string{"orders", "leased"}
		for name, priority := range map[string]int{"low": -3, "middle": 0, "equal": 0, "high": 7} {
			one := base
			one.Name, one.ConsumerPriority = name, priority
			c.Capsules = append(c.Capsules, one)
		}
		elsewhere := base
		elsewhere.Name, elsewhere.ConsumerPriority, elsewhere.Queues = "elsewhere", 100, []string{"leased"}
		c.Capsules = append(c.Capsules, elsewhere)
	})
	for _, step := range []struct {
		capsule string // whose app comes, or goes
		on      bool
		forWhom map[string]string // who backs off on orders, and for whom
	}{
		{"elsewhere", true, nil},
		{"middle", true, map[string]string{"low": "middle"}},
		{"equal", true, map[string]string{"low": "equal"}}, // or middle
		{"low", true, map[string]string{"low": "equal"}},
		{"high", true, map[string]string{"low": "high", "middle": "high", "equal": "high"}},
		{"high", false, map[string]string{"low": "equal"}},
	} {
		a.roles.setDemand(step.capsule, step.on)
		for _, cc := range a.settings().Capsules {
			superior, found := a.roles.superior(cc, "orders")
			want := step.forWhom[cc.Name]
			if cc.Name == "primary" || cc.Name == "elsewhere" {
				continue // of another priority, or of another queue
			}
			equals := want == "equal" && superior.capsule == "middle"
			if found != (want != "") || superior.capsule != want && !equals {
				t.Errorf("%s %v: %s backs off for %q, want %q", step.capsule, step.on, cc.Name, superior.capsule, want)
			}
			if superior, found := a.roles.superior(cc, "leased"); found {
				t.Errorf("%s %v: %s backs off for %q where the lease decides", step.capsule, step.on, cc.Name, superior.capsule)
			}
		}
	}
}
