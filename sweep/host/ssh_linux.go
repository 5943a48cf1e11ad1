package host

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// deadAfter is how long sent bytes may stay unacknowledged, in milliseconds: TCP's own keepalive is silent while there
// are such, and the kernel would try again for a quarter of an hour.
const deadAfter = 30_000

// dieSoon has the kernel give up a connection whose bytes nobody takes.
func dieSoon(_, _ string, c syscall.RawConn) error {
	var err error
	if ctrlErr := c.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, deadAfter)
	}); ctrlErr != nil {
		return ctrlErr
	}
	return err
}
