package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"sweep/loadgen"
	"sweep/loadgen/selftest"
)

func newSelftestCmd(env *environ) *cobra.Command {
	var o selftest.Options
	var serve bool
	var file string
	cmd := &cobra.Command{
		Use:   "selftest",
		Short: "Measure the load generator itself: how far off are its numbers on this machine?",
		Long: `selftest drives load at a server whose timing is known to the microsecond, in a process of its own, and prints how far what
the client measured is from what was written: the error floor of every latency that a load on this machine gives. It ends within 45 s.

TTFT error: what the client measures more than passed at the server between the whole request and the first write; it holds the way of both.
ITL error: of each time between two tokens. Lag: how late planned requests went. Late: how long bytes lay in the kernel before they were
read. The lateness of the server's own writes is in no error.

Exit codes: 0 tested · 1 the client was the limit · 2 usage · 3 environment · 130 stopped by a signal`,
		Example: `  sweep selftest
  sweep selftest --concurrency 1000 --rate 50000 --json floor.json`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if serve {
				return selftest.Serve(env.Stdin, env.Stdout)
			}
			return runSelftest(env, o, file)
		},
	}
	cmd.Flags().IntVarP(&o.Concurrency, "concurrency", "c", selftest.DefaultConcurrency, "streams")
	cmd.Flags().Float64Var(&o.EventsPerS, "rate", selftest.DefaultEventsPerS, "events a second, over all streams")
	cmd.Flags().StringVar(&file, "json", "", `file for the result as JSON ("-": standard output, in place of the table)`)
	cmd.Flags().BoolVar(&serve, "serve", false, "be the server (used by the command itself)")
	if err := cmd.Flags().MarkHidden("serve"); err != nil {
		panic(err) // the flag was added one line above
	}
	return cmd
}

func runSelftest(env *environ, o selftest.Options, file string) error {
	if o.Concurrency < 1 || !(o.EventsPerS > 0) {
		return usageErrorf("--concurrency and --rate: want numbers above zero")
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	o.Serve = []string{self, "selftest", "--serve"}
	live := newLiveLine(env)
	o.OnStep = func(name string) { live.show(loadgen.Progress{Text: "testing: " + name}) }
	signals := catchLoadSignals(env)
	r, err := selftest.Run(signals.ctx, o)
	live.end()
	stopped := signals.stopped()
	signals.end()
	if stopped {
		return exitWith(exitInterrupted, nil)
	}
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if file == "-" {
		_, err = env.Stdout.Write(text)
	} else {
		_, err = env.Stdout.Write(selftestTable(&r))
		if file != "" {
			err = errors.Join(err, toFile(file, func(w io.Writer) error { _, err := w.Write(text); return err }))
		}
	}
	if err == nil && r.Verdict == loadgen.ClientBound {
		err = exitWith(exitOther, errors.New("selftest: the client cannot carry this load on this machine"))
	}
	return err
}

// optional writes a number that may be absent, times a factor.
func optional(v *float64, factor float64) string {
	if v == nil {
		return "–"
	}
	return figure(*v * factor)
}

// selftestTable writes the error floor for a person. Times are in µs.
func selftestTable(r *selftest.Result) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\n%d streams, %s events/s; times in µs\n\n", r.Machine, r.Streams, figure(r.EventsPerS))
	w := newColumns(&b)
	const width = 24
	tableRow(w, width, "", "events/s", "TTFT error p50", "p99", "ITL error p50", "p99", "max", "lag p99", "late p99", "coalesced", "CPU/event", "stamps", "verdict")
	for i := range r.Steps {
		s := &r.Steps[i]
		coalesced := "–"
		if s.CoalescedShare != nil {
			coalesced = fmt.Sprintf("%.1f %%", 100**s.CoalescedShare)
		}
		tableRow(w, width, s.Name, figure(s.PerS), optional(s.TTFTErrorP50US, 1), optional(s.TTFTErrorP99US, 1), optional(s.ITLErrorP50US, 1), optional(s.ITLErrorP99US, 1), optional(s.ITLErrorMaxUS, 1),
			optional(s.SendLagP99US, 1), optional(s.ReadLateP99US, 1), coalesced, optional(s.CPUPerEventUS, 1), s.Stamps, cmpOr(s.Verdict, "–"))
	}
	w.Flush()
	fmt.Fprintf(&b, "\nverdict: %s, after %s s\n", r.Verdict, figure(r.TookS))
	for _, why := range r.Why {
		fmt.Fprintf(&b, "  - %s\n", strings.TrimSpace(why))
	}
	return b.Bytes()
}
