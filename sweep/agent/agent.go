package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"sweep/failpoint"
	"sweep/sweep"
	"sweep/sweep/engine"
	"sweep/sweep/proc"
)

// Options say where an agent works.
type Options struct {
	Dir  string // its own folder: queue, events
	Out  string // the night's folder, in which the attempts' folders appear
	Self string // path of this program: it is its own supervisor and simulator

	Engine       func(name string) (*sweep.Engine, bool) // finds an engine
	Supervisor   []string                                // argv of a supervisor; nil: Self, "supervise"
	Environ      []string                                // what servers inherit; nil: this process's own
	Lock         *os.File                                // holds the lock of Dir already; nil: it is taken
	Now          <-chan struct{}                         // closed: kill at once instead of stopping cleanly; may be nil
	Cache        string                                  // folder of kept helps of servers; empty: none are kept
	MemoryMax    int64                                   // of host memory that a launch may hold, in bytes; 0: what is available, less a margin
	BusyPause    time.Duration                           // before another try on a machine that was busy, and so much longer each time; 0: 5 s
	DyingTime    time.Duration                           // for a server whose requests fail to end, or to answer again; 0: 30 s
	GateTime     time.Duration                           // for the memory of devices to come back before a launch; 0: 2 min
	StrangerWait time.Duration                           // for somebody else to leave the devices, where a job says so; 0: 30 min
	Locks        string                                  // folder in which devices are claimed; empty: the machine's own
	// Selftest measures what the load generator errs by on this machine, at so many streams and events a second, in some two
	// seconds. nil: it is not measured.
	Selftest func(ctx context.Context, streams int, perS float64) (json.RawMessage, error)
	Log      *slog.Logger // nil: nothing is logged
}

// ErrBusy says that another agent is at work in the same folder.
var ErrBusy = errors.New("another agent is at work in this folder")

// agent is one run of Run.
type agent struct {
	opt    Options
	log    *slog.Logger
	events *events
	warm   *warmed
	// references are what baselines answered to the fixed prompts.
	references *references
	floor      *floor           // of the load generator's error
	files      *Files           // that the grid's workloads name
	vocabs     map[string][]int // by engine and model
	bases      *baselines
	recovery   *recovery
	clock      *nightClock
	breaker    breaker
	claims     claims
	helps      map[string]engine.Flags // by command; without flags where they could not be read
}

// Run works through the queue until it is empty. When ctx ends, the load under way ends, its server is
// stopped, and what ran is written as aborted; Run then returns the cause of ctx.
//
// An [EnvironmentError] means that the machine does not give what every launch needs. The job under way
// stays in the queue, and an [sweep.EventError] says why.
func Run(ctx context.Context, opt Options) error {
	a := &agent{opt: opt, log: opt.Log, files: keptFiles(opt.Out), vocabs: map[string][]int{}, helps: map[string]engine.Flags{}, clock: newNightClock()}
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	if a.opt.Supervisor == nil {
		a.opt.Supervisor = []string{opt.Self, "supervise"}
	}
	if a.opt.Environ == nil {
		a.opt.Environ = os.Environ()
	}
	if a.opt.BusyPause <= 0 {
		a.opt.BusyPause = 5 * time.Second
	}
	a.opt.GateTime = cmp.Or(a.opt.GateTime, gateTime)
	a.opt.StrangerWait = cmp.Or(a.opt.StrangerWait, strangerWait)
	if a.opt.DyingTime <= 0 {
		a.opt.DyingTime = 30 * time.Second
	}
	a.claims = claims{dir: cmp.Or(opt.Locks, lockFolder()), held: map[string]*os.File{}}
	defer a.claims.drop()
	for _, dir := range []string{opt.Dir, filepath.Join(opt.Dir, "queue"), opt.Out} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fullDisk(err)
		}
	}
	for {
		unlock, err := a.lock()
		if err != nil {
			return err
		}
		err = a.work(ctx)
		unlock()
		if err != nil {
			return err
		}
		// A job that came while the lock was still held found an agent at work and started none.
		if waiting, err := a.waiting(); err != nil || waiting == "" {
			return err
		}
	}
}

// lock takes the folder's lock, which whoever started this agent may have taken for it.
func (a *agent) lock() (unlock func(), err error) {
	if held := a.opt.Lock; held != nil {
		a.opt.Lock = nil
		return func() { held.Close() }, nil
	}
	return lock(filepath.Join(a.opt.Dir, "lock"))
}

