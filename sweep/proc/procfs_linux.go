package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

func bootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b)), err
}

func procPath(pid int, name string) string { return "/proc/" + strconv.Itoa(pid) + "/" + name }

func readStat(pid int) (stat, error) {
	b, err := os.ReadFile(procPath(pid, "stat"))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return stat{}, ErrGone
	}
	if err != nil {
		return stat{}, err
	}
	return parseStat(b)
}

// allStats reads every process of the machine, dead ones that were not waited for included.
func allStats() ([]stat, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var out []stat
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if s, err := readStat(pid); err == nil {
			out = append(out, s)
		}
	}
	return out, nil
}

// signalExactly holds the process by a descriptor while it looks who it is, so that its pid cannot
// come to mean another process in between.
func signalExactly(id Identity, sig syscall.Signal) error {
	fd, err := unix.PidfdOpen(id.PID, 0)
	switch {
	case errors.Is(err, unix.ESRCH):
		return ErrGone
	case err == nil:
		defer unix.Close(fd)
	case !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EPERM):
		return err
	}
	if !id.Alive() {
		return ErrGone
	}
	if err == nil {
		err = unix.PidfdSendSignal(fd, sig, nil, 0)
	} else { // a kernel or a sandbox without such descriptors
		err = unix.Kill(id.PID, sig)
	}
	if errors.Is(err, unix.ESRCH) {
		return ErrGone
	}
	return err
}

// readFields reads the lines "key: number" of a file such as /proc/PID/io.
func readFields(path string) (map[string]int64, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	out := map[string]int64{}
	for line := range bytes.Lines(b) {
		key, value, _ := strings.Cut(string(line), ":")
		number, _, _ := strings.Cut(strings.TrimSpace(value), " ") // "12 kB"
		if n, err := strconv.ParseInt(number, 10, 64); err == nil {
			out[key] = n
		}
	}
	return out, nil
}
