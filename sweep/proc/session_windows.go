package proc

import "syscall"

// ownSession starts a process out of reach of a ^C at the caller's console.
func ownSession() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}
