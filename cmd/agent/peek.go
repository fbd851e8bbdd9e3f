package main

import (
	"context"
	"encoding/base64"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/client"
)

func (a *app) peekCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "peek QUEUE",
		Short: "Look at waiting messages without taking them",
		Example: `  fairlead peek orders
  fairlead peek orders --max 3 --priority high --key acme -o json
  fairlead peek orders --key ''                        only those without a key`,
		Args: cobra.ExactArgs(1),
	}
	socket, output := a.addSocketFlag(command), addOutputFlag(command)
	limit := command.Flags().Int("max", 10, "how many at most")
	priority := command.Flags().String("priority", "", "only this level: a number or a name")
	key := command.Flags().String("key", "", "only this tenant key")
	command.RunE = func(command *cobra.Command, args []string) error {
		if *limit < 1 {
			return usagef("--max has to be 1 or more")
		}
		r := client.PeekRequest{Queue: args[0], Max: *limit, Priority: *priority}
		if command.Flags().Changed("key") {
			r.Key = key
		}
		list, err := ask(command.Context(), socket, func(ctx context.Context, c *client.Client) (*api.PeekList, error) { return c.Peek(ctx, r) })
		if err != nil {
			return err
		}
		return show(a, output, list, func(w io.Writer, l *api.PeekList) error { return printPeeked(w, l, time.Now()) })
	}
	return command
}

func printPeeked(w io.Writer, list *api.PeekList, now time.Time) error {
	t := newTable(w, "SEQ", "LEVEL", "KEY", "AGE", "ID", "DATA")
	for i := range list.Messages {
		m := &list.Messages[i]
		data := "base64:" + base64.StdEncoding.EncodeToString(m.DataBase64)
		if m.Data != nil {
			data = *m.Data
		}
		t.row(m.Seq, m.Priority, keyName(m.Key), seconds(now.Sub(m.EnqueuedAt).Seconds()), m.ID, shorten(data, 60))
	}
	return t.flush()
}
