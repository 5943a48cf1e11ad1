//go:build unix

package proc

import "syscall"

// ownSession starts a process in a session of its own.
func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
