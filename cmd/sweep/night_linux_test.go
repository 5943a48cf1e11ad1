package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"sweep/sweep"
	"sweep/sweep/host/sshtest"
	"sweep/sweep/proc"
)

// tinyGrid is a night of about ten seconds on a simulated card: one config that lives, and one that
// dies in a prefill of the long prompts only.
const tinyGrid = `name: tiny
engine: sglang
model: llama-3-8b
command: [sweep, simulate, sglang, --profile, llama-8b-24gb, --speedup, "30"]
hosts: [{simulate: llama-8b-24gb}]
sweep:
  mem-fraction-static: [0.80, 0.96]
workloads:
  chat: {classes: {short: {input: 100..200, output: 20..40}}}
  docs: {classes: {long: {input: 5k..7k, output: 20..40}}}
load:
  - {workload: chat, concurrency: [4]}
  - {workload: docs, concurrency: [2, 4]}
measure:
  window: {min: 1s, max: 2s}
drift: off
`

// bed is where one night of a test runs, apart from all others.
type bed struct {
	t    *testing.T
	dir  string          // holds grid.yaml, results and the temporary files
	mark string          // in the environment of every process of the night
	ssh  *sshtest.Server // on which its nights run; nil: here
}

func newBed(t *testing.T) *bed {
	t.Helper()
	b := &bed{t: t, dir: t.TempDir(), mark: fmt.Sprintf("SWEEP_TEST_MARK=%d-%d", os.Getpid(), rand.Uint64())}
	for _, dir := range []string{"results", "tmp"} {
		if err := os.Mkdir(filepath.Join(b.dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(b.dir, "grid.yaml"), []byte(tinyGrid), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // whatever a failed test left
		for _, id := range b.processes() {
			_ = id.Signal(syscall.SIGKILL)
		}
	})
	return b
}

// sweep makes a command of this very program.
func (b *bed) sweep(args ...string) (*exec.Cmd, *bytes.Buffer) {
	b.t.Helper()
	self, err := os.Executable()
	if err != nil {
		b.t.Fatal(err)
	}
	var said bytes.Buffer
	cmd := exec.Command(self, args...)
	cmd.Dir = b.dir
	cmd.Stderr = &said
	cmd.Env = append(os.Environ(), b.mark, "TMPDIR="+filepath.Join(b.dir, "tmp"))
	return cmd, &said
}

// run runs sweep to its end and returns the exit code and what it said.
func (b *bed) run(args ...string) (int, string) {
	b.t.Helper()
	cmd, said := b.sweep(args...)
	err := cmd.Run()
	if cmd.ProcessState == nil {
		b.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), said.String()
}

// night is the only night of the bed; "" when there is none yet.
func (b *bed) night() string {
	b.t.Helper()
	nights, err := sweep.Nights(filepath.Join(b.dir, "results"))
	if err != nil || len(nights) > 1 {
		b.t.Fatalf("nights %v, %v", nights, err)
	}
	if len(nights) == 0 {
		return ""
	}
	return nights[0]
}

// cells gives each record as one line. A measurement that is withheld because this machine was busy counts as measured.
func (b *bed) cells() []string {
	b.t.Helper()
	records, err := sweep.ReadRecords(b.night())
	if err != nil {
		b.t.Fatal(err)
	}
	var cells []string
	for _, r := range records {
		if r.Outcome == sweep.OK || r.Outcome == sweep.ClientBound {
			r.Outcome = "measured"
		}
		cells = append(cells, fmt.Sprintf("%s repeat %d %s", r.Cell, r.Repeat, r.Outcome))
	}
	slices.Sort(cells)
	return cells
}

// processes are those of the bed that live.
func (b *bed) processes() []proc.Identity {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		b.t.Fatal(err)
	}
	var found []proc.Identity
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		environ, err := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		if err != nil || !bytes.Contains(environ, []byte(b.mark)) {
			continue
		}
		if id, err := proc.Identify(pid); err == nil && id.Alive() {
			found = append(found, id)
		}
	}
	return found
}

var portFlag = regexp.MustCompile(`--port '?(\d+)`)

// nothingLeft checks that no process and no port of the night is left.
func (b *bed) nothingLeft() {
	b.t.Helper()
	b.nothingLeftOf(b.night())
}

// nothingLeftOf checks it for the ports of a night that lies elsewhere.
func (b *bed) nothingLeftOf(night string) {
	b.t.Helper()
	for _, id := range b.processes() {
		argv, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", id.PID))
		b.t.Errorf("process %d is left: %q", id.PID, argv)
	}
	ports := map[string]bool{}
	err := filepath.WalkDir(filepath.Join(night, "launches"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "command.sh" {
			return err
		}
		data, err := os.ReadFile(path)
		if m := portFlag.FindSubmatch(data); m != nil {
			ports[string(m[1])] = true
		}
		return err
	})
	if err != nil || len(ports) == 0 {
		b.t.Fatalf("ports %v, %v", ports, err)
	}
	for port := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:"+port)
		if err != nil {
			b.t.Errorf("port %s is left open: %v", port, err)
			continue
		}
		if err := l.Close(); err != nil {
			b.t.Error(err)
		}
	}
}

