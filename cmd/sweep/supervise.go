package main

import (
	"github.com/spf13/cobra"

	"sweep/sweep/proc"
)

// newSuperviseCmd is the hidden command that stands between an agent and a server. It takes its
// orders from standard input; with --exec -- ARGV it is the process that becomes the server.
func newSuperviseCmd(env *environ) *cobra.Command {
	return &cobra.Command{
		Use:                "supervise",
		Short:              "Hold a server's processes together (started by sweep itself)",
		Hidden:             true,
		DisableFlagParsing: true, // what follows --exec are the server's flags
		RunE: func(cmd *cobra.Command, args []string) error {
			code := 0
			switch {
			case len(args) == 0:
				code = proc.Supervise(cmd.Context(), env.Stdin, env.Stdout)
			case len(args) > 2 && args[0] == "--exec" && args[1] == "--":
				code = proc.Exec(args[2:])
			default:
				return usageErrorf("supervise: this command is for sweep itself; use `sweep run`")
			}
			if code != 0 {
				return exitWith(code, nil)
			}
			return nil
		},
	}
}
