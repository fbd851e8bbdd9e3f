package agent

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/broker"
	"github.com/fairlead/fairlead/agent/client"
	"github.com/fairlead/fairlead/config"
)

// storm is a queue whose definition changes all the time, while apps publish to two agents and work for them.
type storm struct {
	t      *testing.T
	dir    string
	rng    *rand.Rand
	agents []*Agent

	mu        sync.Mutex
	published map[string]bool      // answered
	acked     map[string]time.Time // ok, or already settled: by then somebody else had acknowledged or evicted it
	late      int                  // deliveries to pulls that began after the message was acknowledged
	repeated  int                  // other deliveries that were not the first
	delivered map[string]bool
}

// variants are what the queue's definition has besides two or three levels.
var variants = []string{
	"", "fair_share: true", "fair_share: true, concurrency_per_key: 2", "ordered_keys: true", "single_active_consumer: true",
	"fair_share: true, single_active_consumer: true", "limits: {max_messages_per_key: 3}", "fair_share: true, limits: {max_messages_per_key: 40}",
	"limits: {max_messages: 50}", "limits: {max_messages: 60, overflow: ring}", "fair_share: true, limits: {max_messages: 40, overflow: ring}",
}

func (s *storm) file(nats, id, variant string, levels, revision int) *config.Config {
	s.t.Helper()
	if variant != "" {
		variant = ", " + variant
	}
	text := fmt.Sprintf(`
agent: {id: %s, drain_timeout: 1s}
nats: {%s}
coordination: {lease_ttl: 4s}
listen: {socket: %[3]s/%[1]s.sock, admin_socket: %[3]s/%[1]s-admin.sock, probes_http: "", dashboard_http: ""}
queues: [{name: orders, revision: %[4]d, priority_levels: %[5]d, ack_wait: 5s, retry: {max_attempts: 0, backoff: [20ms]}%[6]s}]
capsules: [{name: primary, queues: [orders], concurrency: 20}]
`, id, nats, s.dir, revision, levels, variant)
	cfg, _, err := config.Parse("storm.yaml", []byte(text), os.LookupEnv)
	if err != nil {
		s.t.Fatal(err)
	}
	return cfg
}

// start starts two agents, of which the first has the server.
func (s *storm) start() (clients []*client.Client) {
	nats := "embedded: {store_dir: " + s.dir + "/store, listen: 127.0.0.1:0}"
	for _, id := range []string{"a", "b"} {
		a, err := New(s.file(nats, id, "", 2, 0), Options{})
		if err != nil {
			s.t.Fatal(err)
		}
		if err := a.Start(s.t.Context()); err != nil {
			s.t.Fatal(err)
		}
		s.t.Cleanup(func() { _ = a.Stop(context.Background()) })
		c := client.New(a.cfg.Listen.Socket)
		s.t.Cleanup(c.Close)
		s.agents, clients = append(s.agents, a), append(clients, c)
		nats = "url: " + a.client.Connection().URL
	}
	return clients
}

// change gives both agents a file with another definition.
func (s *storm) change(variant string, revision int) {
	s.t.Helper()
	levels := 1 + s.rng.IntN(3)
	for _, a := range s.agents {
		cfg := s.file("url: nats://elsewhere:1", a.settings().Agent.ID, variant, levels, revision)
		cfg.NATS = a.settings().NATS
		if err := a.Reload(cfg); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *storm) publish(ctx context.Context, c *client.Client, from string, rng *rand.Rand) {
	for i := 0; ctx.Err() == nil; i++ {
		id := from + strconv.Itoa(i)
		m := client.Message{Data: []byte(id), Key: fmt.Sprint("k", rng.IntN(5)), ID: id}
		if rng.IntN(3) > 0 {
			m.Priority = "0"
		}
		if rng.IntN(10) == 0 {
			m.Delay = time.Duration(1+rng.IntN(1500)) * time.Millisecond
		}
		_, err := c.Publish(context.Background(), "orders", m)
		var e *api.Error
		switch {
		case err == nil:
			s.mu.Lock()
			s.published[id] = true
			s.mu.Unlock()
		case !errors.As(err, &e) || e.Code != api.CodeQueueFull:
			s.t.Errorf("publish: %v", err)
		}
		time.Sleep(time.Duration(rng.IntN(5)) * time.Millisecond)
	}
}

// work acknowledges nine of ten messages, and is slow now and then.
func (s *storm) work(ctx context.Context, c *client.Client, rng *rand.Rand) {
	for ctx.Err() == nil {
		began := time.Now()
		got, err := c.Pull(context.Background(), client.PullRequest{Capsule: "primary", Max: 1 + rng.IntN(8), Wait: 200 * time.Millisecond})
		if err != nil {
			s.t.Errorf("pull: %v", err)
			return
		}
		list := s.got(got.Deliveries, began, rng)
		if rng.IntN(20) == 0 {
			time.Sleep(time.Duration(rng.IntN(300)) * time.Millisecond)
		}
		results, err := c.Settle(context.Background(), list)
		if err != nil {
			s.t.Errorf("settle: %v", err)
			return
		}
		s.settled(got.Deliveries, list, results)
	}
}

// got takes note of deliveries, and says what becomes of them.
func (s *storm) got(ds []api.Delivery, began time.Time, rng *rand.Rand) (list []api.Settlement) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range ds {
		id := string(d.Payload())
		if at, done := s.acked[id]; done && began.After(at) {
			s.late++
		} else if s.delivered[id] {
			s.repeated++
		}
		s.delivered[id] = true
		result := api.Ack
		if rng.IntN(10) == 0 {
			result = api.Nack
		}
		list = append(list, api.Settlement{Token: d.Token, Result: result})
	}
	return list
}

