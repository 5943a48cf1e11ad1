package sweep

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// world is one night with its hosts, which can be left and taken up again.
type world struct {
	t     *testing.T
	root  string
	plan  *Plan
	hosts []*fakeHost
	dir   string
	heard heard
}

func newWorld(t *testing.T, hosts ...string) *world {
	if len(hosts) == 0 {
		hosts = []string{"local"}
	}
	w := &world{t: t, root: t.TempDir(), plan: testPlan(hosts...)}
	for _, name := range hosts {
		w.hosts = append(w.hosts, &fakeHost{t: t, name: name, measured: map[string]int{}})
	}
	return w
}

// open makes the night, or takes it up again as a resume does.
func (w *world) open() *Night {
	w.t.Helper()
	if w.dir == "" {
		n, err := CreateNight(NightOptions{Root: w.root, Plan: w.plan, Imply: true, Version: "test", Now: time.Now()})
		if err != nil {
			w.t.Fatal(err)
		}
		w.dir = n.Dir
		return n
	}
	n, err := OpenNight(w.dir)
	if err != nil {
		w.t.Fatal(err)
	}
	n.Plan = w.plan
	if changes := n.Compare(w.plan, nil); len(changes) > 0 {
		w.t.Fatalf("the same plan differs: %v", changes)
	}
	if err := n.Reopen(); err != nil {
		w.t.Fatal(err)
	}
	return n
}

func (w *world) run(ctx, now context.Context) (Summary, error) {
	w.t.Helper()
	n := w.open()
	r := &Runner{Night: n, Progress: &w.heard, Log: slog.New(slog.DiscardHandler)}
	for _, h := range w.hosts {
		h.night = w.dir
		r.Hosts = append(r.Hosts, h)
	}
	s, err := n.Summary(), r.Open(ctx)
	if err == nil {
		s, err = r.Run(ctx, now)
	}
	if err := n.Close(); err != nil {
		w.t.Error(err)
	}
	return s, err
}

func (w *world) records() []Record {
	w.t.Helper()
	records, err := ReadRecords(w.dir)
	if err != nil {
		w.t.Fatal(err)
	}
	return records
}

func TestRunWholeNight(t *testing.T) {
	w := newWorld(t)
	s, err := w.run(t.Context(), t.Context())
	if err != nil || s.Code() != 0 || s.Recorded != testCells || s.Outcomes[OK] != testCells {
		t.Fatalf("%+v, code %d, %v", s, s.Code(), err)
	}
	records := w.records()
	if len(records) != testCells || len(w.heard.records) != testCells {
		t.Fatalf("%d records on disk, %d told, want %d", len(records), len(w.heard.records), testCells)
	}
	drift := 0
	for _, r := range records {
		if r.Values["kv_tokens"] != 1000 || r.Values["output_throughput"] != 100 || r.Values["window_s"] != 5 {
			t.Errorf("%s: values %v", r.Cell, r.Values)
		}
		if r.GPU != "Fake" || r.Command != "server --model m" || !slices.Contains(r.Notes, "simulated ×1") || r.Host != "local" || r.Dir == "" {
			t.Errorf("%s: %+v", r.Cell, r)
		}
		if v, _ := r.Axes.Get("a"); "a="+v != r.Config {
			t.Errorf("%s: axes %v", r.Cell, r.Axes)
		}
		if r.Role == RoleDrift {
			drift++
			if !strings.HasSuffix(r.Cell, "@drift") {
				t.Errorf("drift check is called %s", r.Cell)
			}
		}
	}
	if drift != 2 {
		t.Errorf("%d drift checks, want 2", drift)
	}
	for _, name := range []string{gridFile, manifestFile, journalFile, lockFile} {
		if _, err := os.Stat(filepath.Join(w.dir, name)); err != nil {
			t.Error(err)
		}
	}
}

func TestOutcomesAndRetries(t *testing.T) {
	w := newWorld(t)
	w.hosts[0].outcome = func(_ Job, l LoadJob, attempt int) Outcome {
		switch {
		case l.Cell == "a=2/w,c=2":
			return OOMPrefill
		case l.Cell == "a=3/v,c=8" && attempt == 1:
			return CrashLoad
		case l.Cell == "a=1/v,c=8":
			return LoadFailed
		}
		return OK
	}
	s, err := w.run(t.Context(), t.Context())
	if err != nil || s.Code() != 1 {
		t.Fatalf("%+v, code %d, %v", s, s.Code(), err)
	}
	want := map[Outcome]int{OK: testCells - 6, OOMPrefill: 2, SkippedImplied: 2, LoadFailed: 2}
	for o, n := range want {
		if s.Outcomes[o] != n {
			t.Errorf("%s: %d records, want %d (%v)", o, s.Outcomes[o], n, s.Outcomes)
		}
	}
	for _, r := range w.records() {
		if r.Cell == "a=3/v,c=8" && r.Attempt != 2 {
			t.Errorf("the retried load's record is of attempt %d", r.Attempt)
		}
	}
}

