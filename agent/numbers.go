package agent

import (
	"context"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/broker"
	"github.com/fairlead/fairlead/agent/delivery"
	"github.com/fairlead/fairlead/agent/metrics"
	"github.com/fairlead/fairlead/config"
)

// newNumbers makes what /metrics shows.
func newNumbers(a *Agent) *metrics.Metrics {
	return metrics.New(metrics.Options{
		Broker: &a.metrics, TopKeys: a.cfg.Metrics.TopKeys, Version: a.o.Version, Queues: a.cfg.Queues, Logger: a.log.Named("metrics"),
	})
}

// numbers is the agent behind the interface that package metrics declares.
type numbers struct{ a *Agent }

// Status implements metrics.Source.
func (n numbers) Status(ctx context.Context) (*api.AgentStatus, error) { return engine(n).Status(ctx) }

// Ready implements metrics.Source.
func (n numbers) Ready() error { return n.a.ready() }

// Book implements metrics.Source.
func (n numbers) Book() delivery.Stats { return n.a.book.Stats() }

// Definitions implements metrics.Source.
func (n numbers) Definitions() []config.Queue { return n.a.group.Definitions() }

// Held implements metrics.Source.
func (n numbers) Held(ctx context.Context, def config.Queue, keys int) (held metrics.Held, err error) {
	client := n.a.client
	if !client.Connected() {
		return held, broker.ErrUnavailable
	}
	layout := broker.NewLayout(def)
	if held.Stats, err = client.Stats(ctx, layout, keys); err != nil {
		return held, err
	}
	if held.Delayed, err = client.DelayedCounts(ctx, layout); err != nil {
		return held, err
	}
	held.Dead, err = client.DeadCount(ctx, def.Name)
	return held, err
}

// RefusedReload counts a file that could not be read or was not valid, so that Reload was not called.
func (a *Agent) RefusedReload(err error) { a.numbers.Reloaded(err) }

// observer hears of every delivery.
func (a *Agent) observer() delivery.Observer {
	all := delivery.Observers{a.numbers.Observer(), &a.ledger}
	if a.o.Tracer != nil {
		all = append(all, a.o.Tracer)
	}
	return all
}
