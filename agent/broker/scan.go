package broker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/fairlead/fairlead/agent/broker/wire"
)

// scanLimit is how many messages one call looks at while it searches for literal wildcards.
const scanLimit = 5000

// scan moves messages whose stored subject holds a literal "*" or ">". Such a subject means others too when it is used
// as a filter, and JetStream knows no way to quote it. So the queue is read from a sequence on, headers only, and
// subjects are compared. The next call goes on where this one stopped; after the end it begins anew.
func (r *repair) scan(ctx context.Context, subjects map[string]bool) error {
	from := r.c.scans.at(r.queue.Name)
	found, next, err := r.c.search(ctx, r.queue.Name, from, func(subject string) bool { return subjects[subject] })
	if err != nil {
		return err
	}
	var stays error
	for _, seq := range found {
		if r.moved >= repairLimit {
			next = seq
			break
		}
		m, err := r.c.wire.Read(ctx, r.stream, wire.Look{Seq: seq})
		if err == nil && m != nil && subjects[m.Subject] {
			err = r.move(ctx, m)
		}
		if errors.Is(err, ErrTooLarge) {
			stays = err
			continue
		}
		if err != nil {
			r.c.scans.set(r.queue.Name, seq)
			return err
		}
	}
	r.c.scans.set(r.queue.Name, next)
	return stays
}

// scans remembers, for each queue, where the next search goes on. The zero value begins at the start.
type scans struct {
	mu   sync.Mutex
	next map[string]uint64
}

func (s *scans) at(queue string) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next[queue]
}

func (s *scans) set(queue string, seq uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		s.next = map[string]uint64{}
	}
	s.next[queue] = seq
}

// search returns the sequences of messages on the wanted subjects among the next scanLimit messages, and where to go on: 0
// when the end was reached.
func (c *Client) search(ctx context.Context, queue string, from uint64, want func(subject string) bool) (found []uint64, next uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	stream := c.names.Stream(queue)
	consumer, err := c.wire.JS.CreateConsumer(ctx, stream, jetstream.ConsumerConfig{
		Description:       "Fairlead search for unusable subjects",
		DeliverPolicy:     jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:       max(from, 1),
		AckPolicy:         jetstream.AckNonePolicy,
		FilterSubject:     c.names.Subjects(queue),
		HeadersOnly:       true,
		MemoryStorage:     true,
		Replicas:          1,
		InactiveThreshold: 10 * time.Second, // should this agent not come to delete it
	})
	if err != nil {
		return nil, 0, fmt.Errorf("broker: search in %s: %w", queue, wire.Translate(err))
	}
	defer func() {
		//nolint:contextcheck // the consumer goes also when ctx has ended
		ctx, cancel := context.WithTimeout(context.Background(), wire.AnswerWait)
		defer cancel()
		_ = c.wire.JS.DeleteConsumer(ctx, stream, consumer.CachedInfo().Name)
	}()
	most := int(min(consumer.CachedInfo().NumPending, scanLimit))
	if most == 0 {
		return nil, 0, nil
	}
	batch, err := consumer.Fetch(most, jetstream.FetchContext(ctx))
	if err != nil {
		return nil, 0, fmt.Errorf("broker: search in %s: %w", queue, wire.Translate(err))
	}
	for m := range batch.Messages() {
		meta, err := m.Metadata()
		if err != nil {
			continue
		}
		if want(m.Subject()) {
			found = append(found, meta.Sequence.Stream)
		}
		next = meta.Sequence.Stream + 1
		if meta.NumPending == 0 {
			return found, 0, nil // the end; what was deleted meanwhile will not come
		}
	}
	if err := batch.Error(); err != nil && ctx.Err() == nil {
		return nil, 0, fmt.Errorf("broker: search in %s: %w", queue, wire.Translate(err))
	}
	return found, next, nil
}
