package rawreader

import (
	"bytes"
	"fmt"
	"net"
	"runtime"
	"syscall"
	"time"
	"unsafe"
)

const (
	linesPerEvent = 4 // size of the chunk, data, empty line, end of the chunk
	eventsAtEnd   = 2 // the counts, the end mark
	linesAtEnd    = 2 // last chunk
)

// stream is one connection.
type stream struct {
	fd    int
	lines int // of the answer, after its head
	body  bool
	r     *request
}

type reader struct {
	o        Options
	epoll    int
	base     time.Time // zero of the stamps, by both clocks
	wall     int64     // Unix ns at base
	next     int       // request
	open     int
	streams  []*stream // by descriptor
	requests []*request
	input    []byte
	control  [128]byte

	events, coalesced, unstamped int
}

// Run sends the requests and reads the answers.
func Run(o Options) (Result, error) {
	if o.Streams < 1 || o.Requests < 1 || o.Tokens < 1 {
		return Result{}, fmt.Errorf("rawreader: streams, requests and tokens are 1 at least")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	now := time.Now()
	r := &reader{o: o, base: now, wall: now.UnixNano(), input: make([]byte, 256<<10)}
	var err error
	if r.epoll, err = syscall.EpollCreate1(syscall.EPOLL_CLOEXEC); err != nil {
		return Result{}, fmt.Errorf("rawreader: %w", err)
	}
	defer r.close()
	if err := r.connect(); err != nil {
		return Result{}, err
	}
	before := threadCPU()
	for _, s := range r.streams {
		if s != nil {
			if err := r.send(s); err != nil {
				return Result{}, err
			}
		}
	}
	if err := r.loop(); err != nil {
		return Result{}, err
	}
	result := Result{
		CPUS: threadCPU() - before, Requests: len(r.requests), Events: r.events, DurationS: time.Since(r.base).Seconds(), Coalesced: float64(r.coalesced) / float64(r.events), Unstamped: r.unstamped,
		User: times(r.requests, func(q *request) []int64 { return q.user }),
	}
	if o.Kernel {
		k := times(r.requests, func(q *request) []int64 { return q.kernel })
		result.Kernel = &k
	}
	return result, nil
}

// threadCPU is the CPU time of the calling thread, in s.
func threadCPU() float64 {
	const thread = 1 // RUSAGE_THREAD
	var u syscall.Rusage
	_ = syscall.Getrusage(thread, &u) // it cannot fail with these arguments
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

func (r *reader) close() {
	for _, s := range r.streams {
		if s != nil {
			syscall.Close(s.fd)
		}
	}
	syscall.Close(r.epoll)
}

func (r *reader) connect() error {
	address, err := net.ResolveTCPAddr("tcp4", r.o.Address)
	if err != nil {
		return fmt.Errorf("rawreader: %w", err)
	}
	to := &syscall.SockaddrInet4{Port: address.Port}
	copy(to.Addr[:], address.IP.To4())
	for range min(r.o.Streams, r.o.Requests) {
		fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("rawreader: %w", err)
		}
		for fd >= len(r.streams) {
			r.streams = append(r.streams, nil)
		}
		r.streams[fd] = &stream{fd: fd}
		if err := syscall.Connect(fd, to); err != nil {
			return fmt.Errorf("rawreader: connect to %s: %w", r.o.Address, err)
		}
		_ = syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1) // a request is one write anyway
		if r.o.Kernel {
			const timestamping, receive, software = 37, 1 << 3, 1 << 4 // SO_TIMESTAMPING and its flags
			if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, timestamping, receive|software); err != nil {
				return fmt.Errorf("rawreader: stamps of the kernel: %w", err)
			}
		}
		if err := syscall.SetNonblock(fd, true); err != nil {
			return fmt.Errorf("rawreader: %w", err)
		}
		if err := syscall.EpollCtl(r.epoll, syscall.EPOLL_CTL_ADD, fd, &syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(fd)}); err != nil {
			return fmt.Errorf("rawreader: %w", err)
		}
	}
	return nil
}

func (r *reader) now() int64 { return int64(time.Since(r.base)) }

