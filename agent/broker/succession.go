package broker

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"
)

// succession is what earlier holders of a queue left behind. A holder that died, or lost the lease, with a message in its
// hands has left no record of that: but the consumer of the lane in its tenure has counted. It hands out one message at a
// time, so what it has delivered since its acknowledgement floor are all hand-overs of that one message.
type succession struct {
	mu     sync.Mutex
	listed bool
	left   map[Address][]remains
}

// remains is a lane consumer of an earlier tenure with a message that is not finished.
type remains struct {
	name      string
	fence     uint64
	seq       uint64 // the message
	delivered uint64 // the consumer's sequence of its last delivery
	floor     uint64 // all up to this one are finished
}

// succeed counts, before a lane is made in a tenure, the hand-overs of its first message that ended with an earlier
// holder, and removes what is left of that holder's lane. Doing it again counts nothing twice.
func (c *Client) succeed(ctx context.Context, lane *Lane) error {
	s := &lane.Layout.Tenure.succession
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.listed {
		// The records of what was returned come first: what they count is not counted again.
		if err := c.bucket.Sync(ctx); err != nil {
			return err
		}
		left, err := c.listRemains(ctx, lane.Layout)
		if err != nil {
			return err
		}
		s.left, s.listed = left, true
	}
	for len(s.left[lane.Address]) > 0 {
		r := s.left[lane.Address][0]
		if err := c.inherit(ctx, lane, r); err != nil {
			return err
		}
		s.left[lane.Address] = s.left[lane.Address][1:]
	}
	delete(s.left, lane.Address)
	return nil
}

// listRemains finds the lane consumers of earlier tenures that hold a message.
func (c *Client) listRemains(ctx context.Context, layout Layout) (map[Address][]remains, error) {
	left := map[Address][]remains{}
	for offset, more := 0, true; more; {
		page, err := c.consumers(ctx, c.names.Stream(layout.Queue), offset)
		if err != nil {
			return nil, fmt.Errorf("broker: lanes of earlier holders of %s: %w", layout.Queue, err)
		}
		for _, info := range page.Consumers {
			a, fence, ok := c.names.laneAddress(layout, info.Name)
			if !ok || fence >= layout.Tenure.Fence() || info.Pending == 0 {
				continue
			}
			left[a] = append(left[a], remains{info.Name, fence, info.Delivered.Stream, info.Delivered.Consumer, info.Floor.Consumer})
		}
		offset, more = page.next(offset)
	}
	return left, nil
}

// inherit records the hand-overs that one consumer tells of, and removes it.
func (c *Client) inherit(ctx context.Context, lane *Lane, r remains) error {
	key := attemptKey{lane.Queue(), r.seq}
	rec, known := c.attempts.lookup(key.queue, key.seq)
	from := r.floor
	if known && rec.Fence == r.fence {
		from = max(from, rec.Sequence) // it was returned once, and is counted up to there
	}
	if crashes := int(r.delivered - min(from, r.delivered)); crashes > 0 && rec.Dead == "" {
		rec.Tries += crashes
		rec.Fence, rec.Sequence, rec.Delivered = r.fence, r.delivered, 0
		rec.Error = "the agent that had the message died, or lost the queue's lease, with it"
		if rec.Address == "" {
			rec.Address = lane.address(lane.Key)
		}
		if err := c.putAttempt(ctx, key, rec); err != nil {
			return err
		}
		c.log.Info("an earlier holder of the queue ended with a message in its hands", "queue", key.queue, "seq", key.seq, "attempts", rec.Tries)
	}
	if err := c.removeLane(ctx, lane.stream, r.name); err != nil {
		return fmt.Errorf("broker: lane of an earlier holder of %s: %w", key.queue, translate(err))
	}
	return nil
}

// putAttempt writes a record and waits until it is stored.
func (c *Client) putAttempt(ctx context.Context, key attemptKey, rec attempt) error {
	b, err := json.Marshal(rec)
	if err != nil {
		return fmt.Errorf("broker: %w", err)
	}
	written := make(chan error, 1)
	c.bucket.Put(key.String(), b, func(_ uint64, err error) { written <- err })
	select {
	case err := <-written:
		if err != nil {
			return fmt.Errorf("%w: attempts of message %d: %w", ErrBucket, key.seq, err)
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(answerWait):
		return fmt.Errorf("%w: attempts of message %d: %w", ErrBucket, key.seq, ErrOutcomeUnknown)
	}
}
