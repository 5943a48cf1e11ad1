package sweep

import (
	"context"
	"errors"
	"slices"
	"time"
)

// hostQueue follows one host through the jobs that were handed to it.
type hostQueue struct {
	runner *Runner
	host   Host
	jobs   map[string]Job // by ID, of the last submission
	from   int64          // offset in the host's events to go on from
	failed string         // what the agent said when it failed itself: its end is no accident then
}

// run hands the jobs over and follows the agent until its queue is done.
func (q *hostQueue) run(ctx context.Context, jobs []Job) error {
	r := q.runner
	q.jobs = map[string]Job{}
	var ids []string
	for _, j := range jobs {
		q.jobs[j.ID] = j
		ids = append(ids, j.ID)
	}
	for some := range slices.Chunk(ids, 100) { // an entry's length is bounded
		if err := r.Night.Note(JournalEntry{Kind: JournalSubmit, Host: q.host.Name(), Jobs: some}); err != nil {
			return err
		}
	}
	began := time.Now()
	if err := q.host.Submit(ctx, jobs); err != nil {
		return err
	}
	err := q.host.Follow(ctx, q.from, func(e Event, next int64) error {
		q.from = next
		job, ours := q.jobs[e.Job]
		if e.Attempt == 0 && e.At.Before(began) || e.Job != "" && !ours || e.Attempt != 0 && e.Attempt < job.Attempt {
			return nil // said before this submission
		}
		r.told(func(p Progress) { p.Event(q.host.Name(), e) })
		if e.Kind == EventError {
			q.failed = e.Text
		}
		if e.Kind != EventCommit && e.Kind != EventEnd || !ours {
			return nil
		}
		return q.collect(ctx, job, max(e.Attempt, job.Attempt), false)
	})
	switch {
	case errors.Is(err, ErrAgentLost) && q.failed != "":
		return errors.New(Printable(q.failed))
	case err != nil:
		return err
	}
	return q.collectAll(ctx)
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
	return errors.Join(err, q.collectAll(ctx), noteErr)
}
