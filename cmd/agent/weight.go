package main

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/client"
)

func (a *app) weightCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "weight QUEUE KEY [WEIGHT]",
		Short: "Show or override the weight of a tenant, in all agents",
		Long: `Show the weight that counts for a tenant, or override it: above 0, at most 1000, with at most three decimals. An override
beats the file, which beats what messages say. It acts on what is waiting already, in all agents within a second, and
survives restarts; --unset takes it back.`,
		Example: `  fairlead weight orders acme           what it is, and where it comes from
  fairlead weight orders acme 3
  fairlead weight orders acme --unset
  fairlead weight orders '' 0.5         the messages without a key`,
		Args: cobra.RangeArgs(2, 3),
	}
	socket, output := a.addAdminFlag(command), addOutputFlag(command)
	unset := command.Flags().Bool("unset", false, "take the override back")
	command.ValidArgsFunction = completeQueue(socket)
	command.RunE = func(command *cobra.Command, args []string) error {
		call, err := weightCall(args, *unset)
		if err != nil {
			return err
		}
		w, err := ask(command.Context(), socket, call)
		if err != nil {
			return err
		}
		return show(a, output, w, printWeight)
	}
	return command
}

func printWeight(out io.Writer, w *api.KeyWeight) error {
	_, err := fmt.Fprintf(out, "%s has weight %v, %s\n", controlName(w.Queue, &w.Key), w.Weight, weightSource(w))
	return err
}

// weightCall is what the arguments ask for.
func weightCall(args []string, unset bool) (func(context.Context, *client.Client) (*api.KeyWeight, error), error) {
	queue, key := args[0], args[1]
	switch {
	case unset && len(args) == 3:
		return nil, usagef("say a WEIGHT or --unset, not both")
	case unset:
		return func(ctx context.Context, c *client.Client) (*api.KeyWeight, error) {
			return c.UnsetWeight(ctx, queue, key)
		}, nil
	case len(args) == 2:
		return func(ctx context.Context, c *client.Client) (*api.KeyWeight, error) { return c.Weight(ctx, queue, key) }, nil
	}
	weight, err := strconv.ParseFloat(args[2], 64)
	if err != nil || !(weight > 0 && weight <= 1000) {
		return nil, usagef("WEIGHT %s has to be a number above 0, at most 1000, such as 2.5", quote(args[2]))
	}
	return func(ctx context.Context, c *client.Client) (*api.KeyWeight, error) {
		return c.SetWeight(ctx, queue, key, weight)
	}, nil
}

// weightSource says where a weight comes from.
func weightSource(w *api.KeyWeight) string {
	switch w.From {
	case api.WeightOverride:
		return "set by an operator" + saidBy(w.Said)
	case api.WeightConfig:
		return "from the definition in force"
	}
	return "unless its messages say otherwise"
}
