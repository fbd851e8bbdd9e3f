package bucket

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/fairlead/fairlead/agent/broker/wire"
)

// Ensure makes the bucket, or checks the one that is there. Its revisions start at the present time in
// microseconds, so that a bucket that was deleted and made anew never repeats one: they serve as fences. Reads go to the
// leader. It returns a warning for a bucket that was made by other means. It can be called by many agents at once. Errors wrap
// [ErrUnusable].
func (b *Bucket) Ensure(ctx context.Context, replicas int) (warning string, err error) {
	name := "KV_" + b.name
	stream, err := b.w.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		stream, err = b.w.CreateStream(ctx, jetstream.StreamConfig{
			Name:              name,
			Description:       "Fairlead coordination",
			Subjects:          []string{"$KV." + b.name + ".>"},
			Storage:           jetstream.FileStorage,
			Replicas:          max(replicas, 1),
			MaxMsgsPerSubject: 1,
			MaxMsgs:           -1,
			MaxBytes:          -1,
			MaxConsumers:      -1,
			MaxMsgSize:        -1,
			Discard:           jetstream.DiscardNew,
			Duplicates:        2 * time.Minute,
			AllowRollup:       true,
			AllowDirect:       false,
			FirstSeq:          uint64(time.Now().UnixMicro()),
		})
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			stream, err = b.w.Stream(ctx, name)
		}
	}
	if err != nil {
		return "", fmt.Errorf("%w: %s: %w", ErrUnusable, b.name, wire.Making(err))
	}
	info := stream.CachedInfo()
	if info.State.FirstSeq < MinFence && info.State.LastSeq < MinFence {
		warning = fmt.Sprintf("bucket %s was made by hand: its revisions start too low to serve as fences; delete it and let Fairlead make it", b.name)
	}
	return warning, nil
}

// MinFence is below every revision of a bucket that Fairlead made: microseconds since 1970 passed it in 2001.
const MinFence = 1_000_000_000_000_000
