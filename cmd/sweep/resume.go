package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"sweep/sweep"
	"sweep/sweep/host"
)

func newResumeCmd(env *environ) *cobra.Command {
	var grid string
	var force bool
	cmd := &cobra.Command{
		Use:   "resume NIGHT",
		Short: "Go on with a night that was interrupted",
		Long: `resume ends what is proved to be left of the night's own processes, keeps every result, and runs what is
missing, what was aborted, and what failed for a reason outside the config. For a folder of nights it takes the newest
that is unfinished.

When the grid file has changed since the night began, resume says what differs and stops: --grid goes on with the new
grid, --force with the night's own copy.`,
		Example: `  sweep resume results/
  sweep resume results/kimi-20261129T180000Z
  sweep resume results/kimi-20261129T180000Z --grid grids/kimi.yaml`,
		Args: oneArg("night"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(_ *cobra.Command, args []string) error {
			dir, err := nightToResume(env, args[0])
			if err != nil {
				return exitWith(exitUsage, err)
			}
			if dir == "" {
				env.say("every night in %s is finished; see the newest with: %s", args[0], sweep.ShellLine([]string{"sweep", "report", args[0]}))
				return nil
			}
			n, err := sweep.OpenNight(dir)
			if errors.Is(err, sweep.ErrNightBusy) {
				err = fmt.Errorf("%w; stop that first, or wait for it", err)
			}
			if err != nil {
				return exitWith(exitEnvironment, err)
			}
			if err := prepareResume(env, n, grid, force); err != nil {
				return errors.Join(err, n.Close())
			}
			return finishNight(env, n)
		},
	}
	cmd.Flags().StringVar(&grid, "grid", "", "go on with this grid: what it changes runs again, what it no longer has is left out")
	cmd.Flags().BoolVar(&force, "force", false, "go on with the night's own copy of the grid although the file has changed")
	cmd.MarkFlagsMutuallyExclusive("grid", "force")
	env.formatFlag(cmd)
	return cmd
}

// nightToResume is path itself, or the newest unfinished night in it; "" when all are finished.
func nightToResume(env *environ, path string) (string, error) {
	_, err := sweep.ReadManifest(path)
	if damaged := (*json.SyntaxError)(nil); errors.As(err, &damaged) {
		err = fmt.Errorf("%w; without it nobody knows what the night was to do: %s still shows its results, and its grid can be run anew",
			err, sweep.ShellLine([]string{"sweep", "report", path}))
	}
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return filepath.Clean(path), err
	}
	nights, err := sweep.Nights(path)
	if err != nil {
		return "", err
	}
	if len(nights) == 0 {
		return "", fmt.Errorf("%s is neither a night nor a folder of nights", path)
	}
	for _, dir := range nights {
		done, err := finished(dir)
		if err != nil {
			env.say("%s cannot be read and is passed over: %v", dir, err)
			continue
		}
		if !done {
			env.say("the newest unfinished night is %s", dir)
			return dir, nil
		}
	}
	return "", nil
}

