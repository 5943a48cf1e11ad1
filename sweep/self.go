package sweep

import "os"

// kernelSelf is Linux' own handle on the running program; elsewhere there is no such file.
const kernelSelf = "/proc/self/exe"

// Executable is the path by which a program can be started now. Only this very program has two: its own path, as
// long as that still names it, and else the kernel's handle, since while a night runs its program may be rebuilt,
// moved or deleted (`go run` deletes it). Other paths come back as they are.
func Executable(path string) string {
	self, err := os.Executable()
	if err != nil || path != self {
		return path
	}
	running, err := os.Stat(kernelSelf)
	if err != nil {
		return path
	}
	if there, err := os.Stat(path); err == nil && os.SameFile(there, running) {
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
