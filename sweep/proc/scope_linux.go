package proc

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// scopeLimit bounds the making of a scope: a systemd that does not answer must not hold up a launch.
const scopeLimit = 5 * time.Second

// scope asks the user's systemd for a control group with a process in it, where we may make none ourselves. systemd
// gives the folder to the user, so that it is then used as one of our own.
func (g grouper) scope(ctx context.Context, pid int) (Group, error) {
	if os.Getenv("XDG_RUNTIME_DIR") == "" || g.two.mount == "" {
		return Group{}, fmt.Errorf("no systemd of the user: XDG_RUNTIME_DIR is not set, or version 2 of control groups not mounted")
	}
	ctx, cancel := context.WithTimeout(ctx, scopeLimit)
	defer cancel()
	unit := g.name + ".scope"
	cmd := exec.CommandContext(ctx, "busctl", scopeArgs(unit, pid, g.max)...)
	cmd.WaitDelay = time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return Group{}, fmt.Errorf("ask systemd for a scope: %w: %.200s", err, out)
	}
	// The answer names a job that systemd has begun, so the process may still be where it was.
	for {
		if folder := g.folderOf(pid); filepath.Base(folder) == unit {
			made := Group{Process: folder, Scope: unit}
			if limit, err := os.ReadFile(filepath.Join(folder, "memory.max")); err == nil {
				made.Memory = folder
				if n, err := strconv.ParseInt(string(trimLine(limit)), 10, 64); err == nil {
					made.Max = n
				}
			}
			return made, nil
		}
		select {
		case <-ctx.Done():
			return Group{}, fmt.Errorf("ask systemd for a scope: process %d did not come into %s in %s", pid, unit, scopeLimit)
		case <-time.After(reclaimPoll):
		}
	}
}

// scopeArgs is the command line of busctl that starts a transient scope with a process in it.
func scopeArgs(unit string, pid int, limit int64) []string {
	args := []string{
		"--user", "call", "org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager",
		"StartTransientUnit", "ssa(sv)a(sa(sv))", unit, "fail",
	}
	properties := [][]string{
		{"PIDs", "au", "1", strconv.Itoa(pid)},
		{"Description", "s", "a server that sweep started"},
		{"KillMode", "s", "control-group"},
		{"CollectMode", "s", "inactive-or-failed"},
		{"Delegate", "b", "true"},
	}
	if limit > 0 {
		properties = append(properties, []string{"MemoryMax", "t", strconv.FormatInt(limit, 10)}, []string{"MemorySwapMax", "t", "0"})
	}
	args = append(args, strconv.Itoa(len(properties)))
	for _, p := range properties {
		args = append(args, p...)
	}
	return append(args, "0") // no auxiliary units
}

// folderOf is the folder of a process's group of version 2; "" where it cannot be told.
func (g grouper) folderOf(pid int) string {
	cgroup, err := os.ReadFile(procPath(pid, "cgroup"))
	if err != nil {
		return ""
	}
	mountinfo, _ := os.ReadFile("/proc/self/mountinfo")
	two, _ := parseHierarchies(mountinfo, cgroup)
	return two.own
}

func trimLine(b []byte) []byte {
	for len(b) > 0 && b[len(b)-1] == '\n' {
		b = b[:len(b)-1]
	}
	return b
}
