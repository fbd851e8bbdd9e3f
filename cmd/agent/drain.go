package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

func (a *app) drainCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "drain",
		Short: "Make the agent take no more work, and wait until apps have settled what they hold",
		Long: `Make the agent take no more work, and wait until apps have settled what they hold.
It asks the admin socket. The agent stays, and accepts publishing, until it is told to end by SIGTERM.`,
		Example: `  fairlead drain
  fairlead drain --wait 2m        in a pod's preStop hook
  fairlead drain --wait 0s        only ask for it`,
		Args: cobra.NoArgs,
	}
	socket := a.addAdminFlag(command)
	wait := command.Flags().Duration("wait", 30*time.Second, "how long to wait; 0s: not at all")
	command.RunE = func(command *cobra.Command, _ []string) error {
		if *wait < 0 {
			return usagef("--wait cannot be less than 0s")
		}
		c, err := socket.connect()
		if err != nil {
			return err
		}
		defer c.Close()
		ctx, cancel := context.WithTimeoutCause(command.Context(), *wait+10*time.Second, errSlow)
		defer cancel()
		done, err := c.Drain(ctx, *wait)
		switch {
		case err != nil:
			return err
		case done:
			_, err = fmt.Fprintln(a.out, "drained")
			return err
		case *wait == 0:
			_, err = fmt.Fprintln(a.out, "draining")
			return err
		}
		return errNotDrained
	}
	return command
}
