package agent

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sweep/failpoint"
	"sweep/loadgen"
	"sweep/sweep"
	"sweep/sweep/proc"
)

// launch is one attempt: one start of a server and the loads that it is to hold.
type launch struct {
	agent   *agent
	job     sweep.Job // its loads are those of this attempt
	history []sweep.LaunchResult
	told    sweep.LaunchResult // as in past
	attempt int
	engine  *sweep.Engine
	limits  sweep.Limits
	log     *slog.Logger

	dir, rel string // the attempt's folder: absolute, and relative to the night
	argv     []string
	box      *proc.Container // nil: the server is a program of the host
	env      environment
	port     int
	key      string // API key of an attached server
	served   string // the model's name on this server, unlike any other's
	machine  *machine
	before   view
	others   *strangers
	final    bool            // no other attempt follows, whatever the outcome allows
	oom      *proc.OOMWatch  // nil before the start
	kernel   []byte          // what it has said so far
	forecast *sweep.Forecast // nil: none can be made

	server   *proc.Server
	book     *logbook
	watch    *gpuWatch
	memory   *hostWatch // nil: the host is not ours to look at
	metrics  *lines
	gpuLines *lines
	tasks    sync.WaitGroup     // goroutines of the launch
	quit     context.CancelFunc // ends those that do not end with the server
	vocab    []int
	ready    bool
	unproved atomic.Pointer[string] // what is missing for the proof that the server serves
	hostTier bool                   // the server has a prefix cache in host memory
	outputs  []outputs              // answers to the fixed prompts, in order
	// firstCounted: the server's decode counter includes first tokens.
	firstCounted bool
	execed       time.Time // when the server's program ran

	result sweep.LaunchResult
	clock  stopwatch
}

// hash makes a short name out of parts that may hold anything.
func hash(parts ...string) uint64 {
	h := fnv.New64a()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return h.Sum64()
}

// run goes through the whole launch and returns launch.json as written. An error is our own failure or
// the machine's; the server is down all the same.
func (l *launch) run(ctx context.Context) (sweep.LaunchResult, error) {
	l.clock.began = time.Now()
	l.result = sweep.LaunchResult{
		Schema: sweep.Schema, Job: l.job.ID, Role: l.job.Role, Config: l.job.Config.Key, Repeat: l.job.Repeat,
		Attempt: l.attempt, Host: l.job.Host, StartedAt: time.Now(),
	}
	if l.attached() {
		return l.runAttached(ctx)
	}
	refused, err := l.gate(ctx)
	if cause := context.Cause(ctx); cause != nil && err != nil {
		return l.result, cause // nothing was started; what could not be read may be there all the same
	}
	if lost, ok := errors.AsType[*givenUpError](err); ok {
		result, err := l.finish(ctx, lost.ending, l.all(sweep.Ending{})) // no load had its turn: each is left
		return result, errors.Join(lost, err)
	}
	if err != nil {
		return l.result, err
	}
	if refused != nil {
		return l.finish(ctx, *refused, l.all(*refused))
	}
	if err := l.start(ctx); err != nil {
		return l.unstarted(ctx, err)
	}
	ending := l.awaitReady(ctx)
	if ending == nil {
		if err := l.greet(ctx); err != nil {
			l.stop(ctx, false)
			return l.fail(ctx, err)
		}
		ends, ending := l.loads(ctx)
		stopped := l.stop(ctx, ending.Outcome == sweep.HangLoad)
		if ending.Outcome == sweep.OK {
			ending = stopped
		}
		for i := range ends {
			ends[i].ending = ended(ends[i].ending, stopped.Exit)
		}
		return l.finish(ctx, ended(ending, stopped.Exit), ends)
	}
	stopped := l.stop(ctx, ending.Outcome == sweep.HangStart || ending.Outcome == sweep.BusyPort)
	*ending = ended(*ending, stopped.Exit)
	return l.finish(ctx, *ending, l.all(*ending))
}

// ended adds to the ending of a server that hung or took too long how it was ended then.
func ended(e sweep.Ending, exit *sweep.Exit) sweep.Ending {
	if family := e.Outcome.Family(); e.Exit == nil && (family == "hang" || family == "slow") {
		e.Exit = exit
	}
	return e
}

