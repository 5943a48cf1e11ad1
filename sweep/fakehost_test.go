package sweep

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
)

// fakeHost does in the caller's process what an agent does: folders and events as designed, one step after the other.
type fakeHost struct {
	t     *testing.T
	name  string
	night string
	// outcome says how a load of an attempt ends; nil: ok.
	outcome func(j Job, l LoadJob, attempt int) Outcome
	// dies is called before each step; true: the agent is gone.
	dies func(step string) bool
	// blocks makes the agent wait in this step until it is cancelled.
	blocks string
	// opens says why the host is not reached; nil: it is.
	opens func() error
	// says is what an agent that fails itself says when it dies.
	says string
	// lost makes each launch find its devices given up.
	lost bool

	mu    sync.Mutex
	queue []Job
	// submission is that of the jobs in the queue.
	submission int64
	events     []Event
	measured   map[string]int // cell and repeat → how often it was really run
	tries      map[string]int // cell → its failures in this job
	dead       bool
	cancels    []bool
	clean      bool // the second kind of Cancel does not return until it is asked to stop at once
}

func (f *fakeHost) Name() string { return f.name }

func (f *fakeHost) Open(context.Context) error {
	if f.opens == nil {
		return nil
	}
	return f.opens()
}

func (f *fakeHost) Submit(_ context.Context, jobs []Job) error {
	f.queue, f.dead = slices.Clone(jobs), false
	f.submission = jobs[0].Submission
	return nil
}

func (f *fakeHost) Fetch(context.Context, string) error { return nil }

var errDied = errors.New("died")

func (f *fakeHost) Follow(ctx context.Context, from int64, fn func(Event, int64) error) error {
	told := from
	tell := func() error {
		for ; told < int64(len(f.events)); told++ {
			if err := fn(f.events[told], told+1); err != nil {
				return err
			}
		}
		return nil
	}
	for len(f.queue) > 0 {
		err := f.work(ctx, f.queue[0], tell)
		if err := errors.Join(tell(), ctx.Err()); err != nil {
			return err
		}
		if errors.Is(err, errDied) {
			return fmt.Errorf("%w: %d jobs left", ErrAgentLost, len(f.queue))
		}
		if err != nil {
			return err
		}
		f.queue = f.queue[1:]
	}
	f.emit(Event{Kind: EventDone})
	return tell()
}

func (f *fakeHost) emit(e Event) {
	e.At, e.Submission = time.Now(), f.submission
	f.events = append(f.events, e)
}

// work is one job; it makes a further attempt for loads whose outcome is tried again.
func (f *fakeHost) work(ctx context.Context, j Job, tell func() error) error {
	loads := j.Loads
	f.tries = map[string]int{}
	for attempt := j.Attempt; len(loads) > 0; attempt++ {
		left, err := f.attempt(ctx, j, loads, attempt, tell)
		if err != nil {
			return err
		}
		loads = left
	}
	return nil
}