func TestHostsShareOut(t *testing.T) {
	w := newWorld(t, "local", "local-2")
	s, err := w.run(t.Context(), t.Context())
	if err != nil || s.Recorded != testCells {
		t.Fatalf("%+v, %v", s, err)
	}
	loads := map[string]int{}
	baseline := map[int]string{}
	for _, r := range w.records() {
		loads[r.Host]++
		if r.Config == "a=1" && r.Role == RoleMeasure {
			baseline[r.Repeat] = r.Host
		}
	}
	for _, r := range w.records() {
		if r.Role == RoleDrift && r.Host != baseline[r.Repeat] {
			t.Errorf("repeat %d: the drift check ran on %s, its baseline on %s", r.Repeat, r.Host, baseline[r.Repeat])
		}
	}
	if loads["local"] < 8 || loads["local-2"] < 8 {
		t.Errorf("loads by host: %v", loads)
	}
}

func TestLostAgentIsReplaced(t *testing.T) {
	w := newWorld(t)
	died := 0
	w.hosts[0].dies = func(step string) bool {
		if step == "commit a=2/w,c=2 1" || step == "launch a=3/repeat=2" && died < 2 {
			died++
			return true
		}
		return false
	}
	s, err := w.run(t.Context(), t.Context())
	if err != nil || s.Code() != 0 || s.Outcomes[OK] != testCells {
		t.Fatalf("%+v, %v", s, err)
	}
	if !slices.Equal(w.heard.lost, []string{"local false", "local false"}) {
		t.Errorf("told of lost agents: %v", w.heard.lost)
	}
	for cell, n := range w.hosts[0].measured {
		if n != 1 {
			t.Errorf("%s was measured %d times", cell, n)
		}
	}
}

func TestLostAgentIsGivenUp(t *testing.T) {
	w := newWorld(t)
	w.hosts[0].dies = func(step string) bool { return strings.HasPrefix(step, "launch a=2/repeat=1") }
	s, err := w.run(t.Context(), t.Context())
	if err != nil || s.Code() != 1 || s.Recorded != testCells || s.Outcomes[OK] != 3 || s.Outcomes[InfraLost] != testCells-3 {
		t.Fatalf("%+v, code %d, %v", s, s.Code(), err)
	}
	// Once the trouble is over, a resume does the rest and measures nothing again.
	w.hosts[0].dies = nil
	s, err = w.run(t.Context(), t.Context())
	if err != nil || s.Code() != 0 || s.Outcomes[OK] != testCells {
		t.Fatalf("after a resume: %+v, %v", s, err)
	}
	if len(w.records()) != testCells {
		t.Errorf("%d records", len(w.records()))
	}
	for cell, n := range w.hosts[0].measured {
		if n != 1 {
			t.Errorf("%s was measured %d times", cell, n)
		}
	}
}

func TestAgentThatFailsItself(t *testing.T) {
	w := newWorld(t)
	w.hosts[0].says = "command foo: not found on PATH"
	w.hosts[0].dies = func(string) bool { return true }
	s, err := w.run(t.Context(), t.Context())
	if err == nil || !strings.Contains(err.Error(), "host local: command foo: not found on PATH") {
		t.Fatalf("%+v, %v", s, err)
	}
	if s.Recorded != 0 {
		t.Errorf("%d records of a night that never began", s.Recorded)
	}
}

func TestInterrupt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.hosts[0].blocks = "commit a=2/w,c=4 1"
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		s, err := w.run(ctx, t.Context())
		if err != nil || !s.Interrupted || s.Code() != 130 {
			t.Fatalf("%+v, code %d, %v", s, s.Code(), err)
		}
		if s.Outcomes[OK] != 5 || s.Outcomes[Aborted] != 1 {
			t.Errorf("outcomes %v, want 5 ok and 1 aborted", s.Outcomes)
		}
		w.hosts[0].blocks = ""
		s, err = w.run(t.Context(), t.Context())
		if err != nil || s.Code() != 0 || s.Outcomes[OK] != testCells {
			t.Fatalf("after a resume: %+v, %v", s, err)
		}
		for cell, n := range w.hosts[0].measured {
			if n != 1 {
				t.Errorf("%s was measured %d times", cell, n)
			}
		}
	})
}

