package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/controls"
	"github.com/fairlead/fairlead/agent/dashboard"
	"github.com/fairlead/fairlead/agent/tcp"
	"github.com/fairlead/fairlead/config"
)

// listenDashboard opens the address of the dashboard, if there is one. Who connects is answered from serve on.
func (a *Agent) listenDashboard() error {
	address := a.cfg.Listen.DashboardHTTP
	if address == "" {
		return nil
	}
	l, err := tcp.Listen(address, tcp.Setting{Name: "listen.dashboard_http", Without: "the dashboard"})
	if errors.Is(err, tcp.ErrInUse) && address == config.DefaultDashboardHTTP {
		// As with probes: nobody asked for this address.
		a.dashboardTaken = "the dashboard is switched off: " + address + " is in use; give this agent a listen.dashboard_http of its own"
		a.log.Warn(a.dashboardTaken)
		return nil
	}
	if err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	a.dashboardListener = l
	return nil
}

func (a *Agent) serveDashboard() {
	if a.dashboardListener == nil {
		return
	}
	a.dashboard = dashboard.Start(a.dashboardListener, dashboard.Options{
		Address: a.cfg.Listen.DashboardHTTP, Overviews: a.overviews, Logger: a.log.Named("dashboard"),
	})
	a.log.Info("the dashboard is there", "url", a.dashboard.URL())
}

// DashboardURL is what to open in a browser on this host, once Start has returned; "" when there is no dashboard.
func (a *Agent) DashboardURL() string {
	if a.dashboard == nil {
		return ""
	}
	return a.dashboard.URL()
}

// stopDashboard ends the dashboard and all looking.
func (a *Agent) stopDashboard(ctx context.Context) error {
	a.overviews.Stop()
	switch {
	case a.dashboard != nil:
		return a.dashboard.Stop(ctx)
	case a.dashboardListener != nil:
		return a.dashboardListener.Close()
	}
	return nil
}

// sights is the agent behind the interface that package overview declares.
type sights struct{ a *Agent }

// Status implements overview.Source.
func (s sights) Status(ctx context.Context) (*api.AgentStatus, error) { return engine(s).Status(ctx) }

// Definitions implements overview.Source.
func (s sights) Definitions() []config.Queue { return s.a.group.Definitions() }

// Queue implements overview.Source.
func (s sights) Queue(ctx context.Context, name string, keys int) (*api.QueueStatus, error) {
	return engine(s).Queue(ctx, name, keys)
}

// Weight implements overview.Source.
func (s sights) Weight(def config.Queue, key string) (float64, bool) {
	c, _ := s.a.controls.Get(controls.Thing{Kind: controls.KeyWeight, Queue: def.Name, Key: key})
	weight, from := weightOf(def, c.Weight, key)
	return weight, from != api.WeightMessages
}

// Oldest implements overview.Source.
func (s sights) Oldest(ctx context.Context, queue string, keys []string) (map[string]time.Duration, error) {
	return s.a.client.Oldest(ctx, queue, keys, time.Now())
}

// Latest implements overview.Source.
func (s sights) Latest(ctx context.Context, queue string, most int) ([]api.DeadLetter, error) {
	found, err := s.a.client.LatestDeadLetters(ctx, queue, most)
	if err != nil {
		return nil, brokerError(err)
	}
	list := make([]api.DeadLetter, 0, len(found))
	for _, d := range found {
		list = append(list, deadLetter(d))
	}
	return list, nil
}

// Overview implements socket.Reader. It has no dead letters: those are for operators, see the admin socket.
func (e engine) Overview(ctx context.Context) (*api.Overview, error) {
	shot, err := e.a.overviews.After(ctx, 0)
	if err != nil {
		return nil, &api.Error{Code: api.CodeBroker, Message: "the agent is ending: " + err.Error()}
	}
	o := *shot.Overview
	o.Queues = append([]api.QueueOverview(nil), o.Queues...)
	for i := range o.Queues {
		o.Queues[i].Latest = []api.DeadLetter{}
	}
	return &o, nil
}
