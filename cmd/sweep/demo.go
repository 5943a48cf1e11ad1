package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"sweep/grids"
	"sweep/sweep"
)

func newDemoCmd(env *environ) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run a whole night in about a minute, on simulated GPUs",
		Long: `demo runs a small grid against a simulated SGLang server on one simulated GPU: no GPU, model or network is
needed. It goes through all that a real night does, some configs run out of memory, and it ends with the report.
The numbers are those of the simulated machine, 10 times as fast as a real one would be: of use to see what a report
says, and not to choose a setting.`,
		Example: `  sweep demo
  sweep demo -o /tmp/nights --format markdown > demo.md`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			plan, eng, err := demoPlan(env)
			if err != nil {
				return err
			}
			return startNight(env, sweep.NightOptions{Root: output, Plan: plan, Engine: eng, Imply: true})
		},
	}
	outputFlag(cmd, &output)
	env.formatFlag(cmd)
	return cmd
}

// demoPlan reads the grid that this program carries, by way of a file, as any other grid.
func demoPlan(env *environ) (*sweep.Plan, *sweep.Engine, error) {
	dir, err := os.MkdirTemp("", "sweep-demo-")
	if err != nil {
		return nil, nil, exitWith(exitEnvironment, fmt.Errorf("no folder for temporary files; set TMPDIR to one: %w", err))
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "demo.yaml")
	if err := os.WriteFile(path, grids.Demo, 0o600); err != nil {
		return nil, nil, err
	}
	return gridOf(env, path, 0)
}
