package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// deletesInFlight is how many deletes one connection of the bare loop has under way, as an agent does.
const deletesInFlight = 64

// fetchWait is how long a pull may take to bring what is known to be waiting. It is not FetchNoWait, although none has to
// wait: that one gives up after a second without a word, and what comes later is lost to it until the ack wait has passed.
const fetchWait = 9 * time.Second

// bareStream is a stream as a queue has it, with one consumer.
type bareStream struct {
	js           jetstream.JetStream
	stream       jetstream.Stream
	name, prefix string // the prefix is of its subjects, without a dot
}

// withBareStream makes an empty stream for the time of measure.
func (b *bench) withBareStream(ctx context.Context, measure func(ctx context.Context, s bareStream) error) (err error) {
	nc, js, err := b.connect()
	if err != nil {
		return err
	}
	defer nc.Close()
	s := bareStream{js: js, prefix: newPrefix()}
	s.name = strings.ToUpper(s.prefix)
	s.stream, err = js.CreateStream(ctx, jetstream.StreamConfig{
		Name: s.name, Subjects: []string{s.prefix + ".>"}, Retention: jetstream.LimitsPolicy,
		Storage: jetstream.FileStorage, Compression: jetstream.S2Compression, AllowDirect: true,
	})
	if err != nil {
		return fmt.Errorf("bench: bare stream: %w", err)
	}
	defer func() {
		cleanup, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		err = errors.Join(err, js.DeleteStream(cleanup, s.name))
	}()
	_, err = s.stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		Name: "bench", AckPolicy: jetstream.AckExplicitPolicy, AckWait: 30 * time.Second, MaxAckPending: -1,
		MemoryStorage: true, Replicas: 1, InactiveThreshold: 5 * time.Minute, // filling a large backlog takes long
	})
	if err != nil {
		return fmt.Errorf("bench: bare consumer: %w", err)
	}
	return measure(ctx, s)
}

// bare takes b.Messages with plain nats.go, deletes each, and returns how many per second.
func (b *bench) bare(ctx context.Context, connections int) (rate float64, err error) {
	err = b.withBareStream(ctx, func(ctx context.Context, s bareStream) error {
		data := bytes.Repeat([]byte("x"), payloadSize)
		if err := fill(ctx, s.js, s.prefix+".work", b.Messages, func(int) []byte { return data }); err != nil {
			return err
		}
		rate, err = b.drainBare(ctx, s, connections)
		return err
	})
	return rate, err
}

// drainBare is drainQueue for a bare stream.
func (b *bench) drainBare(ctx context.Context, s bareStream, connections int) (float64, error) {
	var left atomic.Int64
	left.Store(int64(b.Messages))
	loops := make([]*bareLoop, connections)
	for i := range loops {
		loop, err := b.newBareLoop(ctx, s.name)
		if err != nil {
			return 0, err
		}
		loops[i] = loop
		defer loops[i].nc.Close()
	}
	took, err := together(connections, func(i int) error { return loops[i].run(ctx, &left, b.Pull) })
	if err != nil {
		return 0, err
	}
	info, err := s.stream.Info(ctx)
	if err != nil {
		return 0, fmt.Errorf("bench: %w", err)
	}
	if info.State.Msgs > 0 {
		return 0, fmt.Errorf("%w: %d are left in the bare stream", ErrCount, info.State.Msgs)
	}
	return float64(b.Messages) / took.Seconds(), nil
}

// fill publishes n messages.
func fill(ctx context.Context, js jetstream.JetStream, subject string, n int, data func(i int) []byte) error {
	window := make([]jetstream.PubAckFuture, 0, 256)
	flush := func() error {
		for _, f := range window {
			select {
			case <-f.Ok():
			case err := <-f.Err():
				return fmt.Errorf("bench: publish: %w", err)
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		window = window[:0]
		return nil
	}
	for i := range n {
		f, err := js.PublishAsync(subject, data(i))
		if err != nil {
			return fmt.Errorf("bench: publish: %w", err)
		}
		if window = append(window, f); len(window) == cap(window) {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

// bareLoop is one connection of the bare loop.
type bareLoop struct {
	nc       *nats.Conn
	consumer jetstream.Consumer
	subject  string // of deletes
	inbox    string
	slots    chan struct{} // filled by deletes under way
	failed   atomic.Pointer[string]
}

func (b *bench) newBareLoop(ctx context.Context, stream string) (*bareLoop, error) {
	nc, js, err := b.connect()
	if err != nil {
		return nil, err
	}
	l := &bareLoop{
		nc: nc, subject: "$JS.API.STREAM.MSG.DELETE." + stream, inbox: nc.NewInbox(),
		slots: make(chan struct{}, deletesInFlight),
	}
	if l.consumer, err = js.Consumer(ctx, stream, "bench"); err == nil {
		// One subscription takes the answers to all deletes: a request each would cost twice as much.
		_, err = nc.Subscribe(l.inbox, func(m *nats.Msg) {
			if !bytes.Contains(m.Data, []byte(`"success":true`)) {
				text := string(m.Data)
				l.failed.Store(&text)
			}
			<-l.slots
		})
	}
	if err != nil {
		nc.Close()
		return nil, fmt.Errorf("bench: %w", err)
	}
	return l, nil
}

// run pulls and deletes until nothing is left. The next pull is under way while deletes of the last are.
func (l *bareLoop) run(ctx context.Context, left *atomic.Int64, pull int) error {
	for {
		want := reserve(left, int64(pull))
		if want == 0 {
			return l.settle(ctx)
		}
		batch, err := l.consumer.Fetch(int(want), jetstream.FetchMaxWait(fetchWait))
		if err != nil {
			return fmt.Errorf("bench: fetch: %w", err)
		}
		got := int64(0)
		for m := range batch.Messages() {
			meta, err := m.Metadata()
			if err != nil {
				return fmt.Errorf("bench: %w", err)
			}
			if err := l.remove(ctx, meta.Sequence.Stream); err != nil {
				return err
			}
			got++
		}
		if err := batch.Error(); err != nil {
			return fmt.Errorf("bench: fetch: %w", err)
		}
		if got != want {
			return fmt.Errorf("%w: %d of %d came", ErrCount, got, want)
		}
	}
}

// remove sends one delete.
func (l *bareLoop) remove(ctx context.Context, seq uint64) error {
	select {
	case l.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	err := l.nc.PublishRequest(l.subject, l.inbox, fmt.Appendf(nil, `{"seq":%d,"no_erase":true}`, seq))
	if err != nil {
		return fmt.Errorf("bench: delete: %w", err)
	}
	return nil
}

// settle waits for the last answers: who holds every slot knows that none is under way.
func (l *bareLoop) settle(ctx context.Context) error {
	for range cap(l.slots) {
		select {
		case l.slots <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Second):
			return fmt.Errorf("%w: a delete was not answered", ErrCount)
		}
	}
	if text := l.failed.Load(); text != nil {
		return fmt.Errorf("%w: a delete was answered with %s", ErrCount, *text)
	}
	return nil
}
