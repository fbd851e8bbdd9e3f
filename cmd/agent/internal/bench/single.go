package bench

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/client"
)

// pace is the time from a delivery to the next single message: long enough for the next pull to be waiting.
const pace = 2 * time.Millisecond

// delivery measures the time from before a publish to the moment when a waiting pull has its answer.
func (b *bench) delivery(ctx context.Context) ([]time.Duration, error) {
	b.step("publish to delivery of single messages")
	var times []time.Duration
	err := b.withAgent(ctx, usual, func(ctx context.Context, socket string) error {
		var err error
		times, err = b.singles(ctx, socket)
		return err
	})
	return times, err
}

func (b *bench) singles(ctx context.Context, socket string) ([]time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	taker, publisher := client.New(socket), client.New(socket)
	defer taker.Close()
	defer publisher.Close()
	begin := time.Now()
	arrivals, failed := make(chan time.Duration), make(chan error, 1)
	go func() { failed <- b.arrive(ctx, taker, begin, arrivals) }()

	var times []time.Duration
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	for range b.Singles {
		<-ticker.C // the pull that takes it is waiting by now
		data := append(strconv.AppendInt(make([]byte, 0, payloadSize), int64(time.Since(begin)), 10), ' ')
		data = append(data, bytes.Repeat([]byte("x"), payloadSize-len(data))...)
		if _, err := publisher.Publish(ctx, "default", client.Message{Data: data, Priority: "0", Key: "tenant-1"}); err != nil {
			cancel()
			_ = <-failed
			return nil, err
		}
		select {
		case took := <-arrivals:
			times = append(times, took)
		case err := <-failed:
			return nil, err
		}
		ticker.Reset(pace)
	}
	return times, <-failed
}

// arrive takes single messages, finishes each with the next pull, and tells how long ago each was sent.
func (b *bench) arrive(ctx context.Context, c *client.Client, begin time.Time, arrivals chan<- time.Duration) error {
	var settle []api.Settlement
	for range b.Singles {
		got, err := c.Pull(ctx, client.PullRequest{Capsule: "default", Wait: pullWait, Settle: settle})
		now := time.Since(begin)
		switch {
		case err != nil:
			return err
		case len(got.Deliveries) != 1:
			return fmt.Errorf("%w: a single message did not come", ErrCount)
		}
		if err := checkSettled(got.SettleFailed); err != nil {
			return err
		}
		sent, _, _ := bytes.Cut(got.Deliveries[0].Payload(), []byte(" "))
		at, err := strconv.ParseInt(string(sent), 10, 64)
		if err != nil {
			return fmt.Errorf("bench: %w", err)
		}
		select {
		case arrivals <- now - time.Duration(at):
		case <-ctx.Done():
			return ctx.Err()
		}
		settle = append(settle[:0], api.Settlement{Token: got.Deliveries[0].Token, Result: api.Ack})
	}
	results, err := c.Settle(ctx, settle)
	if err != nil {
		return err
	}
	return checkSettled(results)
}

// takes measures single takes, each with the settlement of the one before, while waiting messages wait.
func (b *bench) takes(ctx context.Context, waiting int) (Times, error) {
	b.step("single takes with %d waiting", waiting)
	var times []time.Duration
	err := b.withAgent(ctx, usual, func(ctx context.Context, socket string) error {
		if err := b.publish(ctx, socket, usual, waiting); err != nil {
			return err
		}
		c := client.New(socket)
		defer c.Close()
		var settle []api.Settlement
		for range min(b.Takes, waiting) {
			begin := time.Now()
			got, err := c.Pull(ctx, client.PullRequest{Capsule: "default", Wait: pullWait, Settle: settle})
			times = append(times, time.Since(begin))
			switch {
			case err != nil:
				return err
			case len(got.Deliveries) != 1:
				return fmt.Errorf("%w: nothing came although messages wait", ErrCount)
			}
			if err := checkSettled(got.SettleFailed); err != nil {
				return err
			}
			settle = append(settle[:0], api.Settlement{Token: got.Deliveries[0].Token, Result: api.Ack})
		}
		_, err := c.Settle(ctx, settle)
		return err
	})
	return percentiles(times), err
}
