package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

func (a *app) setupCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "setup --config FILE",
		Short: "Make the streams and the bucket, with an identity that may",
		Long: `Make the streams and the bucket of a configuration file, with an identity that may. Agents that are started with
"run --no-setup" then need no such right. It can be repeated: what is there already is brought to the file's definition.`,
		Example: `  fairlead setup --config fairlead.yaml`,
		Args:    cobra.NoArgs,
	}
	path := command.Flags().String("config", "", "the file")
	timeout := command.Flags().Duration("timeout", time.Minute, "how long it may take")
	command.RunE = func(command *cobra.Command, _ []string) error {
		cfg, err := a.loadConfig(*path)
		if err != nil {
			return err
		}
		if cfg.NATS.Embedded != nil {
			return usagef("%s has an embedded server, which the agent sets up itself: setup is for a server of its own (nats.url)", *path)
		}
		ctx, cancel := context.WithTimeout(command.Context(), *timeout)
		defer cancel()
		if err := a.agents.Setup(ctx, cfg, options{logger: a.logger(cfg.Log)}); err != nil {
			return err
		}
		_, err = fmt.Fprintf(a.out, "%s: %s set up\n", *path, count(len(cfg.Queues), "queue"))
		return err
	}
	return command
}
