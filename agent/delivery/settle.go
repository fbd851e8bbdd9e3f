package delivery

import (
	"context"
	"time"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/broker"
)

const (
	statusOK             = api.StatusOK
	statusAlreadySettled = api.StatusAlreadySettled
	statusUnavailable    = api.StatusUnavailable
)

// call is one Settle. All fields but done are guarded by the book's lock.
type call struct {
	results []api.SettleResult
	open    int           // results that are still due, and one for Settle itself while it starts them
	done    chan struct{} // closed when open is 0
	acks    []ack
	backs   []giveBack
}

// ack is a message to finish. The handle is the one of the time of the ack.
type ack struct {
	e *entry
	m *broker.Message
}

// waiter is a place in a call's answer.
type waiter struct {
	c *call
	i int
}

// Settle carries out settlements and answers them in order. It blocks until every outcome is known, or until ctx ends:
// what is still due then is answered unavailable, and goes on.
//
// The list is one that Check accepts; an entry that it would refuse is not carried out, and answered unavailable.
func (b *Book) Settle(ctx context.Context, list []api.Settlement) []api.SettleResult {
	c := &call{results: make([]api.SettleResult, len(list)), open: 1, done: make(chan struct{})}
	settlements := make([]settlement, len(list))
	for i := range list {
		c.results[i].Token = list[i].Token
		s, err := read(&list[i])
		if err != nil {
			c.results[i].Status = statusUnavailable
			continue
		}
		if s.result == api.Nack && s.delay < 0 {
			s.delay = b.backoff(&s)
		}
		settlements[i] = s
	}

	b.mu.Lock()
	now := b.now()
	for i := range settlements {
		if c.results[i].Status == "" {
			b.beginLocked(waiter{c, i}, &settlements[i], now)
		}
	}
	b.giveBackLocked(c.backs)
	b.armLocked()
	b.mu.Unlock()

	for _, a := range c.acks {
		b.broker.Finish(a.m, func(o broker.Finish) { b.finished(a.e, o) })
	}

	b.mu.Lock()
	c.closeLocked()
	b.mu.Unlock()
	select {
	case <-c.done:
		return c.results
	case <-ctx.Done():
		return b.abandon(c)
	}
}

// backoff asks the Retry how long a nacked message waits. It is asked before the lock is taken.
func (b *Book) backoff(s *settlement) time.Duration {
	id, ok := b.mint.parse(s.token)
	if !ok {
		return 0
	}
	b.mu.Lock()
	e := b.byToken[id]
	if e == nil {
		b.mu.Unlock()
		return 0
	}
	queue, attempt := e.m.Queue, e.m.Attempt
	b.mu.Unlock()
	return b.retry.Backoff(queue, attempt)
}

// beginLocked starts one settlement, and answers it when the answer is known already.
func (b *Book) beginLocked(w waiter, s *settlement, now instant) {
	id, ok := b.mint.parse(s.token)
	if !ok {
		w.setLocked(api.StatusUnknown)
		return
	}
	e := b.byToken[id]
	if e == nil {
		w.setLocked(b.memory.fate(id, now).status())
		return
	}
	if e.state != live { // somebody was faster: the answer depends on what becomes of that
		w.c.open++
		e.others = append(e.others, w)
		return
	}
	if !e.held() {
		w.setLocked(api.StatusLeaseLost)
		w.c.backs = append(w.c.backs, b.revokeLocked(e))
		return
	}
	if e.orphaned() { // whoever knows its token has got it
		e.written = !b.leaving
		b.counts.SessionsLost++
		w.c.backs = append(w.c.backs, b.loseLocked(e, fateExpired, SessionLost, sessionEnded))
		w.setLocked(api.StatusExpired)
		return
	}
	switch s.result {
	case api.Ack:
		w.c.open++
		e.state, e.settler, e.settling = finishing, w, now
		w.c.acks = append(w.c.acks, ack{e, e.m})
	case api.Nack:
		b.counts.Nacked++
		b.nackLocked(w, e, s, now)
	case api.Reject:
		b.counts.Rejected++
		b.nackLocked(w, e, s, now)
	case api.Extend:
		b.counts.Extended++
		lease := s.lease
		if lease == 0 {
			lease = e.lease
		}
		e.deadline = now + lease
		b.deadlines.changed(e)
		w.setLocked(statusOK)
	}
}

