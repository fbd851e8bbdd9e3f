package agent

import (
	"context"
	"sync"
	"time"

	"github.com/fairlead/fairlead/config"
)

// moversPatience is how long the movers of delayed messages wait for what they need to be set up. Then they look for it
// themselves: one queue that cannot be set up must not hold up the others.
const moversPatience = 10 * time.Second

// delays moves delayed messages into the queues that the agent's capsules read, when they are due: also while it drains.
type delays struct {
	end    context.CancelFunc
	movers sync.WaitGroup
}

func startDelays(a *Agent) *delays {
	ctx, cancel := context.WithCancel(context.Background())
	d := &delays{end: cancel}
	for _, q := range a.settings().Queues {
		if !a.serves(q.Name) {
			continue
		}
		d.movers.Go(func() {
			select {
			case <-a.defs.ready: // the definitions in force are known, and the streams are there
			case <-time.After(moversPatience):
			case <-ctx.Done():
				return
			}
			a.client.MoveDelayed(ctx, q.Name, func() (config.Queue, bool) { return a.followed(q.Name) })
		})
	}
	return d
}

// stop waits until what is being moved was moved.
func (d *delays) stop() {
	d.end()
	d.movers.Wait()
}
