package agent

import (
	"context"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/broker"
	"github.com/fairlead/fairlead/agent/client"
	"github.com/fairlead/fairlead/config"
)

// A drain is over only when nothing is on its way to an app any more: an app that gets something while the agent begins to
// drain has its time to settle it. When the drain begins between two messages is left to chance, again and again.
func TestNothingIsHandedOutAfterADrain(t *testing.T) {
	for round := range 15 {
		dir := shortDir(t)
		a, err := New(settings(t, dir, embedded(dir)), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		c := client.New(a.cfg.Listen.Socket)
		for range 300 {
			if _, err := c.Publish(t.Context(), "orders", client.Message{Data: []byte("m")}); err != nil {
				t.Fatal(err)
			}
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			var settle []api.Settlement
			for {
				got, err := c.Pull(context.Background(), client.PullRequest{Capsule: "primary", Settle: settle})
				if err != nil || got.Draining && len(got.Deliveries) == 0 {
					return
				}
				settle = nil
				for _, d := range got.Deliveries {
					settle = append(settle, api.Settlement{Token: d.Token, Result: api.Ack})
				}
			}
		}()
		for a.book.Stats().Handed < uint64(10+7*round) {
			time.Sleep(100 * time.Microsecond)
		}
		if err := a.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		handed := a.book.Stats().Handed
		if n := a.capsules["primary"].Status().InFlight + a.book.InFlight(); n != 0 {
			t.Errorf("round %d: %d are out at the end of the drain", round, n)
		}
		if err := a.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		<-ended
		c.Close()
		if later := a.book.Stats().Handed - handed; later != 0 {
			t.Errorf("round %d: %d were handed out after the drain", round, later)
		}
	}
}

// What apps still hold when the drain timeout has passed is given back then, although the agent lives on until it is stopped: it
// is for others to take, and its app is told.
func TestADrainThatTimesOutGivesBack(t *testing.T) {
	a := startAgent(t, func(c *config.Config) { c.Agent.DrainTimeout = 100 * time.Millisecond })
	c := client.New(a.cfg.Listen.Socket)
	defer c.Close()
	if _, err := c.Publish(t.Context(), "orders", client.Message{Data: []byte("m")}); err != nil {
		t.Fatal(err)
	}
	got, err := c.Pull(t.Context(), client.PullRequest{Capsule: "primary", Wait: 10 * time.Second})
	if err != nil || len(got.Deliveries) != 1 {
		t.Fatalf("%d came, %v", len(got.Deliveries), err)
	}
	if err := a.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := a.book.InFlight(); n != 0 {
		t.Errorf("%d are in the app's hands after the drain", n)
	}
	results, err := c.Settle(t.Context(), []api.Settlement{{Token: got.Deliveries[0].Token, Result: api.Ack}})
	if err != nil || len(results) != 1 || results[0].Status == api.StatusOK {
		t.Errorf("the late ack is answered with %+v, %v", results, err)
	}
	def, _ := a.definition("orders")
	waiting, err := a.client.Peek(t.Context(), def, broker.Peek{Max: 5})
	if err != nil || len(waiting) != 1 {
		t.Errorf("%d wait, %v", len(waiting), err)
	}
}
