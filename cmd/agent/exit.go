package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/client"
	"github.com/fairlead/fairlead/agent/tracing"
	"github.com/fairlead/fairlead/config"
)

// The exit codes. 69 and 78 are EX_UNAVAILABLE and EX_CONFIG of sysexits.h.
const (
	exitFailure     = 1
	exitUsage       = 2
	exitUnavailable = 69
	exitConfig      = 78
)

// exitError is an error whose exit code is decided where it arises.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

func usageError(err error) error { return &exitError{code: exitUsage, err: err} }

func usagef(format string, args ...any) error { return usageError(fmt.Errorf(format, args...)) }

func unavailable(err error) error { return &exitError{code: exitUnavailable, err: err} }

// errReported ends a command with code 1 when all there is to say was said.
var errReported = errors.New("reported")

// exitCode maps an error to the code of the process.
func exitCode(err error) int {
	var decided *exitError
	var invalid *config.Invalid
	var answered *api.Error
	switch {
	case err == nil:
		return 0
	case errors.As(err, &decided):
		return decided.code
	case errors.As(err, &invalid), errors.Is(err, tracing.ErrEnvironment), isSecretError(err):
		return exitConfig
	case errors.Is(err, client.ErrNoAgent), errors.Is(err, client.ErrConnectionLost), isBrokerError(err):
		return exitUnavailable
	case errors.As(err, &answered) && answered.Code == api.CodeBroker:
		return exitUnavailable
	}
	return exitFailure
}

// report writes err to stderr and returns the exit code.
func (a *app) report(command *cobra.Command, err error) int {
	code := exitCode(err)
	var invalid *config.Invalid
	switch {
	case err == nil || errors.Is(err, errReported):
	case errors.As(err, &invalid):
		a.complainf("bad configuration, %s", count(len(invalid.Problems), "problem"))
		for _, p := range invalid.Problems {
			fmt.Fprintln(a.errs, p) // file:line:column first: editors and terminals make links of it
		}
	default:
		a.complainf("%s", strings.TrimRight(err.Error(), "\n"))
		if code == exitUsage && command != nil {
			a.complainf("for help: %s --help", command.CommandPath())
		}
	}
	return code
}

// complainf writes one message to stderr.
func (a *app) complainf(format string, args ...any) {
	fmt.Fprintf(a.errs, "fairlead: "+format+"\n", args...)
}

// count says how many: "1 problem", "2 problems".
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
