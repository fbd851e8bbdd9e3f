package integration

import (
	"testing"
	"time"
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
