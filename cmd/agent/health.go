package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/agent/api"
)

// readTimeout bounds calls that any agent answers in a moment, so that no script hangs on one that is stopped.
func readTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, 30*time.Second, errSlow)
}

var errSlow = unavailable(errors.New("the agent does not answer"))

func (a *app) healthCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "health",
		Short: "Exit with 0 when the agent answers and has its broker, else with 69",
		Example: `  fairlead health
  fairlead health --timeout 1s && echo fine`,
		Args: cobra.NoArgs,
	}
	socket := a.addSocketFlag(command)
	timeout := command.Flags().Duration("timeout", 5*time.Second, "how long the agent may take to answer")
	command.RunE = func(command *cobra.Command, _ []string) error {
		if *timeout <= 0 {
			return usagef("--timeout has to be more than 0s")
		}
		c, err := socket.connect()
		if err != nil {
			return err
		}
		defer c.Close()
		ctx, cancel := context.WithTimeoutCause(command.Context(), *timeout, errSlow)
		defer cancel()
		status, err := c.Status(ctx)
		if err != nil {
			return unavailable(err)
		}
		if !status.Broker.Connected {
			return unavailable(fmt.Errorf("agent %s is not healthy: its broker is away: %s", status.Agent, brokerLine(&status.Broker)))
		}
		// A draining agent does its work: a probe that kills it would lose what it still waits for.
		if status.State == api.StateDraining {
			_, err = fmt.Fprintln(a.out, "healthy, draining")
			return err
		}
		_, err = fmt.Fprintln(a.out, "healthy")
		return err
	}
	return command
}