func TestSecondInterruptKills(t *testing.T) {
	tests := []struct {
		name   string
		second time.Duration // after the start; the first comes after a minute
		ends   time.Duration
	}{
		{"second signal", 2 * time.Minute, 2 * time.Minute},
		{"clean stop takes too long", time.Hour, time.Minute + cleanTime},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.hosts[0].blocks, w.hosts[0].clean = "launch a=1/repeat=1", true
				ctx, cancel := context.WithCancel(t.Context())
				now, kill := context.WithCancel(t.Context())
				time.AfterFunc(time.Minute, cancel)
				timer := time.AfterFunc(tt.second, kill)
				defer timer.Stop()
				began := time.Now()
				s, err := w.run(ctx, now)
				if err != nil || s.Code() != 130 || time.Since(began) != tt.ends {
					t.Errorf("%+v, %v, after %s", s, err, time.Since(began))
				}
				if !slices.Equal(w.hosts[0].cancels, []bool{false, true}) {
					t.Errorf("cancels %v", w.hosts[0].cancels)
				}
				kill()
			})
		})
	}
}

// TestKillAnywhere leaves the runner, or the runner and the agent, at any step of a night, again and
// again, and expects the cells of an undisturbed night, each measured once unless it was under way.
func TestKillAnywhere(t *testing.T) {
	outcome := func(_ Job, l LoadJob, attempt int) Outcome {
		switch {
		case l.Cell == "a=2/w,c=2":
			return OOMDecode
		case l.Cell == "a=3/w,c=2" && attempt == 1:
			return HangLoad
		}
		return OK
	}
	quiet := newWorld(t)
	quiet.hosts[0].outcome = outcome
	if _, err := quiet.run(t.Context(), t.Context()); err != nil {
		t.Fatal(err)
	}
	want := sortedCells(quiet.records())
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	for round := range 30 {
		w := newWorld(t)
		h := w.hosts[0]
		h.outcome = outcome
		for range 3 {
			steps := random.IntN(12)
			// The process is gone at this step: no Cancel of it is obeyed, its context ends with it.
			ctx, cancel := context.WithCancel(t.Context())
			h.dies = func(string) bool {
				if steps--; steps < 0 {
					cancel()
					h.queue = nil
					return true
				}
				return false
			}
			if _, err := w.run(ctx, ctx); err != nil {
				t.Fatalf("seed %d, round %d: %v", seed, round, err)
			}
			if random.IntN(2) == 0 {
				w.tear()
			}
			cancel()
		}
		h.dies = nil
		if _, err := w.run(t.Context(), t.Context()); err != nil {
			t.Fatalf("seed %d, round %d: %v", seed, round, err)
		}
		records := w.records()
		if got := sortedCells(records); !slices.Equal(got, want) || len(records) != testCells {
			t.Fatalf("seed %d, round %d: %d records\n%s\nwant\n%s", seed, round, len(records), strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		for cell, n := range h.measured {
			if n != 1 && !strings.HasPrefix(cell, "a=3/w,c=2 ") {
				t.Errorf("seed %d, round %d: %s was measured %d times", seed, round, cell, n)
			}
		}
	}
}

// tear leaves half a line in the night's files, as a crash in the middle of a write does.
func (w *world) tear() {
	for _, name := range []string{journalFile, cellsFile} {
		path := filepath.Join(w.dir, name)
		data, err := os.ReadFile(path)
		if err != nil {
			w.t.Fatal(err)
		}
		lines := strings.SplitAfter(string(data), "\n")
		last := lines[max(0, len(lines)-2)]
		if err := os.WriteFile(path, append(data, last[:len(last)/2]...), 0o600); err != nil {
			w.t.Fatal(err)
		}
	}
}

func TestNightIsLocked(t *testing.T) {
	w := newWorld(t)
	n := w.open()
	defer func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	}()
	_, err := OpenNight(w.dir)
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("in use by process %d", os.Getpid())) {
		t.Errorf("opened twice: %v", err)
	}
}

