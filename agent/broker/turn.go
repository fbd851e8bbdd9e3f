package broker

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/fairlead/fairlead/agent/broker/bucket"
)

const (
	// turnPrefix begins the bucket's records of who may evict from a queue now.
	turnPrefix = "evict."
	// turnLength is how long an agent keeps its turn when others may be waiting for theirs.
	turnLength = 50 * time.Millisecond
	// turnStale is how long the record of a turn may stay unchanged before whoever has it is taken for dead.
	turnStale = time.Second
	// turnConflicts is after how many lost races in a row the mirror is checked: it may be behind, and show a record that is not
	// there any more.
	turnConflicts = 20
)

// turn is one agent's part in taking turns at a queue: at any moment one agent decides who has to go, so that no two
// decisions are made about the same place, and none is made while a place that another eviction has opened is still free.
// It protects the ranking only. That nobody in work is evicted, and that nothing overshoots, does not depend on it: an agent
// that is taken for dead may go on for a moment, and without the bucket there are no turns at all.
//
// The record holds the name of whoever has the turn, or nothing. It is taken and given back by compare-and-set. A turn whose
// record has not changed for a second, by the observer's own clock, is taken over.
type turn struct {
	b       *bucket.Bucket
	key     string
	me      string
	changed chan struct{} // written by the bucket's watch, read by take

	since    time.Time // when it was taken; zero: it is not ours
	revision uint64    // of the record that says so
	seen     uint64    // the revision of another's record
	seenAt   time.Time
}

func newTurn(b *bucket.Bucket, queue, me string) *turn {
	return &turn{b: b, key: turnPrefix + queue, me: me, changed: make(chan struct{}, 1)}
}

// wake is called when the record has changed.
func (t *turn) wake() {
	select {
	case t.changed <- struct{}{}:
	default:
	}
}

func (t *turn) ours() bool { return !t.since.IsZero() }

// over tells whether others should have theirs.
func (t *turn) over() bool { return t.ours() && time.Since(t.since) > turnLength }

// take waits for the turn. An error says that the bucket cannot be used for it now.
func (t *turn) take(ctx context.Context) error {
	for conflicts := 0; !t.ours(); {
		e, _ := t.b.Get(t.key)
		if holder := string(e.Value); holder != "" && holder != t.me && !t.stale(e.Revision) {
			t.pause(ctx, turnStale/4)
			if err := ctx.Err(); err != nil {
				return err
			}
			continue
		}
		revision, err := t.swap(ctx, t.me, e.Revision)
		switch {
		case err == nil:
			t.since, t.revision = time.Now(), revision
		case errors.Is(err, ErrConflict): // somebody was faster, and the watch will say so
			t.pause(ctx, 5*time.Millisecond)
			if conflicts++; conflicts%turnConflicts == 0 {
				if err := t.b.Sync(ctx); err != nil {
					return err
				}
			}
		default:
			return err
		}
	}
	return nil
}

// stale tells whether the one who has the turn is taken for dead.
func (t *turn) stale(revision uint64) bool {
	if revision != t.seen {
		t.seen, t.seenAt = revision, time.Now()
	}
	return time.Since(t.seenAt) > turnStale
}

// pause waits until the record changes, for so long at most.
func (t *turn) pause(ctx context.Context, most time.Duration) {
	select {
	case <-t.changed:
	case <-time.After(most):
	case <-ctx.Done():
	}
}

// give gives the turn back. If that fails, others take it over when it is stale.
func (t *turn) give(ctx context.Context) {
	if !t.ours() {
		return
	}
	t.since = time.Time{}
	_, _ = t.swap(ctx, "", t.revision)
}

// pass gives the turn to others for a moment.
func (t *turn) pass(ctx context.Context) {
	t.give(ctx)
	select {
	case <-time.After(time.Millisecond + rand.N(3*time.Millisecond)):
	case <-ctx.Done():
	}
}

func (t *turn) swap(ctx context.Context, value string, revision uint64) (uint64, error) {
	type outcome struct {
		revision uint64
		err      error
	}
	written := make(chan outcome, 1)
	t.b.Swap(t.key, []byte(value), revision, func(revision uint64, err error) { written <- outcome{revision, err} })
	select {
	case o := <-written:
		return o.revision, o.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}
