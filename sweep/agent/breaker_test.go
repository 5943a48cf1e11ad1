package agent

import (
	"fmt"
	"strings"
	"testing"

	"sweep/sweep"
)

// breakerJob is a launch of a config with these axis values: "backend=a mem=0.8".
func breakerJob(values string) sweep.Job {
	var axes sweep.Params
	for pair := range strings.FieldsSeq(values) {
		name, value, _ := strings.Cut(pair, "=")
		axes = append(axes, sweep.Param{Name: name, Value: value})
	}
	return sweep.Job{Config: sweep.Config{Key: axes.String(), Axes: axes}}
}

func launchEnded(o sweep.Outcome, detail string) sweep.LaunchResult {
	return sweep.LaunchResult{Ending: sweep.Ending{Outcome: o, Detail: detail}}
}

func TestBreaker(t *testing.T) {
	type step struct{ config, outcome, detail string }
	alike := func(n int, values, outcome string) (steps []step) {
		for i := range n {
			steps = append(steps, step{fmt.Sprintf("%s mem=%d", values, i), outcome, fmt.Sprintf("process %d: no kernel for port %d", 100+i, 3000*i)})
		}
		return steps
	}
	tests := []struct {
		name  string
		steps []step
		next  string
		says  string // "" : it is started
	}{
		{"nothing yet", nil, "mem=9", ""},
		{"four alike", alike(4, "backend=a", "crash.start"), "backend=b mem=9", ""},
		{"five alike", alike(5, "backend=a", "crash.start"), "backend=a mem=9", "5 configs in a row failed to start in the same way, all with backend=a: crash.start: process 100"},
		{"five alike share a value that others lack", alike(5, "backend=a", "crash.start"), "backend=b mem=9", ""},
		{"a sixth that lacks it fails too", append(alike(5, "backend=a", "crash.start"), step{"backend=b mem=7", "crash.start", "process 9: no kernel for port 1"}), "backend=c mem=9", "6 configs in a row"},
		{"one config over and over", []step{{"mem=1", "bad.flag", "x"}, {"mem=1", "bad.flag", "x"}, {"mem=1", "bad.flag", "x"}, {"mem=1", "bad.flag", "x"}, {"mem=1", "bad.flag", "x"}}, "mem=2", ""},
		{"memory is a result", alike(9, "backend=a", "oom.weights"), "backend=a mem=9", ""},
		{"a load that crashes has started", alike(9, "backend=a", "crash.load"), "backend=a mem=9", ""},
		{"another failure in between", append(append(alike(3, "b=a", "crash.start"), step{"b=a mem=8", "crash.start", "another text"}), alike(3, "b=a", "crash.start")...), "b=a mem=9", ""},
		{"a good one in between", append(append(alike(4, "b=a", "crash.start"), step{"b=a mem=8", "ok", ""}), alike(4, "b=a", "crash.start")...), "b=a mem=9", ""},
		{"the machine twice", alike(2, "b=a", "infra.gpu"), "b=a mem=9", ""},
		{"the machine three times", alike(3, "b=a", "infra.gpu"), "b=z mem=9", "3 launches in a row ended in trouble of this machine, the last with: infra.gpu: process 102"},
		{"the machine, now and then", append(append(alike(2, "b=a", "infra.gpu"), step{"b=a mem=8", "oom.kv", ""}), alike(2, "b=a", "busy.gpu")...), "b=z mem=9", ""},
		{"what an earlier agent had done already", append(append(alike(2, "b=a", "infra.gpu"), step{"b=a mem=8", "", ""}), alike(1, "b=a", "infra.gpu")...), "b=z mem=9", "3 launches in a row"},
		{"skipped ones neither count nor clear", append(append(alike(2, "b=a", "infra.gpu"), step{"b=a mem=8", "skipped.preflight", ""}), alike(1, "b=a", "busy.gpu")...), "b=z mem=9", "3 launches in a row"},
	}
	for _, tt := range tests {
		var b breaker
		for _, s := range tt.steps {
			b.saw(breakerJob(s.config), launchEnded(sweep.Outcome(s.outcome), s.detail))
		}
		e := b.holds(breakerJob(tt.next))
		switch {
		case tt.says == "" && e != nil:
			t.Errorf("%s: held: %s", tt.name, e.Detail)
		case tt.says != "" && (e == nil || e.Outcome != sweep.SkippedBreaker || !strings.Contains(e.Detail, tt.says)):
			t.Errorf("%s: %+v, want it held with %q", tt.name, e, tt.says)
		}
	}
}
