//go:build linux

package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sweep/sweep"
	"sweep/sweep/gpu"
	"sweep/sweep/proc"
	"sweep/sweep/proc/proctest"
	"sweep/sweep/simulate"
)

// A server whose children try to outlive it in each of the five ways is gone soon after its stop, with every one of them: held by
// the best means that this machine has, and by an ordinary user's.
func TestEscapingServer(t *testing.T) {
	for _, who := range []string{"this user", "nobody"} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			n := newNight(t)
			job := n.simulatedJob("escape:setsid,escape:fork,escape:rename,escape:deaf,escape:orphan", "a@2")
			n.submit(job)
			run := n.run
			if who == "nobody" {
				run = n.asNobody()
			}
			late := proctest.Measure()
			err := run(t.Context())
			busy := late.Stop()
			if err != nil {
				t.Fatal(err)
			}
			n.checkEscaped(job, busy, who == "nobody")
		})
	}
}

// checkEscaped checks how a launch ended whose server had five children that tried to outlive it. busy is by how much this
// machine made everything late.
func (n *night) checkEscaped(job sweep.Job, busy time.Duration, ordinary bool) {
	t := n.t
	t.Helper()
	r := n.launches(job)[0]
	if got := endings([]sweep.LaunchResult{r}); got != "a@2=ok" {
		t.Fatalf("endings %s: %+v", got, r.Ending)
	}
	owner, err := proc.ReadOwner(filepath.Join(n.opt.Out, job.Dir(1), "owner.json"))
	if err != nil {
		t.Fatal(err)
	}
	if r.Containment != owner.Containment || r.Containment == "" || r.MemoryGuard == "" || ordinary && r.Containment != proc.HeldSubreaper {
		t.Errorf("launch.json says %q, %q; owner.json %q", r.Containment, r.MemoryGuard, owner.Containment)
	}
	stop := r.Times["stop_s"]
	if stop > 5+busy.Seconds() {
		t.Errorf("the stop took %.1f s, at most %.1f s of them because this machine was busy", stop, busy.Seconds())
	}
	t.Logf("held by %s, gone %.2f s after the stop began", r.Containment, stop)
	killed := 0
	for _, note := range r.Notes {
		_, _ = fmt.Sscanf(note, "%d processes outlived the server's first one and were killed", &killed)
	}
	if killed < 5 {
		t.Errorf("%d killed: notes %q", killed, r.Notes)
	}
}

// nobody is the user without rights.
const nobody = 65534

// asNobody gives what runs the night's agent, and so its servers, as an ordinary user.
func (n *night) asNobody() func(context.Context) error {
	t := n.t
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("this user is an ordinary one: the other case is about it")
	}
	program, err := os.ReadFile(n.opt.Supervisor[0]) // this very program, in a folder that only its user can read
	if err != nil {
		t.Fatal(err)
	}
	dir, state := t.TempDir(), t.TempDir()
	write(t, dir, "program", string(program), "sweep", fmt.Sprintf("#!/bin/sh\n%s='%s' exec '%s' \"$@\"\n", simulate.StateVariable, state, filepath.Join(dir, "program")))
	for _, path := range []string{n.opt.Out, state} {
		err := filepath.WalkDir(path, func(path string, _ fs.DirEntry, err error) error {
			return errors.Join(err, os.Lchown(path, nobody, nobody))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{dir, n.opt.Out, state} {
		if err := os.Chmod(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return func(ctx context.Context) error {
		cmd := exec.CommandContext(ctx, filepath.Join(dir, "program"), "agent", n.opt.Dir, n.opt.Out, "sglang", filepath.Join(dir, "sweep"))
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		cmd.Stderr = os.Stderr
		return cmd.Run()
	}
}

// A server that takes more of the host's memory than its control group may hold is killed by the kernel, and that is proved.
func TestMemoryMaxKill(t *testing.T) {
	t.Parallel()
	n := newNight(t)
	n.opt.MemoryMax = 600 << 20
	job := n.simulatedJob("hoard@weights:2", "a@2")
	n.submit(job)
	if err := n.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := n.launches(job)[0]
	if r.MemoryGuard != proc.GuardCgroup {
		t.Skipf("no control group with a memory limit can be made here: held by %s", r.Containment)
	}
	if r.Outcome != sweep.HostKilled || r.MemoryMax != n.opt.MemoryMax || !strings.Contains(r.Detail, "OOM killer") {
		t.Errorf("ended %+v, limit %d", r.Ending, r.MemoryMax)
	}
	if len(n.launches(job)) != 1 {
		t.Error("a result was tried again")
	}
}

// A start that fails on our side is no result and no end of the night: it is tried again, then infra.lost.
func TestFailedSupervisor(t *testing.T) {
	t.Parallel()
	n := newNight(t)
	n.opt.Supervisor = []string{"/bin/false"}
	job := n.job("ready", "a@1")
	n.submit(job)
	if err := n.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := endings(n.launches(job)), "a@1=infra.lost… | a@1=infra.lost… | a@1=infra.lost"; got != want {
		t.Errorf("endings %s, want %s", got, want)
	}
}

func TestBaselinesKept(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), baselineFile)
	used := func(uuid string, bytes int64) gpu.Device { return gpu.Device{UUID: uuid, MemoryUsed: &bytes} }
	b := readBaselines(path, "boot-1")
	if _, err := b.of("", []gpu.Device{used("GPU-a", 4)}); err != nil {
		t.Fatal(err)
	}
	again := readBaselines(path, "boot-1") // another agent of this start of the machine
	got, err := again.of("", []gpu.Device{used("GPU-a", 9000), used("GPU-b", 5)})
	if err != nil || got["GPU-a"] != 4 || got["GPU-b"] != 5 {
		t.Errorf("kept %v, %v", got, err)
	}
	if got, err := again.of("other", []gpu.Device{used("GPU-a", 7)}); err != nil || got["GPU-a"] != 7 {
		t.Errorf("another machine has %v, %v", got, err)
	}
	if got, err := readBaselines(path, "boot-2").of("", []gpu.Device{used("GPU-a", 100)}); err != nil || got["GPU-a"] != 100 {
		t.Errorf("after a restart of the machine %v, %v", got, err)
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := readBaselines(path, "boot-1").of("", []gpu.Device{used("GPU-a", 6)}); err != nil || got["GPU-a"] != 6 {
		t.Errorf("from a damaged file %v, %v", got, err)
	}
}

func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	limit, floor := memoryLimit(t.Context())
	m, err := (&gpu.HostReader{}).HostMemory(t.Context())
	if err != nil {
		t.Skip(err)
	}
	if limit <= 0 || limit > m.Total || floor <= 0 || floor > m.Total/4 {
		t.Errorf("limit %d and floor %d of %+v", limit, floor, m)
	}
}
