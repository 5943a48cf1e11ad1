package agent

import (
	"slices"

	"sweep/sweep"
)

// The states of a load in launch.json.
const (
	stateDone = "done" // its ending stands
	stateLeft = "left" // another attempt of the same job holds it
)

// loadEnd is what an attempt gave for one load.
type loadEnd struct {
	job    sweep.LoadJob
	ending sweep.Ending // an empty outcome: the load was never its server's turn
	dir    string       // of the load's folder below the attempt's; empty when it has none
}

// settle decides what an attempt's endings mean: which loads are done and which are left for a further
// attempt. history holds the earlier attempts of the job, in order. Each load comes back once, in the
// order of ends.
//
// A load's ending stands when its outcome allows no further launch. What is counted are the load's own
// failures, not launches: a load that never had its turn, because its server died before, keeps all its
// tries. Trouble of the machine (busy, infra) and of the server are counted apart, as neither says
// anything of the other. A load that died on memory ends the higher levels of its workload, which had
// no turn yet, as implied.
func settle(job sweep.Job, history []sweep.LaunchResult, ends []loadEnd) []sweep.LoadEnding {
	settled := make([]sweep.LoadEnding, 0, len(ends))
	for _, end := range ends {
		s := sweep.LoadEnding{Cell: end.job.Cell, State: stateDone, Dir: end.dir, Ending: end.ending}
		if end.ending.Outcome == "" || retriable(end.job.Cell, end.ending.Outcome, history) {
			s.State = stateLeft
		}
		settled = append(settled, s)
	}
	if !job.Imply {
		return settled
	}
	for i, end := range ends {
		if settled[i].State != stateDone || !end.ending.Outcome.Implies() {
			continue
		}
		for j, other := range ends {
			if settled[j].Outcome == "" && higher(other.job.Load, end.job.Load) {
				settled[j] = sweep.LoadEnding{Cell: other.job.Cell, State: stateDone, Ending: impliedBy(end)}
			}
		}
	}
	return settled
}

// higher reports whether a is a higher level of b's workload.
func higher(a, b sweep.Load) bool {
	return a.Above(b)
}

func impliedBy(end loadEnd) sweep.Ending {
	return sweep.Ending{
		Outcome:   sweep.SkippedImplied,
		ImpliedBy: end.job.Cell,
		Detail:    "a lower level of the same workload ended as " + string(end.ending.Outcome),
	}
}

// retriable reports whether an outcome of a cell leaves a launch to be spent on it.
func retriable(cell string, o sweep.Outcome, history []sweep.LaunchResult) bool {
	limit := o.Attempts()
	if limit <= 1 {
		return false
	}
	return failures(cell, ours(o), history)+1 < limit
}

// ours reports outcomes that say something of the machine, not of the server.
func ours(o sweep.Outcome) bool { return o.Family() == "infra" || o.Family() == "busy" }

// failures counts a cell's own failures in earlier attempts, of one of the two kinds.
func failures(cell string, machine bool, history []sweep.LaunchResult) int {
	n := 0
	for _, r := range history {
		for _, l := range r.Loads {
			if l.Cell == cell && l.State == stateLeft && l.Outcome != "" && ours(l.Outcome) == machine {
				n++
			}
		}
	}
	return n
}

// next returns the loads that a further attempt must hold: those of the job that no earlier attempt has
// done and whose measurement is not committed. None: the job is finished.
func next(job sweep.Job, history []sweep.LaunchResult, committed map[string]bool) []sweep.LoadJob {
	return slices.DeleteFunc(slices.Clone(job.Loads), func(l sweep.LoadJob) bool {
		return committed[l.ContentKey] || slices.ContainsFunc(history, func(r sweep.LaunchResult) bool {
			return slices.ContainsFunc(r.Loads, func(e sweep.LoadEnding) bool {
				return e.Cell == l.Cell && e.State == stateDone
			})
		})
	})
}
