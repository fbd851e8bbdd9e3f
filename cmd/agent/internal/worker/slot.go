package worker

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/client"
)

const (
	pullWait    = 30 * time.Second       // a long poll
	idleWait    = 200 * time.Millisecond // between looks of one that ends when nothing waits
	flushLimit  = 10 * time.Second       // for telling the last results
	flushKilled = time.Second            // and when the worker was killed
	pauseFirst  = 50 * time.Millisecond
	pauseMost   = 5 * time.Second
)

// outcome is a settlement that a slot still has to tell.
type outcome struct {
	seq        uint64
	settlement api.Settlement
	sent       bool // maybe told before: then "already settled" means that it was heard
}

// slot works on one message at a time until there is to be no more.
type slot struct {
	worker  *Worker
	open    []outcome // not known to be told
	resting bool      // it counts as idle
}

func (s *slot) run(kill context.Context) {
	w := s.worker
	for w.pulling.Err() == nil && w.reserve() {
		// What the pull tells runs beside its take: a message that goes back at once may come too late for it. Such an answer
		// does not say that nothing waits.
		telling := len(s.open) > 0
		got, err := s.pull()
		if err == nil && len(got.Deliveries) > 0 {
			s.rest(false)
			s.open = append(s.open, w.handle(kill, &got.Deliveries[0])...)
			continue
		}
		w.unreserve()
		if err != nil {
			break
		}
		// A draining agent says that it gives nothing, not that there is nothing.
		if !got.Draining && !telling {
			s.rest(true)
		}
		if w.options.ExitWhenEmpty && s.resting && w.wasEmpty() {
			break
		}
	}
	s.rest(true)
	s.flush(kill)
}

func (s *slot) rest(resting bool) {
	switch {
	case resting && !s.resting:
		s.worker.rest()
	case !resting && s.resting:
		s.worker.wake()
	}
	s.resting = resting
}

// wait is how long the agent may wait for a message. While something is to be told it is not at all: the answer says what
// became of it, and should not come half a minute later, or never because the agent ended meanwhile.
func (s *slot) wait() time.Duration {
	switch {
	case len(s.open) > 0:
		return 0
	case !s.worker.options.ExitWhenEmpty:
		return pullWait
	case s.resting:
		return idleWait
	}
	return 0
}

// pull asks for one message until the agent answers, and tells what is open meanwhile. Its error is the end of the slot.
func (s *slot) pull() (*client.PullResult, error) {
	w := s.worker
	pause := pauseFirst
	for {
		session, err := w.sessions.wait(w.pulling)
		if err != nil {
			return nil, err
		}
		got, err := w.options.Client.Pull(w.pulling, client.PullRequest{
			Capsule: w.options.Capsule, Max: 1, Wait: s.wait(), Lease: w.options.Lease, Session: session, Settle: s.settlements(),
		})
		if err == nil {
			w.answers(nil)
			s.told(got.SettleFailed)
			if len(s.open) > 0 && len(got.Deliveries) == 0 {
				sleep(w.pulling, pause) // the broker is away, and this was answered at once
			}
			return got, nil
		}
		for i := range s.open {
			s.open[i].sent = true
		}
		if w.pulling.Err() != nil {
			return nil, err
		}
		if !client.IsRetryable(err) {
			w.stop(err)
			return nil, err
		}
		var answered *api.Error
		if errors.As(err, &answered) && answered.Code == api.CodeUnknownSession {
			w.sessions.distrust(session)
		} else {
			w.answers(err)
		}
		pause = sleep(w.pulling, pause)
	}
}

func (s *slot) settlements() []api.Settlement {
	out := make([]api.Settlement, len(s.open))
	for i := range s.open {
		out[i] = s.open[i].settlement
	}
	return out
}

// told notes what became of what was open: results has it, or it was heard. What is to be told again stays open.
func (s *slot) told(results []api.SettleResult) {
	w := s.worker
	open := s.open
	s.open = nil
	for _, o := range open {
		status := api.StatusOK
		for _, r := range results {
			if r.Token == o.settlement.Token {
				status = r.Status
			}
		}
		switch {
		case status == api.StatusUnavailable:
			o.sent = true
			s.open = append(s.open, o)
		case status == api.StatusOK, status == api.StatusAlreadySettled && o.sent:
			w.tally(func(sum *Summary) {
				if o.settlement.Result == api.Ack {
					sum.Acked++
				} else {
					sum.Nacked++
				}
			})
		default:
			w.logf("seq %d: the %s came too late (%s), the message is delivered again", o.seq, o.settlement.Result, status)
			w.tally(func(sum *Summary) { sum.Lost++ })
		}
	}
}

// flush tells what is open without asking for more.
func (s *slot) flush(kill context.Context) {
	if len(s.open) == 0 {
		return
	}
	w := s.worker
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.pulling), flushLimit)
	defer cancel()
	defer context.AfterFunc(kill, func() { time.AfterFunc(flushKilled, cancel) })()
	for pause := pauseFirst; len(s.open) > 0; pause = sleep(ctx, pause) {
		results, err := w.options.Client.Settle(ctx, s.settlements())
		if err == nil {
			s.told(results)
			continue
		}
		for i := range s.open {
			s.open[i].sent = true
		}
		if ctx.Err() != nil || !client.IsRetryable(err) {
			s.lose(err)
			return
		}
		w.answers(err)
	}
}

// lose gives up what is open.
func (s *slot) lose(err error) {
	for _, o := range s.open {
		s.worker.logf("seq %d: the %s could not be told, the message is delivered again: %v", o.seq, o.settlement.Result, err)
		s.worker.tally(func(sum *Summary) { sum.Lost++ })
	}
	s.open = nil
}

// sleep pauses for about pause, so that workers of one agent do not all come back in the same moment, and returns the
// next pause.
func sleep(ctx context.Context, pause time.Duration) time.Duration {
	timer := time.NewTimer(pause/2 + rand.N(pause/2+1))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return min(2*pause, pauseMost)
}
