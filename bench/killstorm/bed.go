//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"sweep/sweep"
	"sweep/sweep/proc"
	"sweep/sweep/proc/proctest"
)

// bed is where one night runs, apart from all others.
type bed struct {
	program string
	dir     string
	mark    string           // in the environment of every process of the night
	env     []string         // more of their environment
	daemon  *proctest.Daemon // nil: the scene needs none
	claims  []string         // files in which its GPU may be claimed: one that a killed agent left is locked by nobody, and stays
}

func (s *storm) newBed(sc *scene, name string) (*bed, error) {
	b := &bed{program: s.program, dir: filepath.Join(s.root, "bed-"+name), mark: fmt.Sprintf("SWEEP_STORM=%d-%d", os.Getpid(), rand.Uint64())}
	for _, dir := range []string{"results", "tmp", "cache", "bin"} {
		if err := os.MkdirAll(filepath.Join(b.dir, dir), 0o755); err != nil {
			return nil, err
		}
	}
	if sc.prepare != nil {
		if err := sc.prepare(b, s.self); err != nil {
			b.remove()
			return nil, err
		}
	}
	grid := strings.NewReplacer("PROGRAM", b.program, "BED", b.dir).Replace(sc.grid)
	return b, os.WriteFile(filepath.Join(b.dir, "grid.yaml"), []byte(grid), 0o600)
}

func (b *bed) remove() {
	if b.daemon != nil {
		b.daemon.Close()
	}
	for _, path := range b.claims {
		_ = os.Remove(path) // most are not there
	}
	_ = os.RemoveAll(b.dir)
}

// once is the file that the process makes which dies at the failpoint.
func (b *bed) once() string { return filepath.Join(b.dir, "once") }

func (b *bed) command(ctx context.Context, env []string, args ...string) (*exec.Cmd, *bytes.Buffer) {
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, b.program, args...)
	cmd.Dir, cmd.Stderr = b.dir, &said
	cmd.WaitDelay = 5 * time.Second
	cmd.Env = append(append(os.Environ(), b.mark, "TMPDIR="+filepath.Join(b.dir, "tmp"), "XDG_CACHE_HOME="+filepath.Join(b.dir, "cache")), append(b.env, env...)...)
	return cmd, &said
}

// sweep runs a command of sweep to its end: −1 is a signal.
func (b *bed) sweep(ctx context.Context, env []string, args ...string) (code int, said string) {
	cmd, text := b.command(ctx, env, args...)
	if err := cmd.Run(); cmd.ProcessState == nil {
		return -2, err.Error()
	}
	return cmd.ProcessState.ExitCode(), text.String()
}

// struck runs a night, or goes on with the one that was begun, until the blow, and until nothing goes on by itself any more.
// It says whether the blow fell: one at a failpoint falls only where that is passed.
func (b *bed) struck(ctx context.Context, blow blow) (fell bool, err error) {
	cmd, said := b.command(ctx, b.failpoint(blow), b.next()...)
	if err := cmd.Start(); err != nil {
		return false, err
	}
	if blow.mark == "" {
		select {
		case <-time.After(blow.after): // the moment is what is tested
		case <-ctx.Done():
		}
		b.kill(cmd, blow.target)
	}
	err = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code > 1 {
		return false, fmt.Errorf("exit code %d after the blow: %w: %s", code, err, said)
	}
	if blow.mark == "" {
		return true, nil
	}
	switch err := os.Remove(b.once()); {
	case err == nil:
		return true, nil
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	default:
		return false, err
	}
}

// next is the command that begins a night, or goes on with the one that was begun.
func (b *bed) next() []string {
	if b.night() == "" {
		return []string{"run", "grid.yaml"}
	}
	return []string{"resume", "results"}
}

// failpoint is the environment in which the blow happens.
func (b *bed) failpoint(blow blow) []string {
	if blow.mark == "" {
		return nil
	}
	env := []string{"SWEEP_FAILPOINT=" + blow.mark, "SWEEP_FAILPOINT_ONCE=" + b.once()}
	if blow.parent {
		env = append(env, "SWEEP_FAILPOINT_PARENT=1")
	}
	return env
}

// kill sends SIGKILL to the target, where there is one at this moment.
func (b *bed) kill(cmd *exec.Cmd, target string) {
	if target != "agent" && target != "supervisor" && target != "server" {
		_ = cmd.Process.Kill()
	}
	var agent proc.Identity
	if data, err := os.ReadFile(filepath.Join(b.night(), "agents", "local", "agent.json")); err == nil && json.Unmarshal(data, &agent) != nil {
		agent = proc.Identity{}
	}
	switch target {
	case "agent", "both":
		_ = agent.Signal(syscall.SIGKILL) // gone already: then nothing is struck, here and below
	case "runner, until the agent has ended":
		for end := time.Now().Add(time.Minute); agent.Alive() && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		}
	}
	if target != "supervisor" && target != "server" {
		return
	}
	files, _ := filepath.Glob(filepath.Join(b.night(), "launches", "*", "*", "attempt=*", "owner.json"))
	for _, file := range files {
		owner, err := proc.ReadOwner(file)
		if err != nil {
			continue
		}
		id := owner.Supervisor
		if target == "server" {
			id = owner.Server
		}
		_ = id.Signal(syscall.SIGKILL)
	}
}

// night is the newest night of the bed; "" when there is none yet.
func (b *bed) night() string {
	nights, err := sweep.Nights(filepath.Join(b.dir, "results"))
	if err != nil || len(nights) == 0 {
		return ""
	}
	return nights[0]
}

// processes are those of the bed that live.
func (b *bed) processes() (found []proc.Identity, what []string) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		environ, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		argv, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if !bytes.Contains(environ, []byte(b.mark)) && !bytes.Contains(argv, []byte(b.dir+"/")) {
			continue
		}
		if id, err := proc.Identify(pid); err == nil && id.Alive() && pid != os.Getpid() {
			found = append(found, id)
			what = append(what, fmt.Sprintf("process %d is left: %s", pid, strings.ReplaceAll(string(argv), "\x00", " ")))
		}
	}
	return found, what
}

// endAll ends what a failed case left.
func (b *bed) endAll() {
	found, _ := b.processes()
	for _, id := range found {
		_ = id.Signal(syscall.SIGKILL)
	}
}

// orphans are what this process still has as children, after those that have ended are waited for.
func orphans() []string {
	var what []string
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		switch {
		case errors.Is(err, syscall.ECHILD):
			return nil
		case err == nil && pid > 0:
			continue
		case time.Now().Before(end):
			continue // a supervisor leaves a moment after it has reported
		}
		left, err := proc.Descendants(os.Getpid())
		if err != nil {
			return []string{err.Error()}
		}
		for _, p := range left {
			what = append(what, fmt.Sprintf("process %d (%s, state %s) is left", p.PID, p.Comm, p.State))
		}
		return what
	}
}
