package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"sweep/loadgen"
	"sweep/report"
	"sweep/sweep"
	"sweep/sweep/agent"
	"sweep/sweep/engine"
	"sweep/sweep/simulate"
)

func newValidateCmd(env *environ) *cobra.Command {
	return &cobra.Command{
		Use:   "validate GRID...",
		Short: "Say everything that is wrong with a grid",
		Long: `validate reads grids, says all that is wrong with each at its line and column, and starts nothing.
It ends with exit code 2 when a grid cannot run; warnings alone do not count. It knows sweep's own keys and the flags
that a grid may not set; whether a server knows a flag shows when it starts.`,
		Example: `  sweep validate grids/mine.yaml
  sweep validate grids/*.yaml && echo all of them can run`,
		Args:              someArgs("grid"),
		ValidArgsFunction: completeGrids,
		RunE: func(_ *cobra.Command, args []string) error {
			var failed error
			for _, path := range args {
				plan, err := loadPlan(env, path)
				if err != nil {
					failed = errors.Join(failed, err)
					continue
				}
				prefix := ""
				if len(args) > 1 {
					prefix = sweep.Printable(path) + ": "
				}
				if _, err := fmt.Fprintf(env.Stdout, "%sok: %s\n", prefix, planSize(plan)); err != nil {
					return err
				}
			}
			if failed != nil {
				return exitWith(exitUsage, failed)
			}
			return nil
		},
	}
}

func completeGrids(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
}

// loadGrid reads a grid with what engines and simulator know, and says all problems on standard
// error. It fails with exit code 2 when the grid cannot run.
func loadGrid(env *environ, path string) (*sweep.Grid, error) {
	reader := sweep.GridReader{
		Engines: engine.Names(),
		Owned: func(name string) map[string]string {
			if e, ok := engine.Lookup(name); ok {
				return e.Owned
			}
			return nil
		},
	}
	for _, p := range simulate.Profiles() {
		reader.Profiles = append(reader.Profiles, p.Name)
	}
	reader.LookInto = lookInto
	dir := filepath.Dir(path)
	if m, err := sweep.ReadManifest(dir); err == nil && filepath.Base(path) == report.GridFile { // a night's own copy
		reader.Kept = m.KeptFiles(dir)
	}
	grid, problems, err := reader.Read(path)
	if err != nil {
		if e, ok := errors.AsType[*fs.PathError](err); ok {
			err = fmt.Errorf("cannot read grid %s: %w", path, e.Err)
		}
		return nil, exitWith(exitUsage, err)
	}
	errs := 0
	for _, p := range problems {
		if !p.Warning {
			errs++
		} else if env.Quiet {
			continue
		}
		if _, err := fmt.Fprintln(env.Stderr, p); err != nil {
			return nil, err
		}
	}
	if errs == 1 {
		return nil, exitWith(exitUsage, fmt.Errorf("%s cannot run: 1 problem", path))
	} else if errs > 1 {
		return nil, exitWith(exitUsage, fmt.Errorf("%s cannot run: %d problems", path, errs))
	}
	return grid, nil
}

// lookInto reads a file that a grid names, as the load generator will.
func lookInto(what, path string) (facts sweep.FileFacts, err error) {
	f, err := os.Open(path)
	if err != nil {
		return facts, err
	}
	defer func() { _ = f.Close() }() // only read from
	if what == "trace" {
		list, err := loadgen.ReadTrace(f)
		facts.Requests = len(list)
		if err == nil && agent.TraceRate(list) <= 0 {
			err = errors.New("the trace is one moment long: no rate can stretch it")
		}
		return facts, err
	}
	list, err := loadgen.ReadPrompts(f)
	facts.Answered = true
	for _, p := range list {
		facts.Answered = facts.Answered && p.Output > 0
		facts.Messages = facts.Messages || len(p.Messages) > 0
		facts.IDs = facts.IDs || len(p.IDs) > 0
	}
	return facts, err
}

// loadPlan reads a grid as [loadGrid] does and expands it.
func loadPlan(env *environ, path string) (*sweep.Plan, error) {
	grid, err := loadGrid(env, path)
	if err != nil {
		return nil, err
	}
	plan, err := grid.Plan()
	if err != nil {
		return nil, exitWith(exitUsage, err)
	}
	return plan, nil
}

// planSize says in one line how much a plan asks for: "6 configs × 3 loads × 2 repeats: 14 starts, 38 cells".
func planSize(p *sweep.Plan) string {
	return fmt.Sprintf("%s × %s × %s: %s, %s",
		plural(len(p.Configs), "config"), plural(len(p.Grid.Loads), "load"), plural(p.Grid.Repeats, "repeat"),
		plural(len(p.Launches), "start"), plural(p.Cells(), "cell"))
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
