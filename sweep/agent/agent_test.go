//go:build linux

package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sweep/sweep"
	"sweep/sweep/proc"
)

// night is a folder with an agent's queue in it.
type night struct {
	t      *testing.T
	opt    Options
	engine *sweep.Engine
}

func newNight(t *testing.T) *night {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	n := &night{t: t, engine: fakeEngine(nil)}
	n.opt = Options{BusyPause: 10 * time.Millisecond, Dir: filepath.Join(out, "agents", "local"), Out: out, Self: self,
		Engine: func(string) (*sweep.Engine, bool) { return n.engine, true }}
	t.Cleanup(n.nothingLeft)
	return n
}

// job makes a launch of fakeServer that behaves in a way, with loads "workload@level".
func (n *night) job(how string, loads ...string) sweep.Job {
	job := testJob(loads...)
	job.Schema, job.Night, job.Engine, job.Host, job.Role = sweep.Schema, "test-night", "fake", "local", sweep.RoleMeasure
	job.ID = how + "/repeat=1"
	job.Repeat = 1
	job.Config = sweep.Config{Key: how, Settings: []sweep.Setting{{Name: "how", Values: []string{how}}}}
	job.Command = []string{n.opt.Self, "serve"}
	// A busy machine keeps a good server waiting; only what is waited out is short.
	job.Limits = sweep.Limits{Start: 60 * time.Second, Stall: 30 * time.Second, LoadStall: 20 * time.Second, Stop: 10 * time.Second}
	switch how {
	case "stalls":
		job.Limits.LoadStall = 800 * time.Millisecond
	case "deaf":
		job.Limits.Stop = 500 * time.Millisecond
	}
	for i := range job.Loads {
		l := &job.Loads[i]
		l.Workload = sweep.Workload{Name: l.Load.Workload, Classes: []sweep.Class{
			{Name: "c0", Share: 1, Input: sweep.Range{Min: 16, Max: 64}, Output: sweep.Range{Min: 5, Max: 10}}}}
		l.Measure = sweep.Measure{WarmupTime: 100 * time.Millisecond, WindowMin: 300 * time.Millisecond, WindowMax: 3 * time.Second}
		l.ContentKey = how + " " + l.ContentKey
	}
	return job
}

func (n *night) submit(jobs ...sweep.Job) {
	n.t.Helper()
	queue := filepath.Join(n.opt.Dir, "queue")
	if err := os.MkdirAll(queue, 0o755); err != nil {
		n.t.Fatal(err)
	}
	have, err := filepath.Glob(filepath.Join(queue, "*.json"))
	if err != nil {
		n.t.Fatal(err)
	}
	for i, j := range jobs {
		if err := writeJSON(filepath.Join(queue, fmt.Sprintf("%04d.json", len(have)+i+1)), j); err != nil {
			n.t.Fatal(err)
		}
	}
}

func (n *night) run(ctx context.Context) error {
	n.t.Helper()
	return Run(ctx, n.opt)
}

// launches reads launch.json of each attempt of a job, in order.
func (n *night) launches(job sweep.Job) []sweep.LaunchResult {
	n.t.Helper()
	var all []sweep.LaunchResult
	for i := 1; ; i++ {
		var r sweep.LaunchResult
		err := readJSON(filepath.Join(n.opt.Out, job.Dir(i), "launch.json"), &r)
		if errors.Is(err, os.ErrNotExist) {
			return all
		}
		if err != nil {
			n.t.Fatal(err)
		}
		all = append(all, r)
	}
}

// endings joins what became of each load: in each attempt "cell=outcome" ("…" when left), attempts by " | ".
func endings(results []sweep.LaunchResult) string {
	var parts []string
	for _, r := range results {
		var loads []string
		for _, l := range r.Loads {
			outcome := l.Outcome
			if outcome == sweep.ClientBound { // measured, and withheld because this machine was busy
				outcome = sweep.OK
			}
			s := l.Cell + "=" + string(outcome)
			if l.State == stateLeft {
				s += "…"
			}
			loads = append(loads, s)
		}
		parts = append(parts, strings.Join(loads, " "))
	}
	return strings.Join(parts, " | ")
}

