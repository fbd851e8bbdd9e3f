package main

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/cmd/agent/internal/worker"
)

// maxConcurrency bounds the connections of one worker: the agent accepts about a thousand in all.
const maxConcurrency = 500

func (a *app) workCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "work CAPSULE [--concurrency N] -- COMMAND [ARGUMENT...]",
		Short: "Run a command for each message",
		Long: `Run COMMAND for each message of CAPSULE, with the payload on its stdin. Exit code 0 acknowledges the message; with anything
else it is tried again later, and the code and the last line of stderr are kept as the reason. While COMMAND runs, the lease
of its message is extended. Metadata is in the environment:

  FAIRLEAD_TOKEN FAIRLEAD_QUEUE FAIRLEAD_PRIORITY FAIRLEAD_KEY FAIRLEAD_SEQ FAIRLEAD_ATTEMPT FAIRLEAD_ID FAIRLEAD_FENCE
  FAIRLEAD_CONTENT_TYPE FAIRLEAD_ENQUEUED_AT, and FAIRLEAD_HEADER_<NAME> for each header, upper case, - as _

SIGTERM or SIGINT ends it once the commands that run have ended; a second one kills them. However it ends, what it still holds
is given back at once. If the agent goes away, it is asked again until it is back.`,
		Example: `  fairlead work default -- ./handler
  fairlead work default --concurrency 4 -- sh -c 'cat > "out/$FAIRLEAD_SEQ"'
  fairlead work default --exit-when-empty -- ./handler      for scripts: end when nothing waits any more`,
	}
	socket := a.addSocketFlag(command)
	o := worker.Options{}
	flags := command.Flags()
	flags.IntVar(&o.Concurrency, "concurrency", 1, fmt.Sprintf("how many commands at a time, at most %d", maxConcurrency))
	flags.DurationVar(&o.Lease, "lease", 0, "how long a message is this worker's without an extension (default: the capsule's)")
	flags.BoolVar(&o.ExitWhenEmpty, "exit-when-empty", false, "end when nothing waits and nothing runs")
	flags.IntVar(&o.MaxMessages, "max-messages", 0, "end after this many messages; 0: no limit")
	command.RunE = func(command *cobra.Command, args []string) error {
		dash := command.ArgsLenAtDash()
		switch {
		case dash < 0 || len(args) == dash:
			return usagef("say what to run after --, for instance: fairlead work default -- ./handler")
		case dash != 1:
			return usagef("name one CAPSULE before --")
		case o.Concurrency < 1 || o.Concurrency > maxConcurrency:
			return usagef("--concurrency has to be 1 to %d", maxConcurrency)
		case o.MaxMessages < 0:
			return usagef("--max-messages cannot be negative")
		case o.Lease < 0 || o.Lease > 0 && o.Lease < time.Second:
			return usagef("--lease has to be 1s or more")
		}
		c, err := socket.connect()
		if err != nil {
			return err
		}
		defer c.Close()
		o.Client, o.Capsule, o.Command = c, args[0], args[1:]
		o.Environ, o.Stdout, o.Stderr = os.Environ(), a.out, a.errs
		return a.work(command.Context(), o)
	}
	return command
}

// work runs a worker until it ends or signals end it.
func (a *app) work(ctx context.Context, o worker.Options) error {
	w, err := worker.New(o)
	if err != nil {
		return usageError(err)
	}
	signals, unsubscribe := a.subscribe()
	defer unsubscribe()
	pulling, stop := context.WithCancel(ctx)
	defer stop()
	running, kill := context.WithCancel(context.WithoutCancel(ctx))
	defer kill()
	ended := make(chan struct{})
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		var again echoes
		for {
			select {
			case s := <-signals:
				if s == syscall.SIGHUP || again.is(time.Now()) {
					continue
				}
				if pulling.Err() != nil {
					kill()
				}
				stop()
			case <-ended:
				return
			}
		}
	}()
	begin := time.Now()
	sum, err := w.Run(pulling, running)
	close(ended)
	<-watching
	if err == nil || sum != (worker.Summary{}) {
		a.complainf("work: %s in %s", sum, time.Since(begin).Round(100*time.Millisecond))
	}
	if err == nil && running.Err() != nil {
		err = errReported // the summary said it
	}
	return err
}
