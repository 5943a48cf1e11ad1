package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sweep/loadgen"
	"sweep/sweep"
)

// judge says how a load ended, and whether its server is over.
func (l *launch) judge(ctx context.Context, m *measurement) (sweep.Ending, bool) {
	complete := m.runErr == nil && m.run.Complete
	if ctx.Err() != nil && !complete && !isDone(l.gone()) {
		return l.aborted(ctx), true
	}
	stalled := errors.Is(m.runErr, loadgen.ErrStalled)
	died := isDone(l.gone()) && !complete
	e, ok := judgeRun(m.run, m.runErr, m.simBegan, m.simEnded)
	why := fmt.Sprintf("no byte of an answer for %s while requests were open", l.limits.LoadStall)
	if !died && !stalled && failing(e) {
		why = fmt.Sprintf("%s; its process lives, but for %s it did not answer GET %s", e.Detail, l.agent.opt.DyingTime, l.engine.Health)
		stalled, died = l.dying(ctx)
		if !stalled && !died && e.Detail == emptyWindow {
			e.Detail += ": make the window longer or the requests shorter"
		}
	}
	if tokens, counted := m.run.Values["output_tokens"]; !died && !stalled && counted && tokens == 0 && (e.Outcome == sweep.OK || e.Outcome == sweep.ClientBound) {
		// The window was too short for its silence to count as a stall, so the server is asked again.
		if _, err := l.askOnce(ctx, fixedPrompts()[0]); err != nil && ctx.Err() == nil {
			stalled, died = !isDone(l.gone()), isDone(l.gone())
		} else {
			e, ok = sweep.Ending{Outcome: sweep.LoadFailed, Phase: sweep.PhaseLoad, Detail: "not one token arrived in the window, and the server answers"}, false
		}
	}
	switch {
	case (died || stalled) && l.attached():
		e = l.lost(ctx, why)
	case died:
		e = l.postmortem(sweep.Autopsy{Loading: true})
	case stalled:
		e = l.examine(sweep.Autopsy{Loading: true, Hang: true})
		e.Detail = join(e.Detail, why)
	}
	if ctx.Err() != nil && e.Outcome != sweep.OK && e.Exit != nil && e.Exit.By != "server" {
		e = l.aborted(ctx) // a signal to everything took the server along
	}
	if died || stalled {
		e.Phase = sweep.PhaseLoad
	}
	if text := poolTooSmall(e, m.run, m.job, l.result.Facts); text != "" {
		e.Outcome, e.Detail = sweep.KVTooSmall, text+"; "+e.Detail
	}
	busy := false
	if e.Outcome == sweep.OK || e.Outcome == sweep.ClientBound {
		if intruded, yes := l.intruded(ctx, m.result.StartedAt); yes {
			e, ok, busy = intruded, false, true
		}
	}
	m.result.Ending = e
	l.gather(m, !ok || died || stalled)
	return e, died || stalled || busy || cut(e.Outcome)
}

// failing reports endings behind which a dying server may stand: it cuts its streams seconds before its
// process ends.
func failing(e sweep.Ending) bool {
	return e.Outcome == sweep.LoadFailed || e.Outcome == sweep.LoadRejected
}

