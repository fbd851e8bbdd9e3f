package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/fairlead/fairlead/agent/broker/wire"
)

const (
	// laneIdle is how long the server keeps a lane consumer that nobody asks. It waits for what is in flight.
	laneIdle = 30 * time.Second
	// tenureIdle is the same for a lane of a tenure, of which there is one per level: what a holder that crashed has left
	// behind is to be found by the next one, also after the longest pause that a pod takes before it is started again. Where
	// there is one per level and tenant, it would cost the server too much memory.
	tenureIdle = 10 * time.Minute
	// errConsumerOffline is JetStream's answer while a consumer's server is dead and the cluster still lists it.
	errConsumerOffline jetstream.ErrorCode = 10119
)

// ensureLane makes a lane's consumer, or finds it. When it had to be made, the records of returned messages are brought
// up to date before it returns, because a new consumer delivers messages that are backing off.
func (c *Client) ensureLane(ctx context.Context, lane *Lane) error {
	if lane.Layout.Tenure != nil {
		if err := c.succeed(ctx, lane); err != nil {
			return err
		}
	}
	info, err := c.lane(ctx, lane)
	if err != nil {
		return err
	}
	c.metrics.LanesMade.Add(1)
	if info.Delivered.Consumer == 0 {
		if err := c.bucket.Sync(ctx); err != nil {
			c.seldom.Warn("delays of returned messages cannot be read now and may be cut short", "lane", lane.name, "error", err)
		}
	}
	return nil
}

// lane makes a lane's consumer, or finds it, and says what JetStream knows of it.
func (c *Client) lane(ctx context.Context, lane *Lane) (*jetstream.ConsumerInfo, error) {
	info, err := c.makeLane(ctx, lane)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, fmt.Errorf("%w (%s)", ErrStreamMissing, lane.stream)
	}
	if err != nil {
		return nil, fmt.Errorf("broker: lane %s: %w", lane.name, wire.Translate(err))
	}
	return info, nil
}

func isOffline(err error) bool {
	var api jetstream.JetStreamError
	return errors.As(err, &api) && api.APIError() != nil && api.APIError().ErrorCode == errConsumerOffline
}

func (c *Client) createLane(ctx context.Context, lane *Lane) (*jetstream.ConsumerInfo, error) {
	cfg := jetstream.ConsumerConfig{
		Name:              lane.name,
		Description:       "Fairlead lane",
		AckPolicy:         jetstream.AckExplicitPolicy,
		DeliverPolicy:     jetstream.DeliverAllPolicy,
		AckWait:           lane.Layout.AckWait,
		MaxDeliver:        -1, // the agent counts attempts
		MaxAckPending:     -1, // a thousand messages that are backing off must not silence a lane
		InactiveThreshold: laneIdle,
		MemoryStorage:     true,
		Replicas:          1,
	}
	if lane.Layout.Serial() {
		cfg.MaxAckPending = 1
		if lane.Layout.Single && !lane.Layout.Keyed {
			cfg.InactiveThreshold = tenureIdle
		}
	}
	if len(lane.filters) == 1 {
		cfg.FilterSubject = lane.filters[0]
	} else {
		cfg.FilterSubjects = lane.filters
	}
	consumer, err := c.wire.JS.CreateOrUpdateConsumer(ctx, lane.stream, cfg)
	if err != nil {
		return nil, err
	}
	return consumer.CachedInfo(), nil
}
