package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/fairlead/fairlead/agent/broker/names"
	"github.com/fairlead/fairlead/agent/broker/wire"
	"github.com/fairlead/fairlead/config"
)

const (
	// moverAckWait is how long a due message may be in a mover's hands before another one gets it.
	moverAckWait = 30 * time.Second
	// moverName is the part of the movers' consumer's name behind the prefix.
	moverName = "-due"
)

// ensureDelayStream makes the stream of a queue's delayed messages, or brings it to what the definition says.
func (c *Client) ensureDelayStream(ctx context.Context, q config.Queue) error {
	return c.ensure(ctx, streamPlan{
		queue: q.Name,
		fresh: func() jetstream.StreamConfig {
			want := c.delayStreamConfig(q)
			want.FirstSeq = uint64(time.Now().UnixMicro()) // sequences never start again
			return want
		},
		merge: func(have jetstream.StreamConfig) (jetstream.StreamConfig, bool) { return c.mergeDelayStream(have, q) },
	})
}

// delayStreamConfig is the stream of a queue's delayed messages. It has no limit: those of the queue apply when a message
// falls due, and JetStream takes no schedules in a stream that refuses what is beyond its limits.
func (c *Client) delayStreamConfig(q config.Queue) jetstream.StreamConfig {
	cfg := jetstream.StreamConfig{
		Name:              c.names.DelayStream(q.Name),
		Description:       "Fairlead delayed messages of queue " + q.Name,
		Subjects:          []string{c.names.DelayPrefix(q.Name) + ">"},
		Retention:         jetstream.LimitsPolicy,
		Replicas:          max(q.Storage.Replicas, 1),
		Duplicates:        q.DedupWindow,
		Discard:           jetstream.DiscardOld,
		MaxMsgs:           -1,
		MaxBytes:          -1,
		MaxMsgSize:        -1,
		MaxConsumers:      -1,
		MaxMsgsPerSubject: 1, // a schedule that fires twice leaves one message
		AllowDirect:       true,
		AllowRollup:       true,
		AllowMsgSchedules: true,
	}
	cfg.Storage, cfg.Compression = storage(q)
	return cfg
}

// mergeDelayStream is what a stream becomes under a definition: what Fairlead does not decide stays.
func (c *Client) mergeDelayStream(have jetstream.StreamConfig, q config.Queue) (merged jetstream.StreamConfig, same bool) {
	want, m := c.delayStreamConfig(q), have
	m.Description, m.Subjects = want.Description, want.Subjects
	m.Replicas, m.Duplicates = want.Replicas, want.Duplicates
	m.MaxMsgsPerSubject = want.MaxMsgsPerSubject
	m.AllowDirect, m.AllowMsgSchedules, m.AllowRollup = want.AllowDirect, true, true
	m.Storage, m.Compression = want.Storage, want.Compression
	return m, sameConfig(have, m) && have.AllowMsgSchedules && have.AllowRollup
}

// ensureMover makes the consumer that all movers of a queue share, or finds it. It is durable: nothing that is asked of it
// keeps it, and nothing but an operator removes it. One that was removed begins with the oldest due message again.
func (c *Client) ensureMover(ctx context.Context, queue string) (jetstream.Consumer, error) {
	stream := c.names.DelayStream(queue)
	name := c.names.Prefix() + moverName
	consumer, err := c.wire.JS.CreateOrUpdateConsumer(ctx, stream, jetstream.ConsumerConfig{
		Name:          name,
		Durable:       name,
		Description:   "Fairlead movers of delayed messages",
		FilterSubject: c.names.DelayPrefix(queue) + names.DueToken + ".>",
		DeliverPolicy: jetstream.DeliverAllPolicy,
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       moverAckWait,
		MaxDeliver:    -1,
		MaxAckPending: -1, // those that wait for room must not silence the others
	})
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return nil, fmt.Errorf("%w (%s)", ErrStreamMissing, stream)
	case err != nil:
		return nil, fmt.Errorf("broker: movers of %s: %w", queue, wire.Translate(err))
	}
	return consumer, nil
}
