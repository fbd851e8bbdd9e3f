package delivery

import (
	"time"

	"github.com/fairlead/fairlead/agent/api"
)

// sweepEvery is how often tokens whose time is over are looked for while any are remembered.
const sweepEvery = time.Minute

// runExpiry ends leases at their deadlines, and forgets old tokens.
func (b *Book) runExpiry() {
	defer b.loops.Done()
	timer := newTimer()
	defer timer.Stop()
	var nextSweep instant
	for {
		b.mu.Lock()
		now := b.now()
		b.expireLocked(now)
		if now >= nextSweep {
			b.memory.sweep(now)
			nextSweep = now + sweepEvery
		}
		b.expiryArmed = never
		if e := b.deadlines.first(); e != nil {
			b.expiryArmed = e.deadline
		}
		if len(b.memory.chunks) > 0 {
			b.expiryArmed = min(b.expiryArmed, nextSweep)
		}
		timer.Reset(b.until(b.expiryArmed))
		b.mu.Unlock()
		select {
		case <-timer.C:
		case <-b.wakeExpiry:
		case <-b.stop:
			return
		}
	}
}

// expireLocked ends the leases that are over.
func (b *Book) expireLocked(now instant) {
	var backs []giveBack
	for e := b.deadlines.first(); e != nil && e.deadline <= now; e = b.deadlines.first() {
		if e.state == finishing {
			// A settlement is being carried out. If its outcome stays unknown, e is added again, and expires then.
			b.deadlines.remove(e)
			continue
		}
		if e.session != nil {
			e.session.tellLocked(api.Event{Event: "revoked", Token: b.mint.token(e.id), Reason: "expired"})
		}
		backs = append(backs, b.loseLocked(e, fateExpired, Expired, "the lease expired"))
	}
	b.counts.Expired += uint64(len(backs))
	b.giveBackLocked(backs)
}
