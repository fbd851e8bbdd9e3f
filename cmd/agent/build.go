package main

import (
	"context"
	"errors"

	"github.com/hashicorp/go-hclog"

	"github.com/fairlead/fairlead/agent"
	"github.com/fairlead/fairlead/agent/tracing"
	"github.com/fairlead/fairlead/config"
)

// agents is what commands need of package agent, small enough for tests to stand in for it.
type agents interface {
	New(cfg *config.Config, o options) (instance, error)
	Setup(ctx context.Context, cfg *config.Config, o options) error
	Check(ctx context.Context, cfg *config.Config) (problems, warnings []string, err error)
}

// options are what an agent is built with, beside its file.
type options struct {
	logger  hclog.Logger
	noSetup bool            // streams and bucket exist, and this identity may not make them
	tracer  *tracing.Tracer // nil is none
}

// instance is one agent. Start returns when it is ready or failed.
type instance interface {
	Start(ctx context.Context) error
	Drain(ctx context.Context) error
	Stop(ctx context.Context) error
	Reload(cfg *config.Config) error
	RefusedReload(err error) // counts a file that is not valid
	Done() <-chan struct{}   // closed when it ended by itself, because of Err
	Err() error
	DashboardURL() string // "" without one
}

// realAgents builds agents of package agent.
type realAgents struct{}

func (o options) translate() agent.Options {
	return agent.Options{Logger: o.logger, Version: thisBuild().Version, NoSetup: o.noSetup, Tracer: o.tracer}
}

func (realAgents) New(cfg *config.Config, o options) (instance, error) {
	return agent.New(cfg, o.translate())
}

func (realAgents) Setup(ctx context.Context, cfg *config.Config, o options) error {
	return agent.Setup(ctx, cfg, o.translate())
}

func (realAgents) Check(ctx context.Context, cfg *config.Config) (problems, warnings []string, err error) {
	return agent.Check(ctx, cfg)
}

// isSecretError reports whether a file with a secret cannot be used.
func isSecretError(err error) bool { return errors.Is(err, agent.ErrSecret) }

// isBrokerError reports whether an agent could not start, or be set up, because of NATS.
func isBrokerError(err error) bool { return errors.Is(err, agent.ErrBroker) }
