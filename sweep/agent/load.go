package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sweep/failpoint"
	"sweep/loadgen"
	"sweep/sweep"
)

const (
	flushTime  = 60 * time.Second // for a server to drain and empty its prefix cache between two loads
	lostShare  = 0.02             // of the time of a load a simulator may lose for good: its rates are low by as much
	lateShare  = 0.20             // of its steps may be late by more than a step: made up for later, they blur single latencies
	fewFailed  = 2                // so many failed requests are no reason to doubt a load
	failedPart = 0.01             // nor is this share
)

// loads runs the attempt's loads in order until the server dies. It returns an ending for each load
// (an empty one for those that had no turn) and the launch's own.
func (l *launch) loads(ctx context.Context) ([]loadEnd, sweep.Ending) {
	ends := make([]loadEnd, len(l.job.Loads))
	for i, lj := range l.job.Loads {
		ends[i].job = lj
	}
	for i := range ends {
		if l.job.Imply && slices.ContainsFunc(ends[:i], func(e loadEnd) bool { return e.ending.Outcome.Implies() && higher(ends[i].job.Load, e.job.Load) }) {
			continue // its ending follows from that one
		}
		if e := l.agent.clock.holdsLoad(l.job, ends[i].job); e != nil {
			ends[i].ending = *e
			continue
		}
		end, over := l.load(ctx, ends[i].job, i == 0)
		ends[i] = end
		if !over {
			continue
		}
		ending := end.ending
		if cut(ending.Outcome) || ending.Outcome == sweep.InfraDisk {
			for j := i + 1; j < len(ends); j++ {
				ends[j].ending = ending
			}
		}
		return ends, ending
	}
	return ends, sweep.Ending{Outcome: sweep.OK}
}

// measurement is one load under way.
type measurement struct {
	job      sweep.LoadJob
	part     string // its folder until it is committed
	result   sweep.LoadResult
	sampler  *sampler
	files    loadFiles
	run      loadgen.Result
	runErr   error
	simBegan simulatorState
	simEnded simulatorState
}

// load measures one load. over says that the server serves no further one.
func (l *launch) load(ctx context.Context, lj sweep.LoadJob, first bool) (end loadEnd, over bool) {
	m := &measurement{job: lj, part: filepath.Join(l.dir, lj.Dir()+partSuffix)}
	m.result = sweep.LoadResult{Schema: sweep.Schema, Cell: lj.Cell, ContentKey: lj.ContentKey, Load: lj.Load,
		Repeat: l.job.Repeat, Attempt: l.attempt, StartedAt: time.Now()}
	err := l.emit(sweep.Event{Kind: sweep.EventLoad, Cell: lj.Cell, Phase: sweep.PhaseLoad})
	if err == nil {
		err = os.Mkdir(m.part, 0o700)
	}
	failpoint.Hit("load.folder")
	if err == nil {
		err = l.measure(ctx, m, first)
	}
	failpoint.Hit("load.measured")
	if err != nil {
		return l.diskEnd(m, err), true
	}
	ending, over := l.judge(ctx, m)
	if cut(ending.Outcome) { // what was half measured goes away with its folder
		if err := os.RemoveAll(m.part); err != nil {
			return l.diskEnd(m, err), true
		}
		return loadEnd{job: lj, ending: ending}, true
	}
	if !over && l.last(lj) && l.quiet(ctx) {
		m.result.Notes = append(m.result.Notes, l.askOutputs(ctx, askedAfter)...)
	}
	if window := m.run.Window.Seconds(); !over && window > 0 {
		if err := l.agent.floor.reached(ctx, m.run.Evidence["events"]/window); err != nil {
			return l.diskEnd(m, err), true
		}
	}
	dir, err := l.keep(m)
	if err != nil {
		return l.diskEnd(m, err), true
	}
	ending.Evidence = m.result.Evidence
	return loadEnd{job: lj, ending: ending, dir: dir}, over
}

// last reports whether a load is the attempt's last one.
func (l *launch) last(lj sweep.LoadJob) bool { return lj.Cell == l.job.Loads[len(l.job.Loads)-1].Cell }

// quietTime is how long a server may take to drop the requests of a load that was cut off.
const quietTime = 10 * time.Second

// quiet waits until the server runs no request any more. It is false when the server does not say so in time.
func (l *launch) quiet(ctx context.Context) bool {
	if l.engine.Sample == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, quietTime)
	defer cancel()
	for ctx.Err() == nil {
		v, err := l.engine.Sample(ctx, l.get())
		if running, ok := v[sweep.SignalRunning]; err == nil && ok && running+v[sweep.SignalQueued] == 0 {
			return true
		}
		sleep(ctx, 50*time.Millisecond)
	}
	return false
}

