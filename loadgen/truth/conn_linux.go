package truth

import (
	"errors"
	"syscall"
	"time"
)

// conn is one connection of a client.
type conn struct {
	fd     int
	accept int64 // log's clock
	first  int64 // of the request that is being read
	came   int64 // when the last bytes came, by the kernel; 0: it does not say
	in     []byte
	out    []byte // what the socket did not take yet
	flood  bool   // writes without a schedule
	dead   bool
	told   bool // 100 Continue was sent
	ends   bool // closed when all is written

	r      *Request // being answered
	script script
	state  stream
	step   Step
	more   bool // step is still to be written
	begin  int64
	next   int64    // monotonic ns
	place  int      // in the heap of timers, from 1; 0: none
	parts  [][]byte // of an event that is written in several writes
	ctl    string   // path and query of a request for /ctl
}

// drop closes a connection at once.
func (w *worker) drop(c *conn) {
	if c.dead {
		return
	}
	c.dead = true
	w.timers.remove(c)
	if c.r != nil {
		c.r.End, c.r.Closed = w.s.now(), true
		w.finish(c)
	}
	syscall.Close(c.fd)
	delete(w.conns, c.fd)
}

// finish ends the answer on a connection.
func (w *worker) finish(c *conn) {
	c.r = nil
	w.open--
}

func (w *worker) accept() {
	for {
		fd, _, err := syscall.Accept4(w.listener, syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC)
		if errors.Is(err, syscall.EINTR) || errors.Is(err, syscall.ECONNABORTED) {
			continue
		}
		if err != nil {
			return
		}
		c := &conn{fd: fd, accept: w.s.now()}
		_ = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, soTimestamping, stampRxSoftware|stampSoftware) // a request says whether it has a stamp
		if errors.Join(syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1), w.watch(syscall.EPOLL_CTL_ADD, fd, syscall.EPOLLIN)) != nil {
			syscall.Close(fd)
			continue
		}
		w.conns[fd] = c
	}
}

// serve acts on what epoll said of one descriptor.
func (w *worker) serve(fd int, events uint32) {
	if fd == w.listener {
		if delay := w.s.plan.Load().AcceptUS; delay > 0 {
			w.acceptAt = w.mono() + delay*1000
			_ = syscall.EpollCtl(w.epoll, syscall.EPOLL_CTL_DEL, fd, nil) // it is there
			return
		}
		w.accept()
		return
	}
	c := w.conns[fd]
	if c == nil {
		return
	}
	if events&syscall.EPOLLOUT != 0 {
		w.flush(c)
	}
	if c.dead || events&(syscall.EPOLLIN|syscall.EPOLLHUP|syscall.EPOLLERR) == 0 {
		return
	}
	n, came, errno := rawReceive(fd, w.input)
	if errno == syscall.EAGAIN || errno == syscall.EINTR {
		return
	}
	if errno != 0 || n == 0 {
		w.drop(c)
		return
	}
	if len(c.in) == 0 {
		c.first = w.s.now()
	}
	if c.came = came; came != 0 {
		c.came -= time.Now().UnixNano() - w.s.now() // the kernel's is the wall clock
	}
	c.in = append(c.in, w.input[:n]...)
	w.read(c)
}

// read takes the requests from what came, one at a time: the next is begun when the last is answered.
func (w *worker) read(c *conn) {
	for c.r == nil && c.ctl == "" && !c.ends && !c.dead && len(c.in) > 0 {
		r, used, err := readRequest(c.in)
		if err != nil {
			w.drop(c)
			return
		}
		if used == 0 {
			if r.expects && !c.told {
				c.told = true
				w.send(c, []byte("HTTP/1.1 100 Continue\r\n\r\n"))
			}
			return
		}
		c.told = false
		c.ends = r.close
		w.route(c, r)
		c.in = c.in[:copy(c.in, c.in[used:])]
	}
}

