package sweep

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/sourcegraph/conc/pool"
)

// ErrAgentLost says that a host's agent is gone although its queue is not done.
var ErrAgentLost = errors.New("the agent is gone before its queue was done")

// Progress is told what happens in a night, as it happens. Its methods are called one at a time.
type Progress interface {
	// Begin: the night starts or goes on with the cells of missing; recovered records were found in
	// the folders of an earlier start.
	Begin(n *Night, missing []PlannedCell, recovered []Record)
	// Event: an agent said something.
	Event(host string, e Event)
	// Record: a cell has its record.
	Record(r Record)
	// Lost: a host's agent is gone; what is left of its jobs is handed over again unless final.
	Lost(host string, err error, final bool)
	// End: the night ended or was stopped.
	End(s Summary)
}

// Runner runs what is missing in a night: it hands each host its whole queue, and turns what the
// agents leave in the night's folder into records.
type Runner struct {
	Night    *Night
	Hosts    []Host // by the names in the night's manifest
	Progress Progress
	Log      *slog.Logger

	mu    sync.Mutex // Progress is called one at a time
	share *sharing   // of launches among hosts
	away  *away      // hosts that were not reached
}

// Summary says how a night stands.
type Summary struct {
	Dir         string          // of the night
	Planned     int             // cells × repeats
	Recorded    int             // of those, how many have a record
	Outcomes    map[Outcome]int // of the records
	Interrupted bool            // it was stopped from outside and can be resumed
}

// The exit codes of a night.
const (
	codeResults     = 0
	codeOther       = 1
	codeEnvironment = 3
	codeInterrupted = 130
)

// Code is the exit code: 0 when each cell ended in a result, 130 when the night was interrupted, else 1.
func (s Summary) Code() int {
	if s.Interrupted {
		return codeInterrupted
	}
	if s.Recorded < s.Planned {
		return codeOther
	}
	for o := range s.Outcomes {
		if !o.Result() {
			return codeOther
		}
	}
	return codeResults
}

// Summary says how the night stands.
func (n *Night) Summary() Summary {
	s := Summary{Dir: n.Dir, Planned: len(n.Manifest.Cells), Outcomes: map[Outcome]int{}}
	for _, r := range n.Records() {
		s.Recorded++
		s.Outcomes[r.Outcome]++
	}
	return s
}

// maxLosses is how often in a row a host's agent may be lost without a single new record in between.
const maxLosses = 3

// reclaimTime bounds the clean-up after a lost agent or an immediate stop: a server's processes may
// take 30 s to die after SIGKILL.
const reclaimTime = 60 * time.Second

// cleanTime bounds a clean stop, beside the server's own grace: the load ends, processes vanish, files are written.
const cleanTime = 90 * time.Second

// Run runs what is missing until every planned cell has a record. When ctx ends, the hosts stop
// cleanly: servers down, what ran recorded as aborted. When now ends as well, everything is killed at once.
// An error is our own failure or the machine's: the disk, an agent that cannot start. Whatever
// happens, no agent is left running and no record is lost.
func (r *Runner) Run(ctx, now context.Context) (Summary, error) {
	r.Night.Deadline = r.Night.Plan.Grid.Deadline(time.Now())
	if r.away == nil {
		r.away = newAway()
	}
	err := r.shareOut(ctx)
	if err == nil {
		err = r.catchUp(ctx)
	}
	var recovered []Record
	if err == nil {
		recovered, err = r.recover()
	}
	if err == nil {
		r.Progress.Begin(r.Night, r.Night.Missing(), recovered)
		p := pool.New().WithContext(ctx).WithCancelOnError()
		for _, h := range r.Hosts {
			p.Go(func(hostCtx context.Context) error {
				run := r.runHost
				if r.away.is(h.Name()) {
					run = r.reach
				}
				if err := run(hostCtx, now, h); err != nil {
					return fmt.Errorf("host %s: %w", h.Name(), err)
				}
				return nil
			})
		}
		err = p.Wait()
	}
	interrupted := ctx.Err() != nil
	if err == nil && !interrupted {
		err = r.fillMissing()
	}
	if err == nil { // nothing of the night runs any more: what was being written when an agent was killed goes away
		err = RemoveParts(r.Night.Dir)
	}
	s := r.Night.Summary()
	s.Interrupted = interrupted && s.Recorded-s.Outcomes[Aborted] < s.Planned
	code := s.Code()
	if err != nil {
		code = codeEnvironment
	}
	noteErr := r.Night.Note(JournalEntry{Kind: JournalEnd, Code: code})
	if err == nil {
		err = noteErr
	}
	r.Progress.End(s)
	return s, err
}

