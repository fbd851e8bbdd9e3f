package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/client"
	"github.com/fairlead/fairlead/config"
)

// pullWait is how long a pull waits for messages that are known to be there.
const pullWait = 20 * time.Second

// withAgent runs an agent with an empty queue of layout l for the time of measure.
func (b *bench) withAgent(ctx context.Context, l layout, measure func(ctx context.Context, socket string) error) error {
	return b.withAgents(ctx, l, 1, func(ctx context.Context, sockets []string) error { return measure(ctx, sockets[0]) })
}

// withAgents runs n agents that share an empty queue of layout l.
func (b *bench) withAgents(ctx context.Context, l layout, n int, measure func(ctx context.Context, sockets []string) error) (err error) {
	prefix := newPrefix()
	bucket := "fairlead-" + prefix
	defer func() { err = errors.Join(err, b.remove(prefix, bucket)) }()
	sockets := make([]string, n)
	for i := range sockets {
		dir, err := os.MkdirTemp(b.Dir, "")
		if err != nil {
			return fmt.Errorf("bench: %w", err)
		}
		defer os.RemoveAll(dir)
		cfg := config.Dev(dir)
		cfg.NATS.Embedded, cfg.NATS.URLs, cfg.NATS.Prefix = nil, []string{b.URL}, prefix
		cfg.Coordination.Bucket = bucket
		queue := &cfg.Queues[0]
		queue.Levels, queue.LevelNames, queue.DefaultPriority = l.levels, nil, (l.levels-1)/2
		queue.FairShare.Enabled, queue.FairShare.Weights = l.keys > 0, l.weights
		stop, err := b.Start(ctx, cfg)
		if err != nil {
			return fmt.Errorf("bench: %w", err)
		}
		defer stop()
		sockets[i] = cfg.Listen.Socket
	}
	return measure(ctx, sockets)
}

// remove deletes the streams of an agent that has stopped.
func (b *bench) remove(prefix, bucket string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	nc, js, err := b.connect()
	if err != nil {
		return err
	}
	defer nc.Close()
	names := js.StreamNames(ctx)
	var mine []string
	for name := range names.Name() {
		if strings.HasPrefix(name, strings.ToUpper(prefix)) || name == "KV_"+bucket {
			mine = append(mine, name)
		}
	}
	err = names.Err()
	for _, name := range mine {
		err = errors.Join(err, js.DeleteStream(ctx, name))
	}
	return err
}

func (b *bench) connect() (*nats.Conn, jetstream.JetStream, error) {
	nc, err := nats.Connect(b.URL, nats.Name("fairlead bench"))
	if err != nil {
		return nil, nil, fmt.Errorf("bench: %s: %w", b.URL, err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		nc.Close()
		return nil, nil, fmt.Errorf("bench: %w", err)
	}
	return nc, js, nil
}

// publish stores n messages, spread over the levels and keys of l.
func (b *bench) publish(ctx context.Context, socket string, l layout, n int) error {
	c := client.New(socket)
	defer c.Close()
	in, out := io.Pipe()
	go func() {
		w := bufio.NewWriterSize(out, 64<<10)
		data := strings.Repeat("x", payloadSize)
		for i := range n {
			fmt.Fprintf(w, `{"data":%q`, data)
			if l.levels > 1 {
				fmt.Fprintf(w, `,"priority":%d`, i%l.levels)
			}
			if l.keys > 0 {
				fmt.Fprintf(w, `,"key":"tenant-%d"`, i/l.levels%l.keys)
			}
			if _, err := w.WriteString("}\n"); err != nil {
				break
			}
		}
		_ = out.CloseWithError(w.Flush()) // nil is the end
	}()
	defer in.Close()
	return c.PublishBatch(ctx, "default", in, publishedLine)
}

// publishedLine fails with the first message of a batch that was not stored.
func publishedLine(line client.BatchLine) error {
	if line.Result.Error != nil {
		return fmt.Errorf("bench: publish: %w", line.Result.Error)
	}
	return nil
}

// drainQueue takes b.Messages over several connections, finishes each, and returns how many per second.
func (b *bench) drainQueue(ctx context.Context, socket string, connections int) (float64, error) {
	var left atomic.Int64
	left.Store(int64(b.Messages))
	took, err := together(connections, func(int) error { return b.take(ctx, socket, &left) })
	if err != nil {
		return 0, err
	}
	return float64(b.Messages) / took.Seconds(), b.checkEmpty(ctx, socket)
}

// take is one connection: it pulls until nothing is left, and tells the settlements of each pull with the next.
func (b *bench) take(ctx context.Context, socket string, left *atomic.Int64) error {
	return b.takeInto(ctx, socket, left, func([]api.Delivery) {})
}

// takeInto is take, and shows what it got.
func (b *bench) takeInto(ctx context.Context, socket string, left *atomic.Int64, show func([]api.Delivery)) error {
	c := client.New(socket)
	defer c.Close()
	var settle []api.Settlement
	for {
		want := reserve(left, int64(b.Pull))
		if want == 0 {
			results, err := c.Settle(ctx, settle)
			if err != nil {
				return err
			}
			return checkSettled(results)
		}
		got, err := c.Pull(ctx, client.PullRequest{Capsule: "default", Max: int(want), Wait: pullWait, Settle: settle})
		if err != nil {
			return err
		}
		if err := checkSettled(got.SettleFailed); err != nil {
			return err
		}
		n := int64(len(got.Deliveries))
		if n == 0 {
			return fmt.Errorf("%w: %d did not come", ErrCount, left.Load()+want)
		}
		left.Add(want - n)
		show(got.Deliveries)
		settle = settle[:0]
		for i := range got.Deliveries {
			settle = append(settle, api.Settlement{Token: got.Deliveries[i].Token, Result: api.Ack})
		}
	}
}

// reserve takes up to n off left, so that no pull waits for what another connection gets.
func reserve(left *atomic.Int64, n int64) int64 {
	for {
		have := left.Load()
		take := min(have, n)
		if take <= 0 {
			return 0
		}
		if left.CompareAndSwap(have, have-take) {
			return take
		}
	}
}

// checkSettled fails unless all results are ok.
func checkSettled(results []api.SettleResult) error {
	for _, r := range results {
		if r.Status != api.StatusOK {
			return fmt.Errorf("%w: an ack was answered with %s", ErrCount, r.Status)
		}
	}
	return nil
}

func (b *bench) checkEmpty(ctx context.Context, socket string) error {
	c := client.New(socket)
	defer c.Close()
	q, err := c.Queue(ctx, "default", 1)
	if err != nil {
		return err
	}
	if q.Waiting+q.InFlight > 0 {
		return fmt.Errorf("%w: %d wait and %d are in flight at the end", ErrCount, q.Waiting, q.InFlight)
	}
	return nil
}
