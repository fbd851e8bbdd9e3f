package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/client"
	"github.com/fairlead/fairlead/cmd/agent/internal/plain"
)

func (a *app) queuesCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "queues [NAME]",
		Short: "Show all queues, or one with its levels and keys",
		Example: `  fairlead queues
  fairlead queues orders --keys 20
  fairlead queues orders -o json | jq .levels`,
		Args: cobra.MaximumNArgs(1),
	}
	socket, output := a.addSocketFlag(command), addOutputFlag(command)
	keys := command.Flags().Int("keys", 10, "how many keys to show, the largest first")
	command.RunE = func(command *cobra.Command, args []string) error {
		if len(args) == 0 && command.Flags().Changed("keys") {
			return usagef("--keys needs the NAME of a queue")
		}
		if *keys < 1 {
			return usagef("--keys has to be 1 or more")
		}
		if len(args) == 1 {
			queue, err := ask(command.Context(), socket, func(ctx context.Context, c *client.Client) (*api.QueueStatus, error) {
				return c.Queue(ctx, args[0], *keys)
			})
			if err != nil {
				return err
			}
			return show(a, output, queue, printQueue)
		}
		list, err := ask(command.Context(), socket, func(ctx context.Context, c *client.Client) (*api.QueueList, error) { return c.Queues(ctx) })
		if err != nil {
			return err
		}
		return show(a, output, list, printQueues)
	}
	return command
}

func printQueues(w io.Writer, list *api.QueueList) error {
	t := newTable(w, "QUEUE", "LEVELS", "WAITING", "IN FLIGHT", "DELAYED", "DEAD", "SIZE")
	for _, q := range list.Queues {
		name := q.Name
		if q.Paused {
			name += " (paused)"
		}
		t.row(name, q.Levels, q.Waiting, q.InFlight, q.Delayed, q.Dead, sizeOf(q.Bytes))
	}
	return t.flush()
}

func printQueue(w io.Writer, q *api.QueueStatus) error {
	fmt.Fprintf(w, "queue %s: %d waiting, %d in flight, %d delayed, %d dead, %s",
		printable(q.Name), q.Waiting, q.InFlight, q.Delayed, q.Dead, sizeOf(q.Bytes))
	if q.Waiting > 0 {
		fmt.Fprintf(w, ", the oldest waits for %s", seconds(q.OldestAgeSeconds))
	}
	fmt.Fprintln(w)
	if p := q.Controls.Paused; p != nil {
		fmt.Fprintf(w, "paused: nothing is taken from it%s\n", saidBy(*p))
	}
	for _, warning := range q.Warnings {
		fmt.Fprintf(w, "warning: %s\n", printable(warning))
	}
	fmt.Fprintln(w)
	t := newTable(w, "LEVEL", "NAME", "WAITING", "IN FLIGHT", "DELAYED", "OLDEST")
	for _, l := range q.LevelStats {
		oldest := "-"
		if l.Waiting > 0 {
			oldest = seconds(l.OldestAgeSeconds)
		}
		t.row(l.Priority, l.Name, l.Waiting, l.InFlight, l.Delayed, oldest)
	}
	if err := t.flush(); err != nil {
		return err
	}
	if err := printKeys(w, q); err != nil {
		return err
	}
	return printKeyControls(w, q)
}

func printKeys(w io.Writer, q *api.QueueStatus) error {
	if len(q.Keys) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	t := newTable(w, "KEY", "WAITING", "IN FLIGHT", "WEIGHT", "FROM")
	for _, k := range q.Keys {
		name := keyName(k.Key)
		if k.Paused {
			name += " (paused)"
		}
		t.row(name, k.Waiting, k.InFlight, k.Weight, k.From)
	}
	if err := t.flush(); err != nil {
		return err
	}
	if more := q.KeysTotal - len(q.Keys); more > 0 {
		fmt.Fprintf(w, "and %d more of %s\n", more, count(q.KeysTotal, "key"))
	}
	return nil
}

// maxControls is how many keys that operators have set something for are shown; -o json has all.
const maxControls = 20

// printKeyControls shows what operators have set for keys, also for those that have no messages now.
func printKeyControls(w io.Writer, q *api.QueueStatus) error {
	paused, weights := q.Controls.PausedKeys, q.Controls.Weights
	if len(paused)+len(weights) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	t := newTable(w, "SET BY OPERATORS", "KEY", "")
	for i := range paused[:min(len(paused), maxControls)] {
		t.row("paused", keyName(paused[i].Key), strings.TrimPrefix(saidBy(paused[i].Said), ", "))
	}
	for i := range weights[:min(len(weights), maxControls)] {
		t.row(fmt.Sprint("weight ", weights[i].Weight), keyName(weights[i].Key), strings.TrimPrefix(saidBy(weights[i].Said), ", "))
	}
	if err := t.flush(); err != nil {
		return err
	}
	if more := max(len(paused)-maxControls, 0) + max(len(weights)-maxControls, 0); more > 0 {
		fmt.Fprintf(w, "and %d more\n", more)
	}
	return nil
}

// saidBy tells through which agent something was set, and when.
func saidBy(s api.Said) string {
	if s.Agent == "" {
		return ""
	}
	return ", said through agent " + printable(s.Agent) + " at " + s.At.UTC().Format("2006-01-02 15:04:05Z")
}

// keyName shows the absent key as what no key can be.
func keyName(key string) string { return plain.Key(key) }
