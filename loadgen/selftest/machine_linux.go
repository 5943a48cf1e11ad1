package selftest

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
)

// processCPU is how long this process has been on a core, in ns.
func processCPU() int64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// machine names the machine in a few words.
func machine() string {
	cpu := "processor unknown"
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
				cpu = strings.TrimSpace(value)
				break
			}
		}
	}
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease") // without it the words are shorter
	return fmt.Sprintf("%s, %d cores, Linux %s", cpu, runtime.NumCPU(), strings.TrimSpace(string(kernel)))
}
