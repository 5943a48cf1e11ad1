//go:build linux

// Command killstorm kills a short simulated night at every step and at random moments, goes on with it, and holds what
// comes out against an undisturbed night: every cell committed exactly once, the report the same, nothing left behind.
//
//	go run ./bench/killstorm -n 300            every failpoint in order, then 300 random moments
//	go run ./bench/killstorm -n 0 -only "agent load.renamed"
//	go run ./bench/killstorm -n 300 -seed 17   the same moments again
//
// It builds sweep with the build tag failpoints, without which there are none. All it starts carries a mark in its
// environment, by which what is left over is found and ended.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"sweep/sweep/proc/proctest"
)

func main() {
	if code, is := proctest.Client(); is {
		os.Exit(code)
	}
	var s storm
	flag.IntVar(&s.random, "n", 300, "how many random moments")
	flag.Uint64Var(&s.seed, "seed", uint64(time.Now().UnixNano()), "of the random moments")
	flag.IntVar(&s.parallel, "parallel", 4, "how many nights at a time")
	flag.StringVar(&s.only, "only", "", `kill at this failpoint only: "ROLE NAME"`)
	flag.StringVar(&s.program, "sweep", "", "a sweep that was built with -tags failpoints, instead of building one")
	flag.BoolVar(&s.once, "once", false, "one blow at each failpoint, at random with or without the parent, instead of both; several blows a night")
	flag.BoolVar(&s.keep, "keep", false, "keep the folders of cases that failed")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s.say = func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
	failed, err := s.run(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "killstorm:", err)
		os.Exit(3)
	}
	if failed > 0 {
		os.Exit(1)
	}
}
