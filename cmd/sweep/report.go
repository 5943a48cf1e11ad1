package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"

	"sweep/report"
)

func newReportCmd(env *environ) *cobra.Command {
	var view report.View
	var filters []string
	var price float64
	var serve bool
	var port uint16
	cmd := &cobra.Command{
		Use:   "report NIGHT",
		Short: "Show a night's tables and write its report folder, finished or not",
		Long: `report reads what a night has recorded so far, prints it, and writes index.html (one page that opens offline),
summary.md, cells.csv and the pictures (PNG and SVG) into the night's folder "report". It runs nothing and needs no GPU. For a folder of nights it takes the newest.

In the tables a config that failed stays a row: its word says how it ended, and the notes below say why. --rows and --cols
pivot one metric by any two parameters; --metric alone chooses the columns; --filter keeps what passes all conditions.
These change what is printed; the report folder is always of the whole night.`,
		Example: `  sweep report results/
  sweep report results/kimi-20261129T180000Z --format markdown > kimi.md
  sweep report results/ --serve       watch a running night in a browser
  sweep report results/ --rows mem-fraction-static --cols hicache-size --metric p99_ttft_ms
  sweep report results/ --filter workload=synth --filter 'concurrency>=64' --sort -output_throughput`,
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
			for _, f := range filters {
				c, err := report.ParseCondition(f)
				if err != nil {
					return exitWith(exitUsage, err)
				}
				view.Filter = append(view.Filter, c)
			}
			if serve {
				return serveNight(env, dir, port)
			}
			return showNight(env, dir, view, price)
		},
	}
	cmd.Flags().BoolVar(&serve, "serve", false, "show the page at 127.0.0.1 instead, and keep it fresh while the night runs")
	cmd.Flags().Uint16Var(&port, "port", 0, "port of --serve; 0: any that is free")
	cmd.Flags().StringVar(&view.Rows, "rows", "", "pivot: parameter whose values are the rows")
	cmd.Flags().StringVar(&view.Cols, "cols", "", "pivot: parameter whose values are the columns")
	cmd.Flags().StringSliceVar(&view.Metrics, "metric", nil, "keys of cells.jsonl to show: one in a pivot, else the columns")
	cmd.Flags().StringArrayVar(&filters, "filter", nil, "keep what passes NAME=VALUE[,VALUE], or != < <= > >=; may be given several times")
	cmd.Flags().StringVar(&view.Sort, "sort", "", "parameter or metric that orders the rows; with - before it the other way round")
	cmd.Flags().Float64Var(&price, "price-per-hour", 0, "dollars an hour for one host, instead of the grid's price_per_hour")
	env.formatFlag(cmd)
	return cmd
}

// serveNight shows a night's page on this machine until a signal comes.
func serveNight(env *environ, dir string, port uint16) error {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
	if err != nil {
		return exitWith(exitEnvironment, err)
	}
	ctx, stop := signal.NotifyContext(env.Ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	if _, err := fmt.Fprintf(env.Stdout, "http://%s/\n", l.Addr()); err != nil {
		return errors.Join(err, l.Close())
	}
	env.say("showing %s; Ctrl-C ends it", dir)
	return (&report.Server{Dir: dir, Options: report.PageOptions{Version: version()}}).Serve(ctx, l)
}
