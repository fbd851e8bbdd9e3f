package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/client"
)

func (a *app) deadCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "dead list|show|retry|purge QUEUE",
		Short: "Look at messages that were given up, and put them back",
		Long: `Look at messages that were given up, and put them back into their queue.
A dead letter is named by the sequence that the message had in its queue. These commands ask the admin socket.`,
		Example: `  fairlead dead list orders
  fairlead dead show orders 1796000000000017
  fairlead dead retry orders 1796000000000017
  fairlead dead retry orders --all --priority low
  fairlead dead purge orders`,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("there is no command dead %s: use list, show, retry or purge", args[0])
			}
			return usagef("say what to do: list, show, retry or purge")
		},
	}
	command.AddCommand(a.deadListCommand(), a.deadShowCommand(), a.deadRetryCommand(), a.deadPurgeCommand())
	return command
}

func (a *app) deadListCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "list QUEUE",
		Short: "List a queue's dead letters, the oldest first",
		Example: `  fairlead dead list orders
  fairlead dead list orders --max 1000 -o json | jq '.dead[] | select(.reason == "rejected") | .seq'`,
		Args: cobra.ExactArgs(1),
	}
	socket, output := a.addAdminFlag(command), addOutputFlag(command)
	limit := command.Flags().Int("max", 100, "how many at most, up to 1000")
	command.RunE = func(command *cobra.Command, args []string) error {
		if *limit < 1 {
			return usagef("--max has to be 1 or more")
		}
		list, err := ask(command.Context(), socket, func(ctx context.Context, c *client.Client) (*api.DeadList, error) {
			return c.Dead(ctx, args[0], *limit)
		})
		if err != nil {
			return err
		}
		return show(a, output, list, func(w io.Writer, l *api.DeadList) error { return printDead(w, l, time.Now()) })
	}
	return command
}

func printDead(w io.Writer, list *api.DeadList, now time.Time) error {
	t := newTable(w, "SEQ", "LEVEL", "KEY", "REASON", "ATTEMPTS", "DIED", "SIZE", "LAST ERROR")
	for i := range list.Dead {
		d := &list.Dead[i]
		t.row(d.Seq, d.Priority, keyName(d.Key), d.Reason, d.Attempts, seconds(now.Sub(d.DiedAt).Seconds())+" ago", sizeOf(uint64(d.Size)),
			shorten(d.LastError, 60))
	}
	if err := t.flush(); err != nil {
		return err
	}
	if more := list.Total - uint64(len(list.Dead)); more > 0 {
		fmt.Fprintf(w, "and %d more\n", more)
	}
	return nil
}

func (a *app) deadShowCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "show QUEUE SEQ",
		Short: "Show one dead letter with its payload",
		Long: `Show what is known of one dead letter, and its payload as it was published. With --data only the payload is written, byte
for byte.`,
		Example: `  fairlead dead show orders 1796000000000017
  fairlead dead show orders 1796000000000017 -o json
  fairlead dead show orders 1796000000000017 --data | jq .order`,
		Args: cobra.ExactArgs(2),
	}
	socket, output := a.addAdminFlag(command), addOutputFlag(command)
	only := command.Flags().Bool("data", false, "only the payload")
	command.MarkFlagsMutuallyExclusive("data", "output")
	command.RunE = func(command *cobra.Command, args []string) error {
		seqs, err := sequences(args[1:])
		if err != nil {
			return err
		}
		d, err := ask(command.Context(), socket, func(ctx context.Context, c *client.Client) (*api.DeadLetter, error) {
			return c.DeadLetter(ctx, args[0], seqs[0])
		})
		switch {
		case err != nil:
			return err
		case *only:
			_, err = a.out.Write(d.Payload())
			return err
		case output.json():
			return writeJSON(a.out, d)
		}
		return printDeadLetter(a.out, d)
	}
	return command
}

func printDeadLetter(w io.Writer, d *api.DeadLetter) error {
	out := bufio.NewWriter(w)
	line := func(name string, value any) { fmt.Fprintf(out, "%-13s %s\n", name, printable(fmt.Sprint(value))) }
	line("queue", d.Queue)
	line("seq", d.Seq)
	level := strconv.Itoa(d.Priority)
	if d.Unprioritised {
		level += " (published without a priority)"
	}
	line("level", level)
	line("key", keyName(d.Key))
	line("reason", d.Reason)
	line("attempts", d.Attempts)
	line("last error", d.LastError)
	line("enqueued at", d.EnqueuedAt.Format(time.RFC3339Nano))
	line("died at", d.DiedAt.Format(time.RFC3339Nano))
	for _, v := range []struct{ name, value string }{{"agent", d.Agent}, {"id", d.ID}, {"content type", d.ContentType}} {
		if v.value != "" {
			line(v.name, v.value)
		}
	}
	if d.Weight > 0 {
		line("weight", d.Weight)
	}
	names := make([]string, 0, len(d.Headers))
	for name := range d.Headers {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		line("header", name+": "+d.Headers[name])
	}
	line("size", sizeOf(uint64(d.Size)))
	if d.Data != nil {
		fmt.Fprintf(out, "\n%s\n", printableText(*d.Data))
	} else {
		fmt.Fprintf(out, "\nthe payload is not text: see it with --data, or as base64 with -o json\n")
	}
	return out.Flush()
}

