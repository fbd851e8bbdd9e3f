package integration

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/integration/history"
)

const (
	clusterTTL = 6 * time.Second
	// takeover is how long nobody may work on a queue after a server of the cluster was killed: an election takes six to
	// seven seconds, and nobody can take over a lease before it is over.
	takeover = clusterTTL + 15*time.Second
	// recovery is the time within which everything is as it was, once all servers are there again.
	recovery = 30 * time.Second
)

// fleetSettings is an agent with a queue that all share and one with a single active consumer.
func fleetSettings(url, id string, replicas int) settings {
	return settings{id: id, nats: url, yaml: fmt.Sprintf(`
coordination: {heartbeat_interval: 500ms, stale_after: 3s, lease_ttl: %v}
queues:
  - {name: fair, priority_levels: 3, fair_share: true, ack_wait: 6s, retry: {max_attempts: 0}, storage: {replicas: %[2]d}}
  - {name: jobs, single_active_consumer: true, ack_wait: 6s, retry: {max_attempts: 0}, storage: {replicas: %[2]d}}
capsules:
  - {name: main, queues: [jobs], concurrency: 10}
  - {name: pool, queues: [fair], concurrency: 100}
`, clusterTTL, replicas)}
}

// fleet is agents on one server or a cluster, the apps beside them, and publishers into both queues.
type fleet struct {
	t       *testing.T
	server  *natsServer
	log     *history.Log
	members []*member
	links   []*link // one for each member, unless the server is a cluster
	fair    *traffic
	jobs    *traffic
}

// startFleet starts n agents with apps, and the publishers.
func startFleet(t *testing.T, server *natsServer, n, replicas int) *fleet {
	t.Helper()
	if replicas > 1 {
		return startFleetOn(t, server, n, replicas, func(int) string { return server.url })
	}
	links := make([]*link, n)
	f := startFleetOn(t, server, n, replicas, func(i int) string {
		links[i] = server.link(t)
		return links[i].url
	})
	f.links = links
	return f
}

// startFleetOn is startFleet for agents that each reach NATS at their own address.
func startFleetOn(t *testing.T, server *natsServer, n, replicas int, url func(i int) string) *fleet {
	t.Helper()
	f := &fleet{t: t, server: server, log: history.New()}
	for i := range n {
		s := fleetSettings(url(i), fmt.Sprint("agent", i), replicas)
		s.probes = fmt.Sprintf("127.0.0.1:%d", freePort(t))
		m := join(t, f.log, s, mixed(uint64(i), "main", "orders"))
		m.pool = func(m *member) (all []*worker) {
			for j := range 4 {
				all = append(all, m.work(f.log, mixed(uint64(100+10*i+j), "pool", fmt.Sprint("pool", j))))
			}
			return all
		}
		m.staff()
		f.members = append(f.members, m)
	}
	f.fair = publishTo(t, f.log, "fair", 7, 10*time.Millisecond, f.members...)
	f.jobs = publishTo(t, f.log, "jobs", 0, 25*time.Millisecond, f.members...)
	return f
}

// mixed handles most messages in a few milliseconds; some fail once or twice.
func mixed(seed uint64, capsule, name string) habits {
	rng := rand.New(rand.NewPCG(seed, 3))
	return habits{name: name, capsule: capsule, handle: func(ctx context.Context, d api.Delivery) api.Settlement {
		select {
		case <-time.After(time.Duration(rng.Int64N(int64(10 * time.Millisecond)))):
		case <-ctx.Done():
		}
		if d.Attempt < 3 && rng.IntN(50) == 0 {
			return api.Settlement{Result: api.Nack, Delay: "200ms"}
		}
		return api.Settlement{Result: api.Ack}
	}}
}

// flow is how many messages of each queue must be handed over for work to be said to go on: publishers of a fleet need about
// a second for that.
const flow = 40

// goesOn waits until work flows in both queues after a time, and returns how long the first message of each took.
func (f *fleet) goesOn(since time.Duration, within time.Duration) (fair, jobs time.Duration) {
	f.t.Helper()
	eventually(f.t, "work goes on in both queues", within, func() bool {
		first, seen := map[string]time.Duration{}, map[string]int{}
		for _, h := range f.log.History().Hands {
			if h.Got <= since {
				continue
			}
			if seen[h.Queue]++; seen[h.Queue] == 1 {
				first[h.Queue] = h.Got - since
			}
		}
		fair, jobs = first["fair"], first["jobs"]
		return seen["fair"] >= flow && seen["jobs"] >= flow
	})
	return fair, jobs
}

// backlog is how many messages the queues hold: the streams know, also of what an app asked to finish in the moment of its
// death. While they cannot be asked it is more than any bound.
func (f *fleet) backlog() (n int) {
	nc := f.server.connect()
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, name := range []string{"FL_Q_fair", "FL_Q_jobs"} {
		s, err := js.Stream(f.t.Context(), name)
		if err != nil {
			return math.MaxInt
		}
		n += int(s.CachedInfo().State.Msgs)
	}
	return n
}

// end stops the traffic, waits until everything is handled, and judges the record.
func (f *fleet) end() {
	f.t.Helper()
	f.fair.stop()
	f.jobs.stop()
	eventually(f.t, "everything is handled", 2*patience, func() bool { return f.backlog() == 0 })
	for _, m := range f.members {
		m.leave()
	}
	ending := history.Ending{Left: append(f.server.left("FL_Q_fair"), f.server.left("FL_Q_jobs")...)}
	h := f.log.History()
	judged(f.t, h, "S1 S3 S4 S5 S6 S10", h.Of("jobs").Judge(ending))
	judged(f.t, h, "S5 S6", h.Of("fair").JudgeShared(ending))
	repeated, touched := h.Of("fair").Repeated(), h.Of("fair").Touched()
	verdict(f.t, "S6", repeated <= touched, "%d of %d hand-overs were repetitions, %d were in flight when lanes were made again", repeated, len(h.Hands), touched)
	f.t.Logf("publishers were told %v and %v otherwise", f.fair.refusals(), f.jobs.refusals())
}

// seed is what chance begins with: FAIRLEAD_SEED, or 1.
func seed() (n uint64) {
	if _, err := fmt.Sscan(os.Getenv("FAIRLEAD_SEED"), &n); err != nil {
		return 1
	}
	return n
}
