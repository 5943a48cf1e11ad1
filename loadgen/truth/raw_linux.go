package truth

import (
	"cmp"
	"slices"
	"syscall"
	"unsafe"
)

// rawReceive and rawWrite act on sockets that never block, so the scheduler need not be told.

// Ways of the kernel to stamp what a socket receives.
const (
	soTimestamping  = 37     // also the type of its control message
	stampRxSoftware = 1 << 3 // when it came
	stampSoftware   = 1 << 4 // and tell it
)

// rawReceive reads what is there. stamp is when the last of it came, by the kernel, in Unix ns; 0: it does not say.
func rawReceive(fd int, b []byte) (n int, stamp int64, errno syscall.Errno) {
	var control [128]byte
	iov := syscall.Iovec{Base: &b[0]}
	iov.SetLen(len(b))
	message := syscall.Msghdr{Iov: &iov, Iovlen: 1, Control: &control[0]}
	message.SetControllen(len(control))
	got, _, errno := syscall.RawSyscall(syscall.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&message)), syscall.MSG_DONTWAIT)
	if errno != 0 {
		return 0, 0, errno
	}
	const header, times = syscall.SizeofCmsghdr, 3 * 16 // the first of three times is the kernel's
	if h := (*syscall.Cmsghdr)(unsafe.Pointer(&control[0])); message.Controllen >= header+times && h.Level == syscall.SOL_SOCKET && h.Type == soTimestamping {
		stamp = (*syscall.Timespec)(unsafe.Pointer(&control[header])).Nano()
	}
	return int(got), stamp, 0
}

func rawWrite(fd int, b []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall(syscall.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	return int(n), errno
}

func sortRequests(all []Request) {
	slices.SortFunc(all, func(a, b Request) int { return cmp.Compare(a.Number, b.Number) })
}

// timers is a binary heap of connections by the time of their next write.
type timers []*conn

func (t timers) first() *conn {
	if len(t) == 0 {
		return nil
	}
	return t[0]
}

func (t *timers) add(c *conn) {
	*t = append(*t, c)
	c.place = len(*t)
	t.up(len(*t) - 1)
}

// fix restores the order after the time of a connection changed.
func (t timers) fix(c *conn) {
	if i := c.place - 1; !t.down(i) {
		t.up(i)
	}
}

func (t *timers) remove(c *conn) {
	i := c.place - 1
	if i < 0 {
		return
	}
	last := len(*t) - 1
	t.swap(i, last)
	(*t)[last] = nil
	*t = (*t)[:last]
	c.place = 0
	if i < last {
		t.fix((*t)[i])
	}
}

func (t timers) swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].place, t[j].place = i+1, j+1
}

func (t timers) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if t[parent].next <= t[i].next {
			return
		}
		t.swap(i, parent)
		i = parent
	}
}

func (t timers) down(i int) bool {
	from := i
	for {
		child := 2*i + 1
		if child >= len(t) {
			return i > from
		}
		if right := child + 1; right < len(t) && t[right].next < t[child].next {
			child = right
		}
		if t[i].next <= t[child].next {
			return i > from
		}
		t.swap(i, child)
		i = child
	}
}
