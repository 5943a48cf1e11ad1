package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"sweep/report"
)

func newCompareCmd(env *environ) *cobra.Command {
	var failOn, metric string
	cmd := &cobra.Command{
		Use:   "compare NIGHT NIGHT...",
		Short: "Compare nights cell by cell: better, worse, newly fails, newly fits",
		Long: `compare puts the cells of several nights side by side; the first is what the others are compared with. What differs
in versions and environment comes first. With repeats a difference must be more than noise, else it is shown as "~".

--fail-on 5% ends with exit code 4 when a cell got worse by more than that, or newly fails: a gate for a new version.`,
		Example: `  sweep compare results/kimi-20261128T180000Z results/kimi-20261129T180000Z
  sweep compare results/before results/after --fail-on 5% --metric p99_ttft_ms`,
		Args: cobra.MinimumNArgs(2),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(_ *cobra.Command, args []string) error {
			limit, err := parsePercent(failOn)
			if err != nil {
				return exitWith(exitUsage, err)
			}
			var nights []*report.Night
			for _, a := range args {
				dir, _, err := report.Find(a)
				if err != nil {
					return exitWith(exitUsage, err)
				}
				n, err := report.Read(dir)
				if err != nil {
					return err
				}
				nights = append(nights, n)
			}
			if err := nights[0].Check(report.View{Metrics: []string{metric}}); err != nil {
				return exitWith(exitUsage, err)
			}
			d := report.Compare(nights, report.MetricByName(metric))
			if err := env.printDiff(d); err != nil {
				return err
			}
			if failOn == "" {
				return nil
			}
			list := d.Regressions(limit)
			for _, l := range list {
				env.alert("worse than --fail-on %s allows: %s", failOn, l)
			}
			if len(list) > 0 {
				return exitWith(exitCompare, nil)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&failOn, "fail-on", "", "exit code 4 when a cell is worse by more than this, as in 5%")
	cmd.Flags().StringVar(&metric, "metric", "output_throughput", "key of cells.jsonl to compare")
	env.formatFlag(cmd)
	return cmd
}

func (env *environ) printDiff(d *report.Diff) error {
	switch env.Format {
	case "markdown":
		return report.WriteDiffMarkdown(env.Stdout, d)
	case "csv":
		return report.WriteDiffCSV(env.Stdout, d)
	case "json":
		return report.WriteDiffJSON(env.Stdout, d)
	}
	width, _ := terminal(env.Stdout)
	return report.WriteDiff(env.Stdout, d, report.Options{Width: width, Color: env.colorOn(env.Stdout)})
}

// alert writes one line to a person, also where only problems are wanted.
func (env *environ) alert(format string, args ...any) {
	fmt.Fprintln(env.Stderr, printableLines(fmt.Sprintf(format, args...)))
}

// parsePercent reads "5%" or "0.05" as 0.05; "" is 0.
func parsePercent(s string) (float64, error) {
	if s == "" {
		return 0, nil
	}
	digits, percent := strings.CutSuffix(strings.TrimSpace(s), "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
	if percent {
		v /= 100
	}
	if err != nil || v < 0 || v >= 1 {
		return 0, fmt.Errorf("--fail-on %q: write a share as in 5%%", s)
	}
	return v, nil
}