// catchUp brings here what agents made while no process followed them.
func (r *Runner) catchUp(ctx context.Context) error {
	p := pool.New().WithContext(ctx)
	for _, h := range r.Hosts {
		if o, ok := h.(Outliving); ok && !r.away.is(h.Name()) {
			p.Go(func(ctx context.Context) error {
				if err := o.CatchUp(ctx); err != nil && ctx.Err() == nil {
					return fmt.Errorf("host %s: %w", h.Name(), err)
				}
				return nil
			})
		}
	}
	return p.Wait()
}

// recover makes records of what an earlier start left in the folders, and of what follows from them.
func (r *Runner) recover() ([]Record, error) {
	var all []Record
	for _, launch := range r.launches(r.Night.Missing()) {
		records, err := r.Night.collect(launch, noAttempt, true, r.Log)
		all = append(all, records...)
		if err != nil {
			return all, err
		}
	}
	implied, err := r.imply()
	return append(all, implied...), err
}

// noAttempt: no attempt is this process's own yet.
const noAttempt = int(^uint(0) >> 1)

// imply records the levels that need no run because a lower one of the same launch died on memory.
func (r *Runner) imply() ([]Record, error) {
	n := r.Night
	if !n.Manifest.Imply {
		return nil, nil
	}
	dead := map[string][]Record{} // launch → records that imply others
	for _, rec := range n.Records() {
		if c, ok := n.planned[cellID{rec.Cell, rec.Repeat}]; ok && rec.Outcome.Implies() && rec.Phase == PhaseLoad {
			dead[c.Launch] = append(dead[c.Launch], rec)
		}
	}
	var all []Record
	for _, c := range n.Missing() {
		i := slices.IndexFunc(dead[c.Launch], func(d Record) bool {
			return c.Load.Above(d.Load)
		})
		if i < 0 {
			continue
		}
		d := dead[c.Launch][i]
		rec := n.blankRecord(c, Ending{
			Outcome: SkippedImplied, ImpliedBy: d.Cell,
			Detail: fmt.Sprintf("not run: %s ended as %s at a lower level", d.Cell, d.Outcome),
		})
		rec.Attempt, rec.Dir, rec.GPU, rec.GPUCount, rec.EngineVersion = d.Attempt, d.Dir, d.GPU, d.GPUCount, d.EngineVersion
		wrote, err := n.record(rec)
		if err != nil {
			return all, err
		}
		if wrote { // else another host's loss has led here at the same time
			all = append(all, rec)
		}
	}
	return all, nil
}

// launches lists the launches of cells, each once, in order.
func (r *Runner) launches(cells []PlannedCell) []string {
	var ids []string
	for _, c := range cells {
		if !slices.Contains(ids, c.Launch) {
			ids = append(ids, c.Launch)
		}
	}
	return ids
}

// fillMissing gives the cells that no agent said a word about a record that says so.
func (r *Runner) fillMissing() error {
	for _, c := range r.Night.Missing() {
		host := r.share.hostOf(c)
		ending := Ending{Outcome: InfraLost, Detail: "the agent on host " + host + " left no result for this cell; see agents/" + host + "/agent.log"}
		if why := r.away.reason(host); why != nil {
			ending = Ending{Outcome: InfraSSH, Detail: "host " + host + " was not reached: " + clipText(Printable(why.Error()))}
		}
		if err := r.write(r.Night.blankRecord(c, ending)); err != nil {
			return err
		}
	}
	return nil
}

func (r *Runner) write(rec Record) error {
	wrote, err := r.Night.record(rec)
	if err == nil && wrote {
		r.told(func(p Progress) { p.Record(rec) })
	}
	return err
}

func (r *Runner) told(tell func(Progress)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	tell(r.Progress)
}

