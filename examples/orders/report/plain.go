//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// throughPlainConsumer stores the orders in a stream and works them through one pull consumer, which knows no tenants
// and no levels.
func (s settings) throughPlainConsumer(ctx context.Context, jobs []job) (all []begun, err error) {
	nc, stop, err := s.startJetStream()
	if err != nil {
		return nil, err
	}
	defer stop()
	consumer, err := store(ctx, nc, jobs)
	if err != nil {
		return nil, err
	}
	journal, err := s.newJournal("plain.log")
	if err != nil {
		return nil, err
	}
	defer journal.file.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	start := time.Now()
	var workers sync.WaitGroup
	for range s.concurrency {
		workers.Go(func() {
			if err := s.workPlainly(ctx, consumer, jobs, journal.path); err != nil && ctx.Err() == nil {
				cancel(err)
			}
		})
	}
	all, err = journal.collect(ctx, len(jobs), start)
	cancel(errors.New("done"))
	workers.Wait()
	return all, err
}

// startJetStream runs a server of its own, in this process.
func (s settings) startJetStream() (*nats.Conn, func(), error) {
	options := &server.Options{JetStream: true, StoreDir: s.folder + "/jetstream", DontListen: true, NoSigs: true, NoLog: true}
	srv, err := server.NewServer(options)
	if err != nil {
		return nil, nil, err
	}
	srv.Start()
	stop := func() { srv.Shutdown(); srv.WaitForShutdown() }
	if !srv.ReadyForConnections(10 * time.Second) {
		stop()
		return nil, nil, errors.New("the JetStream server did not start within 10 s")
	}
	nc, err := nats.Connect("", nats.InProcessServer(srv))
	if err != nil {
		stop()
		return nil, nil, err
	}
	return nc, func() { nc.Close(); stop() }, nil
}

// store publishes all jobs and makes the consumer.
func store(ctx context.Context, nc *nats.Conn, jobs []job) (jetstream.Consumer, error) {
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(256))
	if err != nil {
		return nil, err
	}
	_, err = js.CreateStream(ctx, jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders"}, Retention: jetstream.WorkQueuePolicy})
	if err != nil {
		return nil, err
	}
	for i, j := range jobs {
		message := &nats.Msg{Subject: "orders", Data: j.Data, Header: nats.Header{"Job": {strconv.Itoa(i)}}}
		if _, err := js.PublishMsgAsync(message, jetstream.WithStallWait(time.Minute)); err != nil {
			return nil, err
		}
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	return js.CreateConsumer(ctx, "ORDERS", jetstream.ConsumerConfig{Durable: "worker", AckPolicy: jetstream.AckExplicitPolicy})
}

// workPlainly takes one order after the other, until ctx ends.
func (s settings) workPlainly(ctx context.Context, consumer jetstream.Consumer, jobs []job, path string) error {
	for ctx.Err() == nil {
		batch, err := consumer.Fetch(1, jetstream.FetchMaxWait(time.Second))
		if err != nil {
			return err
		}
		for m := range batch.Messages() {
			i, err := strconv.Atoi(m.Headers().Get("Job"))
			if err != nil {
				return fmt.Errorf("a message that is no order: %w", err)
			}
			handle := exec.Command(s.handler)
			handle.Env = append(os.Environ(), "ORDERS_LOG="+path, "FAIRLEAD_KEY="+jobs[i].Key,
				"FAIRLEAD_PRIORITY="+strconv.Itoa(slices.Index(levels, jobs[i].Priority)))
			handle.Stdin = bytes.NewReader(m.Data())
			if out, err := handle.CombinedOutput(); err != nil {
				return fmt.Errorf("handler: %w\n%s", err, out)
			}
			if err := m.DoubleAck(ctx); err != nil {
				return err
			}
		}
		if err := batch.Error(); err != nil && !errors.Is(err, nats.ErrTimeout) {
			return err
		}
	}
	return nil
}
