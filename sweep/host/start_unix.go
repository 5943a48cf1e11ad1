//go:build unix

package host

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"

	"golang.org/x/sys/unix"

	"sweep/sweep/proc"
)

// startDetached starts a program in a session of its own, with its output in log, and returns its pid. The program
// gets the lock as its first descriptor after the standard ones, as [proc.LockVariable] tells it.
func startDetached(argv, env []string, log, lock *os.File) (pid int, err error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{lock}
	cmd.Env = slices.Concat(os.Environ(), env, []string{proc.LockVariable + "=3"})
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
	l.mu.Lock()
	defer l.mu.Unlock()
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
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.child != 0 && unix.Kill(l.child, unix.SIGKILL) == nil {
		_, _ = unix.Wait4(l.child, nil, 0, nil)
	}
	l.child = 0
}

// tryLock takes the lock on a file, which lasts until every copy of the descriptor is closed. nil: somebody else
// holds it.
func tryLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return f, nil
	}
	f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, nil
	}
	return nil, fmt.Errorf("lock %s: %w", path, err)
}