// diskEnd takes away a half-written load; that also gives the disk room for launch.json.
func (l *launch) diskEnd(m *measurement, err error) loadEnd {
	if rmErr := os.RemoveAll(m.part); rmErr != nil {
		err = errors.Join(err, rmErr)
	}
	return loadEnd{job: m.job, ending: sweep.Ending{Outcome: sweep.InfraDisk, Phase: sweep.PhaseLoad, Detail: fullDisk(err).Error()}}
}

// measure empties the cache, drives the load, and reads what the server says meanwhile. Its error is
// the disk's; how the load went is in m.
func (l *launch) measure(ctx context.Context, m *measurement, first bool) error {
	life, cancel := l.alive(ctx)
	defer cancel(nil)
	l.flush(life, m)
	if l.hostTier && l.last(m.job) {
		m.result.Notes = append(m.result.Notes, l.askOutputs(life, askedPlanted)...)
	}
	m.simBegan = l.simulator(life)
	var err error
	if m.files, err = openLoadFiles(m.part); err != nil {
		return err
	}
	spec, err := l.loadSpec(m, first)
	if err != nil {
		return errors.Join(err, m.files.close())
	}
	l.watch.reset()
	sampleCtx, stopSampling := context.WithCancel(life)
	sampled := make(chan struct{})
	l.tasks.Go(func() {
		defer close(sampled)
		m.sampler.run(sampleCtx)
	})
	began := time.Now()
	if err := context.Cause(life); err != nil {
		m.runErr = err // it died, or was stopped, before its turn
	} else {
		m.run, m.runErr = loadgen.Run(life, spec)
	}
	l.addTimes(m.run, began, time.Now())
	stopSampling()
	<-sampled
	_ = l.memory.taken(context.WithoutCancel(life)) // looks once more
	m.simEnded = l.simulator(life)
	return errors.Join(m.files.close(), l.metrics.failed(), l.gpuLines.failed(), l.agent.events.lines.failed())
}

// addTimes splits the time of a run into warm-up and window.
func (l *launch) addTimes(r loadgen.Result, began, ended time.Time) {
	if r.Opened.IsZero() {
		l.clock.warmup += ended.Sub(began)
		return
	}
	l.clock.warmup += r.Opened.Sub(began)
	if r.Closed.IsZero() || r.Closed.Before(r.Opened) {
		l.clock.window += ended.Sub(r.Opened)
		return
	}
	l.clock.window += r.Closed.Sub(r.Opened)
}

// loadSpec is what the load generator needs for one load.
func (l *launch) loadSpec(m *measurement, first bool) (loadgen.Spec, error) {
	lj := m.job
	spec := l.spec()
	spec.Seed, spec.Salt = lj.Seed, l.salt(lj.Cell)
	var err error
	if spec.Route, spec.Body, err = Request(l.engine, lj.Workload); err != nil {
		return spec, err
	}
	if spec.Classes, err = l.agent.files.classes(lj.Workload, lj.Load); err != nil {
		return spec, err
	}
	spec.Window = loadgen.Window{Min: lj.Measure.WindowMin, Max: lj.Measure.WindowMax, Requests: lj.Measure.Requests}
	spec.Warmup = loadgen.Warmup{Cohort: lj.Measure.WarmupCohort, Time: lj.Measure.WarmupTime}
	if first && !l.agent.warm.has(l.warmKey()) {
		// Kernels are still being compiled: the first load waits until its throughput stands.
		spec.Warmup.Stable = true
		spec.Warmup.StableMax = min(4*lj.Measure.WindowMin, 10*time.Minute)
	}
	spec.Requests, spec.Record = m.files.requests, m.files.record
	spec.Exact, spec.Clean = true, l.clean
	spec.Counters = &loadgen.Counters{Since: time.Now()}
	var read func(context.Context) (sweep.Values, error)
	if l.engine.Sample != nil {
		get := l.get()
		read = func(ctx context.Context) (sweep.Values, error) { return l.engine.Sample(ctx, get) }
	}
	m.sampler = newSampler(read, spec.Counters, l.metrics, lj.Load.String())
	m.sampler.firstCounted = l.firstCounted
	spec.OnWindow = m.sampler.window
	spec.OnProgress = func(p loadgen.Progress) {
		if err := l.emit(sweep.Event{Kind: sweep.EventProgress, Cell: lj.Cell, Phase: sweep.PhaseLoad, Text: p.Text, Done: p.Done}); err != nil {
			l.log.Warn("event lost", "err", err)
		}
	}
	return spec, nil
}

