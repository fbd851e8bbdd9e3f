package socket

import (
	"sync"
	"time"

	"github.com/fairlead/fairlead/agent/api"
)

// settleBeside begins to settle. What it returns is called when the messages are there, or none came: it waits for the end, and
// returns what did not end well.
func (x *exchange) settleBeside(t *take, list []api.Settlement) func() []api.SettleResult {
	settled, taken := make(chan struct{}), make(chan struct{})
	t.request.After = settled
	var results []api.SettleResult
	x.work.Go(func() {
		defer close(settled)
		// Also for a client that leaves: it has said what became of them.
		results = x.carryOut(list)
		x.insist(list, results, taken)
	})
	return sync.OnceValue(func() []api.SettleResult {
		close(taken)
		<-settled
		var bad []api.SettleResult
		for _, r := range results {
			if r.Status != api.StatusOK {
				bad = append(bad, r)
			}
		}
		return bad
	})
}

// insistFirst is how long after the first try a settlement is tried again. It doubles each time, up to insistMost.
const (
	insistFirst = 100 * time.Millisecond
	insistMost  = time.Second
)

// insist tries again what is not known to be done, until enough is closed: a pull waits through a short outage of NATS, and
// what came with it must not be what its app is told of only then. In a queue with a single active consumer nothing else would
// come.
func (x *exchange) insist(list []api.Settlement, results []api.SettleResult, enough <-chan struct{}) {
	for wait := insistFirst; ; wait = min(2*wait, insistMost) {
		var again []api.Settlement
		var places []int
		for i := range results {
			if results[i].Status == api.StatusUnavailable {
				again, places = append(again, list[i]), append(places, i)
			}
		}
		if len(again) == 0 {
			return
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-enough:
			timer.Stop()
			return
		}
		for i, r := range x.carryOut(again) {
			results[places[i]] = r
		}
	}
}