// TestFullDisk lets the disk of a night fill up: a clear error and exit code, and after space was made the
// same cells as an undisturbed night.
func TestFullDisk(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a night")
	}
	if os.Getuid() != 0 {
		t.Skip("only root may mount a small disk")
	}
	t.Parallel()
	b := newBed(t)
	results := filepath.Join(b.dir, "results")
	if err := unix.Mount("tmpfs", results, "tmpfs", 0, "size=8k,nr_inodes=1000"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(results, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	code, said := b.run("run", "grid.yaml")
	left, err := os.ReadDir(results)
	if code != exitEnvironment || !strings.Contains(said, "no night was started: ") || !strings.Contains(said, "no space left on device") || len(left) > 0 || err != nil {
		t.Fatalf("no room at all: exit code %d, %d folders left (%v): %s", code, len(left), err, said)
	}
	size := func(option string) {
		if err := unix.Mount("", results, "", unix.MS_REMOUNT, option); err != nil {
			t.Fatal(err)
		}
	}
	full := regexp.MustCompile(`no space left on device|MiB left, and a launch needs at least 256`)
	stopped := func(code int, said string) {
		if code != exitEnvironment || !full.MatchString(said) || !strings.Contains(said, "sweep resume results/tiny-") {
			t.Fatalf("exit code %d, want %d: %s", code, exitEnvironment, said)
		}
	}
	size("size=1m") // no room for a launch
	code, said = b.run("run", "grid.yaml")
	stopped(code, said)
	size("size=400m") // room, until somebody else takes it under a load
	cmd, out := b.sweep("resume", "results")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	b.await("agents/local/events.jsonl", `"kind":"load"`)
	filler := filepath.Join(results, "filler")
	if err := os.WriteFile(filler, make([]byte, 500<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	code = exitCode(cmd)
	stopped(code, out.String())
	b.nothingLeft()
	before := map[string]bool{}
	for _, cell := range b.cells() {
		before[cell] = true
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	code, said = b.run("resume", "results")
	if code != exitOK && code != exitOther {
		t.Fatalf("exit code %d after space was made: %s", code, said)
	}
	after := b.cells()
	if len(after) != 6 {
		t.Errorf("cells\n%s", strings.Join(after, "\n"))
	}
	for _, cell := range slices.Sorted(maps.Keys(before)) {
		if strings.HasSuffix(cell, " measured") && !slices.Contains(after, cell) {
			t.Errorf("%s is lost", cell)
		}
	}
	b.nothingLeft()
	b.readOnly(results, after)
}

// readOnly takes a record out of a night that is done, has its disk take nothing any more, and goes on with it: that is
// refused in one sentence and changes nothing. Once the disk takes bytes again the record comes back from its folder.
func (b *bed) readOnly(results string, want []string) {
	b.t.Helper()
	path := filepath.Join(b.night(), "cells.jsonl")
	data, err := os.ReadFile(path)
	if err != nil {
		b.t.Fatal(err)
	}
	lines := bytes.SplitAfter(data, []byte("\n"))
	short := bytes.Join(lines[1:], nil)
	if err := os.WriteFile(path, short, 0o600); err != nil {
		b.t.Fatal(err)
	}
	if err := unix.Mount("", results, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		b.t.Fatal(err)
	}
	for _, args := range [][]string{{"resume", "results"}, {"run", "grid.yaml"}, {"fsck", b.night(), "--repair"}} {
		if code, said := b.run(args...); code != exitEnvironment || !strings.Contains(said, "read-only file system") || strings.Contains(said, "panic") {
			b.t.Errorf("%s: exit code %d, want %d: %s", args[0], code, exitEnvironment, said)
		}
	}
	if code, said := b.run("fsck", b.night()); code != exitOther {
		b.t.Errorf("fsck: exit code %d: %s", code, said)
	}
	if err := unix.Mount("", results, "", unix.MS_REMOUNT, "size=64m"); err != nil {
		b.t.Fatal(err)
	}
	if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, short) {
		b.t.Errorf("cells.jsonl changed on a disk that takes nothing: %v", err)
	}
	if code, said := b.run("resume", "results"); code != exitOK && code != exitOther || !strings.Contains(said, "1 result found in the folders") {
		b.t.Errorf("exit code %d: %s", code, said)
	}
	if got := b.cells(); !slices.Equal(got, want) {
		b.t.Errorf("cells\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if code, said := b.run("fsck", b.night()); code != exitOK {
		b.t.Errorf("fsck: exit code %d: %s", code, said)
	}
	b.nothingLeft()
}
