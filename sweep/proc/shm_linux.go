package proc

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// sharedFolder is where POSIX shared memory shows as files. What a killed process had made there stays.
const sharedFolder = "/dev/shm"

// SharedMemory lists the names of the machine's shared memory now, for [RemoveShared]. Where there is no such folder it is empty.
func SharedMemory() []string { return sharedIn(sharedFolder) }

func sharedIn(folder string) []string {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil
	}
	names := []string{} // known to be none
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// Shared is an entry of shared memory.
type Shared struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

// serverNames begin the names that inference servers and what they are made of give to shared memory: SGLang, vLLM, NCCL,
// Python's multiprocessing and its semaphores, PyTorch, CUDA, OpenMP. People keep files of their own beside them.
var serverNames = []string{"sgl_", "sglang_", "vllm_", "nccl-", "psm_", "sem.mp-", "sem.loky-", "loky-", "torch_", "cuda.shm.", "__KMP_REGISTERED_LIB_"}

// RemoveShared removes what dead processes of ours left in the machine's shared memory: regular files with a name that
// servers give, that were not there before, that were made since a moment, that belong to this user, and that no process
// has open or mapped. What cannot be proved to be so stays.
func RemoveShared(before []string, since time.Time) ([]Shared, error) {
	return removeShared(sharedFolder, before, since)
}

func removeShared(folder string, before []string, since time.Time) (removed []Shared, err error) {
	known := map[string]bool{}
	for _, name := range before {
		known[name] = true
	}
	left := map[string]Shared{}
	for _, name := range sharedIn(folder) {
		info, err := os.Lstat(filepath.Join(folder, name))
		if known[name] || !slices.ContainsFunc(serverNames, func(p string) bool { return strings.HasPrefix(name, p) }) || err != nil || !info.Mode().IsRegular() {
			continue
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		if !ok || int(stat.Uid) != os.Getuid() || time.Unix(stat.Ctim.Unix()).Before(since.Add(-time.Second)) {
			continue
		}
		left[filepath.Join(folder, name)] = Shared{name, stat.Blocks * 512}
	}
	if len(left) == 0 {
		return nil, nil
	}
	if err := withoutHeld(left); err != nil {
		return nil, err // who holds what cannot be seen
	}
	for path, s := range left {
		if e := os.Remove(path); e != nil && !os.IsNotExist(e) {
			err = e
			continue
		}
		removed = append(removed, s)
	}
	return removed, err
}

// withoutHeld takes away the files that a process has open or mapped.
func withoutHeld(files map[string]Shared) error {
	all, err := allStats()
	if err != nil {
		return err
	}
	for _, s := range all {
		dir := procPath(s.pid, "fd")
		entries, _ := os.ReadDir(dir) // another user's processes cannot open our files, unless we let them
		for _, e := range entries {
			if target, err := os.Readlink(dir + "/" + e.Name()); err == nil {
				delete(files, target)
			}
		}
		maps, err := os.ReadFile(procPath(s.pid, "maps"))
		if err != nil || !bytes.Contains(maps, []byte("/")) {
			continue
		}
		for line := range strings.Lines(string(maps)) {
			if _, path, ok := strings.Cut(line, "/"); ok {
				delete(files, "/"+strings.TrimSuffix(path, "\n"))
			}
		}
	}
	return nil
}
