package agent

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fairlead/fairlead/agent/client"
	"github.com/fairlead/fairlead/agent/group"
)

// Two agents whose apps both die with what they get, again and again: neither gives way to the other, and back again when it sees that
// the other did.
func TestAppsThatAllFailGiveWayToNobody(t *testing.T) {
	s := &storm{t: t, dir: shortDir(t)}
	clients := s.start()
	for range 8 {
		if _, err := clients[0].Publish(t.Context(), "orders", client.Message{Data: []byte("poison")}); err != nil {
			t.Fatal(err)
		}
	}
	var changes atomic.Int64
	var apps sync.WaitGroup
	ctx, end := context.WithCancel(t.Context())
	defer apps.Wait()
	defer end()
	for i, c := range clients {
		s.agents[i].group.Notify(func(c group.Change) {
			if c.Peers {
				changes.Add(1)
			}
		})
		apps.Go(func() {
			for ctx.Err() == nil {
				session, err := c.Session(ctx)
				if err != nil {
					return
				}
				_, _ = c.Pull(ctx, client.PullRequest{Capsule: "primary", Session: session.ID, Wait: 100 * time.Millisecond})
				session.Close() // it dies
			}
		})
	}
	for _, a := range s.agents {
		eventually(t, "the app counts as failing", func() bool { return !a.capsules["primary"].Status().SuspendedUntil.IsZero() })
	}
	for _, a := range s.agents {
		eventually(t, "it counts as the other's rival, and not as a well one", func() bool { return a.group.Rivals("orders", "primary") == group.Rivals{All: 1} })
	}
	before := changes.Load()
	time.Sleep(2 * time.Second)
	if n := changes.Load() - before; n > 4 {
		t.Errorf("they gave way, or took it back, %d times in two seconds", n)
	}
	for _, a := range s.agents {
		if st := a.capsules["primary"].Status(); !st.Demand {
			t.Error("nobody is left to work")
		}
	}
}
