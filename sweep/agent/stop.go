package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"sweep/failpoint"
	"sweep/sweep"
	"sweep/sweep/gpu"
	"sweep/sweep/proc"
)

const (
	graceUnready = 5 * time.Second  // from SIGTERM to SIGKILL of a server that never was ready
	goneTime     = 40 * time.Second // for a dead server's tree to vanish: its supervisor gives up after 30 s
)

// postmortem names the end of a server whose process has ended. known says what else is known of it.
func (l *launch) postmortem(known sweep.Autopsy) sweep.Ending {
	select {
	case <-l.server.Gone():
	case <-time.After(goneTime):
	}
	l.book.complete(2 * time.Second)
	end := l.server.Exit()
	exit := exitOf(end)
	known.Exit = &exit
	e := l.examine(known)
	if starved, yes := l.starved(e.Phase); yes {
		starved.Exit = &exit
		return starved
	}
	if end.Lost { // the server only went with it: that says nothing of the config
		e = sweep.Ending{Outcome: sweep.InfraLost, Phase: e.Phase, Exit: &exit,
			Detail: "the supervisor, which holds the server's processes, was killed from outside, and the server ended with it"}
	}
	return e
}

// examine names the end of a server from all that is known of it now. The server may still run.
func (l *launch) examine(known sweep.Autopsy) sweep.Ending {
	l.lookOutside(&known)
	a := l.book.autopsy()
	a.Ready, a.Loading, a.Exit, a.Hang, a.Slow = l.ready, known.Loading, known.Exit, known.Hang, known.Slow
	a.Foreign, a.OOMKills, a.Kernel = known.Foreign, known.OOMKills, known.Kernel
	if l.ready {
		a.Phase = sweep.PhaseReady
	}
	if a.Loading {
		a.Phase = sweep.PhaseLoad
	}
	e := l.engine.Verdict(a)
	if e.Phase == "" {
		e.Phase = a.Phase
	}
	if e.Exit == nil {
		e.Exit = a.Exit
	}
	if e.Outcome == sweep.BusyGPU {
		e.Detail = join(e.Detail, strangersText(l.others.since(time.Time{})))
	}
	if e.Evidence != nil {
		ev := *e.Evidence
		ev.File = l.rel + "/" + cmp.Or(ev.File, "server.log")
		e.Evidence = &ev
	}
	return e
}

func exitOf(e proc.Exit) sweep.Exit { return sweep.Exit{Code: e.Code, Signal: e.Signal, By: e.By} }

// stop ends the server, proves that nothing of it is left, and completes the files about it. atOnce skips
// SIGTERM. It returns the ending of a launch that had served all its loads.
func (l *launch) stop(ctx context.Context, atOnce bool) sweep.Ending {
	began := time.Now()
	defer func() { l.clock.stop += time.Since(began) }()
	stopCtx, cancel := l.agent.untilNow(ctx)
	defer cancel()
	grace := l.limits.Stop
	switch {
	case atOnce:
		grace = 0 // no SIGTERM
	case !l.ready:
		grace = min(grace, graceUnready)
	}
	diedBefore := isDone(l.server.Done())
	ending := sweep.Ending{Outcome: sweep.OK, Phase: sweep.PhaseStop}
	if diedBefore && l.ready {
		ending = l.postmortem(sweep.Autopsy{})
	}
	failpoint.Hit("stop.due")
	report, err := l.server.Stop(stopCtx, grace)
	if err != nil {
		l.note("stop: " + err.Error())
	}
	select {
	case <-l.server.Gone():
	case <-time.After(goneTime):
	}
	l.book.complete(2 * time.Second)
	exit := exitOf(l.server.Exit())
	ending.Exit = &exit
	if report.How == proc.HowKill && !atOnce && stopCtx.Err() == nil {
		l.note(fmt.Sprintf("the server did not end within %s of SIGTERM and was killed", grace))
	}
	if n := len(l.server.Killed()); n > 0 && report.How != proc.HowKill {
		l.note(fmt.Sprintf("%d processes outlived the server's first one and were killed", n))
	}
	if err := l.server.LogError(); err != nil {
		l.note("server.log is not complete: " + err.Error())
	}
	if left := l.server.Left(); left != "" {
		l.note(left)
	}
	for _, p := range report.Stuck {
		l.note(fmt.Sprintf("process %d (%s, state %s) outlived SIGKILL", p.PID, p.Comm, p.State))
		ending.Outcome, ending.Detail = sweep.InfraGPU, "a process of the server cannot be killed; the machine may need a restart"
	}
	failpoint.Hit("stop.done")
	l.provePortClosed()
	l.removeShared()
	l.proveMemoryBack(stopCtx)
	l.closeFiles()
	return ending
}

func isDone(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (l *launch) provePortClosed() {
	if _, holder, err := proc.Listening(l.port, nil); err == nil && holder != "" {
		l.note(fmt.Sprintf("port %d is still held after the stop, by %s", l.port, holder))
	}
}

// proveMemoryBack waits until the devices hold no more than before the launch. The driver frees memory
// some time after the last process is gone. The end of ctx leaves it unproved.
func (l *launch) proveMemoryBack(ctx context.Context) {
	baseline := gpu.Used(l.before.Devices)
	if len(baseline) == 0 {
		return
	}
	if list := l.others.since(time.Time{}); len(list) > 0 { // theirs does not come back
		l.note("somebody else was on the devices: " + strangersText(list))
		return
	}
	limited, cancel := context.WithTimeout(ctx, l.agent.opt.GateTime)
	defer cancel()
	if l.machine.simulated { // no driver that lags and wavers: one look is proof
		if v, err := l.machine.look(limited, l.job.GPUs); err == nil && len(baseline.Over(v.Devices)) == 0 {
			return
		}
	}
	report, err := gpu.WaitBaseline(limited, l.machine.gpus, baseline)
	switch {
	case err == nil:
		l.clock.memoryBack = &report.Seconds
	case errors.Is(err, gpu.ErrDirty) && ctx.Err() == nil:
		l.note(dirtyText(report.Over))
	}
}

// diskError reports errors of a disk that takes nothing more.
func diskError(err error) bool {
	for _, e := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EIO, syscall.EFBIG} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// fullDisk explains an error of writing the night's files.
func fullDisk(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*EnvironmentError](err); ok {
		return err
	}
	if diskError(err) {
		return &EnvironmentError{What: "the night's folder takes nothing more: free space or name another with -o, then sweep resume", Err: err}
	}
	return &EnvironmentError{What: "the night's folder cannot be written", Err: err}
}