func (f *fakeHost) step(ctx context.Context, name string) error {
	if f.dies != nil && f.dies(name) {
		if f.says != "" {
			f.emit(Event{Kind: EventError, Text: f.says})
		}
		f.dead = true
		return errDied
	}
	if f.blocks != "" && f.blocks == name {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

func (f *fakeHost) attempt(ctx context.Context, j Job, loads []LoadJob, attempt int, tell func() error) (left []LoadJob, err error) {
	dir := j.Dir(attempt)
	path := filepath.Join(f.night, dir)
	if _, err := os.Stat(path); err == nil {
		f.t.Errorf("attempt %s is made a second time", dir)
	}
	f.write(path, "job.json", j)
	f.emit(Event{Kind: EventLaunch, Job: j.ID, Attempt: attempt, Dir: dir})
	if err := f.step(ctx, "launch "+j.ID); err != nil {
		return nil, err
	}
	if f.lost {
		return nil, f.giveUp(path, j, attempt)
	}
	result := LaunchResult{
		Schema: Schema, Job: j.ID, Attempt: attempt, Argv: []string{"server", "--model", j.Model}, GPU: "Fake", GPUCount: 1,
		Facts: Values{"kv_tokens": 1000}, Notes: []string{"simulated ×1"}, Times: Values{"start_s": 2},
	}
	f.write(path, ReadyFile, result)
	for i, l := range loads {
		outcome := OK
		if f.outcome != nil {
			outcome = f.outcome(j, l, attempt)
		}
		f.mu.Lock()
		f.measured[fmt.Sprint(l.Cell, " ", j.Repeat)]++
		f.mu.Unlock()
		run := LoadResult{Schema: Schema, Cell: l.Cell, ContentKey: l.ContentKey, Load: l.Load, Repeat: j.Repeat, Attempt: attempt,
			Ending: Ending{Outcome: outcome, Phase: PhaseLoad}, WindowSeconds: 5, Values: Values{"output_throughput": 100}}
		f.write(filepath.Join(path, l.Dir()), "run.json", run)
		f.emit(Event{Kind: EventCommit, Job: j.ID, Attempt: attempt, Cell: l.Cell, Dir: dir + "/" + l.Dir()})
		if err := tell(); err != nil {
			return nil, err
		}
		if err := f.step(ctx, fmt.Sprint("commit ", l.Cell, " ", j.Repeat)); err != nil {
			return nil, err
		}
		end := LoadEnding{Cell: l.Cell, State: "done", Dir: l.Dir(), Ending: run.Ending}
		f.tries[l.Cell]++
		if f.tries[l.Cell] < outcome.Attempts() {
			end.State = "left"
			left = append(left, l)
		}
		result.Loads = append(result.Loads, end)
		if outcome.Implies() { // its server is dead
			for _, other := range loads[i+1:] {
				end := LoadEnding{Cell: other.Cell, State: "left"}
				if j.Imply && other.Load.Workload == l.Load.Workload {
					end = LoadEnding{Cell: other.Cell, State: "done", Ending: Ending{Outcome: SkippedImplied, ImpliedBy: l.Cell}}
				} else {
					left = append(left, other)
				}
				result.Loads = append(result.Loads, end)
			}
			break
		}
	}
	f.write(path, "launch.json", result)
	f.emit(Event{Kind: EventEnd, Job: j.ID, Attempt: attempt, Dir: dir})
	return left, f.step(ctx, "end "+j.ID)
}

// giveUp ends a launch whose devices were given up: left for another host where there is one.
func (f *fakeHost) giveUp(path string, j Job, attempt int) error {
	ending := Ending{Outcome: InfraGPU, Phase: PhaseGate, Detail: "the devices were given up"}
	result := LaunchResult{Schema: Schema, Job: j.ID, Attempt: attempt, Ending: ending}
	for _, l := range j.Loads {
		end := LoadEnding{Cell: l.Cell, State: "done", Ending: ending}
		if j.Elsewhere {
			end = LoadEnding{Cell: l.Cell, State: "left"}
		}
		result.Loads = append(result.Loads, end)
	}
	f.write(path, "launch.json", result)
	f.emit(Event{Kind: EventEnd, Job: j.ID, Attempt: attempt, Dir: j.Dir(attempt)})
	if !j.Elsewhere {
		return nil
	}
	f.emit(Event{Kind: EventError, Job: j.ID, Text: "the devices were given up", Outcome: InfraGPU})
	f.dead = true
	return errDied
}

// Cancel notes what was running as aborted, as an agent does that is told to stop.
func (f *fakeHost) Cancel(ctx context.Context, now bool) error {
	f.cancels = append(f.cancels, now)
	if f.clean && !now {
		<-ctx.Done()
		return ctx.Err()
	}
	if len(f.queue) > 0 && !now && !f.dead {
		j := f.queue[0]
		path := filepath.Join(f.night, j.Dir(j.Attempt))
		if _, err := os.Stat(filepath.Join(path, "launch.json")); err != nil {
			result := LaunchResult{Schema: Schema, Job: j.ID, Attempt: j.Attempt}
			for _, l := range j.Loads {
				var errs []error
				ending := Ending{Outcome: Aborted}
				if run := readJSON[LoadResult](filepath.Join(path, l.Dir(), "run.json"), &errs); run != nil {
					ending = run.Ending
				}
				result.Loads = append(result.Loads, LoadEnding{Cell: l.Cell, State: "done", Ending: ending})
			}
			f.write(path, "launch.json", result)
		}
	}
	f.queue = nil
	return nil
}

func (f *fakeHost) write(dir, name string, v any) {
	data, err := json.Marshal(v)
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name), data, 0o600)
	}
	if err != nil {
		f.t.Error(err)
	}
}