// runHost has one host work through its part of the night, and through what others cannot do. A host that fails
// is left aside as long as there is another one for its launches.
func (r *Runner) runHost(ctx, now context.Context, h Host) error {
	handed := map[string]bool{} // launches that the host had its say about
	for ctx.Err() == nil {
		given := r.share.times(h.Name())
		jobs, err := r.jobs(h.Name())
		if err != nil {
			return err
		}
		jobs = slices.DeleteFunc(jobs, func(j Job) bool { return handed[j.ID] })
		if len(jobs) == 0 {
			if r.share.take(h.Name(), r.Night.Missing(), r.Night.Manifest.Hosts) {
				continue
			}
			if !r.share.wait(ctx, h.Name(), given, r.Hosts) {
				return nil
			}
			continue
		}
		for _, j := range jobs {
			handed[j.ID] = true
		}
		gaveUp, err := r.workThrough(ctx, now, h, jobs)
		if ctx.Err() != nil {
			return err
		}
		if err == nil && !gaveUp {
			continue
		}
		if err = r.leftAside(h.Name(), err); !errors.Is(err, errGivenUp) {
			return err
		}
		r.share.takeBack(h.Name()) // the other hosts have failed meanwhile: this one says of each cell what became of it
		clear(handed)
	}
	return nil
}

// workThrough has one host work through jobs. gaveUp: its agent was lost again and again.
func (r *Runner) workThrough(ctx, now context.Context, h Host, jobs []Job) (gaveUp bool, err error) {
	q := &hostQueue{runner: r, host: h}
	for losses := 0; ctx.Err() == nil && len(jobs) > 0; {
		before := len(r.Night.Records())
		err := q.run(ctx, jobs)
		switch {
		case err == nil:
			return false, nil // cells that are still missing: the agent had its say
		case ctx.Err() != nil:
			return false, q.stop(now)
		case !errors.Is(err, ErrAgentLost):
			return false, errors.Join(err, q.stop(now))
		}
		if losses++; len(r.Night.Records()) > before {
			losses = 1
		}
		if err := q.lost(now, err, losses == maxLosses); err != nil || losses == maxLosses {
			return true, err
		}
		if jobs, err = r.jobs(h.Name()); err != nil {
			return false, err
		}
	}
	return false, nil
}

// jobs builds the queue of a host from the cells that are missing.
func (r *Runner) jobs(host string) ([]Job, error) {
	n := r.Night
	wanted := map[string][]PlannedCell{}
	for _, c := range n.Missing() {
		if r.share.hostOf(c) == host {
			wanted[c.Launch] = append(wanted[c.Launch], c)
		}
	}
	var jobs []Job
	for _, l := range n.Plan.Launches {
		cells := wanted[l.ID()]
		if len(cells) == 0 {
			continue
		}
		attempts, err := n.attempts(l.ID())
		if err != nil {
			return nil, err
		}
		j := n.job(l, cells, host, 1+slices.Max(append(attempts, 0)))
		j.Elsewhere = r.share.elsewhere(host, n.Manifest.Hosts)
		jobs = append(jobs, j)
	}
	return jobs, nil
}

// job is one launch with the loads of cells.
func (n *Night) job(l Launch, cells []PlannedCell, host string, attempt int) Job {
	g := n.Plan.Grid
	j := Job{
		Schema: Schema, Night: n.Manifest.Night, ID: l.ID(), Role: l.Role, Config: l.Config, Repeat: l.Repeat, Attempt: attempt,
		Engine: g.Engine, Model: g.Model, Host: host, Command: g.Command, Container: g.Container, Workdir: g.Workdir, Attach: g.Attach, AttachKey: g.AttachKey, Flush: g.Flush, Env: g.Env,
		Limits: g.Limits, Remaining: Remaining(n.Deadline), Imply: n.Manifest.Imply, SkipHeadroomGiB: n.Manifest.SkipHeadroomGiB, NoFlagCheck: n.Manifest.NoFlagCheck,
	}
	if len(j.Command) == 0 && n.engine != nil {
		j.Command = n.engine.Command
	}
	for _, h := range n.Manifest.Hosts {
		if h.Name == j.Host {
			j.GPUs, j.Simulate, j.Strangers, j.Recover = h.GPUs, h.Simulate, h.Strangers, h.Recover
		}
	}
	for _, load := range l.Loads {
		i := slices.IndexFunc(cells, func(c PlannedCell) bool { return c.Cell == l.CellKey(load) })
		if i < 0 {
			continue
		}
		w := g.workload(load.Workload)
		j.Loads = append(j.Loads, LoadJob{
			Cell: cells[i].Cell, ContentKey: cells[i].ContentKey, Load: load, Workload: w,
			Measure: g.Measure.Of(w), Seed: cells[i].Seed,
		})
	}
	if n.Earlier != nil {
		j.Earlier = n.Earlier(j)
	}
	return j
}
