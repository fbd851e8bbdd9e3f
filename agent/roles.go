package agent

import (
	"fmt"
	"slices"
	"sync"

	"github.com/fairlead/fairlead/config"
)

// roles decides for whom each capsule backs off, queue by queue: for the highest of those that serve the queue, have an app
// that uses them, and have a higher consumer priority. They are capsules of other agents, and other capsules of this one.
type roles struct {
	a *Agent

	mu     sync.Mutex
	demand map[string]bool      // of this agent's capsules
	forWho map[roleKey]superior // for whom a capsule backs off; none has no entry
}

type roleKey struct{ capsule, queue string }

// superior is who serves a queue first.
type superior struct {
	agent, capsule string // agent is "" for this one
	priority       int
}

func (s superior) String() string {
	if s.agent == "" {
		return fmt.Sprintf("capsule %s of this agent has consumer priority %d", s.capsule, s.priority)
	}
	return fmt.Sprintf("capsule %s of agent %s has consumer priority %d", s.capsule, s.agent, s.priority)
}

func newRoles(a *Agent) *roles {
	return &roles{a: a, demand: map[string]bool{}, forWho: map[roleKey]superior{}}
}

// setDemand says whether an app uses a capsule of this agent.
func (r *roles) setDemand(capsule string, on bool) {
	r.a.group.SetDemand(capsule, on)
	r.mu.Lock()
	r.demand[capsule] = on
	r.mu.Unlock()
	r.review()
	r.a.leases.peersChanged()
}

// hasDemand tells whether an app uses a capsule of this agent.
func (r *roles) hasDemand(capsule string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.demand[capsule]
}

// review looks at everybody again and tells the capsules what has changed.
func (r *roles) review() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, cc := range r.a.settings().Capsules {
		for _, queue := range cc.Queues {
			key := roleKey{cc.Name, queue}
			now, has := r.superior(cc, queue)
			before, had := r.forWho[key]
			if has == had && now == before {
				continue
			}
			log := r.a.log.With("capsule", cc.Name, "queue", queue)
			if has {
				r.forWho[key] = now
				log.Info("backing off: a peer with a higher consumer priority serves the queue", "peer", now.String())
			} else {
				delete(r.forWho, key)
				log.Info("at full speed: no peer with a higher consumer priority serves the queue any more", "peer", before.String())
			}
			r.a.capsules[cc.Name].SetBackOff(queue, has)
		}
	}
}

// superior is the highest one with a priority above that of cc, by priority and then by name, so that all see the same.
func (r *roles) superior(cc config.Capsule, queue string) (best superior, found bool) {
	if def, _ := r.a.definition(queue); def.SingleActiveConsumer {
		return best, false // there the lease decides
	}
	consider := func(s superior) {
		if s.priority > cc.ConsumerPriority && (!found || s.priority > best.priority) {
			best, found = s, true
		}
	}
	for _, other := range r.a.settings().Capsules {
		if other.Name != cc.Name && r.demand[other.Name] && slices.Contains(other.Queues, queue) {
			consider(superior{"", other.Name, other.ConsumerPriority})
		}
	}
	for _, p := range r.a.group.Peers() {
		if p.Demand && slices.Contains(p.Queues, queue) {
			consider(superior{p.Agent, p.Capsule, p.ConsumerPriority})
		}
	}
	return best, found
}

// backsOffFor says for whom a capsule backs off on a queue; "" is nobody.
func (r *roles) backsOffFor(capsule, queue string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, ok := r.forWho[roleKey{capsule, queue}]
	if !ok {
		return ""
	}
	return s.String()
}
