package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/agent/client"
)

// maxPayload is the largest payload that any queue may take, in bytes.
const maxPayload = 64 << 20

// publishFlags are the flags of publish.
type publishFlags struct {
	message client.Message
	at      string
	headers []string
	batch   string
}

func (a *app) publishCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "publish QUEUE [DATA | -]",
		Short: "Store a message, or a file of them",
		Long: `Store DATA, or what stdin has, as one message, and print what the agent answered as JSON. Or store a file of messages:
NDJSON, a line each: {"data":"text"} or {"data_base64":"…"}, with optional priority, key, weight, id, delay, at, ttl,
content_type and headers. Then it prints how many were stored, tells on stderr which lines failed and why, and exits with 1
if any did.`,
		Example: `  fairlead publish orders --priority high --key acme '{"order":17}'
  fairlead publish orders --id order-17 --header tenant-region=eu < order.json
  fairlead publish orders --delay 30m --ttl 1h 'remind me'
  fairlead publish orders --batch orders.ndjson
  generate | fairlead publish orders --batch -`,
		Args: cobra.RangeArgs(1, 2),
	}
	socket := a.addSocketFlag(command)
	f := &publishFlags{}
	flags := command.Flags()
	flags.StringVar(&f.message.Priority, "priority", "", "level: a number, 0 the highest, or a name (default: the queue's)")
	flags.StringVar(&f.message.Key, "key", "", "tenant key")
	flags.StringVar(&f.message.Weight, "weight", "", "this message's weight, more than 0, at most 1000")
	flags.StringVar(&f.message.ID, "id", "", "id: stored once per key in the queue's dedup_window")
	flags.DurationVar(&f.message.Delay, "delay", 0, "deliver not before this long from now")
	flags.StringVar(&f.at, "at", "", "deliver not before this time (RFC 3339)")
	flags.DurationVar(&f.message.TTL, "ttl", 0, "drop it if it is not delivered within this long from now")
	flags.StringVar(&f.message.Compress, "compress", "", "gzip: compress this one, whatever the queue says")
	flags.StringVar(&f.message.ContentType, "content-type", "", "content type, handed to the consumer")
	flags.StringArrayVar(&f.headers, "header", nil, "application header NAME=VALUE, handed to the consumer; can be repeated")
	flags.StringVar(&f.batch, "batch", "", "file of messages (NDJSON), or - for stdin")
	command.MarkFlagsMutuallyExclusive("delay", "at")
	for _, name := range []string{"priority", "key", "weight", "id", "delay", "at", "ttl", "compress", "content-type", "header"} {
		command.MarkFlagsMutuallyExclusive("batch", name) // each line carries its own
	}
	command.RunE = func(command *cobra.Command, args []string) error {
		if command.Flags().Changed("ttl") && f.message.TTL <= 0 {
			return usagef("--ttl has to be above 0")
		}
		c, err := socket.connect()
		if err != nil {
			return err
		}
		defer c.Close()
		if command.Flags().Changed("batch") {
			if len(args) == 2 {
				return usagef("--batch and DATA cannot both be given")
			}
			return a.publishBatch(command.Context(), c, args[0], f.batch)
		}
		return a.publishOne(command.Context(), c, args, f)
	}
	return command
}

// publishOne stores one message.
func (a *app) publishOne(ctx context.Context, c *client.Client, args []string, f *publishFlags) error {
	m := f.message
	if f.at != "" {
		at, err := time.Parse(time.RFC3339, f.at)
		if err != nil {
			return usagef("--at %s: write a time such as 2026-11-29T12:00:00Z", quote(f.at))
		}
		m.At = at
	}
	for _, h := range f.headers {
		name, value, ok := strings.Cut(h, "=")
		if !ok || name == "" {
			return usagef("--header %s: write NAME=VALUE", quote(h))
		}
		if m.Headers == nil {
			m.Headers = map[string]string{}
		}
		m.Headers[name] = value
	}
	if len(args) == 2 && args[1] != "-" {
		m.Data = []byte(args[1])
	} else {
		if len(args) == 1 && isTerminal(a.in) {
			return usagef("give the DATA to publish, or - and type it, or pipe it in")
		}
		data, err := io.ReadAll(io.LimitReader(a.in, maxPayload+1))
		if err != nil {
			return fmt.Errorf("stdin: %w", err)
		}
		if len(data) > maxPayload {
			return fmt.Errorf("stdin: more than %d bytes, which no queue takes", maxPayload)
		}
		m.Data = data
	}
	stored, err := c.Publish(ctx, args[0], m)
	if err != nil {
		return err
	}
	return writeLine(a.out, stored)
}

// batchSummary is what publish --batch prints.
type batchSummary struct {
	Stored     int `json:"stored"`
	Duplicates int `json:"duplicates"`
	Failed     int `json:"failed"`
}

// publishBatch stores the messages of a file.
func (a *app) publishBatch(ctx context.Context, c *client.Client, queue, path string) error {
	in, size := a.in, int64(-1)
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return fmt.Errorf("--batch: %w", err)
		}
		defer file.Close()
		if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
			size = info.Size()
		}
		in = file
	}
	bar := a.progress(size, "publishing", progressbar.OptionShowBytes(true))
	var sum batchSummary
	err := c.PublishBatch(ctx, queue, io.TeeReader(in, bar), func(l client.BatchLine) error {
		switch {
		case l.Result.Error != nil:
			sum.Failed++
			_ = bar.Clear()
			a.complainf("line %d: %s", l.Line, printable(l.Result.Error.Error()))
		case l.Result.Duplicate:
			sum.Duplicates++
		default:
			sum.Stored++
		}
		return nil
	})
	_ = bar.Finish()
	if printErr := writeLine(a.out, sum); printErr != nil {
		return errors.Join(err, printErr)
	}
	if err == nil && sum.Failed > 0 {
		err = errReported
	}
	return err
}

// progress returns a bar on stderr if that is a terminal, else one that shows nothing. total is -1 when it is not known.
func (a *app) progress(total int64, what string, more ...progressbar.Option) *progressbar.ProgressBar {
	out := a.errs
	if !isTerminal(a.errs) {
		out = &bytes.Buffer{}
	}
	return progressbar.NewOptions64(total, append([]progressbar.Option{
		progressbar.OptionSetWriter(out),
		progressbar.OptionSetVisibility(isTerminal(a.errs)),
		progressbar.OptionSetDescription(what),
		progressbar.OptionThrottle(100 * time.Millisecond),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionEnableColorCodes(false),
	}, more...)...)
}
