package agent

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"sweep/sweep"
)

// skip ends an attempt that is not made: its folder and launch.json say why, no server is started. Every load of
// it is done, so that no further attempt follows.
func (l *launch) skip(ending sweep.Ending) (sweep.LaunchResult, error) {
	now := time.Now()
	l.result = sweep.LaunchResult{
		Schema: sweep.Schema, Job: l.job.ID, Role: l.job.Role, Config: l.job.Config.Key, Repeat: l.job.Repeat,
		Attempt: l.attempt, Host: l.job.Host, Ending: ending, StartedAt: now, EndedAt: now,
		// What the config's server holds is known from an attempt that was cut short, as it is where that attempt went on to say this.
		Facts: l.told.Facts, EngineVersion: l.told.EngineVersion, GPU: l.told.GPU, GPUCount: l.told.GPUCount,
	}
	l.result.Loads = settle(l.job, l.history, l.all(ending))
	err := os.MkdirAll(l.dir, 0o700)
	if err == nil {
		err = writeJSON(filepath.Join(l.dir, "job.json"), l.job)
	}
	if err == nil {
		err = sweep.SyncDir(filepath.Dir(l.dir))
	}
	if err == nil {
		err = writeJSON(filepath.Join(l.dir, "launch.json"), l.result)
	}
	if err == nil {
		err = l.emit(sweep.Event{Kind: sweep.EventEnd, Outcome: ending.Outcome, Phase: ending.Phase, Text: ending.Detail})
	}
	return l.result, fullDisk(err)
}

// unlessHeld makes the attempt, or says why it is not made.
func (l *launch) unlessHeld(ctx context.Context) (sweep.LaunchResult, error) {
	if e := l.agent.held(l.job, l.job.Loads); e != nil {
		return l.skip(*e)
	}
	return l.run(ctx)
}

// bind takes the night's deadline from a job, and with the first one what earlier launches took.
func (a *agent) bind(job sweep.Job, file string) error {
	before := a.clock.bound
	if err := a.clock.take(job, file); err != nil || before || !a.clock.bound {
		return err
	}
	return a.clock.remember(a.opt.Out, job.Host)
}

// learn takes from a launch how long such launches take.
func (a *agent) learn(l *launch) error {
	if !a.clock.bound {
		return nil
	}
	runs, err := readRuns(l.dir)
	if err != nil {
		return fullDisk(err)
	}
	a.clock.saw(l.result, runs)
	return nil
}

// held says why loads of a job are not to be started now; nil: they are.
func (a *agent) held(job sweep.Job, loads []sweep.LoadJob) *sweep.Ending {
	if e := a.breaker.holds(job); e != nil {
		return e
	}
	return a.clock.holds(job, loads)
}

// bounded is ctx until the night's deadline.
func (a *agent) bounded(ctx context.Context, job sweep.Job) (context.Context, context.CancelFunc) {
	if at, bound := a.clock.deadline(); bound && job.Remaining != nil {
		return context.WithDeadlineCause(ctx, at, errDeadline)
	}
	return ctx, func() {}
}

// cut reports the outcomes of what was cut short: from outside, or by the night's deadline.
func cut(o sweep.Outcome) bool { return o == sweep.Aborted || o == sweep.SkippedDeadline }
