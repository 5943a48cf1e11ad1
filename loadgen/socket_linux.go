//go:build linux && (amd64 || arm64)

package loadgen

import (
	"net/netip"
	"syscall"
	"time"
	"unsafe"
)

// The calls below go to the kernel without telling the Go scheduler: none of them waits, save epoll's wait, whose
// thread keeps its processor while it waits (one more is given to the others meanwhile). The scheduler's way costs
// two hand-overs for each wake-up, which at some thousand events a second triples the cost of an event.

const (
	sysEpollPwait2 = 441 // on all architectures; Linux 5.11

	soTimestamping    = 37 // also the type of its control message
	stampRxSoftware   = 1 << 3
	stampSoftware     = 1 << 4
	tcpInfoOutOfOrder = 224 // offset of tcpi_rcv_ooopack; Linux 5.4

	ipBindAddressNoPort = 24
)

// socketAddress is an address as the kernel takes it.
type socketAddress struct {
	raw  [syscall.SizeofSockaddrInet6]byte
	size uintptr
	af   int
}

func newSocketAddress(a netip.AddrPort) *socketAddress {
	s := &socketAddress{af: syscall.AF_INET6, size: syscall.SizeofSockaddrInet6}
	ip := a.Addr().Unmap()
	if ip.Is4() {
		s.af, s.size = syscall.AF_INET, syscall.SizeofSockaddrInet4
		b := ip.As4()
		copy(s.raw[4:], b[:])
	} else {
		b := ip.As16()
		copy(s.raw[8:], b[:])
	}
	*(*uint16)(unsafe.Pointer(&s.raw[0])) = uint16(s.af)
	s.raw[2], s.raw[3] = byte(a.Port()>>8), byte(a.Port())
	return s
}

// openSocket makes a socket that waits for nothing, and begins to connect it. local may be nil.
func openSocket(to, local *socketAddress, stamps bool) (int, error) {
	fd, err := syscall.Socket(to.af, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	_ = syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1)
	if stamps {
		_ = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, soTimestamping, stampRxSoftware|stampSoftware) // a read without a stamp is counted
	}
	if local != nil {
		_ = syscall.SetsockoptInt(fd, syscall.IPPROTO_IP, ipBindAddressNoPort, 1) // the port is chosen by the connection, for its pair of addresses
		if _, _, e := syscall.RawSyscall(syscall.SYS_BIND, uintptr(fd), uintptr(unsafe.Pointer(&local.raw)), local.size); e != 0 {
			syscall.Close(fd)
			return -1, e
		}
	}
	_, _, e := syscall.RawSyscall(syscall.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&to.raw)), to.size)
	if e != 0 && e != syscall.EINPROGRESS {
		syscall.Close(fd)
		return -1, e
	}
	return fd, nil
}

func closeSocket(fd int) { _, _, _ = syscall.RawSyscall(syscall.SYS_CLOSE, uintptr(fd), 0, 0) }

// socketError is why a connection did not come about; 0 when it did.
func socketError(fd int) syscall.Errno {
	v, err := syscall.GetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_ERROR)
	if e, ok := err.(syscall.Errno); ok {
		return e
	}
	return syscall.Errno(v)
}

// send writes without waiting.
func send(fd int, b []byte) (int, syscall.Errno) {
	if len(b) == 0 {
		return 0, 0
	}
	n, _, e := syscall.RawSyscall6(syscall.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL, 0, 0)
	if e != 0 {
		return 0, e
	}
	return int(n), 0
}

// receiver reads from sockets into one buffer, one read behind the other, with the kernel's stamp of the last byte where it is
// asked for.
type receiver struct {
	buf     []byte
	used    int // bytes of buf
	stamps  bool
	control [128]byte
	iov     syscall.Iovec
	msg     syscall.Msghdr
}

func newReceiver(size int, stamps bool) *receiver {
	r := &receiver{buf: make([]byte, size), stamps: stamps}
	r.msg.Iov, r.msg.Iovlen = &r.iov, 1
	r.msg.Control = &r.control[0]
	return r
}

// room is how much the next read may bring.
func (r *receiver) room() int { return len(r.buf) - r.used }

// reset makes room: what was read before may be overwritten.
func (r *receiver) reset() { r.used = 0 }

// read reads what is there, as far as there is room. b is good until the next reset; stamp is of the real-time clock, in ns since
// 1970; 0: the kernel gave none.
func (r *receiver) read(fd int) (b []byte, stamp int64, errno syscall.Errno) {
	free := r.buf[r.used:]
	if !r.stamps {
		got, _, e := syscall.RawSyscall(syscall.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&free[0])), uintptr(len(free)))
		if e != 0 {
			return nil, 0, e
		}
		r.used += int(got)
		return free[:got], 0, 0
	}
	r.iov.Base = &free[0]
	r.iov.SetLen(len(free))
	r.msg.SetControllen(len(r.control))
	got, _, e := syscall.RawSyscall(syscall.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&r.msg)), syscall.MSG_DONTWAIT)
	if e != 0 {
		return nil, 0, e
	}
	const header, stampSize = syscall.SizeofCmsghdr, 3 * 16 // three timespecs: software, nothing, hardware
	if r.msg.Controllen >= header+stampSize {
		h := (*syscall.Cmsghdr)(unsafe.Pointer(&r.control[0]))
		if h.Level == syscall.SOL_SOCKET && h.Type == soTimestamping {
			t := (*syscall.Timespec)(unsafe.Pointer(&r.control[header]))
			stamp = t.Sec*1e9 + t.Nsec
		}
	}
	r.used += int(got)
	return free[:got], stamp, 0
}

