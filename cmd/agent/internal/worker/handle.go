package worker

import (
	"context"
	"errors"
	"time"

	"github.com/fairlead/fairlead/agent/api"
)

// handle runs the command for d and returns what is to be told: nothing when there is nobody to tell it to.
func (w *Worker) handle(kill context.Context, d *api.Delivery) []outcome {
	ctx, cancel := context.WithCancelCause(kill)
	defer cancel(nil)
	w.mu.Lock()
	w.running[d.Token] = cancel
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		delete(w.running, d.Token)
		w.mu.Unlock()
	}()

	extending := make(chan struct{})
	go func() {
		defer close(extending)
		w.extend(ctx, d)
	}()
	err := w.execute(ctx, kill, d)
	revoked := errors.Is(context.Cause(ctx), errRevoked)
	cancel(nil)
	<-extending

	switch {
	case revoked:
		w.tally(func(s *Summary) { s.Lost++ })
		return nil
	case err == nil:
		return []outcome{{seq: d.Seq, settlement: api.Settlement{Token: d.Token, Result: api.Ack}}}
	case kill.Err() != nil:
		w.tally(func(s *Summary) { s.Killed++ })
		return nil // the end of the session gives it back
	}
	return []outcome{{seq: d.Seq, settlement: api.Settlement{Token: d.Token, Result: api.Nack, Reason: err.Error()}}}
}

// extend moves the deadline of d every third of its lease until ctx ends.
func (w *Worker) extend(ctx context.Context, d *api.Delivery) {
	lease := w.options.Lease
	if lease <= 0 {
		lease = max(time.Until(d.Deadline), time.Second)
	}
	ticker := time.NewTicker(lease / 3)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		// Not longer than a third: the next try should come before the lease is over.
		attempt, cancel := context.WithTimeout(ctx, lease/3)
		results, err := w.options.Client.Settle(attempt, []api.Settlement{{Token: d.Token, Result: api.Extend}})
		cancel()
		if err != nil {
			continue // the slot's pulls or the session say that the agent is away
		}
		switch results[0].Status {
		case api.StatusOK, api.StatusUnavailable:
		default:
			w.revoke(d.Token, string(results[0].Status))
			return
		}
	}
}

// revoke ends the command of a delivery that is not this worker's any more.
func (w *Worker) revoke(token, reason string) {
	w.mu.Lock()
	cancel := w.running[token]
	w.mu.Unlock()
	if cancel == nil {
		return
	}
	w.logf("a delivery was revoked (%s): its command is told to end", reason)
	cancel(errRevoked)
}