// start begins the answer to a request for a completion.
func (w *worker) start(c *conn, r incoming, shape api) {
	call := readCall(r.body)
	plan, err := w.planOf(r.plan, call.plan)
	if err != nil {
		w.reply(c, 400, "application/json", errorBody(400, err.Error()))
		return
	}
	now := w.mono()
	req := &Request{
		Number: int(w.s.number.Add(1) - 1), ID: string(r.id), Path: string(r.path), Stream: call.stream, Asked: call.tokens, Prompt: call.prompt,
		Status: 200, Plan: plan, Accept: c.accept, FirstByte: c.first, Arrived: c.came, Complete: w.s.epoch.Load() + now,
	}
	if plan.Status != 0 {
		req.Status = plan.Status
	}
	tokens := call.tokens
	if tokens == 0 {
		tokens = 16 // what OpenAI's API gives
	}
	ask := Ask{Tokens: tokens, Chat: shape == apiChat, Usage: call.usage && shape != apiGenerate, Whole: !call.stream, Number: req.Number, Phase: plan.phase(req.Number, req.Complete)}
	c.script = newScript(plan, ask)
	c.state = stream{api: shape, incremental: plan.Incremental, continuous: call.continuous, prompt: call.prompt, text: c.state.text[:0]}
	req.Events = make([]Event, 0, min(max(c.script.total, 0), 1<<16)+3)
	c.r, c.begin, c.parts = req, now, nil
	c.ends = c.ends || plan.Close
	w.open++
	w.log = append(w.log, req)
	w.totals.requests++
	w.totals.prompts += int64(call.prompt)
	c.step, c.more = c.script.next()
	if call.stream && plan.Status == 0 {
		w.send(c, streamHead(c.ends))
		if c.dead {
			return
		}
	}
	if c.flood = plan.Flood && c.step.Kind != Whole; c.flood {
		w.flood = append(w.flood, c)
		return
	}
	c.next = w.due(c)
	w.timers.add(c)
}

// planOf gives the plan of a request; plans are remembered, since many requests bring the same.
func (w *worker) planOf(header, body []byte) (*Plan, error) {
	text := header
	if text == nil {
		text = body
	}
	base := w.s.plan.Load()
	if text == nil {
		return base, nil
	}
	if p := w.plans[string(text)]; p != nil {
		return p, nil
	}
	p, err := ParsePlan(*base, text)
	if err != nil {
		return nil, err
	}
	if len(w.plans) > 10_000 {
		clear(w.plans)
	}
	w.plans[string(text)] = &p
	return &p, nil
}

// send writes, or keeps what the socket does not take.
func (w *worker) send(c *conn, b []byte) {
	if len(c.out) > 0 {
		c.out = append(c.out, b...)
		return
	}
	n, errno := rawWrite(c.fd, b)
	if errno == syscall.EAGAIN || errno == syscall.EINTR {
		n, errno = 0, 0
	}
	if errno != 0 {
		w.drop(c)
		return
	}
	if n == len(b) {
		return
	}
	if c.r != nil {
		c.r.Blocked++
	}
	c.out = append(c.out, b[n:]...)
	_ = w.watch(syscall.EPOLL_CTL_MOD, c.fd, syscall.EPOLLIN|syscall.EPOLLOUT) // it is there
}

// flush writes what was kept.
func (w *worker) flush(c *conn) {
	n, errno := rawWrite(c.fd, c.out)
	if errno == syscall.EAGAIN || errno == syscall.EINTR {
		return
	}
	if errno != 0 {
		w.drop(c)
		return
	}
	c.out = c.out[:copy(c.out, c.out[n:])]
	if len(c.out) > 0 {
		return
	}
	_ = w.watch(syscall.EPOLL_CTL_MOD, c.fd, syscall.EPOLLIN) // it is there
	switch {
	case c.r == nil && c.ends:
		w.drop(c)
	case c.r != nil && c.flood:
		w.flood = append(w.flood, c)
	}
}
