//go:build unix

package host

import (
	"errors"
	"fmt"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"
)

// startDetached starts a program in a session of its own, with its output in log, and returns its pid.
func startDetached(argv, env []string, log *os.File) (pid int, err error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	pid = cmd.Process.Pid
	return pid, cmd.Process.Release()
}

// reap waits for a child that has ended, so that it does not stay as a zombie, and reports whether it
// has and how.
func (l *Local) reap() (ended bool, how string) {
	if l.child == 0 {
		return false, ""
	}
	var status unix.WaitStatus
	pid, err := unix.Wait4(l.child, &status, unix.WNOHANG, nil)
	if errors.Is(err, unix.EINTR) || err == nil && pid == 0 {
		return false, ""
	}
	l.child = 0
	if status.Signaled() {
		return true, "signal " + status.Signal().String()
	}
	return true, fmt.Sprintf("exit code %d", status.ExitStatus())
}

// kill ends a child that did not come up. Its pid is ours until it has been waited for.
func (l *Local) kill() {
	if l.child != 0 && unix.Kill(l.child, unix.SIGKILL) == nil {
		_, _ = unix.Wait4(l.child, nil, 0, nil)
	}
	l.child = 0
}

// unlocked reports whether nobody holds the lock on a file.
func unlocked(path string) (bool, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}
