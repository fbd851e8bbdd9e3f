package kvstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/fairlead/fairlead/leases"
)

// Watch implements [leases.Store].
func (s *Store) Watch(ctx context.Context, see func(leases.Value)) error {
	// Heard only where the account may listen to advisories, and a busy server may drop one: the next renewal or poll finds
	// out. It may also come late, when there is a new bucket already.
	deleted := make(chan *nats.Msg, 16)
	advisory, err := s.nc.ChanSubscribe("$JS.EVENT.ADVISORY.STREAM.DELETED."+stream(s.bucket), deleted)
	if err != nil {
		return fmt.Errorf("kvstore: watch %s: %w", s.subject, err)
	}
	defer func() { _ = advisory.Unsubscribe() }()
	kv, err := s.js.KeyValue(ctx, s.bucket)
	if err != nil {
		return s.watchFailed(err)
	}
	info, err := s.js.Stream(ctx, stream(s.bucket))
	if err != nil {
		return s.watchFailed(err)
	}
	w, err := kv.Watch(ctx, s.key)
	if err != nil {
		return s.watchFailed(err)
	}
	defer func() { _ = w.Stop() }()
	for {
		select {
		case e, ok := <-w.Updates():
			switch {
			case !ok && ctx.Err() != nil:
				return ctx.Err()
			case !ok:
				return fmt.Errorf("kvstore: watch %s: it has ended", s.subject)
			case e == nil: // what was there has been shown
			case e.Operation() != jetstream.KeyValuePut:
				see(leases.Value{Revision: e.Revision()})
			default:
				see(leases.Value{Revision: e.Revision(), Data: e.Value()})
			}
		case m := <-deleted:
			if before(m.Data, info.CachedInfo().Created) {
				continue // an earlier bucket of this name
			}
			return fmt.Errorf("%w: kvstore: watch %s", leases.ErrGone, s.subject)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *Store) watchFailed(err error) error {
	if errors.Is(err, jetstream.ErrBucketNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("%w: kvstore: watch %s: %w", leases.ErrGone, s.subject, err)
	}
	return fmt.Errorf("kvstore: watch %s: %w", s.subject, err)
}

// before says whether an advisory tells of something that happened before a time. Both are of the servers' clocks. What
// cannot be read is taken for news.
func before(advisory []byte, t time.Time) bool {
	var a struct {
		Time time.Time `json:"timestamp"`
	}
	return json.Unmarshal(advisory, &a) == nil && !a.Time.IsZero() && a.Time.Before(t)
}
