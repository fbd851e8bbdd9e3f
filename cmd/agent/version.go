package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// release is set by the linker in release builds: -ldflags "-X main.release=v1.2.3".
var release string

// build says what this binary is.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified"` // built from files that were not committed
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func thisBuild() build {
	b := build{Version: release, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	if b.Version == "" && info.Main.Version != "(devel)" {
		b.Version = info.Main.Version
	}
	if b.Version == "" {
		b.Version = "devel"
	}
	return b
}

func (a *app) versionCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this binary",
		Example: `  fairlead version
  fairlead version -o json`,
		Args: cobra.NoArgs,
	}
	output := addOutputFlag(command)
	command.RunE = func(*cobra.Command, []string) error {
		b := thisBuild()
		if output.json() {
			return writeJSON(a.out, b)
		}
		_, err := fmt.Fprintf(a.out, "fairlead %s (%s, %s)\n", b.Version, b.Go, b.Platform)
		return err
	}
	return command
}
