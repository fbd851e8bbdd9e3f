package broker

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/fairlead/fairlead/config"
)

// ensureDeadStream makes the stream of a queue's dead letters, or brings it to what the definition says. A queue that keeps
// none gets none; one that is there stays, with what is in it.
func (c *Client) ensureDeadStream(ctx context.Context, q config.Queue) error {
	if !q.DeadLetters.Enabled {
		return nil
	}
	return c.ensure(ctx, streamPlan{
		queue: q.Name,
		fresh: func() jetstream.StreamConfig { return c.deadStreamConfig(q) },
		merge: func(have jetstream.StreamConfig) (jetstream.StreamConfig, bool) { return c.mergeDeadStream(have, q) },
	})
}

// deadStreamConfig is the stream of a queue's dead letters. It has no limit but the age; one that an operator sets refuses
// new ones rather than to lose old ones.
func (c *Client) deadStreamConfig(q config.Queue) jetstream.StreamConfig {
	cfg := jetstream.StreamConfig{
		Name:         c.names.DeadStream(q.Name),
		Description:  "Fairlead dead letters of queue " + q.Name,
		Subjects:     []string{c.names.DeadPrefix(q.Name) + ">"},
		Retention:    jetstream.LimitsPolicy,
		Replicas:     max(q.Storage.Replicas, 1),
		Discard:      jetstream.DiscardNew,
		MaxAge:       deadAge(q),
		MaxMsgs:      -1,
		MaxBytes:     -1,
		MaxMsgSize:   -1,
		MaxConsumers: -1,
		AllowDirect:  true,
		Duplicates:   deadWindow(q),
	}
	cfg.Storage, cfg.Compression = storage(q)
	return cfg
}

// deadAge is how long dead letters are kept. JetStream keeps nothing for less than 100 ms.
func deadAge(q config.Queue) time.Duration {
	if q.DeadLetters.MaxAge <= 0 {
		return 0
	}
	return max(q.DeadLetters.MaxAge, 100*time.Millisecond)
}

// deadWindow is how long the stream remembers what was moved into it: no longer than it keeps it, which JetStream refuses.
func deadWindow(q config.Queue) time.Duration {
	const window = 10 * time.Minute
	if age := deadAge(q); age > 0 {
		return min(window, age)
	}
	return window
}

// mergeDeadStream is what a stream becomes under a definition: what Fairlead does not decide, such as limits, stays.
func (c *Client) mergeDeadStream(have jetstream.StreamConfig, q config.Queue) (merged jetstream.StreamConfig, same bool) {
	want, m := c.deadStreamConfig(q), have
	m.Description, m.Subjects = want.Description, want.Subjects
	m.Replicas, m.Duplicates, m.Discard, m.MaxAge = want.Replicas, want.Duplicates, want.Discard, want.MaxAge
	m.AllowDirect, m.Storage, m.Compression = want.AllowDirect, want.Storage, want.Compression
	return m, sameConfig(have, m) && have.MaxAge == m.MaxAge
}
