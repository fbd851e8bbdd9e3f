package broker

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/fairlead/fairlead/agent/broker/bucket"
	"github.com/fairlead/fairlead/agent/broker/wire"
)

// succession is what earlier holders of a queue left behind. A holder that died, or lost the lease, with a message in its
// hands has left no record of that: but the consumer of the lane in its tenure has counted. It hands out one message at a
// time, so what it has delivered since its acknowledgement floor are all hand-overs of that one message.
type succession struct {
	mu   sync.Mutex
	read bool
	left map[Address][]laneReport // lane consumers of earlier tenures with a message that is not finished
}

// succeed counts, before a lane is made in a tenure, the hand-overs of its first message that ended with an earlier
// holder, and removes what is left of that holder's lane. Doing it again counts nothing twice.
func (c *Client) succeed(ctx context.Context, lane *Lane) error {
	s := &lane.Layout.Tenure.succession
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.read {
		// The records of what was returned come first: what they count is not counted again.
		if err := c.bucket.Sync(ctx); err != nil {
			return err
		}
		left, err := c.remains(ctx, lane.Layout)
		if err != nil {
			return err
		}
		s.left, s.read = left, true
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

// remains finds the lane consumers of earlier tenures that hold a message. What a dead server of a cluster knew of one is
// lost.
func (c *Client) remains(ctx context.Context, layout Layout) (map[Address][]laneReport, error) {
	reports, err := c.laneReports(ctx, layout, func(fence uint64) bool { return fence < layout.Tenure.Fence() })
	if err != nil {
		return nil, fmt.Errorf("broker: lanes of earlier holders of %s: %w", layout.Queue, err)
	}
	left := map[Address][]laneReport{}
	for _, r := range reports {
		if r.info != nil && r.info.Pending > 0 {
			left[r.address] = append(left[r.address], r)
		}
	}
	return left, nil
}

// inherit records the hand-overs that one consumer tells of, and removes it.
func (c *Client) inherit(ctx context.Context, lane *Lane, r laneReport) error {
	delivered := r.info.Delivered
	key := attemptKey{lane.Queue(), delivered.Stream}
	rec, known := c.attempts.lookup(key.queue, key.seq)
	from := r.info.Floor.Consumer // all up to here are finished
	if known && rec.Fence == r.fence {
		from = max(from, rec.Sequence) // it was returned once, and is counted up to there
	}
	if crashes := int(delivered.Consumer - min(from, delivered.Consumer)); crashes > 0 && rec.Dead == "" {
		rec.Tries += crashes
		rec.Fence, rec.Sequence, rec.Delivered = r.fence, delivered.Consumer, 0
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
		return fmt.Errorf("broker: lane of an earlier holder of %s: %w", key.queue, wire.Translate(err))
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
			return fmt.Errorf("%w: attempts of message %d: %w", bucket.ErrUnusable, key.seq, err)
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(wire.AnswerWait):
		return fmt.Errorf("%w: attempts of message %d: %w", bucket.ErrUnusable, key.seq, ErrOutcomeUnknown)
	}
}