// work holds the lock: it does the jobs one after another.
func (a *agent) work(ctx context.Context) error {
	failpoint.Hit("agent.locked")
	self, err := proc.Self()
	if err != nil {
		return &EnvironmentError{What: "this agent cannot tell who it is", Err: err}
	}
	log, err := openLines(filepath.Join(a.opt.Dir, "events.jsonl"))
	if err != nil {
		return fullDisk(err)
	}
	defer log.close()
	a.events = &events{lines: log}
	if a.warm, err = readWarmed(filepath.Join(a.opt.Dir, "warmed.json")); err != nil {
		return fullDisk(err)
	}
	a.floor = readFloor(a.opt.Dir, a.opt.Selftest)
	a.bases = readBaselines(filepath.Join(a.opt.Dir, baselineFile), self.BootID)
	if a.recovery, err = a.readRecovery(self.BootID); err != nil {
		return fullDisk(err)
	}
	a.references = readReferences(filepath.Join(a.opt.Dir, outputsFile))
	if err := writeJSON(filepath.Join(a.opt.Dir, "agent.json"), self); err != nil {
		return fullDisk(err)
	}
	for ctx.Err() == nil {
		name, err := a.waiting()
		if err != nil {
			return a.failed(sweep.Job{}, err)
		}
		if name == "" {
			failpoint.Hit("queue.done")
			return fullDisk(a.events.emit(sweep.Event{Kind: sweep.EventDone}))
		}
		var job sweep.Job
		file := filepath.Join(a.opt.Dir, "queue", name+".json")
		if err := readJSON(file, &job); err != nil {
			return a.failed(job, fmt.Errorf("queue: %w", err))
		}
		if err := a.bind(job, file); err != nil {
			return a.failed(job, fullDisk(err))
		}
		a.events.submission = max(a.events.submission, job.Submission)
		if err := a.floor.begin(ctx, job); err != nil {
			return a.failed(job, fullDisk(err))
		}
		if err := a.do(ctx, job); err != nil {
			if cause := context.Cause(ctx); cause != nil && errors.Is(err, cause) {
				return err
			}
			return a.failed(job, err)
		}
		failpoint.Hit("job.done")
		if err := sweep.WriteFile(filepath.Join(a.opt.Dir, "queue", name+".done"), nil, 0o600); err != nil {
			return a.failed(job, fullDisk(err))
		}
	}
	return context.Cause(ctx)
}

// failed says in an event why the agent ends.
func (a *agent) failed(job sweep.Job, err error) error {
	e := sweep.Event{Kind: sweep.EventError, Job: job.ID, Text: err.Error()}
	if _, ok := errors.AsType[*givenUpError](err); ok {
		e.Outcome = sweep.InfraGPU
	}
	if emitErr := a.events.emit(e); emitErr != nil {
		return errors.Join(err, emitErr)
	}
	return err
}

// waiting names the first job of the queue that is not done.
func (a *agent) waiting() (string, error) {
	entries, err := os.ReadDir(filepath.Join(a.opt.Dir, "queue")) // sorted by name
	if err != nil {
		return "", fullDisk(err)
	}
	done := map[string]bool{}
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".done"); ok {
			done[name] = true
		}
	}
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".json"); ok && !done[name] {
			return name, nil
		}
	}
	return "", nil
}

// do makes attempts until each load of the job is done.
func (a *agent) do(ctx context.Context, job sweep.Job) error {
	e, ok := a.opt.Engine(job.Engine)
	if !ok {
		return &EnvironmentError{What: fmt.Sprintf("engine %s is not known to this version of sweep", job.Engine)}
	}
	log := a.log.With("job", job.ID)
	past, err := readPast(a.opt.Out, job)
	if err != nil {
		return err
	}
	for _, n := range past.orphans {
		log.Warn("an attempt was cut short", "attempt", n)
		r, err := adopt(a.opt.Out, job, n, past)
		if err != nil {
			return err
		}
		past.add(r)
	}
	return a.attempts(ctx, job, past, e, log)
}

// attempts makes attempts until each load of the job is done.
func (a *agent) attempts(ctx context.Context, job sweep.Job, past *past, e *sweep.Engine, log *slog.Logger) error {
	bounded, cancel := a.bounded(ctx, job)
	defer cancel()
	var last sweep.LaunchResult
	for {
		loads := next(job, past.history, past.committed)
		if len(loads) == 0 {
			a.breaker.saw(job, last)
			return nil
		}
		if n := len(past.history); n > 0 && ours(past.history[n-1].Outcome) {
			sleep(bounded, time.Duration(n)*a.opt.BusyPause)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx) // not done: a later agent goes on
		}
		l := a.newLaunch(job, loads, past, e, log)
		result, err := l.unlessHeld(bounded)
		if errors.Is(err, errDeadline) && ctx.Err() == nil {
			continue // nothing was started, and nothing will be: the deadline holds what is left
		}
		if err != nil {
			return err
		}
		log.Info("attempt ended", "attempt", result.Attempt, "outcome", result.Outcome, "detail", result.Detail)
		past.add(result)
		last = result
		if err := a.learn(l); err != nil {
			return err
		}
	}
}

func (a *agent) newLaunch(job sweep.Job, loads []sweep.LoadJob, past *past, e *sweep.Engine, log *slog.Logger) *launch {
	job.Loads = loads
	attempt := past.next(job.Attempt)
	rel := job.Dir(attempt)
	l := &launch{
		agent: a, job: job, history: past.history, told: past.told, attempt: attempt, engine: e, limits: job.Limits.WithDefaults(),
		dir: filepath.Join(a.opt.Out, filepath.FromSlash(rel)), rel: rel, machine: newMachine(sweep.LastingExecutable(a.opt.Self), job.Simulate),
	}
	l.log = slog.New(cleanHandler{log.Handler(), l.clean})
	return l
}

// untilNow returns a context that outlives ctx and ends when everything is to be killed at once. The
// function gives it back.
func (a *agent) untilNow(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-a.opt.Now:
			cancel()
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		cancel()
		wg.Wait()
	}
}

// vocabulary asks for the token ids of a model, once for each.
func (a *agent) vocabulary(ctx context.Context, e *sweep.Engine, get sweep.Getter, model string) ([]int, error) {
	key := e.Name + "\n" + model
	if v, ok := a.vocabs[key]; ok {
		return v, nil
	}
	v, err := e.Vocabulary(ctx, get, model)
	if err != nil {
		return nil, err
	}
	if v == nil {
		v = []int{} // asked, and prompts are text
	}
	a.vocabs[key] = v
	return v, nil
}
