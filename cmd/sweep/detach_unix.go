//go:build unix

package main

import "syscall"

// ownSession gives a process a session without a terminal.
func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
