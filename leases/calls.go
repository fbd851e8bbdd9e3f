package leases

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// A late answer is worth having: a call may take twice the time after which the machine asks again.
func (r *Runner) call() (context.Context, context.CancelFunc) {
	return context.WithTimeout(r.ctx, 2*r.cfg.patience())
}

func (r *Runner) read(request uint64) {
	ctx, cancel := r.call()
	defer cancel()
	v, err := r.store.Read(ctx)
	if err != nil {
		r.post(func(m *Machine, now time.Time) { m.ReadFailed(now, request, outcome(err)) })
		return
	}
	s := seen(v)
	r.post(func(m *Machine, now time.Time) { m.ReadDone(now, request, s) })
}

func (r *Runner) write(a Action) {
	ctx, cancel := r.call()
	defer cancel()
	revision, err := r.store.Swap(ctx, a.Record.Encode(), a.Expected)
	if err != nil {
		r.post(func(m *Machine, now time.Time) { m.NotWritten(now, a.Request, outcome(err)) })
		return
	}
	r.post(func(m *Machine, now time.Time) { m.Written(now, a.Request, revision) })
}

const (
	// firstWatchDelay and lastWatchDelay bound how long a broken watch stays away. Polls cover the time.
	firstWatchDelay = 50 * time.Millisecond
	lastWatchDelay  = time.Second
)

// watch keeps a watch open, and opens a new one when the loop asks.
func (r *Runner) watch() {
	for delay := firstWatchDelay; r.ctx.Err() == nil; delay = min(2*delay, lastWatchDelay) {
		began := time.Now()
		err := r.watchOnce()
		if errors.Is(err, ErrGone) {
			r.post((*Machine).Gone)
		}
		if time.Since(began) > time.Minute {
			delay = firstWatchDelay
		}
		wait := time.NewTimer(delay/2 + time.Duration(rand.Int64N(int64(delay/2))))
		select {
		case <-wait.C:
		case <-r.ctx.Done():
		}
		wait.Stop()
	}
}

// watchOnce returns when the watch breaks, or is to be replaced.
func (r *Runner) watchOnce() error {
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	ended := make(chan error, 1)
	r.calls.Go(func() {
		ended <- r.store.Watch(ctx, func(v Value) {
			s := seen(v)
			r.post(func(m *Machine, now time.Time) { m.Watched(now, s) })
		})
	})
	select {
	case err := <-ended:
		return err
	case <-r.rewatch:
		cancel()
		_ = <-ended
		return nil
	}
}

// seen reads a value. What is no record is a holder like any other: somebody may rely on it.
func seen(v Value) Seen {
	record, _ := Decode(v.Data) // the record that stands for it says so, and Status shows it
	return Seen{Revision: v.Revision, Record: record}
}
