package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/fairlead/fairlead/agent/broker/wire"
	"github.com/fairlead/fairlead/config"
)

// maxConsumers is what a queue's stream allows. A server takes only 1,000 consumers of a stream unless the stream says
// more, and a queue has a consumer for each active (level, key).
const maxConsumers = 1_000_000

// EnsureStream makes the queue's stream, those of its delayed messages and of its dead letters and, with a cap per key, that of
// its permits, or brings them to what the definition says. It can be called by many agents at once with the same definition.
func (c *Client) EnsureStream(ctx context.Context, q config.Queue) error {
	if q.PermitsPerKey() > 0 {
		if err := c.ensureSlots(ctx, q); err != nil {
			return err
		}
	}
	if err := c.ensureStream(ctx, q); err != nil {
		return err
	}
	if err := c.ensureDelayStream(ctx, q); err != nil {
		return err
	}
	return c.ensureDeadStream(ctx, q)
}

func (c *Client) ensureStream(ctx context.Context, q config.Queue) error {
	return c.ensure(ctx, streamPlan{
		queue: q.Name,
		fresh: func() jetstream.StreamConfig {
			want := c.streamConfig(q)
			// Sequences never start again, also not when the stream is deleted and made anew: they identify messages in the
			// records of attempts and in what was handed to applications.
			want.FirstSeq = uint64(time.Now().UnixMicro())
			return want
		},
		merge: func(have jetstream.StreamConfig) (jetstream.StreamConfig, bool) {
			want := mergeConfig(have, c.streamConfig(q))
			same := sameConfig(have, want)
			if same {
				c.spared.forget(q.Name) // another agent was faster
			}
			return want, same
		},
		before: func(have *jetstream.StreamInfo, want *jetstream.StreamConfig) error {
			if err := c.spare(ctx, q, have.Config, want); err != nil {
				return err
			}
			return c.goOn(ctx, have, want.Sources)
		},
	})
}

// streamPlan says what one of a queue's streams is to be.
type streamPlan struct {
	queue string
	fresh func() jetstream.StreamConfig                                              // when there is none yet
	merge func(have jetstream.StreamConfig) (want jetstream.StreamConfig, same bool) // what one that is there becomes
	// before is called before a stream is changed, and can change what it becomes; nil is nothing to do.
	before func(have *jetstream.StreamInfo, want *jetstream.StreamConfig) error
}

// ensure makes a stream, or brings it to what the plan says.
func (c *Client) ensure(ctx context.Context, p streamPlan) error {
	fresh := p.fresh()
	stream, err := c.wire.Stream(ctx, fresh.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		stream, err = c.wire.CreateStream(ctx, fresh)
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			stream, err = c.wire.Stream(ctx, fresh.Name) // another agent was faster
		}
	}
	if err != nil {
		return fmt.Errorf("broker: stream %s: %w", fresh.Name, wire.Making(err))
	}
	have := stream.CachedInfo()
	if have.Config.Retention != jetstream.LimitsPolicy {
		return fmt.Errorf("broker: stream %s exists with %s retention, not made by Fairlead: rename the queue or remove the stream", fresh.Name, have.Config.Retention)
	}
	want, same := p.merge(have.Config)
	if same {
		return nil
	}
	if p.before != nil {
		if err := p.before(have, &want); err != nil {
			return fmt.Errorf("broker: stream %s: %w", fresh.Name, wire.Translate(err))
		}
		if sameConfig(have.Config, want) {
			return nil
		}
	}
	if _, err := c.wire.UpdateStream(ctx, want); err != nil {
		return fmt.Errorf("broker: stream %s cannot be changed to what the file says: %w", fresh.Name, wire.Making(err))
	}
	c.log.Info("stream changed to its definition", "queue", p.queue, "stream", fresh.Name)
	return nil
}

