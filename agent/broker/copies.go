package broker

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/fairlead/fairlead/agent/broker/wire"
)

const (
	// clockSlack is by how much the clocks of two servers may differ: a due message is dated by one, its copy by another.
	clockSlack = 5 * time.Minute
	// copiesPage is how many messages one read of the queue looks at.
	copiesPage = 5000
)

// copies are the handles of the messages in a queue that were delayed, from a time on. A mover needs them only for messages
// that may have been moved before: it looks through the queue, headers only, and then only at what has come since.
type copies struct {
	from    time.Time // no copy of a message that became due before is known
	next    uint64    // the sequence up to which the queue was looked through; 0 is not at all
	handles map[string]bool
}

// refresh brings the handles up to date, for messages that became due at or after a time. It blocks until it is done or ctx
// ends; what was read until then counts.
func (k *copies) refresh(ctx context.Context, c *Client, queue string, since time.Time) error {
	if since = since.Add(-clockSlack); k.handles == nil || since.Before(k.from) {
		*k = copies{from: since, handles: map[string]bool{}}
	}
	for {
		more, err := k.page(ctx, c, queue)
		if err != nil || !more {
			return err
		}
	}
}

// page reads on. It reports whether there may be more, which is so unless the end was seen.
func (k *copies) page(ctx context.Context, c *Client, queue string) (more bool, err error) {
	stream := c.names.Stream(queue)
	cfg := jetstream.ConsumerConfig{
		Description:       "Fairlead look for moved messages",
		DeliverPolicy:     jetstream.DeliverByStartTimePolicy,
		OptStartTime:      &k.from,
		AckPolicy:         jetstream.AckNonePolicy,
		FilterSubject:     c.names.Subjects(queue),
		HeadersOnly:       true,
		MemoryStorage:     true,
		Replicas:          1,
		InactiveThreshold: 10 * time.Second, // should this agent not come to delete it
	}
	if k.next > 0 {
		cfg.DeliverPolicy, cfg.OptStartTime, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, nil, k.next
	}
	consumer, err := c.wire.JS.CreateConsumer(ctx, stream, cfg)
	if err != nil {
		return false, fmt.Errorf("broker: look for moved messages in %s: %w", queue, wire.Translate(err))
	}
	defer func() {
		//nolint:contextcheck // the consumer goes also when ctx has ended
		ctx, cancel := context.WithTimeout(context.Background(), wire.AnswerWait)
		defer cancel()
		_ = c.wire.JS.DeleteConsumer(ctx, stream, consumer.CachedInfo().Name)
	}()
	pending := consumer.CachedInfo().NumPending
	if pending == 0 {
		return false, nil
	}
	batch, err := consumer.Fetch(int(min(pending, copiesPage)), jetstream.FetchMaxWait(wire.AnswerWait))
	if err != nil {
		return false, fmt.Errorf("broker: look for moved messages in %s: %w", queue, wire.Translate(err))
	}
	end := false
	for m := range batch.Messages() {
		meta, err := m.Metadata()
		if err != nil {
			continue
		}
		if handle := m.Headers().Get(headerDelayed); handle != "" {
			k.handles[handle] = true
		}
		k.next = meta.Sequence.Stream + 1
		end = meta.NumPending == 0
	}
	if err := batch.Error(); err != nil {
		return false, fmt.Errorf("broker: look for moved messages in %s: %w", queue, wire.Translate(err))
	}
	return !end, ctx.Err()
}