// warmKey names what must have been compiled once: an engine version under one command with one model.
func (l *launch) warmKey() string {
	return strings.Join([]string{l.job.Engine, l.result.EngineVersion, strings.Join(l.job.Command, " "), l.job.Model, l.result.GPU}, "\n")
}

// flush empties the prefix cache, so that no load finds what another left. The server may still drain
// the last load's requests: it is asked again for a while. A cache that stays is noted, not fatal:
// prompts are salted, so what is in it can only be evicted, never found.
func (l *launch) flush(ctx context.Context, m *measurement) {
	if l.engine.Flush == nil || l.attached() && !l.job.Flush {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, flushTime)
	defer cancel()
	get := l.get()
	var err error
	for pause := 50 * time.Millisecond; ctx.Err() == nil; pause = min(2*pause, 2*time.Second) {
		ask, done := context.WithTimeout(ctx, askTimeout)
		err = l.engine.Flush(ask, get)
		done()
		if err == nil {
			return
		}
		sleep(ctx, pause)
	}
	if err != nil && !isDone(l.gone()) {
		m.result.Notes = append(m.result.Notes, "the prefix cache was not emptied before this load: "+sweep.Printable(err.Error()))
	}
}

// simulatorState is what a simulated server says of its own punctuality.
type simulatorState struct {
	Steps     float64 `json:"steps"`
	LateSteps float64 `json:"late_steps"`
	Lost      float64 `json:"lost_s"`
	at        time.Time
	known     bool
}

// simulator asks a simulated server whether it kept up with real time.
func (l *launch) simulator(ctx context.Context) simulatorState {
	var s simulatorState
	if l.job.Simulate == "" {
		return s
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	status, body, err := l.get()(ctx, http.MethodGet, "/simulator", nil)
	s.at = time.Now()
	s.known = err == nil && status == http.StatusOK && json.Unmarshal(body, &s) == nil
	return s
}

// keep writes run.json and gives the load's folder its name: the load is committed. A load that will be
// tried again keeps its evidence under another name, so that a committed load is always final.
func (l *launch) keep(m *measurement) (string, error) {
	lj, r := m.job, &m.result
	r.EndedAt = time.Now()
	r.Seconds = r.EndedAt.Sub(r.StartedAt).Seconds()
	final := !retriable(lj.Cell, r.Outcome, l.history)
	name := lj.Dir()
	if !final {
		name = "left-" + name
	}
	r.Evidence = answered(r.Ending, filepath.Join(m.part, "requests.jsonl"), l.rel+"/"+name+"/requests.jsonl")
	r.Ending = l.cleaned(r.Ending)
	l.cleanAll(r.Notes)
	if err := writeJSON(filepath.Join(m.part, "run.json"), r); err != nil {
		return "", err
	}
	if err := os.Rename(m.part, filepath.Join(l.dir, name)); err != nil {
		return "", err
	}
	failpoint.Hit("load.renamed")
	if err := sweep.SyncDir(l.dir); err != nil {
		return "", err
	}
	if final {
		l.announce(lj, r, name)
	}
	return name, nil
}

// announce says that a load is committed. It stays so when that cannot be written: a disk that takes
// nothing more ends the launch at its next write.
func (l *launch) announce(lj sweep.LoadJob, r *sweep.LoadResult, name string) {
	if r.Outcome == sweep.OK || r.Outcome == sweep.ClientBound { // either way the kernels are compiled by now
		if err := l.agent.warm.add(l.warmKey()); err != nil {
			l.log.Warn("the first load of the next launch warms up at length again", "err", err)
		}
	}
	err := l.emit(sweep.Event{Kind: sweep.EventCommit, Cell: lj.Cell, Dir: l.rel + "/" + name, Outcome: r.Outcome, Phase: r.Phase, Text: resultText(r)})
	if err != nil {
		l.log.Warn("event lost", "err", err)
	}
}

// resultText says a load's result in one line.
func resultText(r *sweep.LoadResult) string {
	if r.Outcome != sweep.OK {
		return endText(r.Ending)
	}
	text := ""
	if v, ok := r.Values["output_throughput"]; ok {
		text = fmt.Sprintf("%.0f tok/s", v)
	}
	if v, ok := r.Values["p99_ttft_ms"]; ok {
		text += fmt.Sprintf(" · TTFT p99 %.0f ms", v)
	}
	return strings.TrimPrefix(text, " · ")
}
