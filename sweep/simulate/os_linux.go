package simulate

import (
	"bytes"
	"context"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// supported reports whether servers can be simulated on this system.
const supported = true

// childAttr says what becomes of a child when its parent ends.
func childAttr(b bond) *syscall.SysProcAttr {
	switch b {
	case ownSession:
		return &syscall.SysProcAttr{Setsid: true}
	case none:
		return &syscall.SysProcAttr{}
	}
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// become replaces this process by this very program with other arguments and nothing but these variables.
func become(argv, env []string) error { return syscall.Exec("/proc/self/exe", argv, env) }

// setComm sets the process's short name, as ps and the kernel's log show it.
func setComm(name string) {
	_ = os.WriteFile("/proc/self/comm", []byte(name), 0) // only a name
}

// killSelf ends this process as SGLang ends itself: by SIGKILL.
func killSelf() {
	_ = unix.Kill(os.Getpid(), unix.SIGKILL)
	select {}
}

// childEvent is what a child's parent is told.
type childEvent int

const (
	childExited childEvent = iota
	childStopped
	childContinued
)

// waitChild blocks until something happens to a child. code is as in Python: negative for a signal.
func waitChild(pid int) (event childEvent, code int) {
	for {
		var ws unix.WaitStatus
		_, err := unix.Wait4(pid, &ws, unix.WUNTRACED|unix.WCONTINUED, nil)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return childExited, -1
		case ws.Stopped():
			return childStopped, 0
		case ws.Continued():
			return childContinued, 0
		case ws.Signaled():
			return childExited, -int(ws.Signal())
		case ws.Exited():
			return childExited, ws.ExitStatus()
		}
	}
}

// processStat reads the state and start time (in clock ticks since boot) of a process.
func processStat(pid int) (state byte, ticks uint64, ok bool) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, 0, false
	}
	i := bytes.LastIndexByte(data, ')') // the name may hold anything
	if i < 0 {
		return 0, 0, false
	}
	fields := bytes.Fields(data[i+1:])
	if len(fields) < 20 {
		return 0, 0, false
	}
	ticks, err = strconv.ParseUint(string(fields[19]), 10, 64)
	return fields[0][0], ticks, err == nil
}

// processAlive reports whether the process that had this PID and start time lives; a zombie holds no memory.
func processAlive(pid int, startTicks uint64) bool {
	state, ticks, ok := processStat(pid)
	return ok && state != 'Z' && state != 'X' && (startTicks == 0 || ticks == startTicks)
}

// startTicks is the start time of a process; 0: not known.
func startTicks(pid int) uint64 {
	_, ticks, _ := processStat(pid)
	return ticks
}

// raise ends this process by a signal of its own.
func raise(sig int) {
	_ = unix.Kill(os.Getpid(), unix.Signal(sig))
	select {}
}

// coarse is how inexact the runtime's own timers are when nothing else runs: they wait in whole milliseconds.
const coarse = 1500 * time.Microsecond

// sleepPrecisely sleeps until t; the last stretch is left to the kernel, which is exact to about 60 µs.
func sleepPrecisely(ctx context.Context, t time.Time) {
	sleepUntil(ctx, t.Add(-coarse))
	for ctx.Err() == nil {
		d := time.Until(t)
		if d <= 0 {
			return
		}
		ts := unix.NsecToTimespec(d.Nanoseconds())
		if unix.Nanosleep(&ts, nil) == nil {
			return
		}
	}
}

// favour raises this process's priority where that is allowed: a simulator stands for a GPU, which does not wait for the
// CPU's other work. Without the right to do so, more steps may be late on a busy machine.
func favour() {
	runtime.GOMAXPROCS(max(spareProcs, runtime.GOMAXPROCS(0)))
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return
	}
	for _, t := range tasks { // the priority belongs to a thread; new ones inherit it
		if tid, err := strconv.Atoi(t.Name()); err == nil {
			_ = unix.Setpriority(unix.PRIO_PROCESS, tid, -10)
		}
	}
}

// spareProcs are enough for the goroutine that keeps time to find a free one when it wakes.
const spareProcs = 8

// keepTime gives the calling goroutine a thread of its own that the kernel runs before all ordinary ones, where that is allowed.
func keepTime() {
	runtime.LockOSThread()
	param := struct{ priority int32 }{1}
	_, _, _ = unix.Syscall(unix.SYS_SCHED_SETSCHEDULER, 0, unix.SCHED_FIFO|unix.SCHED_RESET_ON_FORK, uintptr(unsafe.Pointer(&param)))
}
