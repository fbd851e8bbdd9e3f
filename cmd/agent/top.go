package main

import (
	"context"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/cmd/agent/internal/top"
)

// shortest and longest are the bounds of top's interval.
const (
	shortestTop = 100 * time.Millisecond
	longestTop  = time.Minute
)

func (a *app) topCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "top",
		Short: "Watch queues, tenants and capsules, live, on the whole screen",
		Long: `Watch an agent: its queues, levels and tenants with what each gets beside its fair share, its capsules, leases and peers.
? shows the keys. An agent that restarts is waited for.

Where stdout is no terminal, and with --once, everything is printed once instead, after one interval: rates need two looks.`,
		Example: `  fairlead top
  fairlead top --view tenants --filter acme
  fairlead top --once | head -20`,
		Args: cobra.NoArgs,
	}
	socket := a.addSocketFlag(command)
	interval := command.Flags().Duration("interval", time.Second, "between two looks, 100ms to 1m; the agent looks twice a second at most")
	once := command.Flags().Bool("once", false, "print everything once, and end")
	view := command.Flags().String("view", "queues", "what to begin with: queues, levels, tenants, capsules, leases or peers")
	filter := command.Flags().String("filter", "", "show only rows that have this text")
	command.RunE = func(command *cobra.Command, _ []string) error {
		if *interval < shortestTop || *interval > longestTop {
			return usagef("--interval has to be 100ms to 1m")
		}
		first, ok := top.ViewOf(*view)
		if !ok {
			return usagef("--view: there is no %s; write queues, levels, tenants, capsules, leases or peers", quote(*view))
		}
		return a.top(command.Context(), socket, top.Model{View: first, Filter: *filter, Colour: a.colour(a.out)}, *interval, *once || !isTerminal(a.out))
	}
	return command
}

func (a *app) top(ctx context.Context, socket *socketFlag, m top.Model, interval time.Duration, once bool) error {
	c, err := socket.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	overview := func(ctx context.Context) (*api.Overview, error) {
		ctx, cancel := readTimeout(ctx)
		defer cancel()
		return c.Overview(ctx)
	}
	o, err := overview(ctx) // who is not there at all is not waited for
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer a.cancelAtSignal(cancel)()
	if !once {
		return top.Run(ctx, top.Terminal{In: a.in, Out: a.out, Ask: overview, Interval: interval}, m)
	}
	for began, at := time.Now(), o.At; time.Since(began) < interval || o.At.Equal(at); {
		select {
		case <-time.After(min(interval, shortestTop)):
		case <-ctx.Done():
			return nil
		}
		if o, err = overview(ctx); err != nil {
			return err
		}
	}
	return top.Print(a.out, m, o)
}

// cancelAtSignal cancels at the first signal that asks a command to end.
func (a *app) cancelAtSignal(cancel func()) (stop func()) {
	signals, unsubscribe := a.subscribe()
	done := make(chan struct{})
	go func() {
		for {
			select {
			case s := <-signals:
				if s == os.Interrupt || s == syscall.SIGTERM || s == syscall.SIGHUP {
					cancel()
				}
			case <-done:
				return
			}
		}
	}()
	return func() { unsubscribe(); close(done) }
}
