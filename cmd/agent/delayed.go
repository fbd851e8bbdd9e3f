package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/client"
)

func (a *app) delayedCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "delayed list|cancel QUEUE",
		Short: "Show the messages that wait for their time, or cancel one",
		Long: `Show the messages of QUEUE that were published with a delay and wait for their time, the next to come first, or cancel them by
the handles that "publish --delay" and the list print. One whose time has come cannot be cancelled any more.`,
		Example: `  fairlead delayed list orders
  fairlead delayed list orders --max 1000 -o json | jq -r '.delayed[].handle'
  fairlead delayed cancel orders 0o5ji9wo9m8-9f3c2a7be104`,
	}
	command.AddCommand(a.delayedListCommand(), a.delayedCancelCommand())
	return command
}

func (a *app) delayedListCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "list QUEUE",
		Short: "Show the messages that wait for their time, the next to come first",
		Example: `  fairlead delayed list orders
  fairlead delayed list orders --max 5 -o json`,
		Args: cobra.ExactArgs(1),
	}
	socket, output := a.addAdminFlag(command), addOutputFlag(command)
	limit := command.Flags().Int("max", 100, "how many at most")
	command.RunE = func(command *cobra.Command, args []string) error {
		if *limit < 1 {
			return usagef("--max has to be 1 or more")
		}
		list, err := ask(command.Context(), socket, func(ctx context.Context, c *client.Client) (*api.DelayedList, error) {
			return c.Delayed(ctx, args[0], *limit)
		})
		if err != nil {
			return err
		}
		return show(a, output, list, func(w io.Writer, l *api.DelayedList) error { return printDelayed(w, l, time.Now()) })
	}
	return command
}

func printDelayed(w io.Writer, list *api.DelayedList, now time.Time) error {
	t := newTable(w, "HANDLE", "AT", "IN", "LEVEL", "KEY", "ID", "SIZE")
	for i := range list.Delayed {
		d := &list.Delayed[i]
		in := seconds(d.At.Sub(now).Seconds())
		if d.Due {
			in = "due"
		}
		t.row(d.Handle, d.At.Format(time.RFC3339), in, d.Priority, keyName(d.Key), d.ID, sizeOf(uint64(max(d.Bytes, 0))))
	}
	if err := t.flush(); err != nil {
		return err
	}
	if more := list.Total - uint64(len(list.Delayed)); more > 0 && list.Total > more {
		fmt.Fprintf(w, "and %d more of %d\n", more, list.Total)
	}
	return nil
}

func (a *app) delayedCancelCommand() *cobra.Command {
	command := &cobra.Command{
		Use:     "cancel QUEUE HANDLE…",
		Short:   "Cancel messages whose time has not come",
		Example: `  fairlead delayed cancel orders 0o5ji9wo9m8-9f3c2a7be104`,
		Args:    cobra.MinimumNArgs(2),
	}
	socket, output := a.addAdminFlag(command), addOutputFlag(command)
	command.RunE = func(command *cobra.Command, args []string) error {
		c, err := socket.connect()
		if err != nil {
			return err
		}
		defer c.Close()
		done := struct {
			Cancelled []string `json:"cancelled"`
		}{[]string{}}
		var failed error
		for _, handle := range args[1:] {
			ctx, cancel := readTimeout(command.Context())
			err := c.CancelDelayed(ctx, args[0], handle)
			cancel()
			var answered *api.Error
			switch {
			case err == nil:
				done.Cancelled = append(done.Cancelled, handle)
			case len(args) > 2 && errors.As(err, &answered) && answered.Code == api.CodeUnknownHandle:
				a.complainf("%s: %s", printable(handle), printable(answered.Message))
				failed = errReported
			default:
				return err
			}
		}
		if output.json() {
			return errors.Join(writeJSON(a.out, done), failed)
		}
		for _, handle := range done.Cancelled {
			fmt.Fprintln(a.out, "cancelled "+printable(handle))
		}
		return failed
	}
	return command
}
