package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/agent/api"
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
		c, err := socket.connect()
		if err != nil {
			return err
		}
		defer c.Close()
		ctx, cancel := readTimeout(command.Context())
		defer cancel()
		if len(args) == 1 {
			queue, err := c.Queue(ctx, args[0], *keys)
			if err != nil {
				return err
			}
			if output.json() {
				return writeJSON(a.out, queue)
			}
			return printQueue(a.out, queue)
		}
		list, err := c.Queues(ctx)
		if err != nil {
			return err
		}
		if output.json() {
			return writeJSON(a.out, list)
		}
		return printQueues(a.out, list)
	}
	return command
}

func printQueues(w io.Writer, list *api.QueueList) error {
	t := newTable(w, "QUEUE", "LEVELS", "WAITING", "IN FLIGHT", "DELAYED", "DEAD", "SIZE")
	for _, q := range list.Queues {
		t.row(q.Name, q.Levels, q.Waiting, q.InFlight, q.Delayed, q.Dead, sizeOf(q.Bytes))
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
	if err := t.flush(); err != nil || len(q.Keys) == 0 {
		return err
	}
	fmt.Fprintln(w)
	t = newTable(w, "KEY", "WAITING", "IN FLIGHT", "WEIGHT")
	for _, k := range q.Keys {
		t.row(keyName(k.Key), k.Waiting, k.InFlight, k.Weight)
	}
	if err := t.flush(); err != nil {
		return err
	}
	if more := q.KeysTotal - len(q.Keys); more > 0 {
		fmt.Fprintf(w, "and %d more of %s\n", more, count(q.KeysTotal, "key"))
	}
	return nil
}

// keyName shows the absent key as what no key can be: keys are shown as they are, and a dash is a key as well.
func keyName(key string) string {
	if key == "" {
		return "(unkeyed)"
	}
	return key
}
