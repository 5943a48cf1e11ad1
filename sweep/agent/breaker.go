package agent

import (
	"fmt"
	"slices"
	"strings"

	"sweep/sweep"
)

const (
	breakMachine = 3 // launches in a row that ended in trouble of the machine, each after all its attempts
	breakStart   = 5 // configs in a row that failed to start in the same way
)

// breaker stops a night that burns its time: on a machine that does not work any more, or on a failure that every
// config meets. What an engine says of memory is a result, never a reason to stop.
type breaker struct {
	machine int    // launches in a row that ended in trouble of the machine
	trouble string // what the last of them said

	failure string       // how the last launches failed to start, alike; empty: the last one did not
	text    string       // the same for a person
	configs []string     // that failed so, each once
	shared  sweep.Params // axis values that all of them have
}

// saw counts a launch at the end of its job.
func (b *breaker) saw(job sweep.Job, r sweep.LaunchResult) {
	if r.Outcome == "" || r.Outcome.Family() == "skipped" || r.Outcome == sweep.Aborted || r.Outcome == sweep.InfraGPU && r.Phase == sweep.PhaseGate {
		return // nothing was tried; devices that were given up are looked at before each launch, as they may come back
	}
	if ours(r.Outcome) {
		b.machine, b.trouble = b.machine+1, says(r.Ending)
		return
	}
	b.machine = 0
	if !startFailure(r) {
		b.failure, b.configs = "", nil
		return
	}
	if failure := fingerprint(r.Ending); failure != b.failure {
		b.failure, b.text, b.configs, b.shared = failure, says(r.Ending), nil, job.Config.Axes
	}
	if slices.Contains(b.configs, job.Config.Key) {
		return
	}
	b.configs = append(b.configs, job.Config.Key)
	b.shared = common(b.shared, job.Config.Axes)
}

// holds says why a job is not started any more; nil: it is. After [breakStart] configs that failed alike those are
// held that have every axis value which the failed ones share, as nothing says that others would fail too; when they
// share none, all are.
func (b *breaker) holds(job sweep.Job) *sweep.Ending {
	if b.machine >= breakMachine {
		return &sweep.Ending{Outcome: sweep.SkippedBreaker, Phase: sweep.PhaseGate, ImpliedBy: "breaker",
			Detail: fmt.Sprintf("not run: %d launches in a row ended in trouble of this machine, the last with: %s", b.machine, b.trouble)}
	}
	if len(b.configs) < breakStart || len(common(b.shared, job.Config.Axes)) < len(b.shared) {
		return nil
	}
	of := ""
	if len(b.shared) > 0 {
		of = ", all with " + b.shared.String()
	}
	return &sweep.Ending{Outcome: sweep.SkippedBreaker, Phase: sweep.PhaseGate, ImpliedBy: "breaker",
		Detail: fmt.Sprintf("not run: %d configs in a row failed to start in the same way%s: %s", len(b.configs), of, b.text)}
}

// startFailure reports a launch that failed before it was ready, for a reason that is no answer to what its config asks.
func startFailure(r sweep.LaunchResult) bool {
	switch r.Outcome.Family() {
	case "bad":
		return true
	case "crash", "hang", "slow":
		return r.Outcome != sweep.CrashLoad && r.Outcome != sweep.HangLoad
	}
	return false
}

// fingerprint is the same for two endings that a person would call the same failure: numbers in their text, such as
// process ids, ports, addresses and times, do not count.
func fingerprint(e sweep.Ending) string {
	return string(e.Outcome) + "\n" + e.Cause + "\n" + strings.Map(func(c rune) rune {
		if c >= '0' && c <= '9' {
			return -1
		}
		return c
	}, says(e))
}

// says is the one line that tells most of an ending.
func says(e sweep.Ending) string {
	text := endText(e)
	if text == "" {
		return string(e.Outcome)
	}
	return string(e.Outcome) + ": " + text
}

// common are the axis values that two configs share.
func common(a, b sweep.Params) sweep.Params {
	var out sweep.Params
	for _, p := range a {
		if v, ok := b.Get(p.Name); ok && v == p.Value {
			out = append(out, p)
		}
	}
	return out
}
