package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sweep/sweep"
)

// testLoad makes a load from "workload@level"; a "+" splits the level into two pools.
func testLoad(name string) sweep.LoadJob {
	workload, levels, _ := strings.Cut(name, "@")
	load := sweep.Load{Workload: workload}
	for i, level := range strings.Split(levels, "+") {
		var n int
		if _, err := fmt.Sscan(level, &n); err != nil {
			panic(err)
		}
		load.Pools = append(load.Pools, sweep.Pool{Class: fmt.Sprintf("c%d", i), Concurrency: n})
	}
	return sweep.LoadJob{Cell: name, ContentKey: "key " + name, Load: load}
}

func testJob(loads ...string) sweep.Job {
	job := sweep.Job{ID: "c/repeat=1", Attempt: 1, Imply: true}
	for _, l := range loads {
		job.Loads = append(job.Loads, testLoad(l))
	}
	return job
}

// attemptsUntilDone plays a job: script gives, for each attempt, what becomes of the loads in turn. A
// word "!o" ends the server at start-up with outcome o for all loads; after a load that kills the server
// the rest have no turn.
func attemptsUntilDone(t *testing.T, job sweep.Job, script []string) (attempts []string, done map[string]string) {
	t.Helper()
	var history []sweep.LaunchResult
	done = map[string]string{}
	for _, line := range script {
		loads := next(job, history, nil)
		if len(loads) == 0 {
			t.Fatalf("attempt %q is not asked for", line)
		}
		words := strings.Fields(line)
		var ends []loadEnd
		for i, l := range loads {
			end := loadEnd{job: l}
			switch {
			case strings.HasPrefix(words[0], "!"):
				end.ending = sweep.Ending{Outcome: sweep.Outcome(words[0][1:]), Phase: sweep.PhaseGraph}
			case i < len(words) && words[i] != "-":
				end.ending = sweep.Ending{Outcome: sweep.Outcome(words[i]), Phase: sweep.PhaseLoad}
			}
			ends = append(ends, end)
		}
		result := sweep.LaunchResult{Attempt: len(history) + 1, Loads: settle(job, history, ends)}
		var names []string
		for i, l := range result.Loads {
			names = append(names, l.Cell)
			if l.Cell != loads[i].Cell {
				t.Fatalf("load %d is %s, want %s", i, l.Cell, loads[i].Cell)
			}
			if l.State != stateDone {
				continue
			}
			if was, ok := done[l.Cell]; ok {
				t.Fatalf("%s is done twice: %s, %s", l.Cell, was, l.Outcome)
			}
			done[l.Cell] = string(l.Outcome)
			if l.ImpliedBy != "" {
				done[l.Cell] += " by " + l.ImpliedBy
			}
		}
		attempts = append(attempts, strings.Join(names, " "))
		history = append(history, result)
	}
	if left := next(job, history, nil); len(left) > 0 {
		t.Fatalf("still left: %d loads, first %s", len(left), left[0].Cell)
	}
	return attempts, done
}

