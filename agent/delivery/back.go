package delivery

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/broker"
)

// giveBack is one message on its way back to its lane.
type giveBack struct {
	m     *broker.Message
	owner Owner
	how   broker.Return
	entry *entry // set for a nack or reject that waits for the outcome
	// rejected is true when the app wants it in the dead letters.
	rejected bool
	doomed   broker.DeadReason // see entry
	// result and since are what the observer is told of the delivery that this was.
	result   Result
	since    instant
	settling instant
}

// ending is how the message left its app's hands.
func (g *giveBack) ending() broker.Ending {
	switch {
	case g.entry != nil:
		return broker.Settled
	case g.how.Counts == broker.AnAttempt:
		return broker.Lost
	}
	return broker.Unused
}

// loseLocked ends a live or finishing delivery without its app's word, and returns what is to be given back. It counts as
// an attempt once the answer was written.
func (b *Book) loseLocked(e *entry, f fate, how Result, reason string) giveBack {
	back := giveBack{m: e.m, owner: e.owner, result: how, since: e.since, how: broker.Return{Counts: e.counts(), Reason: reason}, doomed: e.doomed}
	b.closeLocked(e, f, b.now())
	return back
}

// giveBackLocked queues messages that go back for one cause, in ascending order of their sequences: JetStream redelivers
// in the order of return.
func (b *Book) giveBackLocked(backs []giveBack) {
	if len(backs) == 0 {
		return
	}
	slices.SortStableFunc(backs, func(x, y giveBack) int {
		return cmp.Or(cmp.Compare(x.m.Seq, y.m.Seq), cmp.Compare(x.m.Queue, y.m.Queue))
	})
	b.returns = append(b.returns, backs...)
	wake(b.wakeReturns)
}

// runReturns gives messages back, or up, one after the other. It is the only caller of Return and Bury, so that the order of
// causes and sequences is the order of the calls.
func (b *Book) runReturns() {
	defer b.loops.Done()
	for {
		b.mu.Lock()
		backs := b.returns
		b.returns = nil
		b.mu.Unlock()
		for i := range backs {
			select {
			case <-b.stop:
				return
			default:
			}
			back := backs[i]
			if why := b.verdict(&back); why != "" {
				b.bury(back, why)
				continue
			}
			b.broker.Return(back.m, back.how, func(err error) { b.gaveBack(back, err) })
		}
		select {
		case <-b.wakeReturns:
		case <-b.stop:
			return
		}
	}
}

// gaveBack takes the outcome of a Return.
func (b *Book) gaveBack(back giveBack, err error) {
	b.mu.Lock()
	over := errors.Is(err, broker.ErrTenureOver)
	if err != nil && !over {
		b.counts.ReturnsFailed++
	}
	if e := back.entry; e != nil {
		if err != nil && !over && back.how.Dead == "" && b.reviveLocked(e) {
			b.answerLocked(e, statusUnavailable, statusUnavailable)
			b.armLocked()
			b.mu.Unlock()
			return
		}
	}
	b.mu.Unlock()

	at := back.how.NotBefore
	if over {
		at = time.Time{} // it is the next holder's now
	} else if err != nil {
		// JetStream gives it to somebody by itself, when it has not heard of it for long enough.
		if later := time.Now().Add(back.m.AckWait); at.Before(later) {
			at = later
		}
	}
	b.backEnded(&back, back.outcome(err))
	back.owner.Returned(back.m, at)
	back.owner.Released(back.m, back.ending())
	b.mu.Lock()
	b.toldLocked(1)
	if back.entry != nil { // as with an ack: a pull that brought the settlement may need the slot
		// A reject that has gone back is not what its app asked for.
		b.closeNackLocked(back.entry, err, back.rejected)
	}
	b.mu.Unlock()
}

// closeNackLocked ends a nacked or rejected delivery.
func (b *Book) closeNackLocked(e *entry, err error, refused bool) {
	now := b.now()
	if errors.Is(err, broker.ErrTenureOver) {
		b.answerLocked(e, api.StatusLeaseLost, api.StatusLeaseLost)
		b.tellLostLocked(e)
		b.counts.Revoked++
		b.closeLocked(e, fateLeaseLost, now)
		return
	}
	if err != nil || refused {
		b.answerLocked(e, statusUnavailable, statusUnavailable)
		b.closeLocked(e, fateExpired, now)
		return
	}
	b.answerLocked(e, statusOK, statusAlreadySettled)
	b.closeLocked(e, fateSettled, now)
}

// reviveLocked makes a delivery live again that could not be given back, so that its app can ask again. It is false when
// nobody would: the session ended, the agent drained, or the message is in other hands.
func (b *Book) reviveLocked(e *entry) bool {
	if e.lost || b.closed || e.session != nil && e.session.ended || b.byMessage[e.address()] != nil {
		return false
	}
	b.linkLocked(e, b.now())
	return true
}

// ReturnAll gives back everything that is in apps' hands, not counted as an attempt: the end of a drain. Nothing that is lost
// later counts either. Settlements that
// are being carried out are completed; if their outcome stays unknown, they are given back too.
func (b *Book) ReturnAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.leaving = true
	var backs []giveBack
	for _, e := range b.byToken { // sorted below
		if e.state != live {
			e.lost, e.written = true, false
			continue
		}
		e.written = false // a drain is not an attempt
		backs = append(backs, b.loseLocked(e, fateExpired, Drained, "the agent drained"))
	}
	b.counts.Drained += uint64(len(backs))
	b.giveBackLocked(backs)
}
