package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/probes"
	"github.com/fairlead/fairlead/agent/tcp"
	"github.com/fairlead/fairlead/config"
)

// listenProbes opens the address of probes and metrics, if there is one, and answers on it from now on: an agent that waits
// for NATS at its start is alive, and not ready.
func (a *Agent) listenProbes() error {
	address := a.cfg.Listen.ProbesHTTP
	if address == "" {
		return nil
	}
	l, err := tcp.Listen(address, tcp.Setting{Name: "listen.probes_http", Without: "/livez, /readyz and /metrics"})
	if errors.Is(err, tcp.ErrInUse) && address == config.DefaultProbesHTTP {
		// Nobody asked for this address: several agents on one host are no reason for all but the first not to work.
		a.probesTaken = "probes and metrics are switched off: " + address + " is in use; give this agent a listen.probes_http of its own"
		a.log.Warn(a.probesTaken)
		return nil
	}
	if err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	a.probes = probes.Start(l, probes.Options{Ready: a.ready, Metrics: a.numbers.Handler(), Logger: a.log.Named("probes")})
	return nil
}

func (a *Agent) stopProbes(ctx context.Context) error {
	if a.probes == nil {
		return nil
	}
	return a.probes.Stop(ctx)
}

// ready tells why the agent is not to be used now. It is what /readyz says.
func (a *Agent) ready() error {
	select {
	case <-a.serving:
	default:
		return errors.New("the agent is starting")
	}
	switch {
	case a.State() == api.StateDraining:
		return errors.New("the agent drains: it takes nothing more")
	case !a.cfg.Readiness.Broker: // does not change while the agent runs
		return nil
	case !a.client.Connected():
		return errors.New("NATS cannot be reached (readiness.broker: false would be ready all the same)")
	}
	select {
	case <-a.defs.ready:
		return nil
	default:
		return errors.New("the queues are not set up in NATS yet; see the warnings in fairlead status")
	}
}