func TestAttempts(t *testing.T) {
	tests := []struct {
		name   string
		loads  string
		imply  bool
		script []string // one attempt each
		want   []string // loads of each attempt
		done   string   // endings in the order of loads, joined by "; "
	}{
		{"all measured", "a@1 a@2", true, []string{"ok ok"}, []string{"a@1 a@2"}, "ok; ok"},
		{"bad flag ends all", "a@1 a@2", true, []string{"!bad.flag"}, []string{"a@1 a@2"}, "bad.flag; bad.flag"},
		{"oom while starting ends all, as itself", "a@1 a@2 b@1", true, []string{"!oom.graph"}, []string{"a@1 a@2 b@1"}, "oom.graph; oom.graph; oom.graph"},
		{"slow start is no try more", "a@1", true, []string{"!slow.start"}, []string{"a@1"}, "slow.start"},
		{"preflight", "a@1 b@1", true, []string{"!skipped.preflight"}, []string{"a@1 b@1"}, "skipped.preflight; skipped.preflight"},
		{"aborted stands", "a@1 a@2", true, []string{"ok aborted"}, []string{"a@1 a@2"}, "ok; aborted"},
		{"crash while starting is tried once more", "a@1 a@2", true, []string{"!crash.start", "!crash.start"},
			[]string{"a@1 a@2", "a@1 a@2"}, "crash.start; crash.start"},
		{"crash while starting, then good", "a@1", true, []string{"!crash.start", "ok"}, []string{"a@1", "a@1"}, "ok"},
		{"busy port three times", "a@1", true, []string{"!busy.port", "!busy.port", "!busy.port"}, []string{"a@1", "a@1", "a@1"}, "busy.port"},
		{"busy and crash are counted apart", "a@1", true, []string{"!busy.gpu", "!busy.gpu", "!crash.start", "!crash.start"},
			[]string{"a@1", "a@1", "a@1", "a@1"}, "crash.start"},
		{"oom under load implies higher levels of its workload only", "a@1 a@2 a@4 b@8 b@9", true, []string{"ok oom.prefill", "ok ok"},
			[]string{"a@1 a@2 a@4 b@8 b@9", "b@8 b@9"}, "ok; oom.prefill; skipped.implied by a@2; ok; ok"},
		{"no implying when the grid says so", "a@1 a@2 a@4", false, []string{"oom.decode", "oom.decode", "oom.decode"},
			[]string{"a@1 a@2 a@4", "a@2 a@4", "a@4"}, "oom.decode; oom.decode; oom.decode"},
		{"equal totals are not implied", "a@1+3 a@2+2 a@3+3", true, []string{"oom.prefill", "ok"},
			[]string{"a@1+3 a@2+2 a@3+3", "a@2+2"}, "oom.prefill; ok; skipped.implied by a@1+3"},
		{"what follows a result is no retry", "a@1 b@1 c@1 d@1", true, []string{"oom.prefill", "oom.prefill", "oom.prefill", "crash.load", "crash.load"},
			[]string{"a@1 b@1 c@1 d@1", "b@1 c@1 d@1", "c@1 d@1", "d@1", "d@1"}, "oom.prefill; oom.prefill; oom.prefill; crash.load"},
		{"a crash under load is tried once more and implies nothing", "a@1 a@2 a@4", true, []string{"ok crash.load", "crash.load", "ok"},
			[]string{"a@1 a@2 a@4", "a@2 a@4", "a@4"}, "ok; crash.load; ok"},
		{"kv.exhausted implies only when it stands", "a@1 a@2", true, []string{"kv.exhausted", "kv.exhausted"},
			[]string{"a@1 a@2", "a@1 a@2"}, "kv.exhausted; skipped.implied by a@1"},
		{"kv.exhausted, then good", "a@1 a@2", true, []string{"kv.exhausted", "ok ok"}, []string{"a@1 a@2", "a@1 a@2"}, "ok; ok"},
		{"a load that failed is tried once more after the rest was run", "a@1 a@2", true, []string{"load.failed ok", "load.failed"},
			[]string{"a@1 a@2", "a@1"}, "load.failed; ok"},
		{"client bound and rejected stand", "a@1 a@2", true, []string{"client.bound load.rejected"}, []string{"a@1 a@2"}, "client.bound; load.rejected"},
		{"a crash at the start of the second launch counts for those it held", "a@1 a@2 b@1", true,
			[]string{"ok crash.load", "!crash.start", "ok"}, []string{"a@1 a@2 b@1", "a@2 b@1", "b@1"}, "ok; crash.start; ok"},
		{"the disk is full", "a@1", true, []string{"infra.disk", "infra.disk", "infra.disk"}, []string{"a@1", "a@1", "a@1"}, "infra.disk"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			job := testJob(strings.Fields(tt.loads)...)
			job.Imply = tt.imply
			attempts, done := attemptsUntilDone(t, job, tt.script)
			if !slices.Equal(attempts, tt.want) {
				t.Errorf("attempts hold\n%q, want\n%q", attempts, tt.want)
			}
			var got []string
			for _, l := range job.Loads {
				got = append(got, done[l.Cell])
			}
			if s := strings.Join(got, "; "); s != tt.done {
				t.Errorf("endings: %s\nwant     %s", s, tt.done)
			}
		})
	}
}

