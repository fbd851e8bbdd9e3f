package main

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/agent/client"
	"github.com/fairlead/fairlead/cmd/agent/internal/systemd"
	"github.com/fairlead/fairlead/config"
)

// stopTimeout is how long an agent may take to stop once it is drained: what it still holds is given back in it.
const stopTimeout = 10 * time.Second

func (a *app) runCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "run --config FILE | --dev",
		Short: "Run the agent",
		Long: `Run the agent until SIGTERM or SIGINT. It then drains: it takes no more work, and apps may settle what they hold for
drain_timeout. A second signal stops it at once. SIGHUP reloads the file.

OTEL_EXPORTER_OTLP_ENDPOINT and the other variables of OpenTelemetry switch traces on.

With --dev it needs no file: JetStream runs inside the agent in a temporary folder that is removed at the end, with a queue
"default" (levels high, medium and low, fair share) and a capsule "default". It ends when its terminal is closed, too. Its
dashboard is at http://127.0.0.1:9465/, or at a free port if that is taken; the start says which.`,
		Example: `  fairlead run --dev
  fairlead run --dev --listen 127.0.0.1:4222     and let NATS clients in
  fairlead run --dev --no-dashboard              and open no port at all
  fairlead run --config fairlead.yaml
  fairlead run --config fairlead.yaml --no-setup`,
		Args: cobra.NoArgs,
	}
	path := command.Flags().String("config", "", "the file")
	dev := command.Flags().Bool("dev", false, "a trial run without a file, in a temporary folder")
	noSetup := command.Flags().Bool("no-setup", false, "make no streams and no bucket: \"fairlead setup\" did")
	listen := command.Flags().String("listen", "", "with --dev: HOST:PORT for NATS clients")
	noDashboard := command.Flags().Bool("no-dashboard", false, "with --dev: no dashboard")
	command.MarkFlagsMutuallyExclusive("config", "dev")
	command.MarkFlagsMutuallyExclusive("no-setup", "dev")
	command.RunE = func(command *cobra.Command, _ []string) error {
		switch {
		case *dev:
			t := trial{listen: *listen}
			if !*noDashboard {
				t.dashboard = trialDashboard()
			}
			return a.runDev(command.Context(), t)
		case *listen != "":
			return usagef("--listen goes with --dev; in a file it is nats.embedded.listen")
		case *noDashboard:
			return usagef(`--no-dashboard goes with --dev; in a file it is listen.dashboard_http: ""`)
		case *path == "":
			return usagef("say which file: --config FILE; or try it without one: --dev")
		}
		cfg, err := a.loadConfig(*path)
		if err != nil {
			return err
		}
		r := runner{app: a, cfg: cfg, path: *path, options: options{logger: a.logger(cfg.Log), noSetup: *noSetup}}
		return r.run(command.Context())
	}
	return command
}

// logger logs to stderr as the file says.
func (a *app) logger(l config.Log) hclog.Logger {
	colour := hclog.ColorOff
	if l.Format == "text" && a.colour(a.errs) {
		colour = hclog.ForceColor
	}
	return hclog.New(&hclog.LoggerOptions{
		Name:       "fairlead",
		Level:      hclog.LevelFromString(l.Level),
		Output:     a.errs,
		JSONFormat: l.Format != "text",
		Color:      colour,
		TimeFormat: "2006-01-02T15:04:05.000Z07:00",
	})
}

// runner runs one agent from start to end.
type runner struct {
	app     *app
	cfg     *config.Config // the one in use
	path    string         // where to reload it from; "" in a trial run
	options options
	ready   func(instance) error // called once it runs; may be nil

	notify      *systemd.Notifier // nil: nobody wants to know
	reloadLater bool              // a reload was asked for before it ran
}

func (r *runner) run(ctx context.Context) error {
	signals, unsubscribe := r.app.subscribe()
	defer unsubscribe()
	if err := r.trace(ctx); err != nil {
		return err
	}
	defer r.stopTracing()
	var err error
	if r.notify, err = systemd.New(r.app.lookup); err != nil {
		r.options.logger.Warn("the service manager is not told how the agent is", "error", err)
	}
	defer r.notify.Close()
	agent, err := r.app.agents.New(r.cfg, r.options)
	if err != nil {
		return err
	}
	signalled, err := r.start(ctx, agent, signals)
	switch {
	case signalled && err != nil:
		r.stop(agent)
		return nil // nothing was taken yet, so there is nothing to drain
	case signalled:
		return r.drain(agent, signals)
	case err == nil && r.ready != nil:
		err = r.ready(agent)
	}
	if err != nil {
		r.stop(agent)
		return err
	}
	r.notify.Ready(r.serving())
	watch, unwatch := context.WithCancel(context.WithoutCancel(ctx)) // also while it drains
	defer unwatch()
	go r.notify.Watch(watch, r.answers)
	if r.reloadLater {
		r.reload(agent)
	}
	for {
		select {
		case <-agent.Done():
			r.stop(agent)
			return agent.Err()
		case <-ctx.Done():
			return r.drain(agent, signals)
		case s := <-signals:
			if !r.asksToReload(s) {
				r.options.logger.Info("draining", "signal", s.String(), "drain_timeout", r.cfg.Agent.DrainTimeout.String())
				return r.drain(agent, signals)
			}
			r.reload(agent)
		}
	}
}

