//go:build !linux

package host

import "syscall"

// dieSoon does nothing here: the signs of life that are sent over the link find a dead one.
func dieSoon(_, _ string, _ syscall.RawConn) error { return nil }
