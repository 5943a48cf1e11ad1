package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"sweep/sweep/agent"
	"sweep/sweep/engine"
	"sweep/sweep/host"
	"sweep/sweep/proc"
	"sweep/sweep/simulate"
)

// newAgentCmd is the process that works next to the GPUs. A run starts it; nobody types it.
func newAgentCmd(env *environ) *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:    "agent DIR --out NIGHT",
		Short:  "Work through the queue of launches in DIR",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			self, err := os.Executable()
			if err != nil {
				return exitWith(exitEnvironment, err)
			}
			// Each agent has its own simulated machine: two nights of one user must not see each other's servers on it.
			if os.Getenv(simulate.StateVariable) == "" {
				if err := os.Setenv(simulate.StateVariable, filepath.Join(args[0], "simulated")); err != nil {
					return exitWith(exitEnvironment, err)
				}
			}
			signalled, asked, stop := stopSignals(env.Ctx)
			defer stop()
			ctx, now, stopLease := host.Leased(signalled, args[0], asked)
			defer stopLease()
			err = agent.Run(ctx, agent.Options{Dir: args[0], Out: out, Self: self, Engine: engine.Lookup, Cache: helpCache(), Selftest: errorFloor(self), Lock: proc.InheritedLock(), Now: now, Log: env.Log})
			switch {
			case err == nil:
				return nil
			case errors.Is(err, host.ErrLeaseOver):
				env.Log.Warn("stopped", "err", err)
				return exitWith(exitInterrupted, nil)
			case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
				return exitWith(exitInterrupted, nil)
			}
			return exitWith(exitEnvironment, err)
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "the night's folder, in which launches appear")
	_ = cmd.MarkFlagRequired("out") // fails only for a flag that does not exist
	return cmd
}

var errStopSignal = errors.New("stopped by a signal")

// stopSignals ends the context at the first SIGINT, SIGTERM or SIGHUP, and closes now at the second.
func stopSignals(parent context.Context) (ctx context.Context, now <-chan struct{}, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	twice := make(chan struct{})
	end := onSignals(func(n int, _ os.Signal) {
		switch n {
		case 0:
			cancel(errStopSignal)
		case 1:
			close(twice)
		}
	}, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	return ctx, twice, func() {
		end()
		cancel(nil)
	}
}
