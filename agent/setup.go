package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/fairlead/fairlead/agent/broker"
	"github.com/fairlead/fairlead/agent/group"
	"github.com/fairlead/fairlead/config"
)

// reachLimit is how long Setup and Check look for NATS.
const reachLimit = 5 * time.Second

// connectOnce connects for a job that ends, and fails when NATS is not there.
func connectOnce(ctx context.Context, cfg *config.Config, log hclog.Logger) (*broker.Client, error) {
	if log == nil {
		log = hclog.NewNullLogger()
	}
	began := time.Now()
	reach, cancel := context.WithTimeout(ctx, reachLimit)
	defer cancel()
	client, err := broker.Connect(reach, broker.Options{NATS: cfg.NATS, Bucket: cfg.Coordination.Bucket, Agent: cfg.Agent.ID, Queues: cfg.Queues, Logger: log})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBroker, err)
	}
	if !client.Connected() {
		reason := client.Connection().LastError
		client.Close()
		return nil, fmt.Errorf("%w: no connection within %v (%s); is the server at %s running, and may this identity sign in?", ErrBroker, time.Since(began).Round(100*time.Millisecond), reason, strings.Join(cfg.NATS.Redacted(), ", "))
	}
	return client, nil
}

// Setup makes the streams and the bucket with the identity of the file, so that agents can run with one that may not. It
// follows the definitions in force where other live agents carry them. Running it again changes nothing.
func Setup(ctx context.Context, cfg *config.Config, o Options) error {
	client, err := connectOnce(ctx, cfg, o.Logger)
	if err != nil {
		return err
	}
	defer client.Close()
	if _, err := client.Bucket().Ensure(ctx, cfg.Coordination.Replicas); err != nil {
		return fmt.Errorf("%w: %w", ErrBroker, err)
	}
	client.Bucket().Start()
	g := group.New(client.Bucket(), group.Config{
		Agent: cfg.Agent.ID + "-setup", Boot: client.Boot(), Interval: cfg.Coordination.HeartbeatInterval,
		StaleAfter: cfg.Coordination.StaleAfter, Definitions: cfg.Queues, Logger: o.Logger,
	})
	defer func() {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), reachLimit)
		defer cancel()
		_ = g.Stop(stop)
	}()
	if err := g.Start(ctx); err != nil {
		return fmt.Errorf("%w: %w", ErrBroker, err)
	}
	var errs []error
	for _, def := range g.Definitions() {
		if err := client.EnsureStream(ctx, def); err != nil {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%w: %w", ErrBroker, err)
	}
	return nil
}

// Check looks whether an agent with this file could work, and changes nothing. Problems are sentences, and so are warnings:
// where another definition is in force than the file's. The error wraps [ErrBroker] when NATS cannot be reached at all.
func Check(ctx context.Context, cfg *config.Config) (problems, warnings []string, err error) {
	client, err := connectOnce(ctx, cfg, nil)
	if err != nil {
		return nil, nil, err
	}
	defer client.Close()
	problems = client.CheckAccess(ctx, cfg.Queues)
	return problems, append(tooLarge(client.MaxPayload(), cfg), inForce(ctx, client, cfg.Queues)...), nil
}

// headersOf is what is stored with a payload when a publisher sets no headers of its own; it is a little less.
const headersOf = 512

// tooLarge warns of queues that allow payloads which the server refuses. An embedded server is made for what the queues allow.
func tooLarge(most int64, cfg *config.Config) (warnings []string) {
	for _, q := range cfg.Queues {
		if cfg.NATS.Embedded == nil && q.Limits.MaxPayload+headersOf > most {
			warnings = append(warnings, fmt.Sprintf("queue %s: limits.max_payload allows %d bytes, and the NATS server takes messages of %d, headers included: the largest are refused with 413; raise max_payload of the server, or lower the queue's",
				q.Name, q.Limits.MaxPayload, most))
		}
	}
	return warnings
}

// inForceWait is how long Check waits for the coordination bucket, which may not exist yet.
const inForceWait = 2 * time.Second

// inForce compares the file with the definitions in force, if those can be read.
func inForce(ctx context.Context, client *broker.Client, queues []config.Queue) (warnings []string) {
	bucket := client.Bucket()
	bucket.Start()
	ctx, cancel := context.WithTimeout(ctx, inForceWait)
	defer cancel()
	select {
	case <-bucket.Loaded():
	case <-ctx.Done():
		return nil
	}
	for _, q := range queues {
		if e, ok := bucket.Get(group.Record(q.Name)); ok {
			if w := group.Compare(q, e.Value); w != "" {
				warnings = append(warnings, w)
			}
		}
	}
	return warnings
}
