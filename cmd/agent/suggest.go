package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fairlead/fairlead/internal/spelling"
)

// flagError makes a usage error of what is wrong with a flag, and names the flag that was probably meant: cobra does
// that for commands only.
func flagError(command *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && len(unknown.GetSpecifiedName()) > 1 {
		if meant := closestFlag(command, unknown.GetSpecifiedName()); meant != "" {
			err = fmt.Errorf("%w, did you mean --%s?", err, meant)
		}
	}
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) && invalid.GetFlag().Value.Type() == "duration" {
		err = fmt.Errorf("%w: write a number with a unit, such as 30s or 5m", err)
	}
	return usageError(err)
}

// sayWhat adds to what is wrong with a command's arguments how it is written: cobra only counts them.
func sayWhat(check cobra.PositionalArgs) cobra.PositionalArgs {
	if check == nil {
		return nil
	}
	return func(command *cobra.Command, args []string) error {
		err := check(command, args)
		if err == nil || command.Parent() == nil {
			return err
		}
		written := command.Parent().CommandPath() + " " + command.Use
		if strings.HasPrefix(err.Error(), "unknown command") { // cobra's word for an argument where there are none
			return usagef("%s: it takes no arguments; write: %s", quote(args[0]), written)
		}
		return usagef("%w; write: %s", err, written)
	}
}

// closestFlag returns the flag whose name is at most two edits away, the first of them in alphabetical order.
func closestFlag(command *cobra.Command, name string) string {
	best, found := 3, ""
	command.Flags().VisitAll(func(f *pflag.Flag) {
		if d := spelling.Distance(name, f.Name); d < best && d < len(f.Name) {
			best, found = d, f.Name
		}
	})
	return found
}
