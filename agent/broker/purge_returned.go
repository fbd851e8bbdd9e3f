package broker

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/fairlead/fairlead/agent/broker/names"
	"github.com/fairlead/fairlead/agent/broker/wire"
)

// backingOff removes what was returned and is not to be delivered for some time: it is in nobody's hands.
func (w *purger) backingOff(ctx context.Context) error {
	after := time.Now().Add(purgeMargin)
	var work group
	for _, r := range w.c.attempts.between(w.layout.Queue, after, time.Time{}) {
		if ctx.Err() != nil {
			break
		}
		if w.wantsRecord(r) && !w.delete(ctx, &work, r.seq) {
			break
		}
	}
	return work.wait(ctx)
}

// delete removes a message that is in nobody's hands, and its record if it has one. It reports false when no more may be
// removed.
func (w *purger) delete(ctx context.Context, work *group, seq uint64) bool {
	if w.reserve(1) == 0 {
		w.more.Store(true)
		return false
	}
	work.add(1)
	done := func(result Finish) {
		if _, ok := w.c.attempts.lookup(w.layout.Queue, seq); ok && result != FinishUnknown {
			w.c.bucket.Delete(attemptKey{w.layout.Queue, seq}.String(), func(uint64, error) {})
		}
		w.count(result)
		work.done(result)
	}
	w.withoutOriginal(ctx, seq, func(err error) {
		if err != nil {
			done(FinishUnknown)
			return
		}
		w.remove(w.c.names.Stream(w.layout.Queue), seq, 1, done)
	})
	return true
}

// withoutOriginal sees to it that nothing is left among the delayed messages of one that is about to be deleted, as a finish does.
func (w *purger) withoutOriginal(ctx context.Context, seq uint64, then func(error)) {
	if len(w.left) == 0 {
		then(nil)
		return
	}
	m, err := w.c.wire.Read(ctx, w.c.names.Stream(w.layout.Queue), wire.Look{Seq: seq})
	if err != nil || m == nil {
		then(err)
		return
	}
	if handle := m.Header.Get(headerDelayed); w.left[handle] {
		w.c.clearDelayed(w.layout.Queue, handle, then)
		return
	}
	then(nil)
}

// remove deletes by sequence, again while that is not answered.
func (w *purger) remove(stream string, seq uint64, try int, done func(Finish)) {
	w.c.wire.Deletes.Do(wire.DeleteRequest(stream, seq), func(answer *nats.Msg, err error) {
		switch {
		case err == nil:
			done(w.c.deleted(answer))
		case errors.Is(err, ErrOutcomeUnknown) && try < writeTries && w.c.Connected():
			w.remove(stream, seq, try+1, done)
		default:
			done(FinishUnknown)
		}
	})
}

func (w *purger) wantsRecord(r recorded) bool {
	class, token, ok := names.Split(r.Address)
	if !ok || r.seq > w.until {
		return false
	}
	a, ok := w.layout.Address(class, token)
	return ok && w.wants(a)
}

// dueSoon waits for what backs off and is due before long, and empties its lanes.
func (w *purger) dueSoon(ctx context.Context) error {
	now := time.Now()
	last := now
	lanes := map[Address]uint64{}
	for _, r := range w.c.attempts.between(w.layout.Queue, now, now.Add(purgeMargin)) {
		if !w.wantsRecord(r) {
			continue
		}
		class, token, _ := names.Split(r.Address)
		a, _ := w.layout.Address(class, token)
		lanes[a]++
		if at := r.notBefore(); at.After(last) {
			last = at
		}
	}
	if len(lanes) == 0 {
		return ctx.Err()
	}
	if w.budget.Load() <= 0 {
		w.more.Store(true)
		return ctx.Err()
	}
	select {
	case <-time.After(time.Until(last) + 20*time.Millisecond):
	case <-ctx.Done():
		return ctx.Err()
	}
	found := make([]Found, 0, len(lanes))
	for a, n := range lanes { // each lane is emptied by itself
		found = append(found, Found{a, n})
	}
	return w.lanes(ctx, found)
}
