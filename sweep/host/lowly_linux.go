package host

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// lowly has the calling goroutine give way to all other work of the machine until it ends, so that hashing and sending
// results disturbs no measurement. Its thread ends with it: nothing else runs there, and an agent, which is started by
// another, is as important as ever.
func lowly() {
	runtime.LockOSThread()
	_ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), 19) // at worst it is as important as others
}
