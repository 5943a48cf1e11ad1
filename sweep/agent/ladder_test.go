//go:build linux

package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"sweep/sweep"
	"sweep/sweep/simulate"
)

// on makes the job's machine one whose state the test can change, and gives the folder of that state.
func (n *night) on(state string) {
	n.t.Helper()
	n.opt.Self = filepath.Join(n.t.TempDir(), "sweep")
	self, err := os.Executable()
	if err != nil {
		n.t.Fatal(err)
	}
	program := fmt.Sprintf("#!/bin/sh\n%s='%s' exec '%s' \"$@\"\n", simulate.StateVariable, state, self)
	if err := os.WriteFile(n.opt.Self, []byte(program), 0o700); err != nil {
		n.t.Fatal(err)
	}
}

// jobsOn makes jobs of one simulated machine, one for each text of faults.
func (n *night) jobsOn(state string, change func(*sweep.Job), faults ...string) []sweep.Job {
	n.t.Helper()
	self := n.opt.Self
	var jobs []sweep.Job
	for i, f := range faults {
		n.opt.Self = self
		job := n.simulatedJob(f, "a@2")
		job.Config.Key = fmt.Sprintf("c%d", i)
		job.ID = job.Config.Key + "/repeat=1"
		change(&job)
		jobs = append(jobs, job)
	}
	n.on(state)
	return jobs
}

