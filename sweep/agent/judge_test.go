package agent

import (
	"errors"
	"strings"
	"testing"
	"time"

	"sweep/loadgen"
	"sweep/sweep"
)

func TestJudgeRun(t *testing.T) {
	good := loadgen.Result{Complete: true, Completed: 1000, Verdict: "valid"}
	with := func(change func(*loadgen.Result)) loadgen.Result {
		r := good
		change(&r)
		return r
	}
	now := time.Now()
	sim := func(steps, late float64) simulatorState { // ten steps a second
		return simulatorState{Steps: steps, LateSteps: late, known: true, at: now.Add(time.Duration(steps/10) * time.Second)}
	}
	lost := func(s simulatorState, seconds float64) simulatorState {
		s.Lost = seconds
		return s
	}
	tests := []struct {
		name          string
		result        loadgen.Result
		err           error
		before, after simulatorState
		want          sweep.Outcome
		detail        string
	}{
		{"good", good, nil, simulatorState{}, simulatorState{}, sweep.OK, ""},
		{"ten of a thousand failed: one percent is allowed", with(func(r *loadgen.Result) { r.Completed, r.Failed = 990, 10 }), nil,
			simulatorState{}, simulatorState{}, sweep.OK, ""},
		{"eleven of a thousand", with(func(r *loadgen.Result) { r.Completed, r.Failed, r.FirstFailure = 989, 11, "reset\x1b[2J" }), nil,
			simulatorState{}, simulatorState{}, sweep.LoadFailed, `11 of 1000 requests failed; the first: reset\x1b`},
		{"two of ten", with(func(r *loadgen.Result) { r.Completed, r.Failed = 8, 2 }), nil, simulatorState{}, simulatorState{}, sweep.OK, ""},
		{"three of ten", with(func(r *loadgen.Result) { r.Completed, r.Failed = 7, 3 }), nil, simulatorState{}, simulatorState{}, sweep.LoadFailed, "3 of 10"},
		{"refused by rule", with(func(r *loadgen.Result) { r.Completed, r.Rejected = 50, 50 }), nil, simulatorState{}, simulatorState{}, sweep.LoadRejected, "50 of 100"},
		{"refused from the start", with(func(r *loadgen.Result) { r.Completed, r.Rejected = 0, 2 }), loadgen.ErrFailing, simulatorState{}, simulatorState{}, sweep.LoadRejected, "every"},
		{"failing from the start", with(func(r *loadgen.Result) { r.Completed, r.Failed = 0, 2 }), loadgen.ErrFailing, simulatorState{}, simulatorState{}, sweep.LoadFailed, "every"},
		{"the client's own trouble", good, errors.New("no ports left"), simulatorState{}, simulatorState{}, sweep.ClientBound, "no ports left"},
		{"the client was the limit", with(func(r *loadgen.Result) { r.Verdict = "client_bound" }), nil, simulatorState{}, simulatorState{}, sweep.ClientBound, "load generator"},
		{"nothing ended", with(func(r *loadgen.Result) { r.Completed = 0 }), nil, simulatorState{}, simulatorState{}, sweep.LoadFailed, "window"},
		{"only the warm-up ended", with(func(r *loadgen.Result) { r.Values = map[string]float64{"completed": 0} }), nil, simulatorState{}, simulatorState{}, sweep.LoadFailed, "window"},
		{"the simulator made up for its delays", good, nil, sim(100, 50), sim(1100, 250), sweep.OK, ""},
		{"the simulator was late all the time", good, nil, sim(100, 50), sim(1100, 251), sweep.ClientBound, "201 of 1000 steps"},
		{"the simulator lost little", good, nil, lost(sim(100, 0), 1), lost(sim(1100, 0), 3), sweep.OK, ""},
		{"the simulator lost time for good", good, nil, lost(sim(100, 0), 1), lost(sim(1100, 0), 3.1), sweep.ClientBound, "it lost 2.10 s of 100.0 s"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e, ok := judgeRun(tt.result, tt.err, tt.before, tt.after)
			if e.Outcome != tt.want || !strings.Contains(e.Detail, tt.detail) || e.Phase != sweep.PhaseLoad || ok != (tt.want == sweep.OK) {
				t.Errorf("%+v, ok %v; want %s with %q", e, ok, tt.want, tt.detail)
			}
		})
	}
}

func TestPoolTooSmall(t *testing.T) {
	refused := sweep.Ending{Outcome: sweep.LoadRejected}
	tooLong := loadgen.Result{Failures: map[string]int{loadgen.KindTooLong: 5}}
	job := sweep.LoadJob{Workload: sweep.Workload{Classes: []sweep.Class{
		{Name: "short", Input: sweep.Range{Min: 100, Max: 300}, Output: sweep.Range{Min: 60, Max: 120}},
		{Name: "long", Input: sweep.Range{Min: 9000, Max: 10000}, Output: sweep.Range{Min: 32, Max: 64}},
	}}}
	for _, tt := range []struct {
		name   string
		ending sweep.Ending
		run    loadgen.Result
		facts  sweep.Values
		want   string
	}{
		{"the pool", refused, tooLong, sweep.Values{"kv_tokens": 8528, "context_length": 32768}, "the KV pool of 8528 tokens cannot hold one request of class long, up to 10064 tokens"},
		{"no context told", refused, tooLong, sweep.Values{"kv_tokens": 8528}, "the KV pool of 8528"},
		{"the context", refused, tooLong, sweep.Values{"kv_tokens": 8528, "context_length": 8192}, ""},
		{"a pool that holds it", refused, tooLong, sweep.Values{"kv_tokens": 10064, "context_length": 32768}, ""},
		{"a full queue", refused, loadgen.Result{Failures: map[string]int{"queue_full": 5}}, sweep.Values{"kv_tokens": 8528}, ""},
		{"pool not known", refused, tooLong, nil, ""},
		{"no refusal", sweep.Ending{Outcome: sweep.OK}, tooLong, sweep.Values{"kv_tokens": 8528}, ""},
	} {
		got := poolTooSmall(tt.ending, tt.run, job, tt.facts)
		if tt.want == "" && got != "" || !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