// judgeRun names a load's ending from what the load generator saw on a server that lives. ok is false
// when the numbers are no measurement.
func judgeRun(r loadgen.Result, err error, before, after simulatorState) (e sweep.Ending, ok bool) {
	e = sweep.Ending{Phase: sweep.PhaseLoad}
	all := r.Completed + r.Failed + r.Rejected
	tooMany := func(n int) bool { return n > fewFailed && float64(n) > failedPart*float64(all) }
	switch {
	case tooMany(r.Rejected) && r.Rejected >= r.Failed:
		e.Outcome = sweep.LoadRejected
		e.Detail = fmt.Sprintf("the server refused %d of %d requests by rule; the first: %s", r.Rejected, all, sweep.Printable(r.FirstFailure))
	case tooMany(r.Failed):
		e.Outcome = sweep.LoadFailed
		e.Detail = fmt.Sprintf("%d of %d requests failed; the first: %s", r.Failed, all, sweep.Printable(r.FirstFailure))
	case errors.Is(err, loadgen.ErrFailing) && r.Rejected > r.Failed:
		e.Outcome, e.Detail = sweep.LoadRejected, "the server refuses every request; the first: "+sweep.Printable(r.FirstFailure)
	case errors.Is(err, loadgen.ErrPrompts):
		e.Outcome, e.Detail = sweep.LoadFailed, "prompts have another length at the server than the grid asks for: "+sweep.Printable(err.Error())
	case errors.Is(err, loadgen.ErrFailing):
		e.Outcome, e.Detail = sweep.LoadFailed, "every request fails; the first: "+sweep.Printable(r.FirstFailure)
	case err != nil:
		e.Outcome, e.Detail = sweep.ClientBound, "the load generator could not go on: "+sweep.Printable(err.Error())
	case before.known && after.known && fellBehind(before, after) != "":
		e.Outcome = sweep.ClientBound
		e.Detail = "the simulator fell behind: " + fellBehind(before, after) + "; this machine is too slow for its speed-up"
	case r.Verdict == "client_bound":
		e.Outcome, e.Detail = sweep.ClientBound, "the load generator was the limit, not the server"
	case r.Completed == 0 || windowEmpty(r.Values): // warm-up alone is no measurement
		e.Outcome, e.Detail = sweep.LoadFailed, emptyWindow
	default:
		e.Outcome = sweep.OK
		return e, true
	}
	return e, false
}

// emptyWindow is said of a window in which no request ended; what to do about it depends on whether the server lives.
const emptyWindow = "no request ended within the longest window"

// windowEmpty reports a window in which no request ended.
func windowEmpty(v map[string]float64) bool {
	n, ok := v["completed"]
	return ok && n == 0
}

// poolTooSmall says which class's requests were refused because the whole KV pool does not hold one of them, where
// the context would; "" when it was something else. The remedy is another than for a prompt that no config takes.
func poolTooSmall(e sweep.Ending, r loadgen.Result, lj sweep.LoadJob, facts sweep.Values) string {
	pool, known := facts["kv_tokens"]
	if e.Outcome != sweep.LoadRejected || r.Failures[loadgen.KindTooLong] == 0 || !known {
		return ""
	}
	for _, c := range lj.Workload.Classes {
		longest := float64(c.Input.Max + c.Output.Max)
		if context, told := facts["context_length"]; longest > pool && (!told || longest <= context) {
			return fmt.Sprintf("the KV pool of %.0f tokens cannot hold one request of class %s, up to %.0f tokens: give it more memory, or make the requests shorter", pool, c.Name, longest)
		}
	}
	return ""
}

// dying waits for a server whose requests fail to end, or to answer again. One that does neither hangs.
func (l *launch) dying(ctx context.Context) (hangs, died bool) {
	began := time.Now()
	defer func() { l.clock.stop += time.Since(began) }()
	life, cancel := l.alive(ctx)
	defer cancel(nil)
	end := time.Now().Add(l.agent.opt.DyingTime)
	good := 0
	for time.Now().Before(end) {
		if isDone(l.gone()) {
			return false, true
		}
		if ctx.Err() != nil {
			return false, false
		}
		if l.answer(life, l.engine.Health, 5*time.Second) == "" {
			if good++; good >= 2 {
				return false, false
			}
		} else {
			good = 0
		}
		sleep(life, time.Second)
	}
	return true, false
}

// fellBehind says by how much a simulator did not keep up between two looks; "" when it did.
func fellBehind(before, after simulatorState) string {
	steps, late := after.Steps-before.Steps, after.LateSteps-before.LateSteps
	lost, took := after.Lost-before.Lost, after.at.Sub(before.at).Seconds()
	switch {
	case lost > lostShare*took:
		return fmt.Sprintf("it lost %.2f s of %.1f s", lost, took)
	case late > lateShare*steps:
		return fmt.Sprintf("%.0f of %.0f steps were late by more than a step", late, steps)
	}
	return ""
}
