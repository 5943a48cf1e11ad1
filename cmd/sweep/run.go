package main

import (
	"time"

	"github.com/spf13/cobra"

	"sweep/sweep"
)

func newRunCmd(env *environ) *cobra.Command {
	var output string
	var dryRun, noImply bool
	var repeats int
	cmd := &cobra.Command{
		Use:   "run GRID",
		Short: "Run a grid: one night, from its first launch to its report",
		Long: `run starts each launch of a grid in turn, measures its loads, and ends with a table in which every cell
has a named outcome. All of it is in one folder below the output directory, which "sweep resume" goes on with after
an interruption and "sweep report" reads.

Ctrl-C stops cleanly and prints the command that goes on; a second one stops at once. So does the end of the terminal:
for a night over ssh use tmux, or nohup.`,
		Example: `  sweep run grids/mine.yaml
  sweep run grids/mine.yaml --dry-run
  sweep run grids/mine.yaml --repeats 3 -o /data/nights
  nohup sweep run grids/mine.yaml > table.txt 2> progress.log &`,
		Args:              oneArg("grid"),
		ValidArgsFunction: completeGrids,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("repeats") && repeats < 1 {
				return usageErrorf("--repeats %d: want at least 1", repeats)
			}
			plan, eng, err := gridOf(env, args[0], repeats)
			if err != nil {
				return err
			}
			if dryRun {
				return writePlan(env.Stdout, plan, env.Format, time.Now())
			}
			return startNight(env, sweep.NightOptions{Root: output, Plan: plan, Engine: eng, Override: repeats > 0, Imply: !noImply})
		},
	}
	outputFlag(cmd, &output)
	cmd.Flags().BoolVarP(&dryRun, "dry-run", "n", false, `show the plan and start nothing, as "sweep plan" does`)
	cmd.Flags().BoolVar(&noImply, "no-imply", false, "run also the levels above one that died on memory")
	cmd.Flags().IntVar(&repeats, "repeats", 0, "run the grid so many times instead of as often as it says")
	env.formatFlag(cmd)
	return cmd
}
