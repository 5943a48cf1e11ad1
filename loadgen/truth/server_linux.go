package truth

import (
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

const (
	pollEvery = 50 * time.Microsecond // a thread with writes to make looks for input so often
	idleWait  = 20 * time.Millisecond // a thread with nothing to do waits at most so long
	dueRound  = 8                     // writes between two looks at the clock for input
	floodTurn = 16                    // writes of one flooded stream before it is another's turn
)

// Server is a running server. Its methods may be called from any goroutine.
type Server struct {
	url     string
	spin    bool
	workers []*worker
	wg      sync.WaitGroup
	closing atomic.Bool
	closed  sync.Once

	base   time.Time    // zero of the monotonic clock
	epoch  atomic.Int64 // Unix ns at base, as of the last reset
	number atomic.Int64 // of the next request
	first  atomic.Int64 // Unix ns of the first request of any kind
	plan   atomic.Pointer[Plan]
}

// Listen starts a server. It serves until Close.
func Listen(o Options) (*Server, error) {
	plan := o.Plan
	if plan == (Plan{}) {
		plan = DefaultPlan()
	}
	if err := plan.check(); err != nil {
		return nil, err
	}
	s := &Server{spin: o.Spin}
	s.plan.Store(&plan)
	s.restart()
	address := o.Address
	if address == "" {
		address = "127.0.0.1:0"
	}
	for range max(1, o.Threads) {
		w, bound, err := newWorker(s, address)
		if err != nil {
			s.Close()
			return nil, fmt.Errorf("truth: listen on %s: %w", address, err)
		}
		s.workers = append(s.workers, w)
		address = bound // the further threads share the port of the first
	}
	s.url = "http://" + address
	for _, w := range s.workers {
		s.wg.Go(w.run)
	}
	return s, nil
}

// URL is where the server answers: http://ADDRESS:PORT.
func (s *Server) URL() string { return s.url }

// Close ends all connections and waits for the threads. The log stays.
func (s *Server) Close() {
	s.closing.Store(true)
	s.wg.Wait()
	s.closed.Do(func() {
		for _, w := range s.workers {
			w.mu.Lock()
			w.close()
			w.mu.Unlock()
		}
	})
}

// SetPlan changes the plan of requests that bring none, and resets the log.
func (s *Server) SetPlan(p Plan) error {
	if err := p.check(); err != nil {
		return err
	}
	s.plan.Store(&p)
	s.Reset()
	return nil
}

// Reset forgets all requests so far; those still open are no longer logged.
func (s *Server) Reset() {
	for _, w := range s.workers {
		w.mu.Lock()
		w.log, w.others = nil, map[string]int{}
		w.mu.Unlock()
	}
	s.restart()
	runtime.GC() // now rather than under the next load
}

// restart sets the clock of the log and counts from 0.
func (s *Server) restart() {
	if s.base.IsZero() {
		s.base = time.Now()
	}
	now := time.Now()
	s.epoch.Store(now.UnixNano() - int64(now.Sub(s.base)))
	s.number.Store(0)
	s.first.Store(0)
}

// now is the time of the log's clock, in Unix ns.
func (s *Server) now() int64 { return s.epoch.Load() + int64(time.Since(s.base)) }

// Log gives a copy of the log: all requests since the last reset, in order of their arrival.
func (s *Server) Log() []Request {
	return s.snapshot(true)
}

// Summary says what the server did since the last reset, and how late it was.
func (s *Server) Summary() Summary { return s.summary(s.Log()) }

func (s *Server) summary(requests []Request) Summary {
	sum := Summarize(requests)
	now := time.Now()
	sum.DriftNS = now.UnixNano() - s.epoch.Load() - int64(now.Sub(s.base))
	sum.First = s.first.Load()
	sum.Plan = *s.plan.Load()
	sum.Others = map[string]int{}
	for _, w := range s.workers {
		w.mu.Lock()
		for name, n := range w.others {
			sum.Others[name] += n
		}
		w.mu.Unlock()
	}
	return sum
}

// worker is one thread with its own connections.
type worker struct {
	s        *Server
	epoll    int
	listener int
	input    []byte // what is read at once
	ready    []syscall.EpollEvent
	polled   int64 // when input was last looked for, monotonic ns

	mu       sync.Mutex // held while anything below changes
	conns    map[int]*conn
	timers   timers
	flood    []*conn
	log      []*Request
	others   map[string]int
	controls []*conn // connections with a request for /ctl, answered without the lock
	plans    map[string]*Plan
	acceptAt int64 // when waiting connections are accepted, monotonic ns; 0: at once
	open     int
	totals   totals

	event, out []byte // scratch
	stamps     []int  // places of the times in out
}

// totals are the counters that /metrics shows; they are never reset.
type totals struct{ requests, tokens, prompts int64 }

func newWorker(s *Server, address string) (*worker, string, error) {
	tcp, err := net.ResolveTCPAddr("tcp4", address)
	if err != nil {
		return nil, "", err
	}
	sa := &syscall.SockaddrInet4{Port: tcp.Port}
	copy(sa.Addr[:], tcp.IP.To4())
	w := &worker{
		s: s, epoll: -1, listener: -1, input: make([]byte, 256<<10), ready: make([]syscall.EpollEvent, 256),
		conns: map[int]*conn{}, others: map[string]int{}, plans: map[string]*Plan{},
	}
	if w.listener, err = syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0); err != nil {
		return nil, "", err
	}
	const reusePort = 15 // SO_REUSEPORT: the kernel deals connections out to the threads
	err = errors.Join(
		syscall.SetsockoptInt(w.listener, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1),
		syscall.SetsockoptInt(w.listener, syscall.SOL_SOCKET, reusePort, 1),
	)
	if err == nil {
		err = syscall.Bind(w.listener, sa)
	}
	if err == nil {
		err = syscall.Listen(w.listener, 4096)
	}
	if err == nil {
		w.epoll, err = syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	}
	if err == nil {
		err = w.watch(syscall.EPOLL_CTL_ADD, w.listener, syscall.EPOLLIN)
	}
	if err != nil {
		w.close()
		return nil, "", err
	}
	bound, err := syscall.Getsockname(w.listener)
	if err != nil {
		w.close()
		return nil, "", err
	}
	at := bound.(*syscall.SockaddrInet4) // the family of the socket above
	return w, (&net.TCPAddr{IP: at.Addr[:], Port: at.Port}).String(), nil
}

