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

// pace is the time between single messages: long enough that each meets a waiting pull, low load.
const pace = 2 * time.Millisecond

// delivery measures the time from before a publish to the moment when a waiting pull has its answer.
func (b *bench) delivery(ctx context.Context) (Times, error) {
	b.step("publish to delivery of single messages")
	var times []time.Duration
	err := b.withAgent(ctx, layouts[1], func(ctx context.Context, socket string) error {
		var err error
		times, err = b.singles(ctx, socket)
		return err
	})
	return percentiles(times), err
}

func (b *bench) singles(ctx context.Context, socket string) ([]time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	begin := time.Now()
	times := make([]time.Duration, 0, b.Singles)
	taken := make(chan error, 1)
	go func() {
		c := client.New(socket)
		defer c.Close()
		var settle []api.Settlement
		for len(times) < b.Singles {
			got, err := c.Pull(ctx, client.PullRequest{Capsule: "default", Wait: pullWait, Settle: settle})
			now := time.Since(begin)
			if err == nil && len(got.Deliveries) != 1 {
				err = fmt.Errorf("%w: a single message did not come", ErrCount)
			}
			if err != nil {
				taken <- err
				return
			}
			sent, _, _ := bytes.Cut(got.Deliveries[0].Payload(), []byte(" "))
			at, err := strconv.ParseInt(string(sent), 10, 64)
			if err != nil {
				taken <- fmt.Errorf("bench: %w", err)
				return
			}
			times = append(times, now-time.Duration(at))
			settle = append(settle[:0], api.Settlement{Token: got.Deliveries[0].Token, Result: api.Ack})
		}
		results, err := c.Settle(ctx, settle)
		if err == nil {
			err = checkSettled(results)
		}
		taken <- err
	}()
	c := client.New(socket)
	defer c.Close()
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	for range b.Singles {
		data := make([]byte, 0, payloadSize)
		data = append(strconv.AppendInt(data, int64(time.Since(begin)), 10), ' ')
		data = append(data, bytes.Repeat([]byte("x"), payloadSize-len(data))...)
		if _, err := c.Publish(ctx, "default", client.Message{Data: data, Priority: "0", Key: "tenant-1"}); err != nil {
			cancel()
			<-taken
			return nil, err
		}
		<-ticker.C
	}
	return times, <-taken
}

// takes measures single takes, each with the settlement of the one before, while waiting messages wait.
func (b *bench) takes(ctx context.Context, waiting int) (Times, error) {
	b.step("single takes with %d waiting", waiting)
	var times []time.Duration
	err := b.withAgent(ctx, layouts[1], func(ctx context.Context, socket string) error {
		if err := b.publish(ctx, socket, layouts[1], waiting); err != nil {
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