// nothingLeft checks that no process of the night lives.
func (n *night) nothingLeft() {
	owners, err := filepath.Glob(filepath.Join(n.opt.Out, "launches", "*", "*", "*", "owner.json"))
	if err != nil {
		n.t.Error(err)
	}
	for _, path := range owners {
		owner, err := proc.ReadOwner(path)
		if err != nil {
			n.t.Error(err)
			continue
		}
		for _, id := range append(owner.Members, owner.Server, owner.Supervisor) {
			for end := time.Now().Add(2 * time.Second); id.Alive() && time.Now().Before(end); {
				time.Sleep(10 * time.Millisecond) // the supervisor leaves after it has reported
			}
			if id.Alive() {
				n.t.Errorf("%s: process %d still lives", path, id.PID)
			}
		}
	}
}

func TestGoodLaunch(t *testing.T) {
	t.Parallel()
	n := newNight(t)
	job := n.job("ready", "a@1", "a@3", "b@2")
	for i := range job.Loads {
		job.Loads[i].Measure.WindowMin = 3 * time.Second // several looks at the server, on a busy machine too
	}
	job.Env = sweep.Params{{Name: "TOKEN", Value: "${env:SECRET_OF_TEST}"}}
	n.opt.Environ = append(os.Environ(), "SECRET_OF_TEST=do-not-tell-anybody")
	n.submit(job)
	if err := n.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	results := n.launches(job)
	if got, want := endings(results), "a@1=ok a@3=ok b@2=ok"; got != want {
		t.Fatalf("endings %s, want %s", got, want)
	}
	r := results[0]
	if r.Outcome != sweep.OK || r.EngineVersion != "1.0" || r.Facts["kv_tokens"] != 1234 || r.Facts["headroom_gib"] != 5.5 || r.Containment == "" {
		t.Errorf("launch: %+v", r)
	}
	if h := r.Times["harness_s"]; h <= 0 || h > 2 || r.Times["start_s"] <= 0 || r.Times["stop_s"] <= 0 {
		t.Errorf("times: %v", r.Times)
	}
	dir := filepath.Join(n.opt.Out, job.Dir(1))
	for _, l := range r.Loads {
		var run sweep.LoadResult
		if err := readJSON(filepath.Join(dir, l.Dir, "run.json"), &run); err != nil {
			t.Fatal(err)
		}
		v := run.Values
		if run.Cell != l.Cell || v["completed"] == 0 || v["output_throughput"] <= 0 || v["running"] <= 0 {
			t.Errorf("%s: %v", l.Cell, v)
		}
		if ratio := v["client_server_ratio"]; ratio < 0.9 || ratio > 1.1 {
			t.Errorf("%s: client_server_ratio %v", l.Cell, ratio)
		}
	}
	for _, name := range []string{"job.json", "owner.json", "command.sh", "server.log", "metrics.jsonl", sweep.ReadyFile} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
		}
		if strings.Contains(string(data), "do-not-tell") {
			t.Errorf("%s holds a secret", name)
		}
	}
	var kinds []sweep.EventKind
	for _, e := range readEvents(t, n.opt.Dir) {
		if e.Kind != sweep.EventProgress && (len(kinds) == 0 || kinds[len(kinds)-1] != e.Kind) {
			kinds = append(kinds, e.Kind)
		}
	}
	want := []sweep.EventKind{sweep.EventLaunch, sweep.EventPhase, sweep.EventReady, sweep.EventLoad, sweep.EventCommit, sweep.EventLoad,
		sweep.EventCommit, sweep.EventLoad, sweep.EventCommit, sweep.EventEnd, sweep.EventDone}
	if !slices.Equal(kinds, want) {
		t.Errorf("events %v, want %v", kinds, want)
	}
	if parts, _ := filepath.Glob(filepath.Join(dir, "*"+partSuffix)); len(parts) > 0 {
		t.Errorf("left behind: %v", parts)
	}
}

