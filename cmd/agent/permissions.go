package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/agent"
	"github.com/fairlead/fairlead/agent/broker/rights"
)

var errPermissionsFormat = errors.New("use conf or json")

// permissionsFormat is the choice between the server's configuration and JSON.
type permissionsFormat string

// String, Set and Type implement pflag.Value.
func (f *permissionsFormat) String() string { return string(*f) }
func (f *permissionsFormat) Type() string   { return "FORMAT" }
func (f *permissionsFormat) Set(s string) error {
	if s != "conf" && s != "json" {
		return errPermissionsFormat
	}
	*f = permissionsFormat(s)
	return nil
}

func (a *app) permissionsCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "permissions --config FILE",
		Short: "Print what an agent's identity needs in NATS, and nothing else",
		Long: `Print what the NATS identity of an agent with this file needs, and nothing else. The agent then runs with
"run --no-setup"; what makes the streams for it, once, is "fairlead setup" with another identity: --setup prints what that one needs.
An agent that makes its streams itself needs both.

It depends on the queues, the prefix and the bucket of the file: print it again when those change. Nothing is connected to.`,
		Example: `  fairlead permissions --config fairlead.yaml > agent.conf             to be included in a user of nats-server's configuration
  fairlead permissions --config fairlead.yaml --setup > setup.conf
  fairlead permissions --config fairlead.yaml -o json                  as a user's JWT has them`,
		Args: cobra.NoArgs,
	}
	path := command.Flags().String("config", "", "the file")
	setup := command.Flags().Bool("setup", false, "of the identity of \"fairlead setup\"")
	format := permissionsFormat("conf")
	command.Flags().VarP(&format, "output", "o", "conf or json")
	_ = command.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"conf", "json"}, cobra.ShellCompDirectiveNoFileComp))
	command.RunE = func(*cobra.Command, []string) error {
		cfg, err := a.loadConfig(*path)
		if err != nil {
			return err
		}
		list, other := agent.Permissions(cfg)
		if *setup {
			list = other
		}
		text, err := permissionsConf(list), error(nil)
		if format == "json" {
			text, err = permissionsJSON(list)
		}
		if err == nil {
			_, err = fmt.Fprint(a.out, text)
		}
		return err
	}
	return command
}

// permissionsConf writes permissions as nats-server's configuration has them.
func permissionsConf(list []rights.Permission) string {
	widest := 0
	for _, p := range list {
		widest = max(widest, len(p.Subject))
	}
	var b strings.Builder
	b.WriteString("permissions: {\n")
	for _, direction := range []rights.Direction{rights.Publish, rights.Subscribe} {
		fmt.Fprintf(&b, "  %s: [\n", direction)
		for _, p := range list {
			if p.Direction == direction {
				fmt.Fprintf(&b, "    %-*s  # %s\n", widest+2, `"`+p.Subject+`"`, p.For)
			}
		}
		b.WriteString("  ]\n")
	}
	b.WriteString("}\n")
	return b.String()
}

// permissionsJSON writes permissions as a user's JWT has them.
func permissionsJSON(list []rights.Permission) (string, error) {
	type allowed struct {
		Allow []string `json:"allow"`
	}
	var all struct {
		Pub allowed `json:"pub"`
		Sub allowed `json:"sub"`
	}
	for _, p := range list {
		into := &all.Pub
		if p.Direction == rights.Subscribe {
			into = &all.Sub
		}
		into.Allow = append(into.Allow, p.Subject)
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // for the > of subjects
	e.SetIndent("", "  ")
	err := e.Encode(all)
	return b.String(), err
}