// send sends the next request on a stream, if there is one left.
func (r *reader) send(s *stream) error {
	s.r, s.lines, s.body = nil, 0, false
	if r.next == r.o.Requests {
		return nil
	}
	body := fmt.Sprintf(`{"model":"mock","prompt":"alpha bravo delta hotel india metro ocean paper quilt river sugar tango uncle vapor whale %d","max_tokens":%d,"temperature":0.0,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`, r.next, r.o.Tokens)
	text := fmt.Appendf(nil, "POST /v1/completions HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nX-Request-Id: r%d\r\nContent-Length: %d\r\n\r\n%s", r.o.Address, r.next, len(body), body)
	r.next++
	q := &request{user: make([]int64, 0, r.o.Tokens)}
	if r.o.Kernel {
		q.kernel = make([]int64, 0, r.o.Tokens)
	}
	s.r = q
	r.requests = append(r.requests, q)
	r.open++
	q.sent = r.now()
	if n, err := syscall.Write(s.fd, text); err != nil || n < len(text) {
		return fmt.Errorf("rawreader: wrote %d of %d bytes: %w", n, len(text), err)
	}
	return nil
}

// loop reads until all requests are answered. The wait is made without telling the scheduler: it would give the
// thread's turn to others at each, which costs more than the read.
func (r *reader) loop() error {
	ready := make([]syscall.EpollEvent, 256)
	heard := r.now()
	for r.open > 0 {
		const waitMS = 1000 // bounds how long a collection of garbage waits
		n, _, errno := syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, uintptr(r.epoll), uintptr(unsafe.Pointer(&ready[0])), uintptr(len(ready)), waitMS, 0, 0)
		switch {
		case errno != 0 && errno != syscall.EINTR: // the scheduler's signals interrupt it
			return fmt.Errorf("rawreader: epoll: %w", errno)
		case errno == 0 && n > 0:
			heard = r.now()
		case r.now()-heard > int64(time.Minute):
			return fmt.Errorf("rawreader: no answer for a minute; %d requests are open", r.open)
		default:
			continue
		}
		for i := range int(n) {
			if err := r.read(r.streams[ready[i].Fd]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *reader) read(s *stream) error {
	var n uintptr
	var errno syscall.Errno
	var kernel int64
	if r.o.Kernel {
		iov := syscall.Iovec{Base: &r.input[0], Len: uint64(len(r.input))}
		message := syscall.Msghdr{Iov: &iov, Iovlen: 1, Control: &r.control[0], Controllen: uint64(len(r.control))}
		n, _, errno = syscall.RawSyscall(syscall.SYS_RECVMSG, uintptr(s.fd), uintptr(unsafe.Pointer(&message)), 0)
		if message.Controllen >= uint64(syscall.CmsgLen(0)+16) { // the header, then three times: the first is ours
			at := (*syscall.Timespec)(unsafe.Pointer(&r.control[syscall.CmsgLen(0)]))
			kernel = at.Nano() - r.wall
		}
	} else {
		n, _, errno = syscall.RawSyscall(syscall.SYS_READ, uintptr(s.fd), uintptr(unsafe.Pointer(&r.input[0])), uintptr(len(r.input)))
	}
	now := r.now()
	switch {
	case errno == syscall.EAGAIN || errno == syscall.EINTR:
		return nil
	case errno != 0:
		return fmt.Errorf("rawreader: read: %w", errno)
	case n == 0:
		return fmt.Errorf("rawreader: the server closed a connection")
	case s.r == nil:
		return fmt.Errorf("rawreader: %d bytes came without a request", n)
	}
	if r.o.Kernel && kernel == 0 {
		kernel = now
		r.unstamped++
	}
	if r.count(s, r.input[:n], now, kernel) {
		r.open--
		return r.send(s)
	}
	return nil
}

// count counts the events that end in b; true at the end of the answer.
func (r *reader) count(s *stream, b []byte, now, kernel int64) bool {
	if !s.body {
		i := bytes.Index(b, []byte("\r\n\r\n"))
		if i < 0 {
			return false
		}
		b, s.body = b[i+4:], true
	}
	ended := func() int { return min((s.lines+1)/linesPerEvent, r.o.Tokens) } // an event ends with its empty line, the third
	before := ended()
	s.lines += bytes.Count(b, []byte{'\n'})
	after := ended()
	for range after - before {
		s.r.user = append(s.r.user, now)
		if r.o.Kernel {
			s.r.kernel = append(s.r.kernel, kernel)
		}
	}
	r.events += after - before
	r.coalesced += max(0, after-before-1)
	return s.lines >= linesPerEvent*(r.o.Tokens+eventsAtEnd)+linesAtEnd
}