// printableText is printable for text of several lines.
func printableText(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = strings.ReplaceAll(printable(strings.ReplaceAll(l, "\t", "    ")), "\r", "")
	}
	return strings.Join(lines, "\n")
}

// retryPage is how many dead letters one call of retry --all puts back.
const retryPage = 500

func (a *app) deadRetryCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "retry QUEUE SEQ... | --all",
		Short: "Put dead letters back into their queue",
		Long: `Put dead letters back into their queue, as new messages with their key, headers and payload, and their attempts at zero. They
go to --priority, or else to the queue's dead_letters.retry_priority, or else where they were. A dead letter is taken out only
after its message was stored; it comes once, also if it is retried twice. What could not be put back, because the queue is
full for instance, is told and stays a dead letter; then the exit code is 1.`,
		Example: `  fairlead dead retry orders 1796000000000017
  fairlead dead retry orders 1796000000000017 1796000000000018 --priority 2
  fairlead dead retry orders --all`,
		Args: cobra.MinimumNArgs(1),
	}
	socket := a.addAdminFlag(command)
	all := command.Flags().Bool("all", false, "all dead letters of the queue")
	priority := command.Flags().String("priority", "", "level: a number, 0 the highest, or a name")
	command.RunE = func(command *cobra.Command, args []string) error {
		if *all == (len(args) > 1) {
			return usagef("say which: either the SEQs of dead letters, or --all")
		}
		seqs, err := sequences(args[1:])
		if err != nil {
			return err
		}
		r := api.DeadRetry{Seqs: seqs, All: *all}
		if command.Flags().Changed("priority") {
			if r.Priority, err = json.Marshal(*priority); err != nil {
				return err
			}
		}
		c, err := socket.connect()
		if err != nil {
			return err
		}
		defer c.Close()
		return a.retryDead(command.Context(), c, args[0], r)
	}
	return command
}

// sequences reads numbers of dead letters.
func sequences(args []string) ([]uint64, error) {
	var seqs []uint64
	for _, arg := range args {
		n, err := strconv.ParseUint(arg, 10, 64)
		if err != nil {
			return nil, usagef("%s is no SEQ: use a number that dead list shows", quote(arg))
		}
		seqs = append(seqs, n)
	}
	return seqs, nil
}

// retriedSummary is what dead retry prints.
type retriedSummary struct {
	Retried int `json:"retried"`
	Failed  int `json:"failed"`
}

// retryDead puts dead letters back, page by page, and tells what could not be put back.
func (a *app) retryDead(ctx context.Context, c *client.Client, queue string, r api.DeadRetry) error {
	total := int64(len(r.Seqs))
	if r.All {
		r.Max = retryPage
		if list, err := c.Dead(ctx, queue, 1); err == nil {
			total = int64(list.Total)
		}
	}
	bar := a.progress(total, "putting back")
	defer func() { _ = bar.Finish() }()
	var sum retriedSummary
	for {
		done, err := c.RetryDead(ctx, queue, r)
		if err != nil {
			_ = bar.Clear()
			if sum.Retried > 0 {
				_ = writeLine(a.out, sum)
			}
			return err
		}
		sum.Retried += done.Retried
		sum.Failed += len(done.Failed)
		full := false
		for _, f := range done.Failed {
			_ = bar.Clear()
			a.complainf("%d: %s", f.Seq, printable(f.Error.Error()))
			full = full || f.Error.Code == api.CodeQueueFull && f.Error.Reason != "max_messages_per_key"
		}
		_ = bar.Add(done.Retried + len(done.Failed))
		if r.From, r.Until = done.Next, done.Until; !r.All || r.From == 0 || full {
			break
		}
	}
	_ = bar.Clear()
	if err := writeLine(a.out, sum); err != nil {
		return err
	}
	if sum.Failed > 0 {
		return errReported
	}
	return nil
}

func (a *app) deadPurgeCommand() *cobra.Command {
	command := &cobra.Command{
		Use:     "purge QUEUE",
		Short:   "Delete all dead letters of a queue",
		Example: `  fairlead dead purge orders`,
		Args:    cobra.ExactArgs(1),
	}
	socket := a.addAdminFlag(command)
	yes := command.Flags().Bool("yes", false, "do not ask; nobody is asked when stdin is no terminal")
	command.RunE = func(command *cobra.Command, args []string) error {
		if !*yes && isTerminal(a.in) && !confirm(a.in, a.errs, "Delete all dead letters of queue "+args[0]+", for good?") {
			return errNotConfirmed
		}
		n, err := ask(command.Context(), socket, func(ctx context.Context, c *client.Client) (uint64, error) { return c.PurgeDead(ctx, args[0]) })
		if err != nil {
			return err
		}
		return writeLine(a.out, api.DeadPurged{Purged: n})
	}
	return command
}
