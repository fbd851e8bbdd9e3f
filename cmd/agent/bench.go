package main

import (
	"context"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/cmd/agent/internal/bench"
)

func (a *app) benchCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "bench",
		Short: "Measure an agent beside a bare JetStream loop",
		Long: `Measure how many messages of 256 bytes an agent hands over its app socket and finishes in a second, beside a bare loop of
pulls and confirmed deletes on the same server, in one run; then the time from publish to delivery, and the cost of a take with
few and with many messages waiting. More profiles show what a noisy neighbour does to quiet tenants, and what many agents do on
one queue: --list names all. The server is one in this process, or a given one, on which everything that was made is removed in
the end. Only ratios within one run can be compared; --compare does that with an earlier --json, and says which differences are
no more than noise.`,
		Example: `  fairlead bench
  fairlead bench --profile noisy-neighbour,many-agents --svg chart.svg
  fairlead bench --profile all --rounds 3 --json today.json
  fairlead bench --rounds 3 --compare yesterday.json
  fairlead bench --messages 100000 --connections 1,4,16 --rounds 5
  fairlead bench --waiting 1000,1000000 --nats nats://127.0.0.1:4222 -o json`,
		Args: cobra.NoArgs,
	}
	output := addOutputFlag(command)
	o := bench.DefaultOptions()
	flags := command.Flags()
	flags.StringVar(&o.URL, "nats", "", "a NATS server with JetStream (default: one in this process)")
	flags.StringSliceVar(&o.Profiles, "profile", nil, "what to measure, see --list; all is everything (default: what takes less than a minute)")
	list := flags.Bool("list", false, "name the profiles, and measure nothing")
	flags.IntVar(&o.Messages, "messages", o.Messages, "messages of each row")
	flags.IntVar(&o.Pull, "pull", o.Pull, "messages per pull")
	flags.IntSliceVar(&o.Connections, "connections", o.Connections, "connections that take at a time, a column each")
	flags.IntVar(&o.Rounds, "rounds", o.Rounds, "how often each row is run; the median counts")
	flags.IntSliceVar(&o.Waiting, "waiting", o.Waiting, "for the cost of a take: how many messages wait")
	flags.IntSliceVar(&o.Agents, "agents", o.Agents, "for many-agents: how many of them, a row each")
	flags.IntVar(&o.Neighbour.Flood, "flood", o.Neighbour.Flood, "for noisy-neighbour: messages of the noisy tenant")
	var files benchFiles
	flags.StringVar(&files.svg, "svg", "", "draw a chart into a file")
	flags.StringVar(&files.json, "json", "", "write everything that was measured, with all rounds, into a file")
	flags.StringVar(&files.compare, "compare", "", "compare with a file of an earlier --json")
	flags.StringVar(&files.cpu, "cpuprofile", "", "write a CPU profile of this process to a file")
	flags.StringVar(&files.memory, "memprofile", "", "write a profile of all allocations of this process to a file")
	command.RunE = func(command *cobra.Command, _ []string) error {
		if *list {
			return printProfiles(a.out)
		}
		if err := o.Validate(); err != nil {
			return usageError(err)
		}
		then, err := files.earlier()
		if err != nil {
			return err
		}
		var report *bench.Report
		err = a.withTemporary(command.Context(), func(ctx context.Context, dir string) error {
			return files.profiled(func() (err error) {
				report, err = a.bench(ctx, dir, o)
				return err
			})
		})
		if err != nil {
			return err
		}
		return a.tellBench(report, then, files, output.json())
	}
	return command
}

// tellBench shows a report, and writes the files that were asked for.
func (a *app) tellBench(report, then *bench.Report, files benchFiles, asJSON bool) error {
	if err := files.write(report); err != nil {
		return err
	}
	var comparison *bench.Comparison
	if then != nil {
		c := bench.Compare(then, report)
		comparison = &c
	}
	if asJSON {
		return writeJSON(a.out, struct {
			*bench.Report
			Compared *bench.Comparison `json:"compared,omitempty"`
		}{report, comparison})
	}
	if err := printBench(a.out, report); err != nil || comparison == nil {
		return err
	}
	return printComparison(a.out, then, comparison)
}

// bench runs the measurements on o.URL, or on a server of its own in dir.
func (a *app) bench(ctx context.Context, dir string, o bench.Options) (*bench.Report, error) {
	if o.URL == "" {
		url, stop, err := bench.StartServer(filepath.Join(dir, "jetstream"))
		if err != nil {
			return nil, unavailable(err)
		}
		defer stop()
		o.URL, o.OwnServer = url, true
	}
	o.Dir, o.Start, o.Version = dir, a.host, thisBuild().Version
	bar := a.progress(1, "")
	o.Progress = func(done, total int, what string) {
		bar.ChangeMax(total)
		bar.Describe(what)
		_ = bar.Set(done)
	}
	defer func() { _ = bar.Finish() }()
	return bench.Run(ctx, o)
}