// heard keeps what a Progress is told.
type heard struct {
	begins    int
	recovered int
	records   []Record
	lost      []string
	links     []string
	summary   Summary
}

func (h *heard) Begin(_ *Night, _ []PlannedCell, recovered []Record) {
	h.begins++
	h.recovered += len(recovered)
}

func (h *heard) Event(host string, e Event) {
	if e.Kind == EventLink {
		h.links = append(h.links, host+" "+e.Text)
	}
}
func (h *heard) Record(r Record) { h.records = append(h.records, r) }
func (h *heard) Lost(host string, _ error, final bool) {
	h.lost = append(h.lost, fmt.Sprint(host, " ", final))
}
func (h *heard) End(s Summary) { h.summary = s }

// testPlan is 3 configs with 3 loads (two of one workload, one of another) and 2 repeats, and the drift checks.
func testPlan(hosts ...string) *Plan {
	class := Class{Name: "c", Share: 1, Input: Range{10, 20}, Output: Range{10, 20}}
	g := &Grid{
		Path: "test.yaml", Source: []byte("name: test\n"), Name: "test", Engine: "fake", Model: "m", Command: []string{"server"},
		Env: Params{{"HF_TOKEN", "${env:HF_TOKEN}"}}, Workloads: []Workload{{Name: "w", Classes: []Class{class}}, {Name: "v", Classes: []Class{class}}},
		Loads: []Load{
			{Workload: "w", Pools: []Pool{{Class: "c", Concurrency: 2}}},
			{Workload: "w", Pools: []Pool{{Class: "c", Concurrency: 4}}},
			{Workload: "v", Pools: []Pool{{Class: "c", Concurrency: 8}}},
		},
		Measure: Measure{WindowMin: time.Second, WindowMax: time.Second}, Repeats: 2, Drift: true,
	}
	for _, h := range hosts {
		g.Hosts = append(g.Hosts, HostSpec{Name: h})
	}
	p := &Plan{Grid: g}
	for i, v := range []string{"1", "2", "3"} {
		p.Configs = append(p.Configs, Config{
			Key: "a=" + v, Axes: Params{{"a", v}}, Settings: []Setting{{"a", []string{v}}}, Baseline: i == 0,
		})
	}
	for repeat := 1; repeat <= g.Repeats; repeat++ {
		for _, c := range p.Configs {
			p.Launches = append(p.Launches, Launch{Config: c, Repeat: repeat, Role: RoleMeasure, Loads: g.Loads})
		}
		p.Launches = append(p.Launches, Launch{Config: p.Configs[0], Repeat: repeat, Role: RoleDrift, Loads: g.Loads[2:]})
	}
	return p
}

// testCells is the number of records of testPlan: 3 configs × 3 loads and a drift check, twice.
const testCells = 20

func sortedCells(records []Record) []string {
	out := map[string]bool{}
	for _, r := range records {
		out[fmt.Sprintf("%s %d %s", r.Cell, r.Repeat, r.Outcome)] = true
	}
	return slices.Sorted(maps.Keys(out))
}
