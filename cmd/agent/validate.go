package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/config"
)

// loadConfig reads the file of --config. Warnings go to stderr; what is wrong is in the error, all of it.
func (a *app) loadConfig(path string) (*config.Config, error) {
	if path == "" {
		return nil, usagef("say which file: --config FILE")
	}
	cfg, warnings, err := config.Load(path)
	if err != nil {
		if !errors.As(err, new(*config.Invalid)) {
			err = &exitError{code: exitConfig, err: err}
		}
		return nil, err
	}
	for _, w := range warnings {
		a.complainf("warning: %s", w)
	}
	return cfg, nil
}

// tryConnect checks what the server permits, and reports all that is missing.
func (a *app) tryConnect(ctx context.Context, cfg *config.Config, timeout time.Duration) error {
	if cfg.NATS.Embedded != nil {
		a.complainf("nothing to connect to: the server is embedded in the agent")
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	problems, warnings, err := a.agents.Check(ctx, cfg)
	for _, w := range warnings {
		a.complainf("warning: %s", w)
	}
	for _, p := range problems {
		a.complainf("%s", p)
	}
	if err == nil && len(problems) > 0 {
		err = errReported
	}
	return err
}

func (a *app) validateCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "validate --config FILE",
		Short: "Check a configuration file, and with --connect also NATS and what it permits",
		Example: `  fairlead validate --config fairlead.yaml
  fairlead validate --config fairlead.yaml --connect`,
		Args: cobra.NoArgs,
	}
	path := command.Flags().String("config", "", "the file")
	connect := command.Flags().Bool("connect", false, "also connect to NATS, and check permissions and the definitions in force")
	timeout := command.Flags().Duration("timeout", 30*time.Second, "how long --connect may take")
	command.RunE = func(command *cobra.Command, _ []string) error {
		if command.Flags().Changed("timeout") && !*connect {
			return usagef("--timeout goes with --connect")
		}
		cfg, err := a.loadConfig(*path)
		if err != nil {
			return err
		}
		if *connect {
			if err := a.tryConnect(command.Context(), cfg, *timeout); err != nil {
				return err
			}
		}
		_, err = fmt.Fprintf(a.out, "%s is valid: %s, %s\n", *path, count(len(cfg.Queues), "queue"), count(len(cfg.Capsules), "capsule"))
		return err
	}
	return command
}