// rungs are the texts of the recovery events of a night.
func (n *night) rungs() string {
	n.t.Helper()
	var texts []string
	for _, e := range readEvents(n.t, n.opt.Dir) {
		if e.Kind == sweep.EventRecover {
			texts = append(texts, e.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// Memory that stays after a server's death has the ladder climbed to its configured end, each rung said before it runs; the
// devices are given up, the night goes on, and what comes back by itself is used again.
func TestLadderToItsEnd(t *testing.T) {
	t.Parallel()
	n := newNight(t)
	n.opt.GateTime = 2 * time.Second
	state, hook := t.TempDir(), filepath.Join(t.TempDir(), "hook")
	script := "#!/bin/sh\necho \"$SWEEP_HOST|$SWEEP_GPU_UUIDS|$SWEEP_LEVEL|$SWEEP_REASON\" >> " + hook + ".out\nsleep 0\necho cannot >&2; exit 5\n"
	if err := os.WriteFile(hook, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	jobs := n.jobsOn(state, func(j *sweep.Job) { j.Recover = sweep.Recover{Reset: true, Hook: []string{hook}} }, "wedge:4", "", "", "")
	n.submit(jobs[:3]...)
	if err := n.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"a@2=ok", "a@2=infra.gpu", "a@2=infra.gpu"} {
		results := n.launches(jobs[i])
		if got := endings(results); got != want {
			t.Fatalf("job %d: %s, want %s: %+v", i, got, want, results[len(results)-1].Ending)
		}
	}
	order := regexp.MustCompile(`(?s)^wait up to 2s: device memory did not come back.* 4\.0 GiB over.*\nkill again .*\ngpu-reset: \[GPU-.*\nrecover: \[/.*\ngiven up: .*wait: it did not help; kill again: nothing of ours lives; gpu-reset: it did not help; recover: recover hook .*: exit status 5: cannot$`)
	if got := n.rungs(); !order.MatchString(got) {
		t.Errorf("the rungs were\n%s", got)
	}
	out, err := os.ReadFile(hook + ".out")
	if err != nil || !regexp.MustCompile(`^local\|GPU-[0-9a-f-]+\|1\|device memory did not come back .*gpu-reset: it did not help\n$`).Match(out) {
		t.Errorf("the hook was told %q, %v", out, err)
	}
	if d := n.launches(jobs[2])[0].Detail; !strings.HasPrefix(d, "the devices were given up: device memory did not come back") {
		t.Errorf("the second launch after the wedge says %q", d)
	}
	if err := os.Remove(filepath.Join(state, "wedged.json")); err != nil {
		t.Fatal(err)
	}
	n.submit(jobs[3])
	if err := n.run(t.Context()); err != nil { // another agent
		t.Fatal(err)
	}
	if got := endings(n.launches(jobs[3])); got != "a@2=ok" {
		t.Errorf("after the devices came back: %s", got)
	}
}

// Where another host has such devices, an agent whose devices were given up leaves its launches for that one.
func TestGivenUpGoesElsewhere(t *testing.T) {
	t.Parallel()
	n := newNight(t)
	n.opt.GateTime = 400 * time.Millisecond
	jobs := n.jobsOn(t.TempDir(), func(j *sweep.Job) { j.Elsewhere = true }, "wedge:4", "", "")
	n.submit(jobs...)
	err := n.run(t.Context())
	if err == nil || !strings.HasPrefix(err.Error(), "the devices were given up: device memory did not come back") {
		t.Errorf("error %v", err)
	}
	if got := endings(n.launches(jobs[1])); got != "a@2=…" || n.launches(jobs[1])[0].Outcome != sweep.InfraGPU || len(n.launches(jobs[2])) > 0 {
		t.Errorf("endings %s, %d launches after it", got, len(n.launches(jobs[2])))
	}
	events := readEvents(t, n.opt.Dir)
	if last := events[len(events)-1]; last.Kind != sweep.EventError || last.Outcome != sweep.InfraGPU || last.Job != jobs[1].ID {
		t.Errorf("last event %+v", last)
	}
}

// A reset that the persistence mode blocks is done with that mode off, and proved by a passed gate.
func TestLadderReset(t *testing.T) {
	t.Parallel()
	n := newNight(t)
	n.opt.GateTime = 2 * time.Second
	state := t.TempDir()
	jobs := n.jobsOn(state, func(j *sweep.Job) { j.Recover.Reset = true }, "keep-memory:4", "")
	n.submit(jobs...)
	if err := n.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := endings(n.launches(jobs[1])); got != "a@2=ok" {
		t.Fatalf("after the reset: %s: %s", got, n.launches(jobs[1])[0].Detail)
	}
	if got := n.rungs(); !strings.HasSuffix(got, "gpu-reset helped: the devices are clean") {
		t.Errorf("the rungs were\n%s", got)
	}
	if resets, err := os.ReadFile(filepath.Join(state, "resets.log")); err != nil || strings.Count(string(resets), "reset GPU-") != 2 {
		t.Errorf("resets %q, %v: want one that is refused and one that works", resets, err)
	}
	if _, err := os.Stat(filepath.Join(state, "persistence.off")); err == nil {
		t.Error("the persistence mode is still off")
	}
}

// Reset and hook are off unless asked for, and each has its limits for a night and for half an hour.
func TestLadderLimits(t *testing.T) {
	t.Parallel()
	r := &recovery{path: filepath.Join(t.TempDir(), recoveryFile), every: rungEvery}
	now := time.Now()
	if why := r.mayTry(rungReset, now); why != "" {
		t.Errorf("the first: %s", why)
	}
	for range rungsANight {
		if err := r.begin(rungReset, "boot", "why"); err != nil {
			t.Fatal(err)
		}
	}
	if why := r.mayTry(rungReset, now.Add(24*time.Hour)); !strings.Contains(why, "3 times") {
		t.Errorf("the fourth of a night: %q", why)
	}
	if err := r.begin(rungHook, "boot", "why"); err != nil {
		t.Fatal(err)
	}
	if why := r.mayTry(rungHook, time.Now().Add(29*time.Minute)); !strings.Contains(why, "less than 30m0s ago") {
		t.Errorf("after 29 minutes: %q", why)
	}
	if why := r.mayTry(rungHook, time.Now().Add(31*time.Minute)); why != "" {
		t.Errorf("after 31 minutes: %q", why)
	}
	dir := filepath.Dir(r.path)
	log, err := openLines(filepath.Join(dir, "events.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.giveUp("wedged"); err != nil {
		t.Fatal(err)
	}
	a := &agent{opt: Options{Dir: dir}, events: &events{lines: log}}
	same, err := a.readRecovery("boot")
	if err != nil || same.times(rungReset) != 3 || same.Lost != "wedged" {
		t.Errorf("another agent knows %+v, %v", same, err)
	}
	fresh, err := a.readRecovery("boot-2")
	if err != nil || fresh.Lost != "" || fresh.times(rungReset) != 3 || fresh.Restarted != "boot-2" {
		t.Errorf("after a restart of the machine %+v, %v", fresh, err)
	}
	if err := log.close(); err != nil {
		t.Fatal(err)
	}
	if events := readEvents(t, dir); len(events) != 1 || !strings.Contains(events[0].Text, "its boot id is another one") {
		t.Errorf("events %+v", events)
	}
}

// What a launch does while somebody else is on its GPU is the grid's to say.
func TestStrangerPolicies(t *testing.T) {
	for policy, want := range map[sweep.Strangers]string{
		sweep.StrangersFail: "a@2=busy.gpu… | a@2=busy.gpu… | a@2=busy.gpu", sweep.StrangersSkip: "a@2=busy.gpu", sweep.StrangersWait: "a@2=ok",
	} {
		t.Run("policy "+string(policy), func(t *testing.T) {
			t.Parallel()
			n := newNight(t)
			state := t.TempDir()
			job := n.jobsOn(state, func(j *sweep.Job) { j.Strangers = policy }, "")[0]
			claims := `{"profile":"` + simulatedProfile + `","claims":[{"pid":1,"name":"python3 train.py","gpu_bytes":{"0":8589934592}}]}`
			file := filepath.Join(state, "stranger.json")
			if err := os.WriteFile(file, []byte(claims), 0o600); err != nil {
				t.Fatal(err)
			}
			n.submit(job)
			done := make(chan error, 1)
			go func() { done <- n.run(t.Context()) }()
			if policy == sweep.StrangersWait { // it is told, and then the stranger leaves
				for said := false; !said; time.Sleep(20 * time.Millisecond) {
					select {
					case err := <-done:
						t.Fatalf("the night ended while the stranger was there: %v: %s", err, endings(n.launches(job)))
					default:
					}
					if _, err := os.Stat(filepath.Join(n.opt.Dir, "events.jsonl")); err != nil {
						continue
					}
					for _, e := range readEvents(t, n.opt.Dir) {
						said = said || strings.Contains(e.Text, "waiting for somebody else to leave: process 1 (user root, python3 train.py) holds 8192 MiB on GPU 0")
					}
				}
				if err := os.Remove(file); err != nil {
					t.Fatal(err)
				}
			}
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			results := n.launches(job)
			if got := endings(results); got != want {
				t.Errorf("endings %s, want %s: %+v", got, want, results[0].Ending)
			}
		})
	}
}
