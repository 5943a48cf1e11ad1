package proc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Descriptors that the shim is started with, besides the server's own three.
const (
	goAheadFD = 3 // one byte: the owner file is on disk
	statusFD  = 4 // the shim says why it failed; closed by a successful exec
)

// Exec is the main of `supervise --exec -- ARGV…`: it waits for the go-ahead of its supervisor and
// then becomes the server. It returns only when that failed; the result is an exit code.
func Exec(argv []string) int {
	runtime.LockOSThread() // the parent-death signal belongs to the thread that execs
	unix.CloseOnExec(goAheadFD)
	unix.CloseOnExec(statusFD)
	status := os.NewFile(statusFD, "status")
	parent := os.Getppid()
	var b [1]byte
	if n, _ := unix.Read(goAheadFD, b[:]); n != 1 {
		return 1 // the supervisor is gone
	}
	fail := func(err error) int {
		fmt.Fprint(status, err)
		return 126
	}
	if len(argv) == 0 {
		return fail(errors.New("the command is empty"))
	}
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return fail(err)
	}
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fail(fmt.Errorf("set the parent-death signal: %w", err))
	}
	if os.Getppid() != parent {
		return 1 // the supervisor died before the signal was set
	}
	// A signal that is ignored stays so across an exec, one that is caught goes back to its default:
	// whatever nohup and the like left behind, the server begins with defaults.
	signal.Notify(make(chan os.Signal, 1))
	return fail(fmt.Errorf("execute %s: %w", path, syscall.Exec(path, argv, os.Environ())))
}