// finished reports whether a resume would find nothing to do: each cell has its record, and whoever wrote the last one was not
// killed before it had cleaned up.
func finished(dir string) (bool, error) {
	m, err := sweep.ReadManifest(dir)
	if err != nil {
		return false, err
	}
	records, err := sweep.ReadRecords(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	final := 0
	for _, r := range records {
		if r.Outcome.Final() {
			final++
		}
	}
	if final < len(m.Cells) {
		return false, nil
	}
	return sweep.Ended(dir)
}

// prepareResume makes an opened night ready to go on: its plan is set, nothing of it runs any more, and
// records that do not stand are gone.
func prepareResume(env *environ, n *sweep.Night, grid string, force bool) error {
	if err := noteOpen(n, "resume"); err != nil {
		return exitWith(exitEnvironment, err)
	}
	use, err := choosePlan(env, n, grid, force)
	if err != nil {
		return err
	}
	err = host.Reclaim(env.Ctx, n.Dir, func(name, what string) error {
		env.say("ending what an earlier start left: %s", what)
		return n.Note(sweep.JournalEntry{Kind: sweep.JournalReclaim, Host: name, Text: what})
	})
	if err == nil {
		err = sweep.RemoveParts(n.Dir)
	}
	if err == nil { // only now: what still ran was of the night as it was
		err = use()
	}
	if err == nil {
		err = n.Reopen()
	}
	if err != nil {
		return exitWith(exitEnvironment, err)
	}
	return nil
}

// choosePlan makes the night's plan, from its own copy of the grid, or from a new grid when told. use gives it to the night.
func choosePlan(env *environ, n *sweep.Night, grid string, force bool) (use func() error, err error) {
	repeats := 0
	if n.Manifest.Override {
		repeats = n.Manifest.Repeats
	}
	if grid != "" {
		plan, eng, err := gridOf(env, grid, repeats)
		if err != nil {
			return nil, err
		}
		if changes := n.Compare(plan, eng); len(changes) > 0 {
			env.say("%s", listChanges(changes))
		}
		return func() error { return n.Replace(plan, eng) }, nil
	}
	plan, eng, err := gridOf(env, n.GridPath(), repeats)
	if err != nil {
		return nil, exitWith(exitUsage, fmt.Errorf("%w\nthe night's own copy of its grid is damaged; go on with the file that it was made from: %s",
			err, sweep.ShellLine([]string{"sweep", "resume", n.Dir, "--grid", n.Manifest.Grid})))
	}
	use = func() error { n.Use(plan, eng); return nil }
	if force {
		return use, nil
	}
	if changes := n.Compare(plan, eng); len(changes) > 0 {
		why := fmt.Sprintf("this version of sweep (%s; the night began with %s)", version(), n.Manifest.Version)
		if version() == n.Manifest.Version {
			why = "the same grid on this machine now (another home for its ~, or another build of sweep)"
		}
		return nil, exitWith(exitUsage, fmt.Errorf("%s would run other command lines:\n%s\ngo on all the same with --force", why, listChanges(changes)))
	}
	return use, compareFile(env, n, plan, repeats)
}

// compareFile refuses to go on when the grid file that the night began with has other cells now.
func compareFile(env *environ, n *sweep.Night, was *sweep.Plan, repeats int) error {
	now, err := os.ReadFile(n.Manifest.Grid)
	if err != nil || bytes.Equal(now, was.Grid.Source) {
		return nil // the file is gone or the same: the night's own copy counts
	}
	plan, eng, err := gridOf(env, n.Manifest.Grid, repeats)
	if err != nil {
		return exitWith(exitUsage, fmt.Errorf("%s has changed since the night began and cannot run now; go on with the night's own copy with --force", n.Manifest.Grid))
	}
	changes := n.Compare(plan, eng)
	if len(changes) == 0 {
		return nil
	}
	return exitWith(exitUsage, fmt.Errorf("%s has changed since the night began:\n%s\ngo on with the new grid: %s\ngo on with the night's own copy: %s",
		n.Manifest.Grid, listChanges(changes),
		sweep.ShellLine([]string{"sweep", "resume", n.Dir, "--grid", n.Manifest.Grid}), sweep.ShellLine([]string{"sweep", "resume", n.Dir, "--force"})))
}

// maxChanges is how many changes of each kind are listed.
const maxChanges = 10

func listChanges(changes []sweep.Change) string {
	var b strings.Builder
	seen := map[string]int{}
	for _, c := range changes {
		if seen[c.Kind]++; seen[c.Kind] <= maxChanges {
			fmt.Fprintf(&b, "  %s\n", c)
		}
	}
	for _, kind := range []string{"new", "changed", "gone"} {
		if more := seen[kind] - maxChanges; more > 0 {
			fmt.Fprintf(&b, "  %s: %d more\n", kind, more)
		}
	}
	return strings.TrimRight(b.String(), "\n")
}