func TestEndings(t *testing.T) {
	tests := []struct {
		how      string
		loads    string
		limits   sweep.Limits // those above zero overrule
		want     string
		evidence string // text of the launch's evidence
	}{
		{"dies", "a@1 b@1", sweep.Limits{}, "a@1=oom.graph b@1=oom.graph", "sign oom.graph"},
		{"crashes", "a@1", sweep.Limits{}, "a@1=crash.start… | a@1=crash.start", "phase weights"},
		{"hangs", "a@1", sweep.Limits{Stall: time.Second}, "a@1=hang.start… | a@1=hang.start", "phase weights"},
		{"slow", "a@1", sweep.Limits{Start: 2 * time.Second}, "a@1=slow.start", "progress loading"},
		{"port-taken", "a@1", sweep.Limits{}, "a@1=busy.port… | a@1=busy.port… | a@1=busy.port", "[Errno 98]"},
		{"wrong-name", "a@1", sweep.Limits{}, "a@1=crash.start… | a@1=crash.start", ""},
		{"impossible", "a@1 b@1", sweep.Limits{}, "a@1=skipped.preflight b@1=skipped.preflight", ""},
		{"oom-under-load", "a@1 a@4 a@8 b@1 b@2", sweep.Limits{}, "a@1=ok a@4=oom.prefill a@8=skipped.implied b@1=… b@2=… | b@1=ok b@2=ok", "sign oom.prefill"},
		{"crash-under-load", "a@4 b@1", sweep.Limits{}, "a@4=crash.load… b@1=… | a@4=crash.load b@1=… | b@1=ok", "ready"},
		{"stalls", "a@1", sweep.Limits{}, "a@1=hang.load… | a@1=hang.load", "ready"},
		{"fails", "a@2", sweep.Limits{}, "a@2=load.failed… | a@2=load.failed", ""},
		{"refuses", "a@2 b@1", sweep.Limits{}, "a@2=load.rejected b@1=load.rejected", ""},
		{"idle-death", "a@1 b@1 b@2", sweep.Limits{}, "a@1=ok b@1=crash.load… b@2=… | b@1=ok b@2=crash.load… | b@2=ok", "ready"},
		{"deaf", "a@1", sweep.Limits{}, "a@1=ok", ""},
	}
	for _, tt := range tests {
		t.Run(tt.how, func(t *testing.T) {
			t.Parallel()
			n := newNight(t)
			job := n.job(tt.how, strings.Fields(tt.loads)...)
			if tt.limits.Stall > 0 {
				job.Limits.Stall = tt.limits.Stall
			}
			if tt.limits.Start > 0 {
				job.Limits.Start = tt.limits.Start
			}
			n.submit(job)
			if err := n.run(t.Context()); err != nil {
				t.Fatal(err)
			}
			results := n.launches(job)
			if got := endings(results); got != tt.want {
				t.Fatalf("endings\n%s, want\n%s", got, tt.want)
			}
			n.checkFolders(job, results)
			n.checkEvidence(results[0], tt.evidence)
			if tt.how == "impossible" {
				if _, err := os.Stat(filepath.Join(n.opt.Out, job.Dir(1), "server.log")); err == nil {
					t.Error("a server was started")
				}
			}
			if tt.how == "refuses" || tt.how == "fails" {
				n.checkAnswer(results[len(results)-1], map[string]string{"refuses": "longer than the model's context", "fails": "internal"}[tt.how])
			}
			if tt.how == "deaf" && (results[0].Exit == nil || results[0].Exit.Signal != 9 || results[0].Exit.By != "sweep") {
				t.Errorf("exit %+v, want killed by sweep", results[0].Exit)
			}
		})
	}
}

