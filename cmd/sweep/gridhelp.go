package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"sweep/grids"
)

// newGridTopic is a help topic, not a command: "sweep help grid" prints a grid that has every key, ready to be
// written to a file and changed.
func newGridTopic(env *environ) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "grid",
		Short: "Every key of a grid with what it means: a grid to copy",
	}
	cmd.SetHelpFunc(func(*cobra.Command, []string) {
		fmt.Fprintf(env.Stdout, "%s", grids.Reference)
	})
	return cmd
}
