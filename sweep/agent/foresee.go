package agent

import (
	"context"
	"fmt"
	"maps"

	"sweep/sweep"
	"sweep/sweep/engine"
	"sweep/sweep/search"
)

// foresee makes the launch's forecast, from what this night has seen on this host so far and what earlier
// nights told. It is made before the server starts, so that the truth cannot have touched it.
func (l *launch) foresee() {
	if l.engine.Memory == nil {
		return
	}
	seen, err := search.Look(l.agent.opt.Out)
	if err != nil {
		l.log.Warn("no forecast", "err", err)
	}
	asked := sweep.SightingOf(l.job)
	asked.GPU, asked.GPUCount = l.result.GPU, l.result.GPUCount
	l.forecast = search.Forecast(l.engine.Memory, append(l.job.Earlier, seen...), asked, search.CellBytes(l.engine.Memory, l.job))
}

// withForecast puts the forecast beside the facts, with its errors where they hold the truth. Headroom is
// true only of a server that was ready.
func (l *launch) withForecast(facts sweep.Values) sweep.Values {
	if l.forecast == nil {
		return facts
	}
	truth := maps.Clone(facts)
	if !l.ready {
		delete(truth, "headroom_gib")
	}
	if facts == nil {
		facts = sweep.Values{}
	}
	maps.Copy(facts, l.forecast.Values(truth))
	return facts
}

// preflight says why this launch is not worth a start; nil: it is.
func (l *launch) preflight(ctx context.Context) *sweep.Ending {
	l.foresee()
	j := l.job
	refuse := func(o sweep.Outcome, detail string) *sweep.Ending {
		return &sweep.Ending{Outcome: o, Phase: sweep.PhaseGate, Detail: detail}
	}
	var weights int64
	if l.engine.ModelForm != "" && !simulated(j) && j.Container == nil { // what is in a container is not here
		files := lookAtModel(j, l.engine.ModelForm, l.env.All)
		if files.problem != "" {
			return refuse(sweep.BadModel, files.problem)
		}
		weights = files.weights
	}
	if l.engine.Preflight != nil {
		m := l.before.forPreflight(j.Host)
		m.WeightBytes, m.Forecast = weights, l.forecast
		if e := l.engine.Preflight(j.Config.Settings, m); e != nil {
			refusal := *e
			refusal.Phase = sweep.PhaseGate
			return &refusal
		}
	}
	for _, p := range l.agent.flagProblems(ctx, l) {
		if !p.Vague {
			return refuse(sweep.BadFlag, flagText(p))
		}
	}
	return l.forsake()
}

// forsake skips a launch that is expected not to be worth a start, if the user asked for that.
func (l *launch) forsake() *sweep.Ending {
	j := l.job
	if j.SkipHeadroomGiB == nil || j.Role != sweep.RoleMeasure || j.Config.Baseline {
		return nil
	}
	why := l.forecast.Hopeless(*j.SkipHeadroomGiB)
	if why == "" {
		return nil
	}
	return &sweep.Ending{
		Outcome: sweep.SkippedImplied, Phase: sweep.PhaseGate, ImpliedBy: l.forecast.Sources(),
		Detail: fmt.Sprintf("not run, as its forecast says so: %s (%s)", why, l.forecast.Short()),
	}
}

func flagText(p engine.FlagProblem) string {
	if p.Remedy == "" {
		return p.Text
	}
	return p.Text + " (" + p.Remedy + ")"
}

// flagProblems holds the launch's settings against the help of its command, which is read once for each
// command. Without a help nothing is held: the server will say it.
func (a *agent) flagProblems(ctx context.Context, l *launch) []engine.FlagProblem {
	if l.job.Container != nil {
		l.note("flags were not held against the server's own help, which is in a container")
		return nil
	}
	prefix, err := resolveCommand(l.job.Command, a.opt.Self, l.job.Workdir)
	if err != nil || l.engine.Help == nil || l.job.NoFlagCheck {
		return nil
	}
	call := helpCall{engine: l.engine, argv: prefix, workdir: l.job.Workdir, env: l.env.All, key: l.env.Added, cache: a.opt.Cache}
	if simulated(l.job) {
		call.cache = "" // as fast as a file, and another program with each build
	}
	flags, known := a.helps[call.file()]
	fresh := false
	if !known {
		if flags, known = call.kept(); !known {
			if flags, err = call.ask(ctx); err != nil {
				l.log.Warn("flags are not checked", "err", err)
				flags = engine.Flags{}
			}
			fresh = true
		}
		a.helps[call.file()] = flags
	}
	if len(flags.Known) == 0 {
		return nil
	}
	problems, now, err := call.flagProblems(ctx, l.job.Config.Settings, flags, fresh)
	if err != nil {
		l.log.Warn("flags are not checked", "err", err)
		return nil
	}
	a.helps[call.file()] = now
	return problems
}
