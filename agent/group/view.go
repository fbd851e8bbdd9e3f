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
	Age              time.Duration // how long ago its record changed, by this agent's clock
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
	own         []Capsule // those with demand
	warnings    []string
	relaid      map[string]bool // queues, see [Group.Relaid]
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

func (v *view) rivals(queue, capsule string) int {
	n := 0
	for i := range v.peers {
		if p := &v.peers[i]; p.Demand && slices.Contains(p.Queues, queue) {
			n++
		}
	}
	for _, c := range v.own {
		if c.Name != capsule && slices.Contains(c.Queues, queue) {
			n++
		}
	}
	return n
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
				ConsumerPriority: x.beat.ConsumerPriority, Demand: x.beat.Demand,
			},
			changed: x.changed,
		})
	}
	slices.SortStableFunc(peers, func(a, b seenPeer) int {
		return cmp.Or(cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.Capsule, b.Capsule))
	})
	return peers
}

func sameCapsule(a, b Capsule) bool {
	return a.Name == b.Name && a.ConsumerPriority == b.ConsumerPriority && slices.Equal(a.Queues, b.Queues)
}

// changeFrom is what readers of the old picture must be told.
func (v *view) changeFrom(old *view) Change {
	c := Change{Peers: !slices.EqualFunc(v.peers, old.peers, func(a, b seenPeer) bool {
		return a.Agent == b.Agent && a.Capsule == b.Capsule && a.Demand == b.Demand &&
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
