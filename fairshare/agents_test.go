package fairshare

import (
	"fmt"
	"testing"
)

// Sixteen agents, a thousand tenants with one message each, eight messages of
// credit: each round every agent asks eight lanes, all at the same time, and a
// lane answers whoever is first. Eight rounds would be ideal, with agents that
// tell each other everything. Sixteen orders that know nothing of each other have
// walked past a lane after r rounds with probability 1-(1-8r/1000)^16, which
// leaves one lane of the thousand after 44 rounds.
func TestAgentsDoNotCollide(t *testing.T) {
	seeded, emptySeeded := agentRounds(func(agent int) uint64 { return uint64(agent) })
	same, emptySame := agentRounds(func(int) uint64 { return 0 })
	t.Logf("seeded per agent: %d rounds, %.0f%% empty; one order for all: %d rounds, %.0f%% empty",
		seeded, 100*emptySeeded, same, 100*emptySame)
	if seeded > 44 {
		t.Errorf("%d rounds with an order per agent, want at most 44", seeded)
	}
	if same < 100 || emptySame < 0.9 {
		t.Errorf("the control, one order for all, takes %d rounds: the check is blind", same)
	}
}

func agentRounds(seed func(agent int) uint64) (rounds int, empty float64) {
	const agents, tenants, credit = 16, 1000, 8
	waiting := map[string]bool{}
	pickers := make([]*Picker, agents)
	for a := range pickers {
		pickers[a] = New(seed(a))
	}
	for k := range tenants {
		key := fmt.Sprintf("tenant-%d", k)
		waiting[key] = true
		for _, p := range pickers {
			p.Wake(key, One)
		}
	}
	asked, missed := 0, 0
	for ; len(waiting) > 0; rounds++ {
		turns := make([][]Turn, agents)
		for a, p := range pickers {
			for range credit {
				if turn, outcome := p.Pick(); outcome == Picked {
					turns[a] = append(turns[a], turn)
				}
			}
		}
		for a, p := range pickers {
			for _, turn := range turns[a] {
				asked++
				if waiting[turn.Key] {
					delete(waiting, turn.Key)
					p.Settle(turn, One)
				} else {
					missed++
					p.Refund(turn)
				}
				p.Sleep(turn.Key)
			}
		}
	}
	return rounds, float64(missed) / float64(asked)
}

// Several agents share the same backlog; each is fair by itself, so all are.
func TestSharesAddUpOverAgents(t *testing.T) {
	weights := map[string]Weight{"a": 1000, "b": 2000, "c": 5000}
	for _, agents := range []int{1, 2, 4, 8} {
		n := map[string]int{}
		pickers := make([]*Picker, agents)
		for i := range pickers {
			pickers[i] = New(uint64(i))
			for key, w := range weights {
				pickers[i].Wake(key, w)
			}
		}
		for i := range 8000 {
			turn, _ := pickers[i%agents].Pick()
			pickers[i%agents].Settle(turn, turn.Weight)
			n[turn.Key]++
		}
		for key, w := range weights {
			want := 1000 * int(w) / 1000
			if off := n[key] - want; off < -agents || off > agents {
				t.Errorf("%d agents: %s got %d, want %d and at most a turn off for each agent", agents, key, n[key], want)
			}
		}
	}
}