// checkAnswer: the evidence of a load that a living server refused or failed is what it answered, in the load's own requests.jsonl.
func (n *night) checkAnswer(r sweep.LaunchResult, text string) {
	n.t.Helper()
	e := r.Loads[0].Evidence
	if e == nil || !strings.Contains(e.Text, text) {
		n.t.Fatalf("evidence %+v, want %q", e, text)
	}
	data, err := os.ReadFile(filepath.Join(n.opt.Out, e.File))
	if err != nil {
		n.t.Fatal(err)
	}
	var q struct{ Reason string }
	line, _, _ := strings.Cut(string(data[e.Offset:]), "\n")
	if err := json.Unmarshal([]byte(line), &q); err != nil || q.Reason != e.Text || strings.Split(string(data), "\n")[e.Line-1] != line {
		n.t.Errorf("%v: line %d, at byte %d: %.200q, not %q", err, e.Line, e.Offset, line, e.Text)
	}
	var run sweep.LoadResult
	if err := readJSON(filepath.Join(n.opt.Out, filepath.Dir(e.File), "run.json"), &run); err != nil || run.Evidence == nil || *run.Evidence != *e {
		n.t.Errorf("%v: run.json has the evidence %+v, launch.json %+v", err, run.Evidence, e)
	}
}

// checkFolders holds the loads' folders against what launch.json says of them.
func (n *night) checkFolders(job sweep.Job, results []sweep.LaunchResult) {
	n.t.Helper()
	for _, r := range results {
		want := map[string]bool{}
		for _, l := range r.Loads {
			if l.Dir != "" {
				want[l.Dir] = true
				if strings.HasPrefix(l.Dir, "load=") != (l.State == stateDone) {
					n.t.Errorf("attempt %d: %s is %s", r.Attempt, l.Dir, l.State)
				}
			}
		}
		entries, err := os.ReadDir(filepath.Join(n.opt.Out, job.Dir(r.Attempt)))
		if err != nil {
			n.t.Fatal(err)
		}
		for _, e := range entries {
			if e.IsDir() && !want[e.Name()] {
				n.t.Errorf("attempt %d: nobody knows of %s", r.Attempt, e.Name())
			}
		}
	}
}

// checkEvidence finds the launch's evidence in its file, at its offset.
func (n *night) checkEvidence(r sweep.LaunchResult, text string) {
	n.t.Helper()
	if text == "" {
		return
	}
	if r.Evidence == nil || !strings.Contains(r.Evidence.Text, text) {
		n.t.Fatalf("evidence %+v, want %q", r.Evidence, text)
	}
	data, err := os.ReadFile(filepath.Join(n.opt.Out, r.Evidence.File))
	if err != nil {
		n.t.Fatal(err)
	}
	if !strings.HasPrefix(string(data[r.Evidence.Offset:]), r.Evidence.Text) {
		n.t.Errorf("at offset %d stands %.40q, not %q", r.Evidence.Offset, data[r.Evidence.Offset:], r.Evidence.Text)
	}
	if line := strings.Split(string(data), "\n")[r.Evidence.Line-1]; line != r.Evidence.Text {
		n.t.Errorf("line %d is %q, not %q", r.Evidence.Line, line, r.Evidence.Text)
	}
}

// A stranger on our port answers nothing that counts, whatever our server's log says.
func TestStrangerOnThePort(t *testing.T) {
	t.Parallel()
	n := newNight(t)
	n.engine = fakeEngine(func(s sweep.ServerSpec) {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", s.Port))
		if err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(func() { l.Close() })
	})
	job := n.job("liar", "a@1")
	n.submit(job)
	if err := n.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	results := n.launches(job)
	if got, want := endings(results), "a@1=busy.port… | a@1=busy.port… | a@1=busy.port"; got != want {
		t.Fatalf("endings %s, want %s", got, want)
	}
	if !strings.Contains(results[0].Detail, fmt.Sprintf("pid %d", os.Getpid())) {
		t.Errorf("detail %q does not name the stranger", results[0].Detail)
	}
}

func TestMissingCommandStopsTheAgent(t *testing.T) {
	t.Parallel()
	n := newNight(t)
	job := n.job("ready", "a@1")
	job.Command = []string{"/no/such/server"}
	n.submit(job)
	err := n.run(t.Context())
	if _, ok := errors.AsType[*EnvironmentError](err); !ok || !strings.Contains(err.Error(), "/no/such/server") {
		t.Fatalf("error %v", err)
	}
	events := readEvents(t, n.opt.Dir)
	if last := events[len(events)-1]; last.Kind != sweep.EventError || !strings.Contains(last.Text, "/no/such/server") {
		t.Errorf("last event %+v", last)
	}
	if entries, _ := os.ReadDir(filepath.Join(n.opt.Out, "launches")); len(entries) > 0 {
		t.Errorf("left behind: %v", entries)
	}
}

