package broker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fairlead/fairlead/config"
)

// formerPause is how long a queue's former lanes have to stand still. Between two messages of an agent that has not heard of
// the new definition yet, nothing is in flight either.
const formerPause = 50 * time.Millisecond

// ErrFormerLanes says that messages are in flight in lanes that a queue had before its layout changed: they may be handed
// out again, by the new ones.
var ErrFormerLanes = errors.New("broker: messages are in flight in the queue's former lanes")

// AwaitFormerLanes blocks until nothing is in flight, and nothing was delivered for 50 ms, in lanes of the queue that do not
// belong to the layout of this definition, or until ctx ends: then the error wraps [ErrFormerLanes]. What backs off counts as
// in flight. It reads the list of the stream's consumers, 256 to a call.
func (c *Client) AwaitFormerLanes(ctx context.Context, def config.Queue) error {
	layout, stream := NewLayout(def), c.names.Stream(def.Name)
	var before former
	for {
		now, err := c.formerLanes(ctx, layout, stream)
		switch {
		case err == nil && now.lanes == 0, err == nil && now.pending == 0 && now == before:
			return nil
		case err != nil && ctx.Err() == nil:
			return fmt.Errorf("broker: former lanes of %s: %w", def.Name, err)
		case err == nil:
			before = now
		}
		select {
		case <-time.After(formerPause):
		case <-ctx.Done():
			return fmt.Errorf("%w: %d of %s", ErrFormerLanes, before.pending, def.Name)
		}
	}
}

// former is what is known of all lanes of other layouts.
type former struct {
	lanes     int
	pending   uint64 // delivered and not finished
	delivered uint64 // in all
}

func (c *Client) formerLanes(ctx context.Context, layout Layout, stream string) (sum former, err error) {
	for offset, more := 0, true; more; {
		page, err := c.wire.Consumers(ctx, stream, offset)
		if err != nil {
			return former{}, err
		}
		for _, info := range page.Consumers {
			if !isLane(c.names, info.Name) || strings.HasPrefix(info.Name, layout.lanePrefix(c.names)) {
				continue
			}
			sum.lanes++
			sum.pending += info.Pending
			sum.delivered += info.Delivered.Consumer
		}
		offset, more = page.Next(offset)
	}
	return sum, nil
}
