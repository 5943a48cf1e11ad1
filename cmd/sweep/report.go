package main

import (
	"github.com/spf13/cobra"

	"sweep/report"
)

func newReportCmd(env *environ) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "report NIGHT",
		Short: "Show a night's tables and write its report folder, finished or not",
		Long: `report reads what a night has recorded so far, prints it, and writes summary.md, cells.csv and the pictures (PNG and
SVG) into the night's folder "report". It runs nothing and needs no GPU. For a folder of nights it takes the newest.

In the tables a config that failed stays a row: its word says how it ended, and the notes below say why.`,
		Example: `  sweep report results/
  sweep report results/kimi-20261129T180000Z --format markdown > kimi.md`,
		Args: oneArg("night"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(_ *cobra.Command, args []string) error {
			dir, newest, err := report.Find(args[0])
			if err != nil {
				return exitWith(exitUsage, err)
			}
			if newest {
				env.say("the newest night in %s: %s", args[0], dir)
			}
			return showNight(env, dir)
		},
	}
	env.formatFlag(cmd)
	return cmd
}