func TestStopFromOutside(t *testing.T) {
	for _, atOnce := range []bool{false, true} {
		t.Run(fmt.Sprintf("at once %v", atOnce), func(t *testing.T) {
			t.Parallel()
			n := newNight(t)
			now := make(chan struct{})
			n.opt.Now = now
			job, second := n.job("deaf", "a@1", "a@2"), n.job("ready", "a@1")
			job.Limits.Stop = 3 * time.Second
			job.Loads[1].Measure.WindowMin, job.Loads[1].Measure.WindowMax = time.Minute, time.Minute
			n.submit(job, second)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error, 1)
			go func() { ended <- n.run(ctx) }()
			underWay := filepath.Join(n.opt.Out, job.Dir(1), "load=a,c0=2"+partSuffix)
			for {
				if _, err := os.Stat(underWay); err == nil {
					break
				}
				select {
				case err := <-ended:
					t.Fatalf("it ended by itself: %v", err)
				case <-time.After(10 * time.Millisecond):
				}
			}
			began := time.Now()
			cancel()
			if atOnce {
				close(now)
			}
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("error %v", err)
			}
			if took := time.Since(began); atOnce != (took < 2*time.Second) {
				t.Errorf("the stop took %s", took)
			}
			if got, want := endings(n.launches(job)), "a@1=ok a@2=aborted"; got != want {
				t.Errorf("endings %s, want %s", got, want)
			}
			if r := n.launches(second); len(r) > 0 {
				t.Error("the second job was begun")
			}
			n.checkFolders(job, n.launches(job))
		})
	}
}

