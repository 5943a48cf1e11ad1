package main

import (
	"github.com/spf13/cobra"

	"sweep/sweep"
)

func newSchemaCmd(env *environ) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of a grid, for editors that complete and check as one types",
		Long: `schema prints the JSON Schema of a grid. An editor that knows it completes keys and marks mistakes while one types;
"sweep validate" then says what only the grid as a whole can show.`,
		Example: `  sweep schema > sweep.schema.json
  # and in the first line of a grid:
  # yaml-language-server: $schema=./sweep.schema.json`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := env.Stdout.Write(sweep.GridSchema())
			return err
		},
	}
}
