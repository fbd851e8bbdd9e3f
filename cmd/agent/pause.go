package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/client"
)

func (a *app) pauseCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "pause QUEUE",
		Short: "Stop all agents from taking messages of a queue, or of one tenant",
		Long: `Stop all agents from taking messages of a queue, or of one tenant, until it is resumed. They follow within a second, and
after restarts too. What apps have in hand goes on and can be settled, and publishing goes on. Capsules work on their other
queues meanwhile.`,
		Example: `  fairlead pause orders
  fairlead pause orders --key acme
  fairlead pause orders --key ''        the messages without a key`,
	}
	return a.onOff(command, func(ctx context.Context, c *client.Client, queue string, key *string) (*api.Paused, error) {
		return c.Pause(ctx, queue, key)
	})
}

func (a *app) resumeCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "resume QUEUE",
		Short: "Let agents take messages of a paused queue or tenant again",
		Long: `Let agents take messages of a paused queue or tenant again. The pause of a queue and those of its tenants are apart from
each other: each is resumed as it was paused.`,
		Example: `  fairlead resume orders
  fairlead resume orders --key acme`,
	}
	return a.onOff(command, func(ctx context.Context, c *client.Client, queue string, key *string) (*api.Paused, error) {
		return c.Resume(ctx, queue, key)
	})
}

// onOff completes a command that pauses or resumes.
func (a *app) onOff(command *cobra.Command, call func(context.Context, *client.Client, string, *string) (*api.Paused, error)) *cobra.Command {
	command.Args = cobra.ExactArgs(1)
	socket, output, key := a.addAdminFlag(command), addOutputFlag(command), addKeyFlag(command)
	command.ValidArgsFunction = completeQueue(socket)
	command.RunE = func(command *cobra.Command, args []string) error {
		p, err := ask(command.Context(), socket, func(ctx context.Context, c *client.Client) (*api.Paused, error) {
			return call(ctx, c, args[0], key.value())
		})
		if err != nil {
			return err
		}
		return show(a, output, p, printPaused)
	}
	return command
}

func printPaused(w io.Writer, p *api.Paused) error {
	state := "is not paused"
	if p.Paused {
		state = "is paused"
	}
	_, err := fmt.Fprintf(w, "%s %s\n", controlName(p.Queue, p.Key), state)
	return err
}

// keyFlag is a tenant key that may be absent, and may be the key of messages without one.
type keyFlag struct {
	command *cobra.Command
	key     string
}

func addKeyFlag(command *cobra.Command) *keyFlag {
	f := &keyFlag{command: command}
	command.Flags().StringVar(&f.key, "key", "", "only this tenant key; '' are the messages without one")
	return f
}

// value is nil unless the flag was given.
func (f *keyFlag) value() *string {
	if !f.command.Flags().Changed("key") {
		return nil
	}
	return &f.key
}

// controlName names a queue, or a key of it, at the beginning of a sentence.
func controlName(queue string, key *string) string {
	if key == nil {
		return "queue " + printable(queue)
	}
	return "key " + printable(keyName(*key)) + " of queue " + printable(queue)
}

// completeQueue completes the first argument with the names of the agent's queues.
func completeQueue(socket *adminFlag) cobra.CompletionFunc {
	return func(command *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		c, err := socket.connect()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer c.Close()
		ctx, cancel := context.WithTimeout(command.Context(), time.Second)
		defer cancel()
		list, err := c.Queues(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var names []cobra.Completion
		for _, q := range list.Queues {
			names = append(names, q.Name)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
