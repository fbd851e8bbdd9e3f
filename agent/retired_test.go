package agent

import (
	"context"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/client"
	"github.com/fairlead/fairlead/config"
)

// A queue loses its single active consumer by a reload while the app works on a message: the app settles it all the same, however
// long it takes, and then the lease is free.
func TestASlowHandlerOutlivesItsQueuesLease(t *testing.T) {
	a := startAgent(t, func(c *config.Config) { c.Queues[0].SingleActiveConsumer = true })
	c := client.New(a.cfg.Listen.Socket)
	defer c.Close()
	for range 2 {
		if _, err := c.Publish(t.Context(), "orders", client.Message{Data: []byte("m")}); err != nil {
			t.Fatal(err)
		}
	}
	pull := func(wait time.Duration) *client.PullResult {
		t.Helper()
		got, err := c.Pull(t.Context(), client.PullRequest{Capsule: "primary", Max: 10, Wait: wait})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	slow := pull(20 * time.Second).Deliveries
	if len(slow) != 1 || slow[0].Fence == 0 {
		t.Fatalf("pulled %+v", slow)
	}
	lease := a.leases.find("primary", "orders")

	reload := func(single bool) {
		t.Helper()
		file := *a.settings()
		file.Queues = append([]config.Queue(nil), file.Queues...)
		file.Queues[0].SingleActiveConsumer = single
		file.Queues[0].Revision++
		if err := a.Reload(&file); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the definition is followed", func() bool {
			def, _ := a.followed("orders")
			return def.SingleActiveConsumer == single && def.Revision == file.Queues[0].Revision
		})
	}
	reload(false)
	if a.leases.find("primary", "orders") != nil {
		t.Error("the capsule stands for a lease that the queue does not have")
	}
	other := pull(20 * time.Second).Deliveries
	if len(other) != 1 || other[0].Seq == slow[0].Seq || other[0].Fence != 0 {
		t.Errorf("pulled beside it: %+v", other)
	}
	if fence, held := lease.runner.Held(time.Now()); !held || fence != slow[0].Fence {
		t.Errorf("the lease of what the app has is given up: %d, %v", fence, held)
	}
	results, err := c.Settle(t.Context(), []api.Settlement{{Token: slow[0].Token, Result: api.Ack}, {Token: other[0].Token, Result: api.Ack}})
	if err != nil || results[0].Status != api.StatusOK || results[1].Status != api.StatusOK {
		t.Errorf("settled: %+v, %v", results, err)
	}
	eventually(t, "the lease is released", func() bool {
		_, held := lease.runner.Held(time.Now())
		return !held && len(a.leases.allRetired()) == 0
	})

	// And again: a new tenure, with a higher fence.
	reload(true)
	if _, err := c.Publish(t.Context(), "orders", client.Message{Data: []byte("m")}); err != nil {
		t.Fatal(err)
	}
	if again := pull(20 * time.Second).Deliveries; len(again) != 1 || again[0].Fence <= slow[0].Fence {
		t.Errorf("pulled in the end: %+v", again)
	}
	reload(false) // with something in hand: the agent stops all the same
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := a.Stop(ctx); err != nil {
		t.Error(err)
	}
}