// epoll is one set of sockets.
type epoll struct {
	fd     int
	events []syscall.EpollEvent
	coarse bool // the kernel waits for whole milliseconds only
}

func newEpoll() (*epoll, error) {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	return &epoll{fd: fd, events: make([]syscall.EpollEvent, 256)}, nil
}

func (e *epoll) control(op, fd int, events uint32, id, generation int32) error {
	ev := syscall.EpollEvent{Events: events, Fd: id, Pad: generation}
	return syscall.EpollCtl(e.fd, op, fd, &ev)
}

// wait returns the sockets that are ready, at the latest after d. It returns early when a signal came: so a garbage
// collection need not wait for it.
func (e *epoll) wait(d time.Duration) []syscall.EpollEvent {
	var n uintptr
	var errno syscall.Errno
	if !e.coarse {
		t := syscall.NsecToTimespec(int64(d))
		n, _, errno = syscall.RawSyscall6(sysEpollPwait2, uintptr(e.fd), uintptr(unsafe.Pointer(&e.events[0])), uintptr(len(e.events)), uintptr(unsafe.Pointer(&t)), 0, 0)
		if errno == syscall.ENOSYS || errno == syscall.EPERM {
			e.coarse = true
		}
	}
	if e.coarse {
		n, _, errno = syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, uintptr(e.fd), uintptr(unsafe.Pointer(&e.events[0])), uintptr(len(e.events)), uintptr(d/time.Millisecond), 0, 0)
	}
	if errno != 0 {
		return nil
	}
	return e.events[:n]
}

func (e *epoll) close() { closeSocket(e.fd) }

// bell lets other goroutines wake a thread out of its epoll's wait.
type bell int

func newBell() (bell, error) {
	fd, _, e := syscall.RawSyscall(syscall.SYS_EVENTFD2, 0, syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if e != 0 {
		return -1, e
	}
	return bell(fd), nil
}

func (b bell) ring() {
	one := [8]byte{1}
	_, _, _ = syscall.RawSyscall(syscall.SYS_WRITE, uintptr(b), uintptr(unsafe.Pointer(&one[0])), 8)
}

func (b bell) quiet() {
	var n [8]byte
	_, _, _ = syscall.RawSyscall(syscall.SYS_READ, uintptr(b), uintptr(unsafe.Pointer(&n[0])), 8)
}

// lossOf counts the segments that a connection had to send again or got out of order; −1 when the kernel does not say.
func lossOf(fd int) int {
	var info [256]byte
	size := uint32(len(info))
	_, _, e := syscall.RawSyscall6(syscall.SYS_GETSOCKOPT, uintptr(fd), syscall.IPPROTO_TCP, syscall.TCP_INFO, uintptr(unsafe.Pointer(&info[0])), uintptr(unsafe.Pointer(&size)), 0)
	if e != 0 || size < syscall.SizeofTCPInfo {
		return unknown
	}
	n := int((*syscall.TCPInfo)(unsafe.Pointer(&info[0])).Total_retrans)
	if size >= tcpInfoOutOfOrder+4 {
		n += int(*(*uint32)(unsafe.Pointer(&info[tcpInfoOutOfOrder])))
	}
	return n
}

// threadID names the calling thread in /proc/self/task.
func threadID() int { return syscall.Gettid() }

// sharpen asks the kernel not to delay this thread's timers (by 50 µs otherwise), and to let it run soon after it woke up: a
// short slice takes no more of the core, only earlier (Linux 6.12; older ones take no notice).
func sharpen() {
	const (
		prSetTimerslack = 29
		slice           = 100_000 // ns, the least
	)
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, prSetTimerslack, 1, 0)
	var a struct { // sched_attr
		size, policy             uint32
		flags                    uint64
		nice                     int32
		priority                 uint32
		runtime, deadline, cycle uint64
	}
	nice, _, e := syscall.RawSyscall(syscall.SYS_GETPRIORITY, 0, 0, 0) // as 20 − nice
	if e != 0 {
		return
	}
	a.size, a.nice, a.runtime = uint32(unsafe.Sizeof(a)), 20-int32(nice), slice
	_, _, _ = syscall.RawSyscall(sysSchedSetattr, 0, uintptr(unsafe.Pointer(&a)), 0)
}
