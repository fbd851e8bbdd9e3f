package bench

import (
	"bufio"
	"context"
	"fmt"
	"io"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/client"
)

// besideFairlead runs a round of the noisy neighbour through an agent.
func (b *bench) besideFairlead(ctx context.Context) (round NeighbourRound, err error) {
	l := layout{profile: noisyNeighbour, levels: 1, keys: b.Neighbour.Quiet + 1}
	err = b.withAgent(ctx, l, func(ctx context.Context, socket string) error {
		publisher, worker := client.New(socket), client.New(socket)
		defer publisher.Close()
		defer worker.Close()
		if err := b.flood(ctx, publisher); err != nil {
			return err
		}
		round, err = b.beside(ctx, socketWay(publisher, worker))
		return err
	})
	return round, err
}

// flood publishes the messages of the noisy tenant.
func (b *bench) flood(ctx context.Context, c *client.Client) error {
	in, out := io.Pipe()
	go func() {
		w := bufio.NewWriterSize(out, 64<<10)
		for i := range b.Neighbour.Flood {
			if _, err := fmt.Fprintf(w, "{\"data\":%q,\"key\":%q}\n", stamp(noisyName, i, 0), noisyName); err != nil {
				break
			}
		}
		_ = out.CloseWithError(w.Flush()) // nil is the end
	}()
	defer in.Close()
	return c.PublishBatch(ctx, "default", in, publishedLine)
}

// socketWay is the way over an agent's app socket.
func socketWay(publisher, worker *client.Client) *way {
	var settle []api.Settlement
	return &way{
		publish: func(ctx context.Context, key string, data []byte) error {
			_, err := publisher.Publish(ctx, "default", client.Message{Data: data, Key: key})
			return err
		},
		take: func(ctx context.Context, n int) ([][]byte, error) {
			got, err := worker.Pull(ctx, client.PullRequest{Capsule: "default", Max: n, Wait: pullWait, Settle: settle})
			if err != nil {
				return nil, err
			}
			if err := checkSettled(got.SettleFailed); err != nil {
				return nil, err
			}
			if len(got.Deliveries) == 0 {
				return nil, fmt.Errorf("%w: what waits did not come", ErrCount)
			}
			lot := make([][]byte, len(got.Deliveries))
			settle = settle[:0]
			for i := range got.Deliveries {
				lot[i] = got.Deliveries[i].Payload()
				settle = append(settle, api.Settlement{Token: got.Deliveries[i].Token, Result: api.Ack})
			}
			return lot, nil
		},
		settle: func(ctx context.Context) error {
			results, err := worker.Settle(ctx, settle)
			if err != nil {
				return err
			}
			return checkSettled(results)
		},
	}
}

// besidePlain runs a round through one consumer that reads everything in the order in which it was stored.
func (b *bench) besidePlain(ctx context.Context) (round NeighbourRound, err error) {
	err = b.withBareStream(ctx, func(ctx context.Context, s bareStream) error {
		flood := func(i int) []byte { return stamp(noisyName, i, 0) }
		if err := fill(ctx, s.js, s.prefix+"."+noisyName, b.Neighbour.Flood, flood); err != nil {
			return err
		}
		loop, err := b.newBareLoop(ctx, s.name)
		if err != nil {
			return err
		}
		defer loop.nc.Close()
		round, err = b.beside(ctx, loop.way(s))
		return err
	})
	return round, err
}

// way is the way of a plain client: a pull, and a confirmed delete for each message.
func (l *bareLoop) way(s bareStream) *way {
	return &way{
		publish: func(ctx context.Context, key string, data []byte) error {
			if _, err := s.js.Publish(ctx, s.prefix+"."+key, data); err != nil {
				return fmt.Errorf("bench: publish: %w", err)
			}
			return nil
		},
		take: func(ctx context.Context, n int) ([][]byte, error) {
			batch, err := l.consumer.Fetch(n, jetstream.FetchMaxWait(fetchWait))
			if err != nil {
				return nil, fmt.Errorf("bench: fetch: %w", err)
			}
			var lot [][]byte
			for m := range batch.Messages() {
				meta, err := m.Metadata()
				if err != nil {
					return nil, fmt.Errorf("bench: %w", err)
				}
				lot = append(lot, m.Data())
				if err := l.remove(ctx, meta.Sequence.Stream); err != nil {
					return nil, err
				}
			}
			if err := batch.Error(); err != nil {
				return nil, fmt.Errorf("bench: fetch: %w", err)
			}
			if len(lot) == 0 {
				return nil, fmt.Errorf("%w: what waits did not come", ErrCount)
			}
			return lot, nil
		},
		settle: l.settle,
	}
}
