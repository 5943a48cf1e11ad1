package agent

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"sweep/sweep"
	"sweep/sweep/gpu"
	"sweep/sweep/proc"
)

// Host memory that is left to everything else on the machine, at least: a server that asks for more is to be killed, not the host.
const (
	leastMargin = 1 * gib
	marginPart  = 32 // 1/32 of the machine's memory
)

// memoryLimit is what a launch may take of the real machine's memory, and under what its free memory may not fall where
// no control group can hold a launch to that. Zero: not known.
func memoryLimit(ctx context.Context) (limit, floor int64) {
	m, err := (&gpu.HostReader{}).HostMemory(ctx)
	if err != nil {
		return 0, 0
	}
	margin := max(int64(leastMargin), m.Total/marginPart)
	if m.Available <= 2*margin { // so little that a limit would say more of the margin than of the server
		return m.Available, margin / 4
	}
	return m.Available - margin, margin / 2
}

// memoryLimit is the launch's own, or what the machine leaves it.
func (l *launch) memoryLimit(ctx context.Context) (limit, floor int64) {
	if l.agent.opt.MemoryMax > 0 {
		return l.agent.opt.MemoryMax, 0
	}
	return memoryLimit(ctx)
}

// held notes how the server's tree is held.
func (l *launch) held() {
	owner, err := proc.ReadOwner(filepath.Join(l.dir, "owner.json"))
	if err != nil {
		l.note("owner.json cannot be read: " + err.Error())
		return
	}
	l.result.Containment, l.result.MemoryGuard, l.result.MemoryMax = owner.Containment, owner.MemoryGuard, owner.Group.Max
	l.others.mine(owner.Supervisor, l.server.Tree)
}

// shmInfo is the key in an owner file's info under which the names of the machine's shared memory before the launch stand.
const shmInfo = "shm_before"

// removeShared takes away what the server's dead left in the machine's shared memory: a few launches would fill it.
func (l *launch) removeShared() {
	removed, err := removeSharedOf(l.dir)
	if err != nil {
		l.note("shared memory that the server left was not removed: " + err.Error())
	}
	if len(removed) == 0 {
		return
	}
	var bytes int64
	for _, s := range removed {
		bytes += s.Bytes
	}
	l.note(fmt.Sprintf("the server left %d entries of shared memory with %.1f MiB, which were removed: the first is %s", len(removed), float64(bytes)/(1<<20), removed[0].Name))
}

// removeSharedOf removes what the dead of an attempt left in shared memory. Without an owner file nothing was started.
func removeSharedOf(dir string) ([]proc.Shared, error) {
	owner, err := proc.ReadOwner(filepath.Join(dir, "owner.json"))
	if err != nil {
		return nil, nil
	}
	before, known := owner.Info[shmInfo].([]any)
	if !known {
		return nil, nil
	}
	made, err := os.Stat(filepath.Join(dir, "job.json"))
	if err != nil {
		return nil, nil
	}
	var names []string
	for _, name := range before {
		if s, ok := name.(string); ok {
			names = append(names, s)
		}
	}
	return proc.RemoveShared(names, made.ModTime())
}

// starved is the ending of a server that the watchdog killed; ok is false for any other.
func (l *launch) starved(phase sweep.Phase) (e sweep.Ending, ok bool) {
	s := l.server.Starved()
	if s == nil {
		return e, false
	}
	e = sweep.Ending{Outcome: sweep.HostShort, Phase: phase, Detail: fmt.Sprintf(
		"sweep killed the server to save the machine: of its memory %.1f GiB were left, under the floor of %.1f; the server held %.1f GiB, and %.1f had gone since its start",
		float64(s.Available)/gib, float64(s.Floor)/gib, float64(s.Tree)/gib, float64(s.Fell)/gib)}
	if 2*s.Tree < s.Fell {
		e.Outcome, e.Detail = sweep.InfraLost, e.Detail+": others took most of it"
	}
	return e, true
}

// makeDirs makes a folder and those above it that are missing, each durable in the one above.
func makeDirs(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	parent := filepath.Dir(dir)
	if parent == dir {
		return nil
	}
	if err := makeDirs(parent); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !os.IsExist(err) {
		return err
	}
	return sweep.SyncDir(parent)
}
