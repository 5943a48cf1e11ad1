//go:build failpoints && unix

package failpoint

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Hit marks a step: the process may die here.
func Hit(name string) {
	mark := role() + " " + name
	if file := os.Getenv("SWEEP_FAILPOINT_TRACE"); file != "" {
		if f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600); err == nil {
			_, _ = f.WriteString(mark + "\n") // one write: lines of several processes do not mix
			_ = f.Close()
		}
	}
	if os.Getenv("SWEEP_FAILPOINT") != mark {
		return
	}
	f, err := os.OpenFile(os.Getenv("SWEEP_FAILPOINT_ONCE"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return
	}
	_ = f.Close()
	if os.Getenv("SWEEP_FAILPOINT_PARENT") != "" {
		_ = syscall.Kill(os.Getppid(), syscall.SIGKILL)
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // until it works
}

// At marks a step with a file. Numbers in its name do not count.
func At(name, path string) {
	base := strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, filepath.Base(path))
	if before, _, found := strings.Cut(base, "="); found {
		base = before
	}
	Hit(name + ":" + base)
}

// role is what the process is: its first argument.
func role() string {
	if len(os.Args) < 2 {
		return "-"
	}
	return os.Args[1]
}
