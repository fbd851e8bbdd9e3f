package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/config"
)

func (a *app) schemaCommand() *cobra.Command {
	var format string
	command := &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of the configuration file",
		Long: `Print the JSON Schema of the configuration file, for editors and checks; or, with -o markdown, the reference
of all its keys.`,
		Example: `  fairlead schema > fairlead.schema.json
  fairlead schema -o markdown > configuration-reference.md`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			var text []byte
			var err error
			switch format {
			case "json":
				text, err = config.Schema()
				text = append(text, '\n')
			case "markdown":
				text = config.ReferencePage()
			default:
				return usagef("-o %s: write json or markdown", quote(format))
			}
			if err != nil {
				return fmt.Errorf("schema: %w", err)
			}
			_, err = a.out.Write(text)
			return err
		},
	}
	command.Flags().StringVarP(&format, "output", "o", "json", "json or markdown")
	_ = command.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"json", "markdown"}, cobra.ShellCompDirectiveNoFileComp))
	return command
}
