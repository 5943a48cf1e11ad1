package main

import (
	"bytes"
	"encoding/json"
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
	"time"

	"golang.org/x/sys/unix"

	"sweep/sweep"
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
	dir  string // holds grid.yaml, results and the temporary files
	mark string // in the environment of every process of the night
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
	for _, id := range b.processes() {
		argv, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", id.PID))
		b.t.Errorf("process %d is left: %q", id.PID, argv)
	}
	ports := map[string]bool{}
	err := filepath.WalkDir(filepath.Join(b.night(), "launches"), func(path string, d fs.DirEntry, err error) error {
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

// agent is who the night's agent is, when it has said so.
func (b *bed) agent() (proc.Identity, bool) {
	var id proc.Identity
	data, err := os.ReadFile(filepath.Join(b.night(), "agents", "local", "agent.json"))
	return id, err == nil && json.Unmarshal(data, &id) == nil && id.Alive()
}

// undisturbed runs a whole night and returns its cells and how long it took.
func undisturbed(t *testing.T) ([]string, time.Duration) {
	b := newBed(t)
	began := time.Now()
	if code, said := b.run("run", "grid.yaml"); code != exitOK && code != exitOther {
		t.Fatalf("exit code %d: %s", code, said)
	}
	took := time.Since(began)
	b.nothingLeft()
	return b.cells(), took
}

// TestKilledNight kills the runner, or the runner and its agent, at random moments of a night. A resume then
// gives the cells of an undisturbed night, each once, and leaves nothing running.
func TestKilledNight(t *testing.T) {
	if testing.Short() {
		t.Skip("runs several nights")
	}
	t.Parallel()
	want, took := undisturbed(t)
	if len(want) != 6 {
		t.Fatalf("%d cells: %s", len(want), strings.Join(want, "\n"))
	}
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("SWEEP_TEST_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("SWEEP_TEST_SEED=%d; a night takes %s", seed, took)
	random := rand.New(rand.NewPCG(seed, 0))
	for _, kill := range []string{"runner", "runner", "both", "both", "both", "runner, then the agent ends"} {
		moment := time.Duration(random.Int64N(int64(took)))
		t.Run(fmt.Sprintf("%s after %s", kill, moment.Round(time.Millisecond)), func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			b.killed(kill, moment)
			if b.night() == "" { // nothing was begun: nothing can be lost
				b.run("run", "grid.yaml")
			}
			code, said := b.run("resume", "results")
			if code != exitOK && code != exitOther {
				t.Fatalf("exit code %d: %s", code, said)
			}
			if got := b.cells(); !slices.Equal(got, want) {
				t.Errorf("cells\n%s\nwant\n%s\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"), said)
			}
			b.nothingLeft()
		})
	}
}

// killed runs a night and kills parts of it at a moment.
func (b *bed) killed(kill string, moment time.Duration) {
	b.t.Helper()
	cmd, _ := b.sweep("run", "grid.yaml")
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	time.Sleep(moment) // the moment is what is tested: no event marks it
	if err := cmd.Process.Kill(); err != nil {
		b.t.Logf("the night was over: %v", err)
	}
	_ = cmd.Wait() // killed
	if b.night() == "" {
		return
	}
	id, alive := b.agent()
	switch {
	case !alive:
	case kill == "both":
		if err := id.Signal(syscall.SIGKILL); err != nil {
			b.t.Log(err)
		}
	case kill != "runner":
		for deadline := time.Now().Add(time.Minute); id.Alive(); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(deadline) {
				b.t.Fatal("the agent does not end")
			}
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
	if err := unix.Mount("", results, "", unix.MS_REMOUNT, "size=300k"); err != nil {
		t.Fatal(err)
	}
	code, said = b.run("run", "grid.yaml")
	if code != exitEnvironment || !strings.Contains(said, "no space left on device") || !strings.Contains(said, "sweep resume results/tiny-") {
		t.Fatalf("exit code %d, want %d: %s", code, exitEnvironment, said)
	}
	b.nothingLeft()
	before := map[string]bool{}
	for _, cell := range b.cells() {
		before[cell] = true
	}
	if err := unix.Mount("", results, "", unix.MS_REMOUNT, "size=64m"); err != nil {
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
}
