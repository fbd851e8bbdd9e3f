package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/fairlead/fairlead/agent/broker/wire"
)

// ErrNoDeadLetter says that a queue has no dead letter of this sequence: it was tried again, purged, grew too old, or never
// was there.
var ErrNoDeadLetter = errors.New("broker: no such dead letter")

// deadMost is the most dead letters that one list has.
const deadMost = 1000

// DeadLetters lists a queue's dead letters without their payloads, the oldest first: at most most of them, 1 to 1,000. They
// are read from the stream's leader. A queue whose dead-letter stream does not exist has none. It blocks until it is done or
// ctx ends. Errors wrap [ErrUnavailable].
func (c *Client) DeadLetters(ctx context.Context, queue string, most int) ([]*DeadLetter, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	stream := c.names.DeadStream(queue)
	consumer, err := c.wire.JS.CreateConsumer(ctx, stream, jetstream.ConsumerConfig{
		Description:       "Fairlead list of dead letters",
		DeliverPolicy:     jetstream.DeliverAllPolicy,
		AckPolicy:         jetstream.AckNonePolicy,
		HeadersOnly:       true,
		MemoryStorage:     true,
		Replicas:          1,
		InactiveThreshold: 10 * time.Second, // should this agent not come to delete it
	})
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("broker: dead letters of %s: %w", queue, wire.Translate(err))
	}
	defer func() {
		//nolint:contextcheck // the consumer goes also when ctx has ended
		ctx, cancel := context.WithTimeout(context.Background(), wire.AnswerWait)
		defer cancel()
		_ = c.wire.JS.DeleteConsumer(ctx, stream, consumer.CachedInfo().Name)
	}()
	want := int(min(consumer.CachedInfo().NumPending, uint64(min(max(most, 1), deadMost))))
	if want == 0 {
		return nil, nil
	}
	batch, err := consumer.Fetch(want, jetstream.FetchContext(ctx))
	if err != nil {
		return nil, fmt.Errorf("broker: dead letters of %s: %w", queue, wire.Translate(err))
	}
	var list []*DeadLetter
	for m := range batch.Messages() {
		meta, err := m.Metadata()
		if err != nil {
			continue
		}
		s := &wire.Stored{Subject: m.Subject(), Seq: meta.Sequence.Stream, Header: m.Headers(), Time: meta.Timestamp}
		if d, ok := c.readDead(queue, s); ok {
			list = append(list, d)
		}
		if meta.NumPending == 0 {
			return list, nil // the end; what was taken out meanwhile will not come
		}
	}
	if err := batch.Error(); err != nil {
		return nil, fmt.Errorf("broker: dead letters of %s: %w", queue, wire.Translate(err))
	}
	return list, nil
}

// DeadLetter returns one dead letter with its payload, by the sequence that the message had in its queue. Errors wrap
// [ErrNoDeadLetter] or [ErrUnavailable].
func (c *Client) DeadLetter(ctx context.Context, queue string, seq uint64) (*DeadLetter, error) {
	filter := c.names.DeadPrefix(queue) + "*.*." + strconv.FormatUint(seq, 10)
	s, err := c.wire.Read(ctx, c.names.DeadStream(queue), wire.Look{Seq: 1, Filter: filter})
	if errors.Is(err, ErrStreamMissing) {
		s, err = nil, nil
	}
	if err != nil {
		return nil, err
	}
	if s != nil {
		if d, ok := c.readDead(queue, s); ok {
			return d, nil
		}
	}
	return nil, fmt.Errorf("%w: %d in %s", ErrNoDeadLetter, seq, queue)
}

// NextDeadLetter returns the first dead letter at or after a position in the order in which they died, and the position
// behind it. Positions begin at 0 and are of use only here. It is nil when there are no more.
func (c *Client) NextDeadLetter(ctx context.Context, queue string, at uint64) (d *DeadLetter, next uint64, err error) {
	for at = max(at, 1); ; {
		s, err := c.wire.Read(ctx, c.names.DeadStream(queue), wire.Look{Seq: at, Filter: c.names.DeadPrefix(queue) + ">"})
		if errors.Is(err, ErrStreamMissing) {
			return nil, at, nil
		}
		if err != nil || s == nil {
			return nil, at, err
		}
		at = s.Seq + 1
		if d, ok := c.readDead(queue, s); ok {
			return d, at, nil
		}
	}
}