// unstarted ends a launch whose server's program never ran.
func (l *launch) unstarted(ctx context.Context, err error) (sweep.LaunchResult, error) {
	for _, f := range []*lines{l.metrics, l.gpuLines} {
		if f != nil {
			_ = f.close() // nothing was written
		}
	}
	if l.oom != nil {
		l.oom.Close()
	}
	if ctx.Err() != nil {
		e := sweep.Ending{Outcome: sweep.Aborted, Phase: sweep.PhaseLaunch, Detail: abortedText}
		if errors.Is(context.Cause(ctx), errDeadline) {
			e = sweep.Ending{Outcome: sweep.SkippedDeadline, Phase: sweep.PhaseLaunch, ImpliedBy: "deadline", Detail: deadlineText}
		}
		return l.finish(ctx, e, l.all(e))
	}
	if _, ok := errors.AsType[*EnvironmentError](err); ok {
		return l.fail(ctx, errors.Join(err, os.RemoveAll(l.dir))) // nothing was tried
	}
	if diskError(err) {
		return l.fail(ctx, err)
	}
	if _, reclaimErr := proc.Reclaim(filepath.Join(l.dir, "owner.json"), 0); reclaimErr != nil {
		return l.fail(ctx, errors.Join(err, reclaimErr))
	}
	e := sweep.Ending{Outcome: sweep.InfraLost, Phase: sweep.PhaseLaunch, Detail: err.Error()} // our own failure says nothing of the next try
	if errors.Is(err, proc.ErrKilled) {
		e.Detail = "the supervisor, which holds the server's processes, was killed from outside before the server ran"
	}
	return l.finish(ctx, e, l.all(e))
}

// closeFiles waits for the launch's goroutines, which all end after a stop, and puts what they wrote on
// disk: launch.json, which comes last, says that all of it is there.
func (l *launch) closeFiles() {
	l.quit()
	l.tasks.Wait()
	l.oom.Close()
	for _, f := range []*lines{l.metrics, l.gpuLines} {
		if err := f.close(); err != nil {
			l.note(fmt.Sprintf("%s is not complete: %v", filepath.Base(f.f.Name()), err))
		}
	}
}

// all gives each load of the attempt the same ending.
func (l *launch) all(e sweep.Ending) []loadEnd {
	ends := make([]loadEnd, len(l.job.Loads))
	for i, lj := range l.job.Loads {
		ends[i] = loadEnd{job: lj, ending: e}
	}
	return ends
}

// fail ends a launch after a failure of ours: a full disk is an outcome of each load that is left, and
// ends the agent as well.
func (l *launch) fail(ctx context.Context, err error) (sweep.LaunchResult, error) {
	if !diskError(err) {
		return l.result, err
	}
	e := sweep.Ending{Outcome: sweep.InfraDisk, Phase: sweep.PhaseLaunch, Detail: err.Error()}
	result, _ := l.finish(ctx, e, l.all(e))
	return result, fullDisk(err)
}

// finish writes launch.json, the last file of an attempt, and says so.
func (l *launch) finish(ctx context.Context, ending sweep.Ending, ends []loadEnd) (sweep.LaunchResult, error) {
	r := &l.result
	ending = l.cleaned(ending)
	r.Ending = ending
	for i := range ends {
		ends[i].ending = l.cleaned(ends[i].ending)
	}
	r.Loads = settle(l.job, l.history, ends)
	if l.final || ending.Outcome == sweep.InfraDisk || cut(ending.Outcome) {
		stand(r.Loads, ending)
	}
	if l.book != nil {
		facts, notes := l.book.said()
		maps.Copy(facts, r.Facts) // what the server said when asked goes before what its log said
		r.Facts = facts
		l.note(notes...)
		if r.Phases == nil { // it was never ready: as far as it came
			r.Phases = l.book.freeze()
		}
	}
	r.Facts = l.withForecast(r.Facts)
	if most := l.memory.peak(); r.Facts == nil {
		r.Facts = most
	} else {
		maps.Copy(r.Facts, most)
	}
	if !l.attached() {
		lookCtx, cancel := l.agent.untilNow(ctx)
		after, err := l.machine.look(lookCtx, l.job.GPUs)
		cancel()
		if err == nil {
			r.MachineAfter = after.describe()
		}
	}
	r.EndedAt = time.Now()
	r.Times = l.clock.times(time.Now())
	maps.Copy(r.Times, phaseTimes(r.Phases))
	if err := writeJSON(filepath.Join(l.dir, "launch.json"), r); err != nil {
		return *r, fullDisk(err)
	}
	if err := l.emit(sweep.Event{Kind: sweep.EventEnd, Outcome: ending.Outcome, Phase: ending.Phase, Text: endText(ending)}); err != nil {
		return *r, fullDisk(err)
	}
	if ending.Outcome == sweep.InfraDisk {
		return *r, &EnvironmentError{What: ending.Detail}
	}
	return *r, nil
}

// stand gives each load that would be left for another attempt its ending: there will be none.
func stand(loads []sweep.LoadEnding, ending sweep.Ending) {
	for i := range loads {
		if loads[i].State != stateLeft {
			continue
		}
		loads[i].State = stateDone
		if loads[i].Outcome == "" {
			loads[i].Ending = ending
		}
	}
}