// An agent that was killed in the middle is started again: what is committed stays, the rest is run once.
func TestRestart(t *testing.T) {
	t.Parallel()
	n := newNight(t)
	job := n.job("ready", "a@1", "a@2", "b@1")
	n.submit(job)
	// An earlier agent committed the first load, was at the second, and is gone.
	dir := filepath.Join(n.opt.Out, job.Dir(1))
	part := filepath.Join(dir, job.Loads[1].Dir()+partSuffix)
	done := filepath.Join(dir, job.Loads[0].Dir())
	for _, d := range []string{part, done} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	run := sweep.LoadResult{Schema: 1, Cell: job.Loads[0].Cell, ContentKey: job.Loads[0].ContentKey, Load: job.Loads[0].Load, Attempt: 1,
		Ending: sweep.Ending{Outcome: sweep.OK, Phase: sweep.PhaseLoad}, Values: sweep.Values{"output_throughput": 42}}
	ready := sweep.LaunchResult{Schema: 1, Job: job.ID, Attempt: 1, EngineVersion: "0.9", Facts: sweep.Values{"kv_tokens": 77}}
	for path, v := range map[string]any{filepath.Join(done, "run.json"): run, filepath.Join(dir, "job.json"): job, filepath.Join(dir, sweep.ReadyFile): ready} {
		if err := writeJSON(path, v); err != nil {
			t.Fatal(err)
		}
	}
	half := []byte(`{"kind":"load","text":"cut sh`)
	if err := os.WriteFile(filepath.Join(n.opt.Dir, "events.jsonl"), half, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := n.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	results := n.launches(job)
	if got, want := endings(results), "a@1=ok a@2=… b@1=… | a@2=ok b@1=ok"; got != want {
		t.Errorf("endings %s, want %s", got, want)
	}
	if results[0].Outcome != sweep.InfraLost || results[0].Facts["kv_tokens"] != 77 {
		t.Errorf("adopted launch: %+v", results[0])
	}
	if _, err := os.Stat(part); err == nil {
		t.Error("half a load is still there")
	}
	data, err := os.ReadFile(filepath.Join(n.opt.Dir, "events.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		if !json.Valid([]byte(line)) && i > 0 {
			t.Errorf("line %d is no event: %s", i+1, line)
		}
	}
	// Once more: nothing is left to do.
	if err := n.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(n.launches(job)) != 2 {
		t.Error("a finished job was begun again")
	}
}

// The agent is killed at any moment, again and again: each load is measured once, and no server is left.
func TestKilledAgent(t *testing.T) {
	t.Parallel()
	n := newNight(t)
	job := n.job("ready", "a@1", "b@1")
	n.submit(job)
	for _, after := range []time.Duration{300 * time.Millisecond, 900 * time.Millisecond, 1700 * time.Millisecond, 0} {
		cmd := exec.Command(n.opt.Self, "agent", n.opt.Dir, n.opt.Out)
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if after > 0 {
			time.Sleep(after) // the moment does not matter: any is right
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
		if err := cmd.Wait(); (err == nil) != (after == 0) {
			t.Fatalf("agent killed after %s: %v", after, err)
		}
	}
	measured := map[string]int{}
	for _, r := range n.launches(job) {
		for _, l := range r.Loads {
			if l.State == stateDone && l.Outcome == sweep.OK {
				measured[l.Cell]++
			}
		}
	}
	for _, l := range job.Loads {
		if measured[l.Cell] != 1 {
			t.Errorf("%s was measured %d times: %s", l.Cell, measured[l.Cell], endings(n.launches(job)))
		}
	}
	if folders, _ := filepath.Glob(filepath.Join(n.opt.Out, "launches", "*", "*", "*", "load=*")); len(folders) != len(job.Loads) {
		t.Errorf("folders of loads: %v", folders)
	}
}

// A disk that takes nothing more ends the load as infra.disk, the server, and the agent.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full here")
	}
	n := newNight(t)
	job := n.job("ready", "a@1", "a@2")
	dir := filepath.Join(n.opt.Out, job.Dir(1))
	n.engine = fakeEngine(func(sweep.ServerSpec) {
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.Symlink("/dev/full", filepath.Join(dir, "metrics.jsonl"))); err != nil {
			t.Error(err)
		}
	})
	n.submit(job, n.job("dies", "a@1"))
	err := n.run(t.Context())
	if _, ok := errors.AsType[*EnvironmentError](err); !ok || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("error %v", err)
	}
	if got, want := endings(n.launches(job)), "a@1=infra.disk a@2=infra.disk"; got != want {
		t.Errorf("endings %s, want %s", got, want)
	}
	if notes := n.launches(job)[0].Notes; !slices.ContainsFunc(notes, func(s string) bool { return strings.HasPrefix(s, "metrics.jsonl is not complete") }) {
		t.Errorf("notes %q say nothing of metrics.jsonl", notes)
	}
	n.checkFolders(job, n.launches(job))
	events := readEvents(t, n.opt.Dir)
	if last := events[len(events)-1]; last.Kind != sweep.EventError || last.Job != job.ID {
		t.Errorf("last event %+v", last)
	}
	if done, _ := filepath.Glob(filepath.Join(n.opt.Dir, "queue", "*.done")); len(done) > 0 {
		t.Errorf("done: %v", done)
	}
}

// A load whose folder has its name is measured, whatever cannot be written after that.
func TestCommittedLoadStands(t *testing.T) {
	t.Parallel()
	n := newNight(t)
	job := n.job("ready", "a@1", "a@2")
	n.submit(job)
	if err := os.MkdirAll(filepath.Join(n.opt.Dir, "warmed.json"+partSuffix), 0o755); err != nil { // in its way
		t.Fatal(err)
	}
	if err := n.run(t.Context()); err != nil {
		t.Error(err)
	}
	if got, want := endings(n.launches(job)), "a@1=ok a@2=ok"; got != want {
		t.Errorf("endings %s, want %s", got, want)
	}
}

func TestSecondAgentIsRefused(t *testing.T) {
	t.Parallel()
	n := newNight(t)
	if err := os.MkdirAll(n.opt.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	unlock, err := lock(filepath.Join(n.opt.Dir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	if err := n.run(t.Context()); !errors.Is(err, ErrBusy) {
		t.Errorf("error %v", err)
	}
}