// nackLocked gives a message back, or up, by its app's word.
func (b *Book) nackLocked(w waiter, e *entry, s *settlement, now instant) {
	how := broker.Return{Counts: broker.AnAttempt, Reason: s.reason}
	if s.delay > 0 {
		how.NotBefore = time.Now().Add(s.delay)
	}
	w.c.open++
	b.unlinkLocked(e)
	e.state, e.settler, e.settling = returning, w, now
	w.c.backs = append(w.c.backs, giveBack{m: e.m, owner: e.owner, how: how, entry: e, result: resultOf(s.result), since: e.since, settling: now, rejected: s.result == api.Reject, doomed: e.doomed})
}

// finished takes the outcome of an ack.
func (b *Book) finished(e *entry, o broker.Finish) {
	b.mu.Lock()
	if o == broker.FinishUnknown {
		b.unfinishedLocked(e)
		b.mu.Unlock()
		return
	}
	m, settling := e.m, e.settling
	b.mu.Unlock()
	// The owner hears of it first: a pull that brought the settlement goes on when it is answered, and may need the slot.
	e.owner.Released(m, broker.Settled)
	how, first := AlreadyFinished, statusAlreadySettled
	if o == broker.Finished {
		how, first = Acked, statusOK
	}
	b.ended(m, how, e.since, settling)

	b.mu.Lock()
	if o == broker.Finished {
		b.counts.Acked++
	}
	b.toldLocked(1) // whoever gets the answer finds the message not in flight any more
	b.answerLocked(e, first, statusAlreadySettled)
	b.closeLocked(e, fateSettled, b.now())
	b.mu.Unlock()
}

// unfinishedLocked makes a delivery live again whose ack had no known outcome, so that its app can ask again; or gives it
// back when nobody would.
func (b *Book) unfinishedLocked(e *entry) {
	if !e.held() {
		b.answerLocked(e, api.StatusLeaseLost, api.StatusLeaseLost)
		b.giveBackLocked([]giveBack{b.revokeLocked(e)})
		return
	}
	b.answerLocked(e, statusUnavailable, statusUnavailable)
	if e.lost {
		b.giveBackLocked([]giveBack{b.loseLocked(e, fateExpired, Unknown, "lost with an ack whose outcome is unknown")})
		return
	}
	e.state = live
	if e.place == absent {
		b.deadlines.add(e)
		b.armLocked()
	}
}

// answerLocked answers the settlement that is being carried out, and those that came while it was.
func (b *Book) answerLocked(e *entry, first, others api.Status) {
	if first == statusUnavailable {
		b.counts.Unavailable += uint64(1 + len(e.others))
	}
	e.settler.dueLocked(first)
	for _, w := range e.others {
		w.dueLocked(others)
	}
	e.settler, e.others = waiter{}, nil
}

func (w waiter) setLocked(s api.Status) { w.c.results[w.i].Status = s }

// dueLocked sets an answer that was still due.
func (w waiter) dueLocked(s api.Status) {
	w.setLocked(s)
	w.c.closeLocked()
}

func (c *call) closeLocked() {
	if c.open--; c.open == 0 {
		close(c.done)
	}
}

// abandon returns the answers that are known by now. c lives on until the others are.
func (b *Book) abandon(c *call) []api.SettleResult {
	b.mu.Lock()
	defer b.mu.Unlock()
	results := make([]api.SettleResult, len(c.results))
	copy(results, c.results)
	for i := range results {
		if results[i].Status == "" {
			results[i].Status = statusUnavailable
		}
	}
	return results
}