// storage is where a queue's streams keep their messages.
func storage(q config.Queue) (jetstream.StorageType, jetstream.StoreCompression) {
	switch {
	case q.Storage.Type == "memory":
		return jetstream.MemoryStorage, jetstream.NoCompression
	case q.Storage.Compression == "s2":
		return jetstream.FileStorage, jetstream.S2Compression
	}
	return jetstream.FileStorage, jetstream.NoCompression
}

// streamConfig is the stream of a definition.
func (c *Client) streamConfig(q config.Queue) jetstream.StreamConfig {
	prefix := c.names.SubjectPrefix(q.Name)
	cfg := jetstream.StreamConfig{
		Name:         c.names.Stream(q.Name),
		Description:  "Fairlead queue " + q.Name,
		Subjects:     []string{c.names.Subjects(q.Name)},
		Retention:    jetstream.LimitsPolicy,
		Storage:      jetstream.FileStorage,
		Replicas:     max(q.Storage.Replicas, 1),
		Duplicates:   q.DedupWindow,
		Discard:      jetstream.DiscardNew,
		MaxMsgs:      unlimited(q.Limits.MaxMessages),
		MaxBytes:     unlimited(q.Limits.MaxBytes),
		MaxConsumers: maxConsumers,
		MaxMsgSize:   -1,
		AllowDirect:  true,
		AllowMsgTTL:  true,
		// The levels of canonical subjects only: the sweep finds everything else.
		RePublish: &jetstream.RePublish{
			Source:      prefix + "*.*",
			Destination: c.names.WakePrefix(q.Name) + "{{wildcard(1)}}.{{wildcard(2)}}",
			HeadersOnly: true,
		},
	}
	cfg.Sources = sourcesOf(c.names, q)
	cfg.Storage, cfg.Compression = storage(q)
	if n := q.Limits.MaxMessagesPerKey; n > 0 {
		cfg.MaxMsgsPerSubject = n
		cfg.DiscardNewPerSubject = true
	}
	return cfg
}

func unlimited(n int64) int64 {
	if n <= 0 {
		return -1
	}
	return n
}

// mergeConfig is what have becomes under want: everything that Fairlead does not decide stays as it is, so that an
// operator's placement or metadata survives.
func mergeConfig(have, want jetstream.StreamConfig) jetstream.StreamConfig {
	m := have
	m.Description, m.Subjects = want.Description, want.Subjects
	m.Replicas, m.Duplicates, m.Discard = want.Replicas, want.Duplicates, want.Discard
	m.MaxMsgs, m.MaxBytes = want.MaxMsgs, want.MaxBytes // MaxConsumers cannot be changed on an existing stream
	m.AllowDirect, m.AllowMsgTTL, m.RePublish = want.AllowDirect, want.AllowMsgTTL, want.RePublish
	m.Storage, m.Compression = want.Storage, want.Compression
	m.MaxMsgsPerSubject = unlimited(want.MaxMsgsPerSubject)
	m.DiscardNewPerSubject = want.DiscardNewPerSubject
	m.Sources = mergeSources(have.Sources, want.Sources)
	return m
}

func sameConfig(a, b jetstream.StreamConfig) bool {
	if (a.RePublish == nil) != (b.RePublish == nil) || a.RePublish != nil && *a.RePublish != *b.RePublish {
		return false
	}
	if len(a.Subjects) != len(b.Subjects) || !sameSources(a.Sources, b.Sources) {
		return false
	}
	for i := range a.Subjects {
		if a.Subjects[i] != b.Subjects[i] {
			return false
		}
	}
	return a.Description == b.Description && a.Replicas == b.Replicas && a.Duplicates == b.Duplicates && a.Discard == b.Discard &&
		a.MaxMsgs == b.MaxMsgs && a.MaxBytes == b.MaxBytes && a.AllowDirect == b.AllowDirect &&
		a.AllowMsgTTL == b.AllowMsgTTL && a.Storage == b.Storage && a.Compression == b.Compression &&
		a.MaxMsgsPerSubject == b.MaxMsgsPerSubject && a.DiscardNewPerSubject == b.DiscardNewPerSubject
}
