//go:build unix

package proc

import (
	"os"
	"strconv"
	"syscall"
)

// InheritedLock is the locked file that the process which started this one has handed over, as [LockVariable]
// says; nil: there is none. Processes that this one starts get neither.
func InheritedLock() *os.File {
	fd, err := strconv.Atoi(os.Getenv(LockVariable))
	_ = os.Unsetenv(LockVariable) // fails only for a name that is none
	if err != nil || fd < 3 {
		return nil
	}
	syscall.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), "lock")
}
