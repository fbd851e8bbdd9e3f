package agent

import (
	"context"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/group"
	"github.com/fairlead/fairlead/config"
)

// startAgent starts an agent of its own server, with these queues' definitions changed, and stops it in the end.
func startAgent(t *testing.T, change func(*config.Config)) *Agent {
	t.Helper()
	dir := shortDir(t)
	cfg := settings(t, dir, embedded(dir))
	if change != nil {
		change(cfg)
	}
	a, err := New(cfg, Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	if err := a.Start(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Stop(context.Background()) })
	return a
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// A queue that gets a single active consumer, loses it and gets it again: the capsule may notice the last of it only, and
// has then nothing new to say. The new candidate wants the lease all the same.
func TestCandidateThatWasMadeAnewWantsTheLease(t *testing.T) {
	a := startAgent(t, func(c *config.Config) { c.Queues[0].SingleActiveConsumer = true })
	wants := func() bool {
		one := a.leases.find("primary", "orders")
		return one != nil && one.runner.Status().Wanted
	}
	if wants() {
		t.Fatal("the lease is wanted without an app")
	}
	a.leases.want("primary", "orders", true)
	eventually(t, "the lease is wanted", wants)
	def, _ := a.definition("orders")
	for _, single := range []bool{false, true} {
		def.SingleActiveConsumer = single
		if err := a.leases.define(def, "primary"); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the lease is wanted again", wants)
	a.leases.want("primary", "orders", false)
	eventually(t, "the lease is not wanted any more", func() bool { return !wants() })
}

// Two capsules of one agent on one queue are rivals, too: each is told as soon as the other has an app.
func TestCapsulesOfOneAgentAreRivals(t *testing.T) {
	a := startAgent(t, func(c *config.Config) {
		second := c.Capsules[0]
		second.Name = "second"
		c.Capsules = append(c.Capsules, second)
	})
	told := make(chan int, 100)
	a.group.Notify(func(c group.Change) {
		if c.Peers {
			told <- a.group.Rivals("orders", "second").All
		}
	})
	for _, want := range []int{1, 0} {
		a.roles.setDemand("primary", want > 0)
		select {
		case got := <-told:
			if got != want {
				t.Errorf("the other capsule has %d rivals, want %d", got, want)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("nobody is told that a capsule of this agent got or lost its app")
		}
	}
}
