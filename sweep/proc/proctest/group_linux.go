package proctest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ownGroup is this process's group of version 2, in which one more can be made.
func ownGroup() (string, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	mount, group := "", ""
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); len(f) > 4 && strings.Contains(line, " - cgroup2 ") && mount == "" {
			mount = f[4]
		}
	}
	for line := range strings.Lines(string(own)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			group = path
		}
	}
	if mount == "" {
		return "", fmt.Errorf("%w: version 2 is not mounted", ErrNoGroup)
	}
	for _, folder := range []string{filepath.Join(mount, group), mount} {
		probe := filepath.Join(folder, fmt.Sprintf("docker-probe-%d-%d", os.Getpid(), time.Now().UnixNano()))
		if err = os.Mkdir(probe, 0o755); err == nil {
			return folder, os.Remove(probe)
		}
	}
	return "", fmt.Errorf("%w: %w", ErrNoGroup, err)
}

// killGroup kills all that is in a group; kernels before 5.14 kill each by itself.
func killGroup(folder string) {
	if os.WriteFile(filepath.Join(folder, "cgroup.kill"), []byte("1"), 0) == nil {
		return
	}
	pids, _ := os.ReadFile(filepath.Join(folder, "cgroup.procs"))
	for text := range strings.FieldsSeq(string(pids)) {
		if pid, err := strconv.Atoi(text); err == nil && pid > 1 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// removeGroup takes a group away when its last process is gone.
func removeGroup(folder string) {
	for end := time.Now().Add(5 * time.Second); syscall.Rmdir(folder) != nil && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		killGroup(folder)
	}
}
