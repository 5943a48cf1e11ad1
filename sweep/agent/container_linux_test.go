//go:build linux

package agent

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"sweep/sweep"
	"sweep/sweep/proc"
	"sweep/sweep/proc/proctest"
)

// testImage is in no registry: the stand-in for a runtime runs the programs of this machine.
const testImage = "server@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// daemon is a stand-in for a container runtime, whose program is runtime.
func (n *night) daemon() (d *proctest.Daemon, runtime string) {
	n.t.Helper()
	d, err := proctest.NewDaemon(n.t.TempDir())
	if errors.Is(err, proctest.ErrNoGroup) {
		n.t.Skip(err)
	}
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(d.Close)
	runtime = filepath.Join(n.t.TempDir(), "docker")
	if err := d.WriteRuntime(runtime, n.opt.Self); err != nil {
		n.t.Fatal(err)
	}
	return d, runtime
}

// boxed is a launch whose server runs in a container.
func (n *night) boxed(runtime, how string, loads ...string) sweep.Job {
	job := n.job(how, loads...)
	job.Container = &sweep.Container{Runtime: runtime, Image: testImage, Args: []string{"--shm-size=1g"}}
	return job
}

// A server in a container is launched, measured, stopped and killed like any other, and nothing of it is left.
func TestContainerLaunch(t *testing.T) {
	for how, c := range map[string]struct {
		want string
		exit sweep.Exit
		note string
	}{
		"ready":            {"a@1=ok", sweep.Exit{Code: -1, Signal: 15, By: "sweep"}, ""},
		"deaf":             {"a@1=ok", sweep.Exit{Code: -1, Signal: 9, By: "sweep"}, "did not end within"},
		"crashes":          {"a@1=crash.start… | a@1=crash.start", sweep.Exit{Code: 3, By: "server"}, ""},
		"dies":             {"a@1=oom.graph", sweep.Exit{Code: 1, By: "server"}, ""},
		"crash-under-load": {"a@3=crash.load… | a@3=crash.load", sweep.Exit{Code: -1, Signal: 9}, ""},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			n := newNight(t)
			d, runtime := n.daemon()
			load, _, _ := strings.Cut(c.want, "=")
			job := n.boxed(runtime, how, load)
			n.submit(job)
			if err := n.run(t.Context()); err != nil {
				t.Fatal(err)
			}
			results := n.launches(job)
			if got := endings(results); got != c.want {
				t.Fatalf("endings %s, want %s: %+v", got, c.want, results[0].Ending)
			}
			r := results[0]
			if r.Exit == nil || *r.Exit != c.exit {
				t.Errorf("exit %+v, want %+v", r.Exit, c.exit)
			}
			notes := strings.Join(r.Notes, "\n")
			if !strings.Contains(notes, c.note) || strings.Contains(notes, "the container was not ended") {
				t.Errorf("notes %s", notes)
			}
			if argv := strings.Join(r.Argv, " "); !strings.HasPrefix(argv, runtime+" run --cidfile ") || !strings.Contains(argv, " --label sweep.launch=sweep-") || !strings.Contains(argv, " --shm-size=1g --entrypoint ") {
				t.Errorf("argv %s", argv)
			}
			if left := d.Containers(); len(left) > 0 || d.Made() != len(results) {
				t.Errorf("%d containers for %d launches, left: %v", d.Made(), len(results), left)
			}
			n.checkBoxed(job, 1)
		})
	}
}

// checkBoxed checks that the attempt's owner file knows the container whose id the runtime wrote.
func (n *night) checkBoxed(job sweep.Job, attempt int) {
	n.t.Helper()
	dir := filepath.Join(n.opt.Out, job.Dir(attempt))
	owner, err := proc.ReadOwner(filepath.Join(dir, "owner.json"))
	if err != nil {
		n.t.Fatal(err)
	}
	id, err := os.ReadFile(filepath.Join(dir, containerFile))
	if err != nil || owner.Container == nil || owner.Container.ID != "" && owner.Container.ID != string(id) || len(id) != 64 {
		n.t.Errorf("owner.json has %+v, the runtime wrote %q: %v", owner.Container, id, err)
	}
}

