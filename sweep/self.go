package sweep

import "os"

// kernelSelf is Linux' own handle on the running program; elsewhere there is no such file.
const kernelSelf = "/proc/self/exe"

// Executable is the path by which a program can be started now. Only this very program has two: its own path, as
// long as that still names it, and else the kernel's handle, since while a night runs its program may be rebuilt,
// moved or deleted (`go run` deletes it). Other paths come back as they are.
func Executable(path string) string {
	lasting := LastingExecutable(path)
	if lasting == path {
		return path
	}
	there, err := os.Stat(path)
	if err != nil {
		return lasting
	}
	if running, err := os.Stat(lasting); err == nil && os.SameFile(there, running) {
		return path
	}
	return lasting
}

// LastingExecutable is the path by which this process can start a program at any later time: for its own path the
// kernel's handle. It says nothing to a person, so it is for what nobody reads.
func LastingExecutable(path string) string {
	self, err := os.Executable()
	if err != nil || path != self {
		return path
	}
	if _, err := os.Stat(kernelSelf); err != nil {
		return path
	}
	return kernelSelf
}

// Startable is a command line whose program stands by the path of [Executable].
func Startable(argv []string) []string {
	if len(argv) == 0 {
		return argv
	}
	return append([]string{Executable(argv[0])}, argv[1:]...)
}
