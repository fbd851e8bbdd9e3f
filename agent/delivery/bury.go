package delivery

import (
	"errors"
	"time"

	"github.com/fairlead/fairlead/agent/broker"
)

const (
	// rejectedAttempt is the attempt whose backoff a message waits that could not be buried: the last entry of the list.
	rejectedAttempt = 1<<31 - 1
	// buryPause is the shortest such wait.
	buryPause = time.Second
)

// verdict tells why a message that goes back is given up instead, or "": that was said before, its app rejected it, or this
// was its last attempt.
func (b *Book) verdict(back *giveBack) broker.DeadReason {
	switch {
	case back.how.Dead != "": // it was given up, and could not be buried
		return ""
	case back.doomed != "":
		return back.doomed
	case back.rejected:
		return broker.DeadRejected
	case back.how.Counts == broker.AnAttempt && b.retry.LastAttempt(back.m.Queue, back.m.Attempt):
		return broker.DeadMaxAttempts
	}
	return ""
}

// bury gives a message up.
func (b *Book) bury(back giveBack, why broker.DeadReason) {
	burial := broker.Burial{Reason: why, Attempts: back.m.Attempt, Error: back.how.Reason}
	b.broker.Bury(back.m, burial, func(f broker.Finish, err error) { b.buried(back, why, f, err) })
}

// buried takes the outcome of a Bury.
func (b *Book) buried(back giveBack, why broker.DeadReason, f broker.Finish, err error) {
	switch {
	case errors.Is(err, broker.ErrTenureOver): // the next holder decides
		b.gaveBack(back, err)
		return
	case err != nil:
		b.notBuried(back, why, err)
		return
	}
	back.owner.Released(back.m, back.ending()) // first: a pull that brought the settlement may need the slot
	b.backEnded(&back, back.result)
	b.mu.Lock()
	b.toldLocked(1)
	b.counts.Buried++
	if e := back.entry; e != nil {
		first := statusOK
		if f != broker.Finished {
			first = statusAlreadySettled
		}
		b.answerLocked(e, first, statusAlreadySettled)
		b.closeLocked(e, fateSettled, b.now())
	}
	b.mu.Unlock()
}

// notBuried is for a message that was given up and is still in its queue. If nobody could be asked, whoever settled it can
// ask again. Otherwise it goes back with the verdict and the longest backoff, and whoever takes it then buries it.
func (b *Book) notBuried(back giveBack, why broker.DeadReason, err error) {
	wait := max(b.retry.Backoff(back.m.Queue, rejectedAttempt), buryPause)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.counts.BurialsFailed++
	nobody := !errors.Is(err, broker.ErrDeadLetters)
	if e := back.entry; e != nil && nobody && b.reviveLocked(e) {
		if errors.Is(err, broker.ErrOutcomeUnknown) {
			e.doomed = why
		}
		b.answerLocked(e, statusUnavailable, statusUnavailable)
		b.armLocked()
		return
	}
	back.how.Dead, back.how.NotBefore = why, time.Now().Add(wait)
	b.giveBackLocked([]giveBack{back})
}