// An agent and its supervisor that are killed leave a container that the runtime's daemon keeps: the next agent ends it, by
// its id, or where that was never written by its label.
func TestContainerOfKilledAgent(t *testing.T) {
	for _, without := range []string{"supervisor", "id"} {
		t.Run("without "+without, func(t *testing.T) {
			t.Parallel()
			n := newNight(t)
			d, runtime := n.daemon()
			job := n.boxed(runtime, "ready", "a@1")
			job.Loads[0].Measure.WindowMin, job.Loads[0].Measure.WindowMax = time.Minute, time.Minute // it is killed before
			n.submit(job)
			cmd := exec.Command(n.opt.Self, "agent", n.opt.Dir, n.opt.Out)
			cmd.Stderr = os.Stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(n.opt.Out, job.Dir(1))
			var owner proc.Owner
			for end := time.Now().Add(time.Minute); owner.Container == nil || owner.Container.ID == ""; time.Sleep(10 * time.Millisecond) {
				owner, _ = proc.ReadOwner(filepath.Join(dir, "owner.json"))
				if time.Now().After(end) {
					t.Fatal("no container was known in a minute")
				}
			}
			if err := owner.Supervisor.Signal(syscall.SIGSTOP); err != nil { // it cannot notice that the agent is gone
				t.Fatal(err)
			}
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // killed
			if err := owner.Supervisor.Signal(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			if left := d.Containers(); len(left) != 1 || d.PID(left[0]) == 0 {
				t.Fatalf("containers %v: the stand-in ends them by itself", left)
			}
			if without == "id" {
				owner.Container = &proc.Container{Runtime: owner.Container.Runtime, IDFile: owner.Container.IDFile, Label: owner.Container.Label}
				if err := errors.Join(os.Remove(filepath.Join(dir, containerFile)), writeJSON(filepath.Join(dir, "owner.json"), owner)); err != nil {
					t.Fatal(err)
				}
			}
			n.endLoadsSoon(job)
			if err := n.run(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got, want := endings(n.launches(job)), "a@1=… | a@1=ok"; got != want || n.launches(job)[0].Outcome != sweep.InfraLost {
				t.Errorf("endings %s, want %s", got, want)
			}
			if left := d.Containers(); len(left) > 0 || d.Made() != 2 {
				t.Errorf("%d made, left %v", d.Made(), left)
			}
		})
	}
}

// endLoadsSoon makes the loads of the one job in the queue short.
func (n *night) endLoadsSoon(job sweep.Job) {
	n.t.Helper()
	job.Loads = slices.Clone(job.Loads)
	for i := range job.Loads {
		job.Loads[i].Measure.WindowMin, job.Loads[i].Measure.WindowMax = 300*time.Millisecond, 3*time.Second
	}
	if err := writeJSON(filepath.Join(n.opt.Dir, "queue", "0001.json"), job); err != nil {
		n.t.Fatal(err)
	}
}

// The doctor proves with a container that only sleeps that starting, owning and killing work here, and says what does not.
func TestDoctorProvesContainer(t *testing.T) {
	t.Parallel()
	n := newNight(t)
	d, runtime := n.daemon()
	bad := func(name, script string) string {
		return filepath.Join(write(t, t.TempDir(), name, "#!/bin/sh\n"+script), name)
	}
	for _, c := range []struct {
		name, runtime string
		level         sweep.Level
		says          string
	}{
		{"works", runtime, sweep.LevelOK, "a container that only sleeps was started, seen with 2 processes in "},
		{"no daemon", bad("docker", "echo 'Cannot connect to the Docker daemon' >&2; exit 125\n"), sweep.LevelMissing, "it did not start (Cannot connect to the Docker daemon)"},
		{"does not remove", bad("docker", fmt.Sprintf("case $1 in rm) exit 0;; esac\nexec %s \"$@\"\n", runtime)), sweep.LevelMissing, "is still there after it was removed"},
	} {
		job := n.boxed(c.runtime, "ready", "a@1")
		s := Survey{Self: n.opt.Self, Engine: n.engine, Out: t.TempDir(), Prove: true}
		found := s.Look(t.Context(), []sweep.Job{job})
		i := slices.IndexFunc(found, func(f sweep.Finding) bool { return f.Check == CheckContainer })
		if i < 0 || found[i].Level != c.level || !strings.Contains(found[i].Text, c.says) {
			t.Errorf("%s: %+v", c.name, found)
		}
		if left := d.Containers(); len(left) > 0 && c.name != "does not remove" {
			t.Errorf("%s: left %v", c.name, left)
		}
	}
}