// start waits for the agent to be ready. signalled is true when it was asked to end before that; it may have become ready
// all the same.
func (r *runner) start(ctx context.Context, agent instance, signals <-chan os.Signal) (signalled bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	started := make(chan error, 1)
	go func() { started <- agent.Start(ctx) }()
	for {
		select {
		case err := <-started:
			return false, err
		case s := <-signals:
			if r.asksToReload(s) {
				r.reloadLater = true // the file may have changed since it was read
				continue
			}
			cancel()
			return true, <-started
		}
	}
}

// asksToReload tells a wish to read the file again from one to end. A trial run has no file: there, SIGHUP says that its
// terminal was closed.
func (r *runner) asksToReload(s os.Signal) bool { return s == syscall.SIGHUP && r.path != "" }

// serving is what the service manager shows of a running agent.
func (r *runner) serving() string {
	return fmt.Sprintf("serving %s and %s on %s", count(len(r.cfg.Queues), "queue"), count(len(r.cfg.Capsules), "capsule"), r.cfg.Listen.Socket)
}

// answers tells whether the agent's admin socket answers, for which NATS need not be there.
func (r *runner) answers(ctx context.Context) bool {
	c := client.New(r.cfg.Listen.AdminSocket)
	defer c.Close()
	_, err := c.Status(ctx)
	return err == nil
}

// reload brings the file into force, whole or not at all.
func (r *runner) reload(agent instance) {
	r.notify.Reloading()
	if err := r.takeOver(agent); err != nil {
		r.options.logger.Error("the file was not reloaded, the old configuration stays", "file", r.path, "error", err)
		r.notify.Ready(r.serving() + "; the changed file was refused, see the log")
		return
	}
	r.options.logger.Info("reloaded", "file", r.path)
	r.notify.Ready(r.serving())
}

func (r *runner) takeOver(agent instance) error {
	log := r.options.logger
	cfg, warnings, err := config.Load(r.path)
	for _, w := range warnings {
		log.Warn("configuration", "warning", w.String())
	}
	if err == nil {
		if !idInFile(r.path) {
			cfg.Agent.ID = r.cfg.Agent.ID
		}
		err = agent.Reload(cfg)
	} else {
		agent.RefusedReload(err)
	}
	if err == nil {
		r.cfg = cfg
	}
	return err
}

// drain lets apps settle what they hold, and stops the agent. A second signal stops it at once.
func (r *runner) drain(agent instance, signals <-chan os.Signal) error {
	r.notify.Stopping("draining: apps may settle what they hold", r.cfg.Agent.DrainTimeout+2*stopTimeout)
	// The agent itself gives up after drain_timeout; this is for one that hangs.
	ctx, cancel := context.WithTimeout(context.Background(), r.cfg.Agent.DrainTimeout+stopTimeout)
	defer cancel()
	drained := make(chan error, 1)
	go func() { drained <- agent.Drain(ctx) }()
	for {
		select {
		case err := <-drained:
			if err != nil {
				r.options.logger.Warn("not drained, the rest is given back", "error", err)
			}
			r.stop(agent)
			return nil
		case s := <-signals:
			if s == syscall.SIGHUP {
				continue
			}
			cancel()
			_ = <-drained
			r.stop(agent)
			return errStopped
		}
	}
}

func (r *runner) stop(agent instance) {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if err := agent.Stop(ctx); err != nil {
		r.options.logger.Warn("not stopped cleanly", "error", fmt.Sprint(err))
	}
}

// idInFile reports whether the file itself names the agent. Load makes up a new id otherwise, and a running agent keeps
// the one it has.
func idInFile(path string) bool {
	data, err := os.ReadFile(path)
	if err != nil {
		return false
	}
	cfg, _, err := config.Parse(path, data, os.LookupEnv)
	return err == nil && cfg.Agent.ID != ""
}
