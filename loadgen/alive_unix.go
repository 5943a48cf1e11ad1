//go:build unix

package loadgen

import (
	"net"
	"syscall"
)

// alive says whether an idle connection can still be used: the server has neither closed it nor sent
// anything unasked. It asks the kernel, without waiting.
func alive(conn net.Conn) bool {
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return true // not a socket: nothing to ask
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return false
	}
	idle := false
	err = raw.Read(func(fd uintptr) bool {
		var b [1]byte
		_, err := syscall.Read(int(fd), b[:])
		idle = err == syscall.EAGAIN || err == syscall.EWOULDBLOCK
		return true
	})
	return err == nil && idle
}
