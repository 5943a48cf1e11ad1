package main

import "syscall"

// ownSession gives a process no console: it is not ended with this one.
func ownSession() *syscall.SysProcAttr {
	const detachedProcess = 0x8
	return &syscall.SysProcAttr{CreationFlags: detachedProcess | syscall.CREATE_NEW_PROCESS_GROUP}
}