func (w *worker) watch(op, fd int, events uint32) error {
	return syscall.EpollCtl(w.epoll, op, fd, &syscall.EpollEvent{Events: events, Fd: int32(fd)})
}

func (w *worker) close() {
	for _, c := range w.conns {
		w.drop(c)
	}
	for _, fd := range []int{w.listener, w.epoll} {
		if fd >= 0 {
			syscall.Close(fd)
		}
	}
}

// mono is the monotonic time in ns.
func (w *worker) mono() int64 { return int64(time.Since(w.s.base)) }

// run is the loop of the thread: make the writes that are due, then look for input.
func (w *worker) run() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for !w.s.closing.Load() {
		w.mu.Lock()
		busy := w.write()
		now := w.mono()
		wait := w.wait(now)
		w.mu.Unlock()
		if busy && now-w.polled < int64(pollEvery) {
			continue
		}
		w.polled = now
		n := w.poll(wait)
		w.mu.Lock()
		if w.acceptAt > 0 && now >= w.acceptAt {
			w.acceptAt = 0
			w.accept()
			_ = w.watch(syscall.EPOLL_CTL_ADD, w.listener, syscall.EPOLLIN) // it was there before
		}
		for i := range n {
			w.serve(int(w.ready[i].Fd), w.ready[i].Events)
		}
		controls := w.controls
		w.controls = nil
		w.mu.Unlock()
		for _, c := range controls {
			w.control(c)
		}
	}
}

// write makes writes that are due, and says whether there were any.
func (w *worker) write() bool {
	busy := false
	for range dueRound {
		c := w.timers.first()
		if c == nil || c.next > w.mono() {
			break
		}
		w.fire(c)
		busy = true
	}
	if len(w.flood) > 0 {
		c := w.flood[0]
		w.flood = w.flood[1:]
		if w.floodOn(c) {
			w.flood = append(w.flood, c)
		}
		busy = true
	}
	return busy
}

// wait is how long there is nothing to do but input, in ns.
func (w *worker) wait(now int64) int64 {
	if len(w.flood) > 0 || w.s.spin && w.open > 0 {
		return 0
	}
	wait := int64(idleWait)
	if c := w.timers.first(); c != nil {
		wait = min(wait, c.next-now)
	}
	if w.acceptAt > 0 {
		wait = min(wait, w.acceptAt-now)
	}
	return max(0, wait)
}

// poll looks for input. A look that does not wait is made without telling the scheduler, which would hand the thread's
// turn to others.
func (w *worker) poll(wait int64) int {
	const epollPwait2 = 441 // Linux 5.11; takes ns
	at := uintptr(unsafe.Pointer(&w.ready[0]))
	if wait == 0 {
		n, _, errno := syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, uintptr(w.epoll), at, uintptr(len(w.ready)), 0, 0, 0)
		if errno != 0 {
			return 0
		}
		return int(n)
	}
	limit := syscall.NsecToTimespec(wait)
	n, _, errno := syscall.Syscall6(epollPwait2, uintptr(w.epoll), at, uintptr(len(w.ready)), uintptr(unsafe.Pointer(&limit)), 0, 0)
	if errno == 0 {
		return int(n)
	}
	if errno == syscall.ENOSYS {
		if n, err := syscall.EpollWait(w.epoll, w.ready, int(wait/1e6)); err == nil {
			return n
		}
	}
	return 0
}

// snapshot copies the log, with the events or without.
func (s *Server) snapshot(events bool) []Request {
	var all []Request
	for _, w := range s.workers {
		w.mu.Lock()
		for _, r := range w.log {
			c := *r
			c.Events = nil
			if events {
				c.Events = append([]Event(nil), r.Events...)
			}
			all = append(all, c)
		}
		w.mu.Unlock()
	}
	sortRequests(all)
	return all
}
