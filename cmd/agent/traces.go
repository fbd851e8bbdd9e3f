package main

import (
	"context"
	"time"

	"github.com/fairlead/fairlead/agent/tracing"
)

// flushTimeout is how long the last spans may take to be sent when an agent ends: a collector that is gone must not keep it.
const flushTimeout = 3 * time.Second

// trace switches traces on if the environment asks for them.
func (r *runner) trace(ctx context.Context) error {
	tracer, err := tracing.FromEnvironment(ctx, tracing.Process{
		Lookup: r.app.lookup, Logger: r.options.logger.Named("tracing"), Version: thisBuild().Version, Agent: r.cfg.Agent.ID,
	})
	if tracer != nil {
		r.options.logger.Info("traces are on: the environment asks for them")
	}
	r.options.tracer = tracer
	return err
}

// stopTracing sends the spans that are left.
func (r *runner) stopTracing() {
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	if err := r.options.tracer.Stop(ctx); err != nil {
		r.options.logger.Warn("the last spans could not be sent", "error", err)
	}
}
