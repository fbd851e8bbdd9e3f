package broker

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/fairlead/fairlead/agent/broker/names"
)

// statsPages bounds how many pages of lane consumers one call reads. A page holds 256.
const statsPages = 64

// laneCount is what JetStream says of one lane consumer.
type laneCount struct {
	address   Address
	pending   uint64 // messages delivered and not acknowledged, returned ones included
	again     uint64 // of these, delivered more than once
	delivered uint64 // the sequence of its last delivery
	fence     uint64 // of the tenure that it belongs to; 0 without one
}

// laneCounts lists the lane consumers of a layout. In a queue with a single active consumer they are those of the newest
// tenure: what is left of earlier ones holds nothing that counts.
func (c *Client) laneCounts(ctx context.Context, layout Layout) (counts []laneCount, partial bool, err error) {
	stream := c.names.Stream(layout.Queue)
	defer func() { counts = newest(counts) }()
	for page, offset, more := 0, 0, true; more; page++ {
		if page == statsPages {
			return counts, true, nil
		}
		list, err := c.wire.Consumers(ctx, stream, offset)
		if err != nil {
			return nil, false, fmt.Errorf("broker: lanes of %s: %w", layout.Queue, err)
		}
		for _, info := range list.Consumers {
			if a, fence, ok := layout.laneAddress(c.names, info.Name); ok {
				counts = append(counts, laneCount{a, info.Pending, info.Again, info.Delivered.Consumer, fence})
			}
		}
		partial = partial || len(list.Missing) > 0
		offset, more = list.Next(offset)
	}
	return counts, partial, nil
}

// newest keeps the lanes of the highest fence.
func newest(counts []laneCount) []laneCount {
	fence := uint64(0)
	for _, l := range counts {
		fence = max(fence, l.fence)
	}
	kept := counts[:0]
	for _, l := range counts {
		if l.fence == fence {
			kept = append(kept, l)
		}
	}
	return kept
}

// laneAddress is the address of the lane whose consumer has this name, and the fence of its tenure. ok is false for names
// that are not a lane's, or another layout's.
func (l Layout) laneAddress(n names.Names, name string) (a Address, fence uint64, ok bool) {
	rest, ok := strings.CutPrefix(name, l.lanePrefix(n))
	if !ok {
		return Address{}, 0, false
	}
	if l.Single {
		var tenure string
		if tenure, rest, ok = strings.Cut(rest, "-"); !ok {
			return Address{}, 0, false
		}
		var err error
		if fence, err = strconv.ParseUint(tenure, 36, 64); err != nil || fence == 0 {
			return Address{}, 0, false
		}
	}
	token := names.Unkeyed
	if l.Keyed {
		if rest, token, ok = strings.Cut(rest, "-"); !ok {
			return Address{}, 0, false
		}
	}
	a, ok = l.Address(rest, token)
	return a, fence, ok
}
