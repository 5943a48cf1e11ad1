//go:build unix

package agent

import (
	"os/exec"
	"syscall"
)

// ownGroup has a command lead a group of processes, all of which end with it when its time is over.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