// LastDeadLetter returns the position of the last dead letter of a queue, as for NextDeadLetter; 0 when there never was one.
// Errors wrap [ErrUnavailable].
func (c *Client) LastDeadLetter(ctx context.Context, queue string) (uint64, error) {
	info, err := c.deadInfo(ctx, queue)
	if err != nil {
		return 0, err
	}
	return info.State.LastSeq, nil
}

// DeadCount returns how many dead letters a queue has; 0 when their stream does not exist.
func (c *Client) DeadCount(ctx context.Context, queue string) (uint64, error) {
	info, err := c.deadInfo(ctx, queue)
	if err != nil {
		return 0, err
	}
	return info.State.Messages, nil
}

// deadInfo looks at the stream of a queue's dead letters; one that does not exist is empty.
func (c *Client) deadInfo(ctx context.Context, queue string) (*wire.StreamInfo, error) {
	name := c.names.DeadStream(queue)
	answer, err := c.wire.API(ctx, "STREAM.INFO."+name, nil)
	if err != nil {
		return nil, fmt.Errorf("broker: dead letters of %s: %w", queue, wire.Translate(err))
	}
	var info wire.StreamInfo
	if err := json.Unmarshal(answer, &info); err != nil {
		return nil, fmt.Errorf("broker: dead letters of %s: %w", queue, err)
	}
	switch {
	case info.Error != nil && info.Error.ErrCode == wire.CodeStreamNotFound:
		return &wire.StreamInfo{}, nil
	case info.Error != nil:
		return nil, fmt.Errorf("broker: dead letters of %s: %w", queue, info.Error)
	}
	return &info, nil
}

// PurgeDeadLetters deletes all dead letters of a queue and returns how many. Nothing reads their stream through consumers
// that could lose their place by it.
func (c *Client) PurgeDeadLetters(ctx context.Context, queue string) (uint64, error) {
	answer, err := c.wire.API(ctx, "STREAM.PURGE."+c.names.DeadStream(queue), nil)
	if err != nil {
		return 0, fmt.Errorf("broker: purge of the dead letters of %s: %w", queue, err)
	}
	var r struct {
		Error  *wire.APIError `json:"error"`
		Purged uint64         `json:"purged"`
	}
	if err := json.Unmarshal(answer, &r); err != nil {
		return 0, fmt.Errorf("broker: purge of the dead letters of %s: %w", queue, err)
	}
	switch {
	case r.Error != nil && r.Error.ErrCode == wire.CodeStreamNotFound:
		return 0, nil
	case r.Error != nil:
		return 0, fmt.Errorf("broker: purge of the dead letters of %s: %w", queue, r.Error)
	}
	c.metrics.DeadPurged.Add(r.Purged)
	return r.Purged, nil
}

// LatestDeadLetters returns the dead letters that died last, the last one first, at most most of them; their payloads are
// left out. It costs one read for each, and looks no further back than four times as far: where many were taken out since,
// there can be fewer than there are. Errors wrap [ErrUnavailable].
func (c *Client) LatestDeadLetters(ctx context.Context, queue string, most int) ([]*DeadLetter, error) {
	last, err := c.LastDeadLetter(ctx, queue)
	if err != nil || last == 0 {
		return nil, err
	}
	var list []*DeadLetter
	for _, back := range []uint64{1, 4} {
		list = list[:0]
		at := last + 1 - min(last, back*uint64(most))
		for len(list) < int(back)*most {
			d, next, err := c.NextDeadLetter(ctx, queue, at)
			if err != nil {
				return nil, err
			}
			if d == nil {
				break
			}
			d.Data = nil
			list, at = append(list, d), next
		}
		if len(list) >= most {
			break
		}
	}
	slices.Reverse(list)
	return list[:min(len(list), most)], nil
}
