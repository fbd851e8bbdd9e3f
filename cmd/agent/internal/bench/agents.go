package bench

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/client"
	"github.com/fairlead/fairlead/config"
)

// Agents is what so many agents do together on one queue.
type Agents struct {
	Agents    int     `json:"agents"`
	PerSecond float64 `json:"messages_per_second"` // all together; the median of the rounds
	OfFirst   float64 `json:"of_first"`            // relative to the first number of agents
	// ShareError is the worst of any tenant in any round: how far its share of all deliveries was from what its weight asks
	// for, as a part of all deliveries.
	ShareError float64       `json:"share_error"`
	EmptyPulls float64       `json:"empty_lane_pulls"` // as a part of all questions to lanes; the median
	All        []AgentsRound `json:"all"`
}

// AgentsRound is one round of it.
type AgentsRound struct {
	PerSecond  float64            `json:"messages_per_second"`
	Shares     map[string]float64 `json:"shares"`
	LanePulls  uint64             `json:"lane_pulls"`
	EmptyPulls uint64             `json:"empty_lane_pulls"`
}

const (
	// shareTenants share the queue of many agents. Every second one has the weight shareWeight, the others 1.
	shareTenants = 10
	shareWeight  = 3
	// shareUnit is how many messages all of them get when the lightest gets one.
	shareUnit = shareTenants / 2 * (1 + shareWeight)
)

// shared is that queue.
var shared = func() layout {
	l := layout{profile: manyAgents, levels: 1, keys: shareTenants, weights: map[string]config.Weight{}}
	for i := 0; i < l.keys; i += 2 {
		l.weights[tenant(i)] = shareWeight * 1000
	}
	return l
}()

// tenant is the key of tenant i.
func tenant(i int) string { return fmt.Sprintf("tenant-%d", i) }

// entitled is the share of all deliveries that a tenant's weight asks for.
func entitled(key string) float64 {
	if shared.weights[key] > 0 {
		return float64(shareWeight) / shareUnit
	}
	return 1.0 / shareUnit
}

// agents measures each number of agents, round by round.
func (b *bench) agents(ctx context.Context, r *Report) error {
	if !b.runs(manyAgents) {
		return nil
	}
	r.Agents = make([]Agents, len(b.Agents))
	for round := range b.Rounds {
		for i, n := range b.Agents {
			b.step("%d agents, round %d", n, round+1)
			got, err := b.shareAmong(ctx, n)
			if err != nil {
				return fmt.Errorf("%d agents: %w", n, err)
			}
			r.Agents[i].Agents = n
			r.Agents[i].All = append(r.Agents[i].All, got)
		}
	}
	for i := range r.Agents {
		r.Agents[i].sum()
		r.Agents[i].OfFirst = r.Agents[i].PerSecond / r.Agents[0].PerSecond
	}
	return nil
}

// sum fills in what follows from the rounds.
func (a *Agents) sum() {
	var rates, empty []float64
	for _, round := range a.All {
		rates = append(rates, round.PerSecond)
		empty = append(empty, float64(round.EmptyPulls)/float64(max(round.LanePulls, 1)))
		for i := range shareTenants {
			key := tenant(i)
			a.ShareError = max(a.ShareError, math.Abs(round.Shares[key]-entitled(key)))
		}
	}
	a.PerSecond, a.EmptyPulls = median(rates), median(empty)
}

// shareAmong lets n agents take from a queue in which all tenants have work to the end: of equal backlogs, so much that a
// tenth is left of those of the heavy tenants.
func (b *bench) shareAmong(ctx context.Context, n int) (round AgentsRound, err error) {
	each := b.Messages / shareTenants
	rounds := each * 9 / 10 / shareWeight
	take := max(rounds, 1) * shareUnit
	err = b.withAgents(ctx, shared, n, func(ctx context.Context, sockets []string) error {
		if err := b.publish(ctx, sockets[0], shared, each*shareTenants); err != nil {
			return err
		}
		var left atomic.Int64
		left.Store(int64(take))
		tally := tally{seen: map[uint64]bool{}, byKey: map[string]int{}}
		took, err := together(n, func(i int) error { return b.takeInto(ctx, sockets[i], &left, tally.add) })
		if err != nil {
			return err
		}
		if len(tally.seen) != take {
			return fmt.Errorf("%w: %d different messages in %d deliveries", ErrCount, len(tally.seen), take)
		}
		round.PerSecond = float64(take) / took.Seconds()
		round.Shares = tally.shares()
		return round.count(ctx, sockets)
	})
	return round, err
}

// tally counts deliveries. It is safe for several goroutines.
type tally struct {
	mu    sync.Mutex
	seen  map[uint64]bool // by sequence
	byKey map[string]int
}

func (t *tally) add(ds []api.Delivery) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range ds {
		t.seen[ds[i].Seq] = true
		t.byKey[ds[i].Key]++
	}
}

func (t *tally) shares() map[string]float64 {
	all := 0
	for _, n := range t.byKey {
		all += n
	}
	shares := make(map[string]float64, len(t.byKey))
	for key, n := range t.byKey {
		shares[key] = float64(n) / float64(all)
	}
	return shares
}

// count asks the agents what they asked of lanes.
func (r *AgentsRound) count(ctx context.Context, sockets []string) error {
	for _, socket := range sockets {
		c := client.New(socket)
		status, err := c.Status(ctx)
		c.Close()
		if err != nil {
			return err
		}
		for _, capsule := range status.Capsules {
			r.LanePulls += capsule.LanePulls
			r.EmptyPulls += capsule.EmptyPulls
		}
	}
	return nil
}
