package main

import (
	"context"
	"fmt"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/client"
)

func (a *app) pullCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "pull CAPSULE",
		Short: "Take messages and print them as NDJSON",
		Long: `Take up to --max messages and print them, a line of JSON each. With --ack they are acknowledged once they are printed;
without, each is given back when its lease ends, or settled before that by its token, for instance:

  curl --unix-socket SOCKET -X POST http://localhost/v1/messages/TOKEN/ack

It prints nothing and exits with 0 when no message came within --wait.`,
		Example: `  fairlead pull default
  fairlead pull default --max 10 --wait 30s --ack | jq -r .data`,
		Args: cobra.ExactArgs(1),
	}
	socket := a.addSocketFlag(command)
	r := client.PullRequest{}
	command.Flags().IntVar(&r.Max, "max", 1, "how many at most")
	command.Flags().DurationVar(&r.Wait, "wait", 0, "how long to wait for the first, at most 5m")
	command.Flags().DurationVar(&r.Lease, "lease", 0, "how long each may take until it is settled (default: the capsule's)")
	ack := command.Flags().Bool("ack", false, "acknowledge what was printed")
	command.RunE = func(command *cobra.Command, args []string) error {
		if r.Max < 1 || r.Wait < 0 || r.Lease < 0 {
			return usagef("--max has to be 1 or more, --wait and --lease cannot be negative")
		}
		c, err := socket.connect()
		if err != nil {
			return err
		}
		defer c.Close()
		r.Capsule = args[0]
		return a.pull(command.Context(), c, r, *ack)
	}
	return command
}

// pull prints deliveries. Only what was printed is acknowledged.
func (a *app) pull(ctx context.Context, c *client.Client, r client.PullRequest, ack bool) error {
	got, err := c.Pull(ctx, r)
	if err != nil {
		return err
	}
	var settle []api.Settlement
	var failed error
	for i := range got.Deliveries {
		d := &got.Deliveries[i]
		token := d.Token
		asText(d)
		if failed == nil {
			failed = writeLine(a.out, d)
		}
		s := api.Settlement{Token: token, Result: api.Ack}
		if failed != nil {
			s = api.Settlement{Token: token, Result: api.Nack, Delay: "0s", Reason: "fairlead pull could not print it"}
		}
		if ack || failed != nil {
			settle = append(settle, s)
		}
	}
	results, err := c.Settle(ctx, settle)
	if failed != nil {
		return fmt.Errorf("stdout: %w", failed)
	}
	if err != nil {
		return fmt.Errorf("the messages were printed, but not all of them were acknowledged: %w", err)
	}
	for i, result := range results {
		if result.Status != api.StatusOK {
			a.complainf("seq %d was printed, but not acknowledged: %s", got.Deliveries[i].Seq, result.Status)
			failed = errReported
		}
	}
	return failed
}

// asText moves the payload to where NDJSON has it.
func asText(d *api.Delivery) {
	payload := d.Payload()
	if utf8.Valid(payload) {
		text := string(payload)
		d.Data, d.DataBase64 = &text, nil
	}
}