func TestJobs(t *testing.T) {
	plan := testPlan("local")
	plan.Grid.Command = nil
	plan.Grid.Hosts = []HostSpec{{Name: "local", GPUs: []string{"2", "3"}, Simulate: "p"}}
	engine := &Engine{Command: []string{"python3", "-m", "server"}, Argv: func(ServerSpec) []string { return nil }}
	n, err := CreateNight(NightOptions{Root: t.TempDir(), Plan: plan, Engine: engine, Imply: true, Now: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	}()
	jobs, err := (&Runner{Night: n}).jobs("local")
	if err != nil || len(jobs) != len(plan.Launches) {
		t.Fatalf("%d jobs, %v", len(jobs), err)
	}
	j := jobs[0]
	if !slices.Equal(j.Command, engine.Command) || !slices.Equal(j.GPUs, []string{"2", "3"}) || j.Simulate != "p" || j.Attempt != 1 || !j.Imply {
		t.Errorf("job %+v", j)
	}
	if j.ID != "a=1/repeat=1" || len(j.Loads) != 3 || j.Loads[1].Cell != "a=1/w,c=4" || j.Loads[1].Workload.Name != "w" || len(j.Loads[1].ContentKey) != 64 {
		t.Errorf("loads %+v", j.Loads)
	}
	if last := jobs[len(jobs)-1]; last.Role != RoleDrift || last.ID != "a=1@drift/repeat=2" || len(last.Loads) != 1 {
		t.Errorf("last job %+v", last)
	}
	if other, err := (&Runner{Night: n}).jobs("elsewhere"); err != nil || len(other) != 0 {
		t.Errorf("%d jobs for an unknown host, %v", len(other), err)
	}
}

func TestChanges(t *testing.T) {
	was := newManifest(testPlan("local"), nil)
	change := func(f func(*Plan)) []Change {
		p := testPlan("local")
		f(p)
		return was.Changes(newManifest(p, nil))
	}
	if c := change(func(*Plan) {}); len(c) != 0 {
		t.Errorf("the same plan differs: %v", c)
	}
	if c := change(func(p *Plan) { p.Grid.Env[0].Value = "${env:OTHER}" }); len(c) != testCells || c[0].Kind != "changed" {
		t.Errorf("another reference: %v", c)
	}
	if c := change(func(p *Plan) { p.Grid.Measure.WindowMin = time.Minute }); len(c) != testCells {
		t.Errorf("another window: %d changes", len(c))
	}
	c := change(func(p *Plan) { p.Launches = p.Launches[:len(p.Launches)-1] })
	if len(c) != 1 || c[0] != (Change{"gone", "a=1/v,c=8@drift", 2}) {
		t.Errorf("a launch less: %v", c)
	}
	seeds := map[string]uint64{}
	for _, cell := range was.Cells {
		key := fmt.Sprint(cell.Load, cell.Repeat)
		if seed, ok := seeds[key]; ok && seed != cell.Seed {
			t.Errorf("%s has another seed than the other configs", cell.Cell)
		}
		seeds[key] = cell.Seed
	}
	distinct := slices.Compact(slices.Sorted(maps.Values(seeds)))
	if len(seeds) != 6 || len(distinct) != 6 {
		t.Errorf("seeds %v: want another for each load and repeat", seeds)
	}
}

func TestReplaceGrid(t *testing.T) {
	w := newWorld(t)
	if _, err := w.run(t.Context(), t.Context()); err != nil {
		t.Fatal(err)
	}
	n := w.open()
	next := testPlan("local")
	next.Grid.Source = []byte("name: test # with another window for v\n")
	for i, l := range next.Launches {
		if l.Config.Key == "a=3" {
			l.Config.Settings = append(slices.Clone(l.Config.Settings), Setting{"b", []string{"1"}})
			next.Launches[i] = l
		}
	}
	next.Launches = slices.DeleteFunc(next.Launches, func(l Launch) bool { return l.Role == RoleDrift })
	if err := n.Replace(next, nil); err != nil {
		t.Fatal(err)
	}
	if got := len(n.Missing()); got != 6 {
		t.Errorf("%d cells to run, want the 6 that changed", got)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	w.plan = next
	s, err := w.run(t.Context(), t.Context())
	if err != nil || s.Planned != 18 || s.Recorded != 18 || s.Code() != 0 {
		t.Fatalf("%+v, %v", s, err)
	}
	if data, err := os.ReadFile(filepath.Join(w.dir, gridFile)); err != nil || string(data) != string(next.Grid.Source) {
		t.Errorf("the night's grid: %q, %v", data, err)
	}
	for cell, n := range w.hosts[0].measured {
		if again := strings.HasPrefix(cell, "a=3/"); again && n != 2 || !again && n != 1 {
			t.Errorf("%s was measured %d times", cell, n)
		}
	}
}

func TestShellLine(t *testing.T) {
	got := ShellLine([]string{"a", "b c", "", "it's", "--x=1,2", "$HOME", "é"})
	if want := `a 'b c' '' 'it'\''s' --x=1,2 '$HOME' 'é'`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// A person gets a command line that starts the config again, not the port and the name of one launch.
func TestCommandForAPerson(t *testing.T) {
	plan := testPlan("local")
	plan.Grid.Model, plan.Grid.Command = "/models/m", []string{"my server"}
	engine := &Engine{Argv: func(s ServerSpec) []string {
		return []string{"--model", s.Model, "--name", s.ServedName, "--at", fmt.Sprintf("%s:%d", s.Host, s.Port), "-a", s.Settings[0].Value()}
	}}
	n := &Night{Plan: plan, engine: engine}
	want := "'my server' --model /models/m --name m --at 127.0.0.1:30000 -a 1"
	if got := n.command(Config{Settings: []Setting{{Name: "a", Values: []string{"1"}}}}); got != want {
		t.Errorf("command %s, want %s", got, want)
	}
}
