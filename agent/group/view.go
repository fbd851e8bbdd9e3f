package group

import (
	"cmp"
	"slices"
	"time"

	"github.com/fairlead/fairlead/config"
)

// Peer is one capsule of another agent that is alive, as its last heartbeat described it.
type Peer struct {
	Agent            string
	Capsule          string // "" for an agent without capsules
	Queues           []string
	ConsumerPriority int
	Demand           bool
	Failing          bool          // its app dies again and again with what it gets
	Age              time.Duration // how long ago its record changed, by this agent's clock
}

// Rivals are the live capsules with demand that serve a queue, but for one.
type Rivals struct {
	All  int
	Well int // of them, those whose app is not failing
}

// Change says what has become different.
type Change struct {
	Peers  bool     // someone came, went, or serves other queues, or has another priority or demand; capsules of this agent too
	Queues []string // whose definition is another one now, or that came or went with a reload; sorted
}

// view is an immutable picture for readers on other goroutines.
type view struct {
	definitions []config.Queue
	hashes      []string // of definitions
	peers       []seenPeer
	own         []ownCapsule // those with demand
	warnings    []string
	relaid      map[string]bool // queues, see [Group.Relaid]
}

type ownCapsule struct {
	Capsule
	failing bool
}

type seenPeer struct {
	Peer
	changed time.Time
}

func (v *view) definition(queue string) (config.Queue, bool) {
	for _, q := range v.definitions {
		if q.Name == queue {
			return q, true
		}
	}
	return config.Queue{}, false
}

func (v *view) rivals(queue, capsule string) (r Rivals) {
	count := func(failing bool) {
		r.All++
		if !failing {
			r.Well++
		}
	}
	for i := range v.peers {
		if p := &v.peers[i]; p.Demand && slices.Contains(p.Queues, queue) {
			count(p.Failing)
		}
	}
	for _, c := range v.own {
		if c.Name != capsule && slices.Contains(c.Queues, queue) {
			count(c.failing)
		}
	}
	return r
}

// livePeers are the live ones of a roster, sorted by agent and capsule.
func livePeers(r *roster) []seenPeer {
	var peers []seenPeer
	for _, x := range r.records {
		if !x.live || !x.ok {
			continue
		}
		peers = append(peers, seenPeer{
			Peer: Peer{
				Agent: x.beat.Agent, Capsule: x.beat.Capsule, Queues: x.beat.Queues,
				ConsumerPriority: x.beat.ConsumerPriority, Demand: x.beat.Demand, Failing: x.beat.Failing,
			},
			changed: x.changed,
		})
	}
	slices.SortStableFunc(peers, func(a, b seenPeer) int {
		return cmp.Or(cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.Capsule, b.Capsule))
	})
	return peers
}

func sameCapsule(a, b ownCapsule) bool {
	return a.Name == b.Name && a.failing == b.failing && a.ConsumerPriority == b.ConsumerPriority && slices.Equal(a.Queues, b.Queues)
}

// changeFrom is what readers of the old picture must be told.
func (v *view) changeFrom(old *view) Change {
	c := Change{Peers: !slices.EqualFunc(v.peers, old.peers, func(a, b seenPeer) bool {
		return a.Agent == b.Agent && a.Capsule == b.Capsule && a.Demand == b.Demand && a.Failing == b.Failing &&
			a.ConsumerPriority == b.ConsumerPriority && slices.Equal(a.Queues, b.Queues)
	}) || !slices.EqualFunc(v.own, old.own, sameCapsule)}
	for i, q := range v.definitions {
		j := slices.IndexFunc(old.definitions, func(o config.Queue) bool { return o.Name == q.Name })
		if j < 0 || old.hashes[j] != v.hashes[i] {
			c.Queues = append(c.Queues, q.Name)
		}
	}
	for _, q := range old.definitions {
		if _, ok := v.definition(q.Name); !ok {
			c.Queues = append(c.Queues, q.Name)
		}
	}
	slices.Sort(c.Queues)
	return c
}