// endText says an ending in one line.
func endText(e sweep.Ending) string {
	switch {
	case e.Detail != "":
		return e.Detail
	case e.Evidence != nil:
		return e.Evidence.Text
	}
	return ""
}

func (l *launch) note(notes ...string) {
	for _, n := range notes {
		if n = l.clean(n); n != "" && !slices.Contains(l.result.Notes, n) {
			l.result.Notes = append(l.result.Notes, n)
		}
	}
}

// emit writes an event of this launch.
func (l *launch) emit(e sweep.Event) error {
	e.Job, e.Attempt, e.Text = l.job.ID, l.attempt, l.clean(e.Text)
	if e.Dir == "" {
		e.Dir = l.rel
	}
	return l.agent.events.emit(e)
}

// gate makes the attempt's folder and checks what can be checked before a server is started. A refusal
// is the ending of each load; an error is the user's environment.
func (l *launch) gate(ctx context.Context) (*sweep.Ending, error) {
	j := l.job
	prefix, err := l.prefix()
	if err != nil {
		return nil, err
	}
	l.before, err = l.machine.look(ctx, j.GPUs)
	if err != nil {
		return nil, err
	}
	if j.Simulate == "" {
		if err := l.agent.claims.take(slices.Concat(l.before.Devices, l.before.Parts), l.agent.opt.Out); err != nil {
			return nil, err
		}
	}
	devices := ""
	if len(j.GPUs) > 0 && j.Container == nil {
		devices = l.before.uuids()
	}
	if l.env, err = serverEnvironment(l.agent.opt.Environ, l.engine.Environ, j.Env, devices); err != nil {
		return nil, err
	}
	l.memory = &hostWatch{host: l.machine.host, before: l.before.Memory}
	l.others = newStrangers(l.machine, l.before.Devices)
	l.note(l.before.Notes...)
	l.result.MachineBefore = l.before.describe()
	l.result.GPUCount = len(l.before.Devices)
	if len(l.before.Devices) > 0 {
		l.result.GPU = l.before.Devices[0].Name
	}
	attempt := fmt.Sprint(l.attempt)
	night := []string{l.agent.opt.Out, j.Night} // two nights of one name may run side by side
	port, portErr := proc.FreeBlock(sweep.PortBlock, hash(append(night, j.ID, attempt)...))
	l.port = port
	l.served = fmt.Sprintf("sweep-%08x-%08x", uint32(hash(night...)), uint32(hash(j.ID, attempt)))
	l.argv = slices.Concat(prefix, l.engine.Argv(sweep.ServerSpec{
		Model: j.Model, ServedName: l.served, Host: loopback, Port: port, Settings: j.Config.Settings,
	}))
	l.intoContainer(ctx)
	for _, a := range l.argv {
		l.result.Argv = append(l.result.Argv, proc.Redact(a, l.env.Secrets))
	}
	if err := l.makeFolder(); err != nil {
		return nil, fullDisk(err)
	}
	if e := l.preflight(ctx); e != nil {
		return e, nil
	}
	if portErr != nil {
		return &sweep.Ending{Outcome: sweep.BusyPort, Phase: sweep.PhaseGate, Detail: fmt.Sprintf("no %d free ports in a row: %v", sweep.PortBlock, portErr)}, nil
	}
	return l.devicesFree(ctx)
}

// loopback is where servers listen: nobody else on the network is to reach them.
const loopback = "127.0.0.1"

// makeFolder writes what is known before the start: a launch folder exists from its start.
func (l *launch) makeFolder() error {
	if err := makeDirs(l.dir); err != nil {
		return err
	}
	failpoint.Hit("launch.folder")
	if err := writeJSON(filepath.Join(l.dir, "job.json"), l.job); err != nil {
		return err
	}
	script := commandScript(l.result.Argv, l.env.Added, l.hostDir())
	if err := sweep.WriteFile(filepath.Join(l.dir, "command.sh"), []byte(script), 0o700); err != nil {
		return err
	}
	return l.emit(sweep.Event{Kind: sweep.EventLaunch, Text: l.job.Config.Key})
}

// base is the server's URL.
func (l *launch) base() string {
	if l.attached() {
		return l.job.Attach
	}
	return fmt.Sprintf("http://%s:%d", loopback, l.port)
}

// spec is what the load generator needs for this server.
func (l *launch) spec() loadgen.Spec {
	return loadgen.Spec{
		URL: l.base(), Route: l.engine.Generate, Model: l.served, Header: l.header(),
		Body: l.engine.Body, Vocabulary: l.vocab, Stall: l.limits.LoadStall,
	}
}