// Every outcome ends a load after a bounded number of launches, whether it strikes at start or under load.
func TestAttemptsEnd(t *testing.T) {
	outcomes := []sweep.Outcome{
		sweep.OK, sweep.OOMWeights, sweep.OOMKV, sweep.OOMGraph, sweep.OOMWarmup, sweep.OOMPrefill, sweep.OOMDecode,
		sweep.KVTooSmall, sweep.KVExhausted, sweep.HostShort, sweep.HostKilled, sweep.BadFlag, sweep.BadModel, sweep.BadGPU,
		sweep.BusyGPU, sweep.BusyPort, sweep.HangStart, sweep.HangLoad, sweep.SlowStart, sweep.CrashStart, sweep.CrashLoad,
		sweep.LoadFailed, sweep.LoadRejected, sweep.ClientBound, sweep.InfraSSH, sweep.InfraDisk, sweep.InfraLost, sweep.InfraGPU,
		sweep.SkippedPreflight, sweep.SkippedImplied, sweep.SkippedDeadline, sweep.SkippedBreaker, sweep.Aborted,
	}
	for _, o := range outcomes {
		for _, form := range []string{"!", ""} {
			job := testJob("a@1")
			script := slices.Repeat([]string{form + string(o)}, o.Attempts())
			_, done := attemptsUntilDone(t, job, script)
			if done["a@1"] != string(o) {
				t.Errorf("%s%s: ended as %q", form, o, done["a@1"])
			}
		}
	}
}

func TestNextSkipsCommitted(t *testing.T) {
	job := testJob("a@1", "a@2")
	left := next(job, nil, map[string]bool{"key a@1": true})
	if len(left) != 1 || left[0].Cell != "a@2" {
		t.Errorf("left: %v", left)
	}
}

// An attempt whose agent is gone is ended by what its own job.json asked for; what the job still has to do stays as it is. One that
// was killed before it had a job.json, or anything else, is ended too.
func TestAdopt(t *testing.T) {
	t.Parallel()
	for name, left := range map[string]bool{"with its job": true, "before anything was written": false} {
		out := t.TempDir()
		job := testJob("a@1", "a@2", "b@1")
		want := slices.Clone(job.Loads)
		dir := filepath.Join(out, job.Dir(2))
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		asked := job
		asked.Loads = job.Loads[2:]
		if left {
			if err := writeJSON(filepath.Join(dir, "job.json"), asked); err != nil {
				t.Fatal(err)
			}
		}
		past, err := readPast(out, job)
		if err != nil || !slices.Equal(past.orphans, []int{2}) {
			t.Fatalf("%s: orphans %v, %v", name, past.orphans, err)
		}
		r, err := adopt(out, job, 2, past)
		if err != nil || r.Outcome != sweep.InfraLost || r.Detail != "the agent was gone before this launch ended" {
			t.Errorf("%s: %+v, %v", name, r.Ending, err)
		}
		if n := len(r.Loads); left && (n != 1 || r.Loads[0].Cell != "b@1") || !left && n != 3 {
			t.Errorf("%s: loads %+v", name, r.Loads)
		}
		if !slices.EqualFunc(job.Loads, want, func(a, b sweep.LoadJob) bool { return a.Cell == b.Cell && a.ContentKey == b.ContentKey }) {
			t.Errorf("%s: the job's loads are now %+v", name, job.Loads)
		}
		if again, err := readPast(out, job); err != nil || len(again.orphans) > 0 || len(again.history) != 1 {
			t.Errorf("%s: afterwards %+v, %v", name, again, err)
		}
	}
}
