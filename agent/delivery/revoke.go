package delivery

import (
	"slices"
	"time"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/broker"
)

// Revoke ends the deliveries of tenures that are over, and returns how many there were. Their apps are told at once, by
// their sessions; settling one is answered lease_lost. Nothing goes back to a lane: the messages are the next holder's. A
// settlement that is being carried out is completed first; if its outcome stays unknown, it is answered lease_lost too.
func (b *Book) Revoke() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	var backs []giveBack
	for _, e := range b.byToken { // sorted below
		if e.state == live && !e.held() {
			backs = append(backs, b.revokeLocked(e))
		}
	}
	b.giveBackLocked(backs)
	return len(backs)
}

// Stale returns those of the deliveries that must not be written to their app any more, because their tenure is over or
// about to be. It is to be asked right before the writing.
func Stale(ds []Delivery) (stale []Delivery) {
	var now time.Time
	for i := range ds {
		t := ds[i].Message.Tenure()
		if t == nil {
			continue
		}
		if now.IsZero() {
			now = time.Now()
		}
		if !t.Trusted(now) {
			stale = append(stale, ds[i])
		}
	}
	return stale
}

// TrustEnds returns a function that tells when, as things stand, the first of the tenures ends that deliveries were taken in: until
// then they may be written to their app. Each renewal moves it. It is nil when there is no such time.
func TrustEnds(ds []Delivery) func() time.Time {
	var tenures []*broker.Tenure
	for i := range ds {
		if t := ds[i].Message.Tenure(); t != nil && !slices.Contains(tenures, t) {
			tenures = append(tenures, t)
		}
	}
	if tenures == nil {
		return nil
	}
	return func() time.Time {
		now := time.Now()
		first := tenures[0].Until(now)
		for _, t := range tenures[1:] {
			if at := t.Until(now); at.Before(first) {
				first = at
			}
		}
		return first
	}
}

// HasOf tells whether something of a tenure is in an app's hands, or is being settled.
func (b *Book) HasOf(t *broker.Tenure) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.byToken { // one is enough
		if e.m.Tenure() == t {
			return true
		}
	}
	return false
}

// held tells whether e may be settled.
func (e *entry) held() bool {
	t := e.m.Tenure()
	return t == nil || t.Held(time.Now())
}

// revokeLocked ends a delivery whose tenure is over. It is no attempt here: the next holder counts.
func (b *Book) revokeLocked(e *entry) giveBack {
	b.counts.Revoked++
	b.tellLostLocked(e)
	back := b.loseLocked(e, fateLeaseLost, Revoked, "the queue's lease was lost")
	back.how.Counts = broker.NotAnAttempt
	return back
}

func (b *Book) tellLostLocked(e *entry) {
	if e.session != nil {
		e.session.tellLocked(api.Event{Event: "revoked", Token: b.mint.token(e.id), Reason: "lease_lost"})
	}
}
