package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/client"
)

const (
	// purgePiece is how many messages one call removes, so that progress can be shown and Ctrl-C ends it soon.
	purgePiece = 2000
	// purgeTimeout bounds one call.
	purgeTimeout = 2 * time.Minute
)

// errNotConfirmed ends a purge that was not wanted.
var errNotConfirmed = errors.New("nothing was removed")

func (a *app) purgeCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "purge QUEUE",
		Short: "Remove the waiting messages of a queue, or of one tenant",
		Long: `Remove the waiting messages of a queue, or of one tenant: of all levels, those that back off included, up to the newest one
there is at the start. What apps have in hand stays, and can be settled. It cannot be undone. Nothing else is removed: neither
dead letters nor delayed messages.`,
		Example: `  fairlead purge orders
  fairlead purge orders --key acme --yes
  fairlead purge orders --key '' --yes        the messages without a key`,
		Args: cobra.ExactArgs(1),
	}
	socket, output, key := a.addAdminFlag(command), addOutputFlag(command), addKeyFlag(command)
	yes := command.Flags().Bool("yes", false, "do not ask; nobody is asked when stdin is no terminal")
	command.ValidArgsFunction = completeQueue(socket)
	command.RunE = func(command *cobra.Command, args []string) error {
		c, err := socket.connect()
		if err != nil {
			return err
		}
		defer c.Close()
		waiting, err := countWaiting(command.Context(), c, args[0], key.value())
		if err != nil {
			return err
		}
		if !*yes && isTerminal(a.in) && !confirm(a.in, a.errs, purgeQuestion(args[0], key.value(), waiting)) {
			return errNotConfirmed
		}
		sum, err := a.purgeAll(command.Context(), c, client.PurgeRequest{Queue: args[0], Key: key.value(), Max: purgePiece}, waiting)
		if err != nil {
			return err
		}
		if output.json() {
			return writeJSON(a.out, sum)
		}
		_, err = fmt.Fprintf(a.out, "%s: %s removed\n", controlName(sum.Queue, sum.Key), count(sum.Removed, "message"))
		return err
	}
	return command
}

// countWaiting is how many messages a purge has before it; -1 is not known.
func countWaiting(ctx context.Context, c *client.Client, queue string, key *string) (int64, error) {
	ctx, cancel := readTimeout(ctx)
	defer cancel()
	q, err := c.Queue(ctx, queue, 1000)
	if err != nil {
		return 0, err
	}
	if key == nil {
		return int64(q.Waiting + q.Delayed), nil
	}
	for _, k := range q.Keys {
		if k.Key == *key {
			return int64(k.Waiting), nil
		}
	}
	if q.KeysTotal > len(q.Keys) {
		return -1, nil
	}
	return 0, nil
}

func purgeQuestion(queue string, key *string, waiting int64) string {
	what := "all waiting messages"
	if waiting >= 0 {
		what = "the " + count(int(waiting), "waiting message")
	}
	return fmt.Sprintf("Remove %s of %s, for good?", what, controlName(queue, key))
}

// confirm asks a question on out and reads the answer; all but yes is no.
func confirm(in io.Reader, out io.Writer, question string) bool {
	fmt.Fprint(out, question+" [y/N] ")
	line, _ := bufio.NewReader(in).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return true
	}
	return false
}

// purgeAll removes piece by piece.
func (a *app) purgeAll(ctx context.Context, c *client.Client, r client.PurgeRequest, waiting int64) (*api.Purged, error) {
	bar := a.progress(waiting, "removing")
	defer func() { _ = bar.Finish() }()
	sum := &api.Purged{Queue: r.Queue, Key: r.Key}
	for {
		piece, cancel := context.WithTimeoutCause(ctx, purgeTimeout, errSlow)
		got, err := c.Purge(piece, r)
		cancel()
		if err != nil {
			if sum.Removed > 0 {
				err = fmt.Errorf("%w; %s removed by the calls before it", err, count(sum.Removed, "message"))
			}
			return nil, err
		}
		sum.Removed, sum.Until = sum.Removed+got.Removed, got.Until
		_ = bar.Set64(min(int64(sum.Removed), max(waiting, 0)))
		if !got.More {
			return sum, nil
		}
		r.Until = got.Until
	}
}
