package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sweep/report"
	"sweep/sweep"
	"sweep/sweep/search"
)

// confirmFlags are those of confirm.
type confirmFlags struct {
	top, repeats int
	soak         time.Duration
	noBurst      bool
	output       string
	judge        []string
	dryRun       bool
}

func newConfirmCmd(env *environ) *cobra.Command {
	var f confirmFlags
	cmd := &cobra.Command{
		Use:   "confirm NIGHT",
		Short: "Measure a night's candidates again: fresh starts, fresh prompts, a soak and a burst",
		Long: `confirm runs the best configs of a night again beside the baseline, at the best load of each workload: several fresh starts with
prompts that were not used before, bursts of the longest prompts at once on top of that load, and a soak of the best alone. Of many
noisy configs the one on top was also lucky; until this has held, reports call it a candidate.

What it gives stands in the night as confirmed.json, and in its report. The runs are nights of their own beside it: when confirm is
interrupted, "sweep resume" goes on with one, and --judge takes nights that are finished.`,
		Example: `  sweep confirm results/kimi-20261129T180000Z
  sweep confirm results/ --top 3 --repeats 5 --soak 1h
  sweep confirm results/kimi-20261129T180000Z --judge results/kimi-confirm-20261130T080000Z`,
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
			if f.top < 1 || f.repeats < 2 {
				return usageErrorf("--top %d --repeats %d: want at least 1 config and 2 repeats", f.top, f.repeats)
			}
			return confirm(env, dir, f)
		},
	}
	cmd.Flags().IntVar(&f.top, "top", 3, "configs of each workload that are measured again, beside the baseline")
	cmd.Flags().IntVar(&f.repeats, "repeats", 5, "fresh starts of each")
	cmd.Flags().DurationVar(&f.soak, "soak", 30*time.Minute, "length of the soak's window; 0: no soak")
	cmd.Flags().BoolVar(&f.noBurst, "no-burst", false, "leave the bursts out")
	cmd.Flags().BoolVarP(&f.dryRun, "dry-run", "n", false, "show the plans and start nothing")
	cmd.Flags().StringVarP(&f.output, "output-dir", "o", "", "folder in which the new nights get folders of their own (default: where NIGHT is)")
	cmd.Flags().StringSliceVar(&f.judge, "judge", nil, "run nothing: judge by these nights (the repeats, then the soak)")
	env.formatFlag(cmd)
	return cmd
}

// confirm runs what the flags ask for and judges it.
func confirm(env *environ, dir string, f confirmFlags) error {
	n, err := report.Read(dir)
	if err != nil {
		return err
	}
	s := report.Summarize(n)
	configs, loads := s.Candidates(f.top)
	if len(loads) == 0 {
		return exitWith(exitUsage, fmt.Errorf("%s has no candidate to confirm: see why with %s", dir, sweep.ShellLine([]string{"sweep", "report", dir})))
	}
	nights := f.judge
	if len(nights) == 0 {
		if nights, err = runConfirm(env, dir, s, configs, loads, f); err != nil || f.dryRun {
			return err
		}
	}
	var read []*report.Summary
	for _, path := range nights {
		night, err := report.Read(path)
		if err != nil {
			return exitWith(exitUsage, err)
		}
		read = append(read, report.Summarize(night))
	}
	var soak *report.Summary
	if len(read) > 1 {
		soak = read[1]
	}
	c := s.Judge(read[0], soak, time.Now())
	if err := c.Write(dir); err != nil {
		return err
	}
	if err := showNight(env, dir, report.View{}, 0); err != nil {
		return err
	}
	for _, line := range c.Words() {
		env.alert("%s", line)
	}
	if !c.Confirmed() {
		return exitWith(exitOther, nil)
	}
	return nil
}

// runConfirm runs the nights of a confirmation and returns their folders.
func runConfirm(env *environ, dir string, s *report.Summary, configs []string, loads []sweep.Load, f confirmFlags) ([]string, error) {
	grid, err := loadGrid(env, filepath.Join(dir, report.GridFile))
	if err != nil {
		return nil, err
	}
	name := strings.TrimSuffix(strings.TrimSuffix(grid.Name, "-confirm"), "-soak")
	again := sweep.Again{Name: name + "-confirm", Only: configs, Loads: loads, Repeats: f.repeats, Prompts: "confirm " + filepath.Base(dir)}
	for _, l := range loads {
		if count := s.BurstCount(l.Workload); count > 0 && !f.noBurst && !l.Open() {
			again.Bursts = append(again.Bursts, sweep.Burst{Over: l, Count: count})
		}
	}
	parts := []sweep.Again{again}
	if f.soak > 0 {
		soak := sweep.Again{Name: name + "-soak", Loads: loads, Repeats: 1, Prompts: "soak " + filepath.Base(dir), Window: f.soak}
		for _, sheet := range s.Sheets {
			if sheet.Best != nil && !slices.Contains(soak.Only, sheet.Best.Config.Key) {
				soak.Only = append(soak.Only, sheet.Best.Config.Key)
			}
		}
		parts = append(parts, soak)
	}
	root := f.output
	if root == "" {
		root = filepath.Dir(filepath.Clean(dir))
	}
	var nights []string
	for _, part := range parts {
		night, err := confirmNight(env, dir, root, grid, part, f.dryRun)
		if err != nil {
			return nights, err
		}
		nights = append(nights, night)
	}
	return nights, nil
}

// confirmNight writes the grid of one part and runs it as a night of its own.
func confirmNight(env *environ, dir, root string, grid *sweep.Grid, part sweep.Again, dryRun bool) (string, error) {
	text, err := grid.Again(part)
	if err != nil {
		return "", err
	}
	folder := filepath.Join(dir, "confirm")
	if dryRun {
		if folder, err = os.MkdirTemp("", "sweep-confirm-"); err != nil {
			return "", err
		}
		defer func() { _ = os.RemoveAll(folder) }() // only a plan was shown
	} else if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", exitWith(exitEnvironment, err)
	}
	path := filepath.Join(folder, part.Name+".yaml")
	if err := os.WriteFile(path, text, 0o644); err != nil {
		return "", exitWith(exitEnvironment, err)
	}
	plan, eng, err := gridOf(env, path, 0)
	if err != nil {
		return "", err
	}
	if dryRun {
		return "", showPlan(env, plan, eng, root, false)
	}
	o := sweep.NightOptions{Root: root, Plan: plan, Engine: eng, Imply: true, Version: version(), Now: time.Now()}
	if err := checkNight(env, &o, search.LookAll(root)); err != nil {
		return "", err
	}
	n, err := sweep.CreateNight(o)
	if err != nil {
		return "", exitWith(exitEnvironment, fmt.Errorf("no night was started: %w", err))
	}
	if err := noteOpen(n, "confirm"); err != nil {
		return "", exitWith(exitEnvironment, errors.Join(err, n.Close()))
	}
	summary, err := runNight(env, n)
	if err = errors.Join(err, n.Close()); err == nil && summary.Interrupted {
		err = errors.New("interrupted")
	}
	if err != nil {
		code := exitEnvironment
		if summary.Interrupted {
			code = exitInterrupted
		}
		return n.Dir, exitWith(code, fmt.Errorf("%w. Go on with: %s, then judge with: %s", err, resumeCommand(n.Dir),
			sweep.ShellLine([]string{"sweep", "confirm", dir, "--judge", n.Dir})))
	}
	return n.Dir, nil
}
