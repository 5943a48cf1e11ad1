package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// grouper makes control groups.
type grouper struct {
	two, memory hierarchy
	name        string // of the groups
	max         int64  // their memory limit; 0: none
}

// newGrouper reads where this process is. Where nothing can be read there is no place for a group.
func newGrouper(supervisor Identity, limit int64) grouper {
	mountinfo, _ := os.ReadFile("/proc/self/mountinfo")
	cgroup, _ := os.ReadFile("/proc/self/cgroup")
	two, memory := parseHierarchies(mountinfo, cgroup)
	return grouper{two, memory, groupName(supervisor), limit}
}

// candidates are the folders that build may make, for an owner file that is written before.
func (g grouper) candidates() []string {
	var out []string
	for _, dir := range g.places() {
		out = append(out, filepath.Join(dir, g.name))
	}
	if g.two.own != "" {
		out = append(out, filepath.Join(g.two.own, g.name))
	}
	if g.memory.own != "" {
		out = append(out, filepath.Join(g.memory.own, g.name))
	}
	return out
}

// places are the groups of version 2 below which one with a memory limit could be made, nearest first: our own and those above it,
// but never above one that has a limit itself, which a server would escape there.
func (g grouper) places() []string {
	var out []string
	for dir := g.two.own; dir != "" && dir != "." && dir != "/"; dir = filepath.Dir(dir) {
		if hasController(dir, "cgroup.controllers", "memory") {
			out = append(out, dir)
		}
		limit, err := os.ReadFile(filepath.Join(dir, "memory.max"))
		if dir == g.two.mount || err == nil && strings.TrimSpace(string(limit)) != "max" {
			break
		}
	}
	return out
}

func hasController(dir, file, controller string) bool {
	b, err := os.ReadFile(filepath.Join(dir, file))
	return err == nil && bytes.Contains(append([]byte(" "), bytes.ReplaceAll(b, []byte("\n"), []byte(" "))...), []byte(" "+controller+" "))
}

// build makes the best group that this process may make; the zero Group when it may make none.
func (g grouper) build() Group {
	for _, dir := range g.places() {
		const enabled = "cgroup.subtree_control"
		if !hasController(dir, enabled, "memory") && writeGroup(dir, enabled, "+memory") != nil {
			continue // a group that has processes of its own cannot give controllers to those below
		}
		folder := filepath.Join(dir, g.name)
		if os.Mkdir(folder, 0o755) == nil {
			return Group{Process: folder, Memory: folder, Max: limitTwo(folder, g.max)}
		}
	}
	var made Group
	if folder := filepath.Join(g.two.own, g.name); g.two.own != "" && os.Mkdir(folder, 0o755) == nil {
		made.Process = folder
	}
	if folder := filepath.Join(g.memory.own, g.name); g.memory.own != "" && os.Mkdir(folder, 0o755) == nil {
		made.Memory, made.Max = folder, limitOne(folder, g.max)
	}
	return made
}

// limitTwo limits a group of version 2, and gives the limit that holds.
func limitTwo(folder string, limit int64) int64 {
	if limit <= 0 || writeGroup(folder, "memory.max", strconv.FormatInt(limit, 10)) != nil {
		return 0
	}
	_ = writeGroup(folder, "memory.swap.max", "0") // a kernel without swap has no such file
	return limit
}

// limitOne limits a group of version 1. Swap is counted by few kernels there; where it is not, it is only made unlikely.
func limitOne(folder string, limit int64) int64 {
	if limit <= 0 || writeGroup(folder, "memory.limit_in_bytes", strconv.FormatInt(limit, 10)) != nil {
		return 0
	}
	_ = writeGroup(folder, "memory.memsw.limit_in_bytes", strconv.FormatInt(limit, 10))
	_ = writeGroup(folder, "memory.swappiness", "0")
	return limit
}

func writeGroup(folder, file, text string) error {
	f, err := os.OpenFile(filepath.Join(folder, file), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// hold puts a process, and so all that it will start, into the group.
func (g Group) hold(pid int) error {
	for _, folder := range g.folders() {
		if err := writeGroup(folder, "cgroup.procs", strconv.Itoa(pid)); err != nil {
			return fmt.Errorf("put process %d into its control group: %w", pid, err)
		}
	}
	return nil
}

// pids are the processes in the group and those below it, dead ones that were not waited for included.
func (g Group) pids() []int {
	seen := map[int]bool{}
	var out []int
	for _, folder := range g.folders() {
		_ = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				return nil // gone meanwhile
			}
			b, _ := os.ReadFile(filepath.Join(path, "cgroup.procs"))
			for line := range strings.FieldsSeq(string(b)) {
				if pid, err := strconv.Atoi(line); err == nil && !seen[pid] {
					seen[pid] = true
					out = append(out, pid)
				}
			}
			return nil
		})
	}
	return out
}

// processes are the living processes in the group.
func (g Group) processes() []Process {
	boot, err := bootID()
	if err != nil {
		return nil
	}
	var out []Process
	for _, pid := range g.pids() {
		if pid <= 1 || pid == os.Getpid() {
			continue
		}
		if s, err := readStat(pid); err == nil && s.alive() {
			out = append(out, s.process(boot))
		}
	}
	return out
}

// kill sends SIGKILL to all that is in the group. Kernels before 5.14 kill each by itself, as does version 1. A group
// into which somebody put the machine's first process, or us, is left alone.
func (g Group) kill() {
	if pids := g.pids(); slices.Contains(pids, 1) || slices.Contains(pids, os.Getpid()) {
		return
	}
	if g.Process != "" && writeGroup(g.Process, "cgroup.kill", "1") == nil {
		return
	}
	for _, p := range g.processes() {
		_ = p.Identity.Signal(syscall.SIGKILL) // one that is gone needs none
	}
}

// kills is how many processes of the group the kernel's OOM killer has ended; ok is false where nothing counts.
func (g Group) kills() (n int, ok bool) {
	if g.Memory == "" {
		return 0, false
	}
	for _, name := range oomFiles {
		if b, err := os.ReadFile(filepath.Join(g.Memory, name)); err == nil {
			return oomKillField(b)
		}
	}
	return 0, false
}

// remove takes the group's folders away, those below them first; it says which stay.
func (g Group) remove(limit time.Duration) error {
	var stays error
	for _, folder := range g.folders() {
		waitFor(limit, func() bool {
			stays = removeFolders(folder)
			return stays == nil
		})
		if stays != nil {
			return fmt.Errorf("a control group of ours stays: %w", stays)
		}
	}
	return nil
}

func removeFolders(folder string) error {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if e.IsDir() {
			err = errors.Join(err, removeFolders(filepath.Join(folder, e.Name())))
		}
	}
	if err != nil {
		return err
	}
	if err := syscall.Rmdir(folder); err != nil && !errors.Is(err, syscall.ENOENT) {
		return &os.PathError{Op: "remove", Path: folder, Err: err}
	}
	return nil
}

// sweepGroups removes the empty groups beside ours whose supervisor is gone: one that was killed cannot do it.
func (g grouper) sweepGroups(boot string) {
	for _, parent := range append(g.places(), g.two.own, g.memory.own) {
		entries, _ := os.ReadDir(parent) // where nothing can be read there is nothing of ours
		for _, e := range entries {
			if id, ours := parseGroupName(e.Name()); ours && e.IsDir() {
				if id.BootID = boot; !id.Alive() {
					_ = removeFolders(filepath.Join(parent, e.Name())) // one that has processes stays: their night ends them
				}
			}
		}
	}
}
