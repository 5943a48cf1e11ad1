package agent

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"sweep/failpoint"
	"sweep/sweep"
	"sweep/sweep/proc"
)

// startTime bounds how long a supervisor may take to exec a server.
const startTime = 30 * time.Second

// start launches the server and what watches it.
func (l *launch) start(ctx context.Context) error {
	var err error
	if l.metrics, err = openLines(filepath.Join(l.dir, "metrics.jsonl")); err != nil {
		return err
	}
	if l.gpuLines, err = openLines(filepath.Join(l.dir, "gpu.jsonl")); err != nil {
		return err
	}
	l.oom = proc.WatchOOM(ctx, l.machine.kernel)
	limit, floor := l.memoryLimit(ctx)
	startCtx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	logFile := filepath.Join(l.dir, "server.log")
	failpoint.Hit("launch.due")
	l.server, err = proc.Start(startCtx, sweep.Startable(l.agent.opt.Supervisor), proc.Spec{
		Argv: sweep.Startable(l.argv), Env: l.env.All, Dir: l.hostDir(), Container: l.box, Secrets: l.env.Secrets,
		Log: logFile, Owner: filepath.Join(l.dir, "owner.json"), MemoryMax: limit, MemoryFloor: floor,
		OwnerInfo: map[string]any{"night": l.job.Night, "job": l.job.ID, "attempt": l.attempt, "port": l.port, "served": l.served, shmInfo: proc.SharedMemory()},
	})
	if errors.Is(err, proc.ErrCommand) {
		what := fmt.Sprintf("command %s", l.argv[0])
		if strings.Contains(err.Error(), syscall.ENOEXEC.Error()) { // it comes as text from the supervisor
			what += " is no program of this machine, and as a script it lacks a first line such as #!/bin/sh"
		}
		return &EnvironmentError{What: what, Err: err}
	}
	if err != nil {
		return fmt.Errorf("start of the server: %w", err)
	}
	failpoint.Hit("launch.started")
	l.execed = time.Now()
	l.held()
	l.book = newLogbook(l.engine.NewLog(), []string{l.engine.Health, l.engine.Models, l.engine.Generate}, l.phaseTeller())
	watchCtx, quit := context.WithCancel(context.WithoutCancel(ctx))
	l.quit = quit
	l.tasks.Go(func() {
		if err := l.book.follow(logFile, l.server.Gone()); err != nil {
			l.log.Warn("server.log cannot be read any more", "err", err)
		}
	})
	l.watch = &gpuWatch{machine: l.machine, wanted: l.job.GPUs, out: l.gpuLines}
	if len(l.before.Devices) > 0 {
		l.tasks.Go(func() { l.watch.run(watchCtx) })
	}
	if !l.machine.simulated { // there it is a program that answers, whose start each second would take from the load: it is asked when the server is ready and after each load
		l.tasks.Go(func() { l.memory.run(watchCtx) })
	}
	l.tasks.Go(func() { every(watchCtx, strangerPeriod, func() { l.others.look(watchCtx) }) })
	return nil
}

// phaseTeller turns what the log says of the start into events: each phase at once, progress inside one
// at most once a second.
func (l *launch) phaseTeller() func(sweep.Phase, string) {
	var phase sweep.Phase
	var told time.Time
	return func(p sweep.Phase, text string) {
		if p == phase && time.Since(told) < time.Second {
			return
		}
		phase, told = p, time.Now()
		if err := l.emit(sweep.Event{Kind: sweep.EventPhase, Phase: p, Text: text}); err != nil {
			l.log.Warn("event lost", "err", err)
		}
	}
}

var errDied = errors.New("the server's process ended")

// alive returns a context that ends with the server's process.
func (l *launch) alive(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	l.tasks.Go(func() {
		select {
		case <-l.gone():
			cancel(errDied)
		case <-ctx.Done():
		}
	})
	return ctx, cancel
}

// awaitReady waits until the server is proved ready. Else it returns how the start ended; the server may
// still run then.
func (l *launch) awaitReady(ctx context.Context) *sweep.Ending {
	began := l.execed
	defer func() { l.clock.start += time.Since(began) }()
	life, cancel := l.alive(ctx)
	defer cancel(nil)
	proved := make(chan *sweep.Ending, 1)
	l.tasks.Go(func() { proved <- l.prove(life) })
	w := newWatcher(l.limits, l.engine.Stall, began)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-l.server.Done():
			e := l.postmortem(sweep.Autopsy{})
			return &e
		case e := <-proved:
			if life.Err() != nil { // the proof was cut short: one of the other cases says why
				proved = nil
				continue
			}
			if e != nil {
				return e
			}
			failpoint.Hit("launch.ready")
			l.ready = true
			l.book.catchUp(filepath.Join(l.dir, "server.log"), time.Second) // a server may be ready sooner than its log is read
			l.result.Phases = l.book.freeze()
			return nil
		case <-l.book.port:
			e := l.examine(sweep.Autopsy{})
			return &e
		case <-ctx.Done():
			e := l.aborted(ctx)
			return &e
		case now := <-tick.C:
			if e := l.judgeStart(w, now); e != nil {
				return e
			}
		}
	}
}

// judgeStart looks for progress and names a start that makes none, or takes too long.
func (l *launch) judgeStart(w *watcher, now time.Time) *sweep.Ending {
	phase, work := l.book.state()
	p := pulse{LogBytes: work, GPUBytes: l.watch.used()}
	if s, err := l.server.Progress(); err == nil {
		p.ReadBytes, p.SharedBytes, p.CompilerCPU = s.BytesRead, s.MemoryPeak, int64(s.CompilerTicks)
	} else {
		p.ReadBytes, p.SharedBytes, p.CompilerCPU = w.base.ReadBytes, w.base.SharedBytes, w.base.CompilerCPU
	}
	var e sweep.Ending
	switch w.observe(now, phase, p) {
	case alive:
		return nil
	case hung:
		e = l.examine(sweep.Autopsy{Hang: true})
		e.Detail = join(join(e.Detail, w.silence(now)), l.whyUnproved())
	case slow:
		e = l.examine(sweep.Autopsy{Slow: true})
		e.Detail = join(join(e.Detail, fmt.Sprintf("not ready %s after the start, though still at work; raise limits: start: if it needs longer", l.limits.Start)), l.whyUnproved())
	}
	return &e
}

func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}

const abortedText = "stopped from outside; sweep resume goes on from here"

const deadlineText = "cut short: the night's time was over"

// aborted is the ending of what was cut short from outside, or by the night's deadline.
func (l *launch) aborted(ctx context.Context) sweep.Ending {
	phase := sweep.PhaseLoad
	switch {
	case l.ready:
	case l.book == nil:
		phase = sweep.PhaseReady
	default:
		phase, _ = l.book.state()
	}
	if errors.Is(context.Cause(ctx), errDeadline) {
		return sweep.Ending{Outcome: sweep.SkippedDeadline, Phase: phase, ImpliedBy: "deadline", Detail: deadlineText}
	}
	return sweep.Ending{Outcome: sweep.Aborted, Phase: phase, Detail: abortedText}
}
