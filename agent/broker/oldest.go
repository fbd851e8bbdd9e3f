package broker

import (
	"context"
	"time"

	"github.com/fairlead/fairlead/agent/broker/names"
	"github.com/fairlead/fairlead/agent/broker/wire"
)

// Oldest returns the ages of the oldest stored messages of some tenants, over all levels, by the clock that gave them their
// time and now: those of tenants without messages are missing. It costs one read for each tenant, one after the other.
// Errors wrap [ErrStreamMissing], [ErrUnavailable] or [names.ErrInvalidKey].
func (c *Client) Oldest(ctx context.Context, queue string, keys []string, now time.Time) (map[string]time.Duration, error) {
	ages := make(map[string]time.Duration, len(keys))
	for _, key := range keys {
		token, err := names.EncodeKey(key)
		if err != nil {
			return ages, err
		}
		m, err := c.wire.Read(ctx, c.names.Stream(queue), wire.Look{Seq: 1, Filter: c.names.SubjectPrefix(queue) + "*." + token})
		if err != nil {
			return ages, err
		}
		if m != nil {
			ages[key] = max(now.Sub(m.Time), 0)
		}
	}
	return ages, nil
}
