package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"sweep/sweep"
)

func newFsckCmd(env *environ) *cobra.Command {
	var repair bool
	cmd := &cobra.Command{
		Use:   "fsck NIGHT",
		Short: "Check a night's files, and mend them",
		Long: `fsck holds the files of a night against each other: the journal's checksums and numbers, the records, the folders of
the launches. It says of each fault what it means and what mends it, and changes nothing.

With --repair it takes out what is damaged and keeps each file as it was beside the new one. No result is invented: what
only a damaged line knew is found in its launch's folder by "sweep resume", or measured again.

Exit codes: 0 nothing is wrong, or all of it is mended · 1 something is wrong · 3 the night is in use, or cannot be read`,
		Example: `  sweep fsck results/kimi-20261129T180000Z
  sweep fsck results/kimi-20261129T180000Z --repair && sweep resume results/kimi-20261129T180000Z`,
		Args: oneArg("night"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(_ *cobra.Command, args []string) error {
			faults, err := sweep.Fsck(args[0], repair)
			if errors.Is(err, sweep.ErrNightBusy) {
				err = fmt.Errorf("%w; stop that first, or wait for it", err)
			}
			if err != nil {
				return exitWith(exitEnvironment, err)
			}
			return showFaults(env, args[0], faults)
		},
	}
	cmd.Flags().BoolVar(&repair, "repair", false, "mend what can be mended without a guess")
	return cmd
}

func showFaults(env *environ, dir string, faults []sweep.Fault) error {
	open, mends := 0, 0
	for _, f := range faults {
		fmt.Fprintln(env.Stdout, sweep.Printable(f.String()))
		if !f.Fixed {
			open++
		}
		if f.Mends && !f.Fixed {
			mends++
		}
	}
	switch {
	case len(faults) == 0:
		env.say("nothing is wrong with %s", dir)
		return nil
	case open == 0:
		env.say("all mended: %s", plural(len(faults), "fault"))
		return nil
	case mends > 0:
		env.say("%s; mend what can be mended with: %s", plural(open, "fault"), sweep.ShellLine([]string{"sweep", "fsck", dir, "--repair"}))
	default:
		env.say("%s; go on with: %s", plural(open, "fault"), resumeCommand(dir))
	}
	return exitWith(exitOther, nil)
}
