package sweep

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"sweep/failpoint"
)

// hostQueue follows one host through the jobs that were handed to it.
type hostQueue struct {
	runner *Runner
	host   Host
	jobs   map[string]Job // by ID, of what is followed
	first  int64          // number of the first submission that is followed
	from   int64          // offset in the host's events to go on from
	failed error          // what the agent said when it failed itself: its end is no accident then
}

// errGivenUp is wrapped by the error of an agent that gave its devices up and left its launches for another host.
var errGivenUp = errors.New("left for another host")

// run hands the jobs over and follows the agent until its queue is done.
func (q *hostQueue) run(ctx context.Context, jobs []Job) error {
	r := q.runner
	jobs, err := q.takeOver(ctx, jobs)
	if err != nil {
		return err
	}
	if len(jobs) > 0 {
		if err := q.handOver(ctx, jobs); err != nil {
			return err
		}
	}
	err = q.host.Follow(ctx, q.from, func(e Event, next int64) error {
		q.from = next
		job, ours := q.jobs[e.Job]
		if e.Submission < q.first || e.Job != "" && !ours {
			return nil // said before this submission
		}
		r.told(func(p Progress) { p.Event(q.host.Name(), e) })
		if e.Kind == EventError {
			q.failed = errors.New(Printable(e.Text))
		}
		if e.Kind == EventError && e.Outcome == InfraGPU {
			q.failed = fmt.Errorf("%w: %w", errGivenUp, q.failed)
		}
		if e.Kind != EventCommit && e.Kind != EventEnd || !ours {
			return nil
		}
		if err := q.collect(ctx, job, max(e.Attempt, job.Attempt), false); err != nil {
			return err
		}
		return r.Night.outOfRoom()
	})
	switch {
	case errors.Is(err, ErrAgentLost) && q.failed != nil:
		return q.failed
	case err != nil:
		return err
	}
	return q.collectAll(ctx)
}

// takeOver leaves an agent at work that was handed these jobs earlier: those that it still has to do are followed as
// they are, and what is returned is to be handed over as well. An agent that works on something else is stopped.
func (q *hostQueue) takeOver(ctx context.Context, jobs []Job) ([]Job, error) {
	q.jobs, q.first = map[string]Job{}, 0
	o, ok := q.host.(Outliving)
	if !ok {
		return jobs, nil
	}
	working, err := o.Working(ctx)
	if err != nil {
		return nil, err
	}
	for _, w := range working {
		if i := slices.IndexFunc(jobs, func(j Job) bool { return j.ID == w.ID }); i >= 0 && !holdsAll(w, jobs[i]) || !q.runner.planned(w.ID) {
			return jobs, q.host.Cancel(ctx, false)
		}
	}
	var left []Job
	for _, j := range jobs {
		if i := slices.IndexFunc(working, func(w Job) bool { return w.ID == j.ID }); i >= 0 {
			q.jobs[j.ID] = working[i]
			q.first = least(q.first, working[i].Submission)
		} else {
			left = append(left, j)
		}
	}
	return left, nil
}

// holdsAll reports whether a job measures all that another would.
func holdsAll(j, other Job) bool {
	return !slices.ContainsFunc(other.Loads, func(l LoadJob) bool {
		return !slices.ContainsFunc(j.Loads, func(have LoadJob) bool { return have.ContentKey == l.ContentKey && have.Cell == l.Cell })
	})
}

// planned reports whether a launch belongs to the night's plan.
func (r *Runner) planned(launch string) bool {
	return slices.ContainsFunc(r.Night.Plan.Launches, func(l Launch) bool { return l.ID() == launch })
}

// least is the lower of two submissions' numbers; 0 is none.
func least(a, b int64) int64 {
	if a == 0 {
		return b
	}
	return min(a, b)
}

// handOver announces jobs and gives them to the host.
func (q *hostQueue) handOver(ctx context.Context, jobs []Job) error {
	if err := q.announce(jobs); err != nil {
		return err
	}
	failpoint.Hit("submit.announced")
	if err := q.host.Submit(ctx, jobs); err != nil {
		return err
	}
	failpoint.Hit("submit.done")
	return nil
}

// announce writes into the journal what is about to be handed over, and numbers it.
func (q *hostQueue) announce(jobs []Job) error {
	var ids []string
	var last int64
	for _, j := range jobs {
		ids = append(ids, j.ID)
	}
	for some := range slices.Chunk(ids, 100) { // an entry's length is bounded
		number, err := q.runner.Night.note(JournalEntry{Kind: JournalSubmit, Host: q.host.Name(), Jobs: some})
		if err != nil {
			return err
		}
		last = number
	}
	q.first = least(q.first, last)
	for i := range jobs {
		jobs[i].Submission = last
		q.jobs[jobs[i].ID] = jobs[i]
	}
	return nil
}

// collect fetches an attempt and writes the records of what stands in it.
func (q *hostQueue) collect(ctx context.Context, job Job, attempt int, over bool) error {
	r := q.runner
	if err := q.host.Fetch(ctx, job.Dir(attempt)); err != nil {
		return err
	}
	records, err := r.Night.collect(job.ID, job.Attempt, over, r.Log)
	for _, rec := range records {
		r.told(func(p Progress) { p.Record(rec) })
	}
	return err
}

// collectAll writes the records of everything that the jobs have left, when no agent works on them any more.
func (q *hostQueue) collectAll(ctx context.Context) error {
	for _, id := range q.runner.launches(q.runner.Night.Missing()) {
		job, ours := q.jobs[id]
		if !ours {
			continue
		}
		if err := q.collect(ctx, job, job.Attempt, true); err != nil {
			return err
		}
	}
	return nil
}

// lost cleans up after an agent that is gone and keeps what it had committed.
func (q *hostQueue) lost(now context.Context, cause error, final bool) error {
	r := q.runner
	if err := r.Night.Note(JournalEntry{Kind: JournalLost, Host: q.host.Name(), Text: cause.Error()}); err != nil {
		return err
	}
	r.told(func(p Progress) { p.Lost(q.host.Name(), cause, final) })
	ctx, cancel := context.WithTimeout(context.WithoutCancel(now), reclaimTime)
	defer cancel()
	if err := q.host.Cancel(ctx, true); err != nil {
		return err
	}
	if err := q.collectAll(ctx); err != nil {
		return err
	}
	implied, err := r.imply()
	for _, rec := range implied {
		r.told(func(p Progress) { p.Record(rec) })
	}
	return err
}

// stop ends the host's agent, cleanly until now ends or that takes too long, and keeps what it left.
func (q *hostQueue) stop(now context.Context) error {
	r := q.runner
	noteErr := r.Night.Note(JournalEntry{Kind: JournalStop, Host: q.host.Name(), Text: "stopping the agent"})
	clean, cancel := context.WithTimeout(now, cleanTime+r.Night.Plan.Grid.Limits.Stop)
	defer cancel()
	err := q.host.Cancel(clean, false)
	ctx, cancelAll := context.WithTimeout(context.WithoutCancel(now), reclaimTime)
	defer cancelAll()
	if err != nil && clean.Err() != nil {
		err = q.host.Cancel(ctx, true)
	}
	if err == nil {
		noteErr = errors.Join(noteErr, r.Night.Note(JournalEntry{Kind: JournalStop, Host: q.host.Name(), Text: AgentStopped}))
	}
	return errors.Join(err, q.collectAll(ctx), noteErr)
}
