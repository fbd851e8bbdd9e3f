package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/cmd/agent/internal/bench"
)

func (a *app) benchCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "bench",
		Short: "Measure an agent beside a bare JetStream loop",
		Long: `Measure how many messages of 256 bytes an agent hands over its app socket and finishes in a second, beside a bare loop of
pulls and confirmed deletes on the same server, in one run; then the time from publish to delivery, and the cost of a take with
few and with many messages waiting. The server is one in this process, or a given one, on which everything that was made is
removed in the end. Only ratios within one run can be compared.`,
		Example: `  fairlead bench
  fairlead bench --messages 100000 --connections 1,4,16 --rounds 5
  fairlead bench --waiting 1000,1000000 --nats nats://127.0.0.1:4222 -o json`,
		Args: cobra.NoArgs,
	}
	output := addOutputFlag(command)
	o := bench.DefaultOptions()
	flags := command.Flags()
	flags.StringVar(&o.URL, "nats", "", "a NATS server with JetStream (default: one in this process)")
	flags.IntVar(&o.Messages, "messages", o.Messages, "messages of each row")
	flags.IntVar(&o.Pull, "pull", o.Pull, "messages per pull")
	flags.IntSliceVar(&o.Connections, "connections", o.Connections, "connections that take at a time, a column each")
	flags.IntVar(&o.Rounds, "rounds", o.Rounds, "how often each row is run; the median counts")
	flags.IntSliceVar(&o.Waiting, "waiting", o.Waiting, "for the cost of a take: how many messages wait")
	profile := flags.String("cpuprofile", "", "write a CPU profile of this process to a file")
	command.RunE = func(command *cobra.Command, _ []string) error {
		if err := o.Validate(); err != nil {
			return usageError(err)
		}
		var report *bench.Report
		err := a.withTemporary(command.Context(), func(ctx context.Context, dir string) error {
			return a.profiled(*profile, func() (err error) {
				report, err = a.bench(ctx, dir, o)
				return err
			})
		})
		if err != nil {
			return err
		}
		if output.json() {
			return writeJSON(a.out, report)
		}
		return printBench(a.out, report)
	}
	return command
}

// bench runs the measurements on o.URL, or on a server of its own in dir.
func (a *app) bench(ctx context.Context, dir string, o bench.Options) (*bench.Report, error) {
	if o.URL == "" {
		url, stop, err := bench.StartServer(filepath.Join(dir, "jetstream"))
		if err != nil {
			return nil, unavailable(err)
		}
		defer stop()
		o.URL = url
	}
	o.Dir, o.Start = dir, a.host
	bar := a.progress(1, "")
	o.Progress = func(done, total int, what string) {
		bar.ChangeMax(total)
		bar.Describe(what)
		_ = bar.Set(done)
	}
	defer func() { _ = bar.Finish() }()
	return bench.Run(ctx, o)
}

// profiled runs body and writes its CPU profile to path, if there is one.
func (a *app) profiled(path string, body func() error) error {
	if path == "" {
		return body()
	}
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("--cpuprofile: %w", err)
	}
	defer file.Close()
	if err := pprof.StartCPUProfile(file); err != nil {
		return fmt.Errorf("--cpuprofile: %w", err)
	}
	defer pprof.StopCPUProfile()
	return body()
}

func printBench(w io.Writer, r *bench.Report) error {
	fmt.Fprintf(w, "%s messages of %d bytes, pulls of %d, median of %s\n\n", grouped(r.Messages), r.Bytes, r.Pull, count(r.Rounds, "round"))
	heads := []any{"MESSAGES PER SECOND"}
	for _, cell := range r.Rows[0].Cells {
		heads = append(heads, count(cell.Connections, "connection"), "of bare")
	}
	t := newTable(w, heads...)
	for _, row := range r.Rows {
		cells := []any{row.Name}
		for _, cell := range row.Cells {
			cells = append(cells, grouped(int(cell.PerSecond)), strconv.FormatFloat(cell.OfBare, 'f', 2, 64))
		}
		t.row(cells...)
	}
	if err := t.flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	t = newTable(w, "SINGLE MESSAGES", "count", "p50", "p99")
	if r.Delivery.Count > 0 {
		t.row("publish to delivery, low load", r.Delivery.Count, micros(r.Delivery.P50), micros(r.Delivery.P99))
	}
	for _, takes := range r.Takes {
		t.row("take with "+grouped(takes.Waiting)+" waiting", takes.Count, micros(takes.P50), micros(takes.P99))
	}
	return t.flush()
}

// micros shows microseconds as milliseconds.
func micros(us float64) string { return strconv.FormatFloat(us/1000, 'f', 2, 64) + " ms" }

// grouped writes n with commas.
func grouped(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
