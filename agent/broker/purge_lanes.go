package broker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// lanes empties lanes, a few at a time, the highest level first.
func (w *purger) lanes(ctx context.Context, found []Found) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	next := make(chan Found)
	errs := make(chan error, purgeLanes)
	for range purgeLanes {
		go func() {
			var err error
			for f := range next {
				if err == nil {
					if err = w.empty(ctx, f); err != nil {
						cancel() // the others have the same trouble
					}
				}
			}
			errs <- err
		}()
	}
	for _, f := range found {
		if ctx.Err() != nil {
			break
		}
		next <- f
	}
	close(next)
	var first error
	for range purgeLanes {
		if err := <-errs; err != nil && (first == nil || errors.Is(first, context.Canceled)) {
			first = err
		}
	}
	if first == nil {
		first = ctx.Err()
	}
	return first
}

// empty takes what a lane has and removes it. What is too new goes back when the lane is done with: given back before, it
// would come ahead of what is to be removed.
func (w *purger) empty(ctx context.Context, f Found) error {
	lane := w.feed.Lane(w.layout, f.Address)
	var beyond []*Message
	defer func() {
		w.feed.Forget(lane)
		for _, m := range beyond {
			w.stray(m)
		}
	}()
	left, doubts := f.Messages, 0
	for left > 0 && ctx.Err() == nil {
		n := w.reserve(int(min(left, purgeBatch)))
		if n == 0 {
			w.more.Store(true)
			return nil
		}
		answer := w.ask(lane, n)
		w.budget.Add(int64(n - len(answer.Messages)))
		newer, err := w.finish(ctx, answer.Messages)
		beyond = append(beyond, newer...)
		switch {
		case err != nil:
			return err
		case answer.Err != nil:
			return answer.Err
		case len(newer) > 0 && newer[len(newer)-1].delivered == 1:
			return nil // what follows was stored later still
		case len(answer.Messages) == 0:
			if doubts++; doubts > purgeDoubts {
				return nil // the rest is in somebody's hands
			}
			select {
			case <-time.After(5 * time.Millisecond):
			case <-ctx.Done():
			}
		default:
			left -= min(left, uint64(len(answer.Messages)))
		}
	}
	return ctx.Err()
}

// finish removes what was taken, but for what is too new.
func (w *purger) finish(ctx context.Context, messages []*Message) (newer []*Message, err error) {
	var work group
	for _, m := range messages {
		if m.Seq > w.until {
			w.budget.Add(1)
			newer = append(newer, m)
			continue
		}
		work.add(1)
		w.c.Finish(m, func(result Finish) {
			w.count(result)
			if result == FinishUnknown {
				w.stray(m)
			}
			work.done(result)
		})
	}
	return newer, work.wait(context.WithoutCancel(ctx)) // what was taken is finished
}

// ask asks a lane and waits for the answer, which always comes.
func (w *purger) ask(lane *Lane, n int) Answer {
	answer := make(chan Answer, 1)
	w.mu.Lock()
	w.answers[lane] = answer
	w.mu.Unlock()
	w.feed.Ask(lane, n, 0)
	return <-answer
}

func (w *purger) answered(a Answer) {
	w.mu.Lock()
	answer := w.answers[a.Lane]
	delete(w.answers, a.Lane)
	w.mu.Unlock()
	if answer != nil {
		answer <- a
	}
}

// stray gives back a message that is not to be removed, or that came too late.
func (w *purger) stray(m *Message) { w.c.Return(m, Return{}, func(error) {}) }

// group waits for deletes. The zero value is ready.
type group struct {
	work    sync.WaitGroup
	unknown atomic.Int64
}

func (g *group) add(n int) { g.work.Add(n) }

func (g *group) done(result Finish) {
	if result == FinishUnknown {
		g.unknown.Add(1)
	}
	g.work.Done()
}

// wait waits for all of them: each is answered or given up within seconds.
func (g *group) wait(ctx context.Context) error {
	g.work.Wait()
	if n := g.unknown.Load(); n > 0 {
		return fmt.Errorf("%w: of %d deletes", ErrOutcomeUnknown, n)
	}
	return ctx.Err()
}