func (s *storm) settled(ds []api.Delivery, list []api.Settlement, results []api.SettleResult) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, r := range results {
		id := string(ds[i].Payload())
		if _, before := s.acked[id]; !before && list[i].Result == api.Ack && (r.Status == api.StatusOK || r.Status == api.StatusAlreadySettled) {
			s.acked[id] = time.Now()
		}
	}
}

// left counts what was accepted and not acknowledged.
func (s *storm) left() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.published {
		if _, ok := s.acked[id]; !ok {
			n++
		}
	}
	return n
}

func (s *storm) evicted() (n int) {
	for _, a := range s.agents {
		a.metrics.Evicted.Each(func(_ broker.Count, k uint64) { n += int(k) })
	}
	return n
}

// Whatever becomes of a queue's definition, and however often: what was accepted is delivered, or was evicted by a ring and counted,
// and what was acknowledged is not delivered again. STORM=5m goes on for longer, and differently each time.
func TestStormOfReloads(t *testing.T) {
	length, seed := 4*time.Second, uint64(1)
	if d, err := time.ParseDuration(os.Getenv("STORM")); err == nil {
		length, seed = d, rand.Uint64()
	}
	t.Logf("seed %d", seed)
	s := &storm{t: t, dir: shortDir(t), rng: rand.New(rand.NewPCG(seed, 2)), published: map[string]bool{}, acked: map[string]time.Time{}, delivered: map[string]bool{}}
	publishing, endPublish := context.WithCancel(t.Context())
	working, endWork := context.WithCancel(t.Context())
	var publishers, workers sync.WaitGroup
	for i, c := range s.start() {
		n := uint64(2 * i)
		publishers.Go(func() { s.publish(publishing, c, string(rune('x'+i)), rand.New(rand.NewPCG(seed, n))) })
		workers.Go(func() { s.work(working, c, rand.New(rand.NewPCG(seed, 100+n))) })
		workers.Go(func() { s.work(working, c, rand.New(rand.NewPCG(seed, 101+n))) })
	}
	revision := 1
	for end := time.Now().Add(length); time.Now().Before(end); revision++ {
		s.change(variants[s.rng.IntN(len(variants))], revision)
		time.Sleep(time.Duration(s.rng.IntN(1000)) * time.Millisecond)
	}
	endPublish()
	publishers.Wait()
	s.change("", revision)
	for end := time.Now().Add(time.Minute); s.left() > s.evicted() && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	endWork()
	workers.Wait()
	t.Logf("%d published, %d evicted, %d delivered again before they were acknowledged", len(s.published), s.evicted(), s.repeated)
	if n := s.left(); n > s.evicted() {
		t.Errorf("%d were not delivered", n-s.evicted())
	}
	if s.late > 0 {
		t.Errorf("%d were delivered again after they had been acknowledged", s.late)
	}
	def, _ := s.agents[0].definition("orders")
	if found, err := s.agents[0].client.Sweep(t.Context(), broker.NewLayout(def)); err != nil || len(found.Lanes)+len(found.Odd) > 0 {
		t.Errorf("left in the queue: %+v, %v", found, err)
	}
}
