package main

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// app is one run of the command line, with all that it reads and writes, so that tests can stand in for it.
type app struct {
	in     io.Reader
	out    io.Writer
	errs   io.Writer
	lookup func(name string) (string, bool) // the environment

	// subscribe returns the signals that ask a command to end (and SIGHUP), and what ends the subscription.
	subscribe func() (<-chan os.Signal, func())

	agents agents // how an agent is built

	started bool // a command's own code was reached: its errors are no usage errors
}

func newApp() *app {
	return &app{in: os.Stdin, out: os.Stdout, errs: os.Stderr, lookup: os.LookupEnv, subscribe: subscribe, agents: realAgents{}}
}

// run runs the command in args and returns its exit code.
func (a *app) run(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(append([]string{}, args...)) // never nil: cobra would read os.Args
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.errs)
	command, err := root.ExecuteContextC(ctx)
	if err != nil && !a.started && !errors.As(err, new(*exitError)) {
		err = usageError(err)
	}
	return a.report(command, err)
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "fairlead",
		Short: "Strict priorities and a fair share between tenants, for NATS JetStream",
		Long: `Fairlead sits beside an app and decides which waiting NATS JetStream message the app works on next:
strict priority levels, inside each a fair share between tenants.`,
		Example: `  fairlead run --dev                                  try it: everything in one process and a temporary folder
  fairlead publish default --key acme 'hello'         store a message
  fairlead work default --concurrency 4 -- ./handler  run a command for each message`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.SetFlagErrorFunc(flagError)
	root.SetHelpCommand(helpCommand(root))
	root.AddCommand(
		a.runCommand(), a.validateCommand(), a.permissionsCommand(), a.setupCommand(), a.demoCommand(),
		a.publishCommand(), a.pullCommand(), a.workCommand(),
		a.statusCommand(), a.topCommand(), a.queuesCommand(), a.peekCommand(), a.delayedCommand(), a.deadCommand(),
		a.pauseCommand(), a.resumeCommand(), a.weightCommand(), a.purgeCommand(),
		a.drainCommand(), a.healthCommand(), a.waitCommand(),
		a.benchCommand(), a.schemaCommand(), a.versionCommand(), a.completionCommand(),
	)
	a.noteStart(root.Commands())
	return root
}

// noteStart makes commands, and those under them, note that their own code was reached. A command that only has others under
// it says which.
func (a *app) noteStart(commands []*cobra.Command) {
	for _, command := range commands {
		a.noteStart(command.Commands())
		body := command.RunE
		if body == nil {
			command.Args = cobra.ArbitraryArgs
			command.RunE = func(command *cobra.Command, args []string) error {
				if len(args) > 0 {
					return usagef("%s: there is no %s", command.CommandPath(), quote(args[0]))
				}
				return usagef("%s: say which of %s", command.CommandPath(), subcommands(command))
			}
			continue
		}
		command.Args = sayWhat(command.Args)
		command.RunE = func(command *cobra.Command, args []string) error {
			a.started = true
			return body(command, args)
		}
	}
}

// subcommands lists the commands under a command.
func subcommands(command *cobra.Command) string {
	var names []string
	for _, c := range command.Commands() {
		names = append(names, c.Name())
	}
	return strings.Join(names, ", ")
}

// helpCommand is cobra's, with an example and an error for what it does not know.
func helpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND]",
		Short:   "Show the help of a command",
		Example: "  fairlead help publish",
		RunE: func(_ *cobra.Command, args []string) error {
			command, rest, err := root.Find(args)
			if err == nil && len(rest) > 0 {
				err = errors.New("unknown command " + quote(rest[0]) + " for \"fairlead\"")
			}
			if err != nil {
				return usageError(err)
			}
			command.InitDefaultHelpFlag() // as --help does
			return command.Help()
		},
	}
}
