package broker

import (
	"context"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A lane's consumer lives on one server of a cluster. When that one stops in good order, the others say of the consumer that
// it is offline. When it is killed, they take it for alive for minutes: what is asked of the consumer (to be made, changed,
// described or deleted) is passed on to a server that is not there, and nobody answers. But nobody listens on the consumer's
// subjects either, and that NATS says at once. Silence and an empty place together are a lane that is lost.

const (
	// laneAnswer is how long the making of a lane may take: a few milliseconds, unless the cluster is electing a leader.
	laneAnswer = 2 * time.Second
	// lostAnswer is the same while lanes of a dead server were found a moment ago: then there are many to be made again.
	lostAnswer = 400 * time.Millisecond
	// lostSpan is how long a moment that is.
	lostSpan = time.Minute
	// removeAnswer is how long the removal of a lost lane is waited for. It is carried out without an answer.
	removeAnswer = 300 * time.Millisecond
	// laneLimit bounds all that it takes to make a lane in a cluster that has just lost a server.
	laneLimit = 15 * time.Second
)

// makeLane creates first. Only a consumer whose server is dead is deleted, and only after a pause and a second try:
// agents that delete at once hand each other's work out a second time.
func (c *Client) makeLane(ctx context.Context, lane *Lane) (*jetstream.ConsumerInfo, error) {
	info, err := c.tryLane(ctx, lane)
	if !errors.Is(err, errLaneLost) {
		return info, err
	}
	select {
	case <-time.After(200*time.Millisecond + mathrand.N(300*time.Millisecond)):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if info, err = c.tryLane(ctx, lane); !errors.Is(err, errLaneLost) {
		return info, err
	}
	if !c.led(ctx, lane.stream, lane.name) {
		return nil, err // the cluster elects a leader: nothing can be said of the lane, and nothing done
	}
	if err := c.removeLost(ctx, lane.stream, lane.name); err != nil {
		return nil, err
	}
	c.log.Info("the server of a lane is dead; the lane is made again on another one", "lane", lane.name)
	return c.tryLane(ctx, lane)
}

// errLaneLost says that a lane's consumer exists on a server that is dead.
var errLaneLost = errors.New("broker: the lane's server is dead")

// tryLane makes a lane's consumer, or finds it, within a time after which it is known whether its server is dead.
func (c *Client) tryLane(ctx context.Context, lane *Lane) (*jetstream.ConsumerInfo, error) {
	limit := laneAnswer
	if since := time.Since(time.Unix(0, c.lostAt.Load())); since < lostSpan {
		limit = lostAnswer
	}
	try, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	info, err := c.createLane(try, lane)
	switch {
	case isOffline(err):
		return nil, fmt.Errorf("%w: %w", errLaneLost, err)
	case err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) || !c.vacant(ctx, lane.stream, lane.name):
		return info, err
	}
	return nil, fmt.Errorf("%w: %w", errLaneLost, err)
}

// vacant tells whether nobody listens where a consumer would. It is false when that cannot be found out.
func (c *Client) vacant(ctx context.Context, stream, name string) bool {
	ctx, cancel := context.WithTimeout(ctx, lostAnswer)
	defer cancel()
	// A word about a message that no queue has: a consumer that is there says yes to it and does nothing.
	m := &nats.Msg{Subject: "$JS.ACK." + stream + "." + name + ".1.1.1.0.0", Data: inProgress}
	_, err := c.wire.NC.RequestMsgWithContext(ctx, m)
	return errors.Is(err, nats.ErrNoResponders)
}

// led tells whether somebody decides in the cluster: only its leader can say that there is no consumer of some name.
func (c *Client) led(ctx context.Context, stream, name string) bool {
	ctx, cancel := context.WithTimeout(ctx, lostAnswer)
	defer cancel()
	return errors.Is(c.wire.JS.DeleteConsumer(ctx, stream, name+"-none"), jetstream.ErrConsumerNotFound)
}

// removeLost removes a consumer whose server is dead. Nobody is left to say that it was done.
func (c *Client) removeLost(ctx context.Context, stream, name string) error {
	c.lostAt.Store(time.Now().UnixNano())
	try, cancel := context.WithTimeout(ctx, removeAnswer)
	defer cancel()
	err := c.removeLane(try, stream, name)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return nil
	}
	return err
}

// removeLane removes a lane consumer, if it exists.
func (c *Client) removeLane(ctx context.Context, stream, name string) error {
	err := c.wire.JS.DeleteConsumer(ctx, stream, name)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return nil
	}
	return err
}
