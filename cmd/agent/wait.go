package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"
)

var errNotReady = errors.New("waited too long")

func (a *app) waitCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "wait",
		Short: "Wait until the agent's socket answers",
		Example: `  fairlead wait && fairlead work default -- ./handler
  fairlead wait --timeout 2m --socket /run/fairlead/agent.sock`,
		Args: cobra.NoArgs,
	}
	socket := a.addSocketFlag(command)
	timeout := command.Flags().Duration("timeout", 30*time.Second, "how long to wait; 0s: for ever")
	command.RunE = func(command *cobra.Command, _ []string) error {
		if *timeout < 0 {
			return usagef("--timeout cannot be less than 0s")
		}
		c, err := socket.connect()
		if err != nil {
			return err
		}
		defer c.Close()
		ctx := command.Context()
		if *timeout > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeoutCause(ctx, *timeout, errNotReady)
			defer cancel()
		}
		if err := c.WaitReady(ctx); err != nil {
			return unavailable(err)
		}
		return nil
	}
	return command
}
