package main

import (
	"github.com/spf13/cobra"

	"sweep/sweep"
	"sweep/sweep/search"
)

func newRunCmd(env *environ) *cobra.Command {
	var output string
	var dryRun, noImply, noFlagCheck, detach bool
	var skip float64
	var repeats int
	cmd := &cobra.Command{
		Use:   "run GRID",
		Short: "Run a grid: one night, from its first launch to its report",
		Long: `run starts each launch of a grid in turn, measures its loads, and ends with a table in which every cell
has a named outcome. All of it is in one folder below the output directory, which "sweep resume" goes on with after
an interruption and "sweep report" reads.

Before the first launch it looks for what each launch needs, as "sweep doctor" does, and holds the grid's flags against the
server's own help. A forecast from launches that were ready stands in each record beside the truth; it skips a config
only with --skip-forecast.

With until: or budget: in the grid no server is started that would not be done by then. A night claims its GPUs: a second
one on the same GPUs refuses and says who has them.

Ctrl-C or SIGTERM stops cleanly and prints the command that goes on; a second one stops at once. When the terminal is closed
(SIGHUP), the night goes on; with --detach it needs none from the start. Hosts over SSH work through their launches alone, with
this machine off as well: "sweep attach" or "sweep resume" fetches what they made. A host that is not reached at the start is
tried again while others work, and hosts with the same GPUs take its launches.`,
		Example: `  sweep run grids/mine.yaml
  sweep run grids/mine.yaml --dry-run
  sweep run grids/mine.yaml --repeats 3 -o /data/nights
  sweep run grids/mine.yaml --detach`,
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
				return showPlan(env, plan, eng, output, false)
			}
			if detach {
				return env.detach(output)
			}
			o := sweep.NightOptions{Root: output, Plan: plan, Engine: eng, Override: repeats > 0, Imply: !noImply, NoFlagCheck: noFlagCheck}
			if cmd.Flags().Changed("skip-forecast") {
				o.SkipHeadroomGiB = &skip
			}
			earlier := search.LookAll(output)
			postpone(plan, eng, earlier)
			if err := checkNight(env, &o, earlier); err != nil {
				return err
			}
			return startNight(env, o)
		},
	}
	outputFlag(cmd, &output)
	cmd.Flags().BoolVarP(&dryRun, "dry-run", "n", false, `show the plan and start nothing, as "sweep plan" does`)
	cmd.Flags().BoolVar(&detach, "detach", false, "run it in a process of its own, and return when it runs")
	env.acceptFlag(cmd)
	cmd.Flags().BoolVar(&noImply, "no-imply", false, "run also the levels above one that died on memory")
	cmd.Flags().Float64Var(&skip, "skip-forecast", 0, "skip a config, the baseline apart, whose forecast leaves less than so many GiB of headroom, or no KV pool")
	cmd.Flags().Lookup("skip-forecast").NoOptDefVal = "0"
	cmd.Flags().BoolVar(&noFlagCheck, "no-flag-check", false, "do not hold the grid's flags against the server's own help")
	cmd.Flags().IntVar(&repeats, "repeats", 0, "run the grid so many times instead of as often as it says")
	env.formatFlag(cmd)
	return cmd
}
