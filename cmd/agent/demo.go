package main

import (
	"context"
	"fmt"
	"os"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/agent/client"
	"github.com/fairlead/fairlead/cmd/agent/internal/demo"
	"github.com/fairlead/fairlead/config"
)

func (a *app) demoCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "demo",
		Short: "Show in a second what it does: strict levels, and shares by weight",
		Long: `Start everything in one process and a temporary folder, publish a mixed backlog of several tenants, take it with a small
worker over the app socket, and show what came in what order, and each tenant's share.

With --weights two tenants share one level. The order is shown, and checked: it is exact if every window of it has exactly the
proportion of the weights. If it is not, the exit code is 1.`,
		Example: `  fairlead demo
  fairlead demo --weights 3:1
  fairlead demo --weights 3:1 --pull 64 --messages 200`,
		Args: cobra.NoArgs,
	}
	weights := command.Flags().String("weights", "", "two weights, such as 3:1")
	pull := command.Flags().Int("pull", 8, "with --weights: how many messages the worker takes at a time")
	messages := command.Flags().Int("messages", 48, "with --weights: how many messages in all")
	command.RunE = func(command *cobra.Command, _ []string) error {
		if *weights == "" {
			if command.Flags().Changed("pull") || command.Flags().Changed("messages") {
				return usagef("--pull and --messages go with --weights")
			}
			return a.demo(command.Context(), demo.Tour)
		}
		ratio, err := demo.ParseRatio(*weights)
		switch {
		case err != nil:
			return usageError(err)
		case *pull < 1 || *pull > 1000:
			return usagef("--pull has to be 1 to 1000")
		case *messages < 1 || *messages > 100_000:
			return usagef("--messages has to be 1 to 100000")
		}
		return a.demo(command.Context(), func(ctx context.Context, s *demo.Stage) error {
			return demo.Weights(ctx, s, ratio, *pull, *messages)
		})
	}
	return command
}

// demo runs show on an agent of its own.
func (a *app) demo(ctx context.Context, show func(context.Context, *demo.Stage) error) error {
	return a.withTemporary(ctx, func(ctx context.Context, dir string) error {
		cfg := config.Dev(dir)
		stop, err := a.host(ctx, cfg)
		if err != nil {
			return err
		}
		defer stop()
		c := client.New(cfg.Listen.Socket)
		defer c.Close()
		return show(ctx, &demo.Stage{Client: c, Queue: "default", Capsule: "default", Out: a.out, Colour: a.colour(a.out)})
	})
}

// withTemporary runs a command that has an agent of its own in a temporary folder. The first signal ends its context, so
// that the agent is stopped and the folder removed.
func (a *app) withTemporary(ctx context.Context, body func(ctx context.Context, dir string) error) error {
	dir, err := devFolder()
	if err != nil {
		return err
	}
	defer func() {
		if err := os.RemoveAll(dir); err != nil {
			a.complainf("warning: %s stays: %v", dir, err)
		}
	}()
	signals, unsubscribe := a.subscribe()
	defer unsubscribe()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		for {
			select {
			case s := <-signals:
				if s != syscall.SIGHUP {
					cancel(fmt.Errorf("interrupted by a signal: %s", s))
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	err = body(ctx, dir)
	cause := context.Cause(ctx)
	cancel(nil)
	<-watching
	if err != nil && cause != nil {
		return cause // what failed did so because of it
	}
	return err
}

// host starts an agent in this process. It logs what is wrong only.
func (a *app) host(ctx context.Context, cfg *config.Config) (stop func(), err error) {
	log := a.logger(config.Log{Level: "error", Format: "text"})
	agent, err := a.agents.New(cfg, options{logger: log})
	if err != nil {
		return nil, err
	}
	if err := agent.Start(ctx); err != nil {
		return nil, err
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		if err := agent.Stop(ctx); err != nil {
			log.Error("not stopped cleanly", "error", err)
		}
	}, nil
}
