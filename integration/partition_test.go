package integration

import (
	"fmt"
	"testing"
	"time"
)

// split cuts a server of a cluster off from the two others, with what it leads and the agent that is connected to it, until
// work goes on without it and for some time more; and then heals the cut.
func (f *fleet) split(c *cluster, what string, n *node, silently bool) {
	f.t.Helper()
	f.goesOn(f.log.Now(), patience)
	from := f.log.Now()
	n.cut(silently)
	limit := takeover
	if silently {
		limit += unseen
	}
	fair, jobs := f.goesOn(from+time.Second, limit)
	f.t.Logf("%s (%s) cut off: work went on %v and %v after the first second", what, n.name, fair.Round(time.Millisecond), jobs.Round(time.Millisecond))
	time.Sleep(takeover) // by now whoever can work is on the other side
	f.goesOn(f.log.Now(), patience)
	n.heal()
	back := f.log.Now()
	eventually(f.t, "all agents work again", 2*recovery, func() bool { return f.at(back) == len(f.members) })
	all := f.log.Now() - back
	eventually(f.t, "the backlog is gone, under the same load", 2*recovery, func() bool { return f.backlog() < 20 })
	took := f.log.Now() - back
	c.awaitHealthy()
	healthy := f.log.Now() - back
	f.log.Rebuilt(from)
	verdict(f.t, "L1", jobs <= limit, "jobs on after %v, at most %v", jobs.Round(100*time.Millisecond), limit)
	verdict(f.t, "L6", took <= recovery, "all agents work %v, and no backlog %v after the end", all.Round(100*time.Millisecond), took.Round(100*time.Millisecond))
	f.t.Logf("all servers current %v after the end", healthy.Round(100*time.Millisecond))
}

// unseen is for how long servers may take a network that has fallen silent for one that has nothing to say.
const unseen = 30 * time.Second

// at counts the agents whose apps had something after a time.
func (f *fleet) at(since time.Duration) int {
	seen := map[string]bool{}
	for _, h := range f.log.History().Hands {
		if h.Got > since {
			seen[h.Agent] = true
		}
	}
	return len(seen)
}

// One server of three is cut off from the two others: with the leader of the ordered queue, that of the leases, and that of
// the cluster, so that both sides see it; and once silently.
func TestAServerOfAClusterIsCutOff(t *testing.T) {
	slow(t)
	t.Parallel()
	c := startCluster(t)
	f := startFleetOn(t, c.natsServer, 3, 3, func(i int) string { return c.nodes[i].url })
	// A publisher at an agent that is cut off waits long for each answer: each agent has publishers of its own.
	f.fair.stop()
	f.jobs.stop()
	var publishers []*traffic
	for i, m := range f.members {
		publishers = append(publishers, publishAs(t, f.log, fmt.Sprint("fair", i), "fair", 7, 60*time.Millisecond, m),
			publishAs(t, f.log, fmt.Sprint("jobs", i), "jobs", 0, 200*time.Millisecond, m))
	}
	f.split(c, "the leader of the ordered queue", c.leader("FL_Q_jobs"), false)
	f.split(c, "the leader of the leases", c.leader("KV_fairlead"), false)
	f.split(c, "the leader of the cluster", c.metaLeader(), false)
	f.split(c, "the leader of the ordered queue, silently", c.leader("FL_Q_jobs"), true)
	for _, p := range publishers {
		p.stop()
	}
	f.end()
}
