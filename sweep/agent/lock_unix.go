//go:build unix

package agent

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// noFollow refuses a path whose last part is a link.
const noFollow = syscall.O_NOFOLLOW

// tryClaim locks a file; false: another process has it.
func tryClaim(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

// lock takes the folder's lock for as long as this process lives or until unlock.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fullDisk(err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%s: %w", path, ErrBusy)
		}
		return nil, &EnvironmentError{What: "the folder of the agent cannot be locked", Err: err}
	}
	return func() { f.Close() }, nil
}
