//go:build linux

// Command longnight runs a night of many launches on the simulator and says what the harness itself costs: memory,
// descriptors and goroutines of runner and agent from the first launch to the last, overhead per launch, and the
// journal's share of it at this disk's measured fsync.
//
//	go run ./bench/longnight            200 launches, about seven minutes
//	go run ./bench/longnight -n 20 -o /data
//
// Runner and agent are this very program, so that each can look at itself: what is shown is the heap after a garbage
// collection, not what the kernel happens to have given.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"sweep/sweep"
	"sweep/sweep/agent"
	"sweep/sweep/engine"
	"sweep/sweep/host"
	"sweep/sweep/proc"
	"sweep/sweep/simulate"
)

func main() {
	if code, is := simulate.RunChild(); is {
		os.Exit(code)
	}
	if len(os.Args) > 1 {
		if code, is := role(os.Args[1:]); is {
			os.Exit(code)
		}
	}
	var b bench
	flag.IntVar(&b.launches, "n", 200, "how many launches")
	flag.StringVar(&b.out, "o", "", "folder for the night; empty: a temporary one")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := b.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "longnight:", err)
		os.Exit(1)
	}
}

// role is what this program is besides the runner: an agent, a supervisor, or the simulator.
func role(args []string) (code int, is bool) {
	switch {
	case args[0] == "supervise" && len(args) > 3 && args[1] == "--exec":
		return proc.Exec(args[3:]), true
	case args[0] == "supervise":
		return proc.Supervise(context.Background(), os.Stdin, os.Stdout), true
	case args[0] == "simulate":
		return simulate.Main(context.Background(), args[1:], os.Stdin, os.Stdout, os.Stderr), true
	case args[0] == "agent" && len(args) == 4:
		return runAgent(args[1], args[3]), true
	}
	return 0, false
}

// runAgent is an agent that looks at itself meanwhile.
func runAgent(dir, night string) int {
	self, err := os.Executable()
	if err == nil {
		err = os.Setenv(simulate.StateVariable, filepath.Join(dir, "simulated"))
	}
	if err == nil {
		ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer cancel()
		watched := watch(filepath.Join(dir, "self.jsonl"))
		err = agent.Run(ctx, agent.Options{Dir: dir, Out: night, Self: self, Engine: engine.Lookup, Lock: proc.InheritedLock()})
		err = errors.Join(err, watched())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 3
	}
	return 0
}

// bench is one run.
type bench struct {
	launches int
	out      string
}

func (b *bench) run(ctx context.Context) error {
	root := b.out
	if root == "" {
		dir, err := os.MkdirTemp("", "longnight-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }()
		root = dir
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	grid, problems := sweep.ReadGridBytes("longnight.yaml", []byte(gridOf(self, b.launches)))
	if grid == nil {
		return fmt.Errorf("grid: %v", problems)
	}
	plan, err := grid.Plan()
	if err != nil {
		return err
	}
	eng, _ := engine.Lookup(grid.Engine)
	n, err := sweep.CreateNight(sweep.NightOptions{Root: root, Plan: plan, Engine: eng, Imply: true, Version: "longnight", Now: time.Now()})
	if err != nil {
		return err
	}
	dir, err := filepath.Abs(n.Dir)
	if err != nil {
		return err
	}
	began := time.Now()
	watched := watch(filepath.Join(dir, "self.jsonl"))
	r := &sweep.Runner{Night: n, Progress: silent{}, Log: slog.New(slog.DiscardHandler), Hosts: []sweep.Host{&host.Local{ID: "local", Night: dir, Agent: []string{self, "agent"}}}}
	s, err := r.Run(ctx, context.Background())
	took := time.Since(began)
	if err = errors.Join(err, n.Close(), watched()); err != nil {
		return err
	}
	fmt.Printf("%d launches in %s, %d of %d cells recorded: %v\n", len(plan.Launches), took.Round(100*time.Millisecond), s.Recorded, s.Planned, s.Outcomes)
	return report(os.Stdout, dir, len(plan.Launches), took)
}

// silent is a Progress that says nothing.
type silent struct{}

func (silent) Begin(*sweep.Night, []sweep.PlannedCell, []sweep.Record) {}
func (silent) Event(string, sweep.Event)                               {}
func (silent) Record(sweep.Record)                                     {}
func (silent) Lost(string, error, bool)                                {}
func (silent) End(sweep.Summary)                                       {}

// gridOf is a grid of so many configs, each with one short load.
func gridOf(self string, launches int) string {
	command, _ := json.Marshal([]string{self, "simulate", "sglang", "--profile", "llama-8b-24gb", "--speedup", "200"})
	return fmt.Sprintf(`name: longnight
engine: sglang
model: llama-3-8b
command: %s
hosts: [{simulate: llama-8b-24gb}]
server: {mem-fraction-static: 0.80}
sweep:
  max-running-requests: %d:%d:1
workloads:
  docs: {classes: {long: {input: 2k..3k, output: 20..40}}}
load: [{workload: docs, concurrency: [2]}]
measure: {warmup: 0s, window: 1s}
drift: off
`, command, 100, 99+launches)
}
