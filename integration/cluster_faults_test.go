package integration

import (
	"slices"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/integration/history"
)

// killNode kills a server under load, and starts it again when work goes on without it.
func (f *fleet) killNode(c *cluster, what string, n *node) {
	f.t.Helper()
	f.goesOn(f.log.Now(), patience)
	from := f.log.Now()
	n.kill()
	// What comes in at once can have been on its way; what the promise is about is work a moment later.
	fair, jobs := f.goesOn(from+time.Second, takeover)
	f.t.Logf("%s (%s) killed: work went on %v and %v after the first second", what, n.name, fair.Round(time.Millisecond), jobs.Round(time.Millisecond))
	n.again()
	c.awaitHealthy()
	f.log.Rebuilt(from)
	back := f.log.Now()
	eventually(f.t, "the backlog is gone, under the same load", recovery, func() bool { return f.backlog() < 20 })
	f.t.Logf("no backlog %v after all servers were there again", (f.log.Now() - back).Round(time.Millisecond))
	verdict(f.t, "L1", jobs <= takeover, "jobs on after %v, at most %v", jobs.Round(100*time.Millisecond), takeover)
	verdict(f.t, "L6", true, "no backlog %v after the end", (f.log.Now() - back).Round(100*time.Millisecond))
}

// A server of three is killed, the one that leads the ordered queue, and started again.
func TestAServerOfAClusterIsKilled(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	f := startFleet(t, c.natsServer, 2, 3)
	f.killNode(c, "the leader of the ordered queue", c.leader("FL_Q_jobs"))
	f.end()
}

// Each server of three is killed in turn, and then whoever leads the cluster, each queue, and the leases.
func TestEachServerOfAClusterIsKilled(t *testing.T) {
	slow(t)
	t.Parallel()
	c := startCluster(t)
	f := startFleet(t, c.natsServer, 3, 3)
	for _, n := range c.nodes {
		f.killNode(c, "one after the other", n)
	}
	f.killNode(c, "the leader of the cluster", c.metaLeader())
	for _, stream := range []string{"FL_Q_jobs", "FL_Q_fair", "KV_fairlead"} {
		f.killNode(c, "the leader of "+stream, c.leader(stream))
	}
	f.end()
}

// A server with a lane is killed and stays away: for minutes the cluster takes it for alive and waits for it when consumers
// are listed. A holder that stops is followed at once all the same.
func TestAStoppedHolderIsFollowedWhileAServerIsDead(t *testing.T) {
	slow(t)
	t.Parallel()
	c, log := startCluster(t), history.New()
	a := join(t, log, ordered(c.natsServer, "a", ", storage: {replicas: 3}", ""), busyFor(2*time.Millisecond))
	b := join(t, log, ordered(c.natsServer, "b", ", storage: {replicas: 3}", ""), busyFor(2*time.Millisecond))
	c.store(log, "jobs", "fl.q.jobs.d._", numbered(3000, "m")...)
	holder, _ := rolesOf(t, a, b)
	holder.came(log.Now())
	lane, dead := c.lane("FL_Q_jobs")
	dead.kill()
	killed := log.Now()
	eventually(t, "work goes on without the server of lane "+lane, takeover, func() bool {
		hands := log.History().Hands
		return hands[len(hands)-1].Got > killed+time.Second
	})
	var gaps []time.Duration
	for range 3 {
		gaps = append(gaps, stopHolder(t, log, a, b))
	}
	slices.Sort(gaps)
	verdict(t, "L1", gaps[1] <= 250*time.Millisecond, "with a server dead, clean takeovers take %v", gaps)
	finish(t, c.natsServer, log, a, b)
}

// A purge of an ordered queue while the server of its lane is dead: nobody can say whether the lane's oldest message is in
// somebody's hands, so that one is left.
func TestAPurgeWhileTheServerOfALaneIsDead(t *testing.T) {
	slow(t)
	t.Parallel()
	c := startCluster(t)
	a := startAgent(t, ordered(c.natsServer, "a", ", storage: {replicas: 3}", ""))
	a.batch("jobs", notes(10, "m", note{})...)
	app := a.app("main")
	held := app.pull(1, patience)
	a.must("pause", "jobs")
	lane, dead := c.lane("FL_Q_jobs")
	dead.kill()
	eventually(t, "the stream can be asked without the server of lane "+lane, takeover, func() bool {
		_, _, code := command(t, a, "peek", "jobs")
		return code == 0
	})
	eventually(t, "what waits is purged", takeover, func() bool {
		_, _, code := command(t, a, "purge", "jobs", "--yes")
		return code == 0
	})
	left := c.left("FL_Q_jobs")
	verdict(t, "S5", slices.Equal(left, []string{string(held[0].Payload())}), "left after a purge: %v; in hand: %v", left, data(held))
	dead.again()
	a.must("resume", "jobs")
	eventually(t, "nothing is left", recovery, func() bool {
		if got, err := app.tryPull(1, time.Second); err == nil {
			for _, d := range got {
				a.say(d, api.Settlement{Result: api.Ack})
			}
		}
		a.say(held[0], api.Settlement{Result: api.Ack})
		return len(c.left("FL_Q_jobs")) == 0
	})
}
