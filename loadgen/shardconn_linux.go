//go:build linux && (amd64 || arm64)

package loadgen

import (
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	epollAdd  = syscall.EPOLL_CTL_ADD
	epollMod  = syscall.EPOLL_CTL_MOD
	epollIn   = syscall.EPOLLIN
	epollOut  = syscall.EPOLLOUT
	epollHang = syscall.EPOLLHUP | syscall.EPOLLERR | syscall.EPOLLRDHUP
	bellID    = -1
)

// connState is what a connection waits for.
type connState uint8

const (
	connIdle     connState = iota // for a request, or for the end of a back-off
	connDialling                  // for the connection to come about
	connOpen                      // for the answer
	connLinger                    // for the end of the response, after the stream's end mark
	connEnded                     // to be wound up
)

// shardConn is a slot of a closed pool with its connection. It is its shard's alone, save fails.
type shardConn struct {
	shard      *shard
	index      int
	feed       *feed      // of a closed class: its requests
	lane       *shardLane // of an open class
	fd         int        // −1: no connection
	generation int32
	state      connState
	wantOut    bool // waits for room to write
	used       bool // the connection had a request before
	busy       bool // a request is under way

	req     request
	wrote   int
	werr    error
	reused  bool // this request goes over a connection that was used before
	resent  bool
	freed   time.Duration // when the slot became free; the planned time of a request of an open class
	admit   time.Duration
	sendAt  time.Duration
	sentAt  time.Duration
	lastUse time.Duration
	losses  int // that the connection had before this request
	reply   reply

	next    request // the next turn of a conversation
	hasNext bool

	due    time.Duration
	heapAt int // in the timers; −1: none set
	fails  atomic.Int32
}

func newShardConn(s *shard, f *feed) *shardConn {
	c := &shardConn{shard: s, feed: f, fd: -1, heapAt: -1, index: len(s.conns)}
	c.reply.shape = &s.shape
	s.conns = append(s.conns, c)
	return c
}

// begin takes up a request.
func (c *shardConn) begin(req request) {
	s := c.shard
	c.req, c.busy, c.resent = req, true, false
	c.admit, c.sendAt, c.sentAt = s.now, -1, -1
	c.reply.wants, c.reply.asked = req.talk != nil, req.output
	c.reply.reset()
	s.run.begin()
	if c.fd >= 0 && c.used && s.now-c.lastUse > idleLimit {
		c.shut()
	}
	if c.fd < 0 {
		c.dial()
		return
	}
	c.send()
}

func (c *shardConn) event(what uint32) {
	if c.state == connDialling {
		c.connected()
		return
	}
	if what&epollOut != 0 && c.wantOut {
		c.write()
	}
	if what&(epollIn|epollHang) != 0 && c.fd >= 0 {
		c.read()
	}
}

// interest asks for what can be read, and for room to write if out.
func (c *shardConn) interest(out bool) {
	events := uint32(epollIn)
	if out {
		events |= epollOut
	}
	c.wantOut = out
	_ = c.shard.epoll.control(epollMod, c.fd, events, int32(c.index), c.generation) // of a socket that is in the set
}

// send begins to write the request.
func (c *shardConn) send() {
	s := c.shard
	c.state, c.wrote, c.werr = connOpen, 0, nil
	c.reused, c.used = c.used, true
	s.heap.set(c, s.now+s.run.spec.RequestTimeout)
	c.sendAt = s.run.since()
	c.write()
}

// write gives the kernel as much of the request as it takes.
func (c *shardConn) write() {
	for c.wrote < len(c.req.bytes) {
		n, e := send(c.fd, c.req.bytes[c.wrote:])
		switch e {
		case 0:
			c.wrote += n
		case syscall.EINTR:
		case syscall.EAGAIN:
			if !c.wantOut {
				c.interest(true)
			}
			return
		default:
			c.werr = e // a server may refuse before it has read everything: its answer, or its end, is read next
			if c.wantOut {
				c.interest(false)
			}
			return
		}
	}
	c.sentAt = c.shard.run.since()
	if c.wantOut {
		c.interest(false)
	}
}

// expired fires the connection's timer.
func (c *shardConn) expired() {
	switch {
	case c.state == connDialling:
		c.undialled(os.ErrDeadlineExceeded)
	case !c.busy && c.hasNext: // the end of the time to think
		c.hasNext = false
		c.begin(c.next)
	case !c.busy: // the end of a back-off
		c.shard.next(c)
	case c.state == connLinger:
		c.reply.resp.close = true
		c.finish(nil, c.shard.now)
	default:
		c.reply.resp.close = true
		c.finish(os.ErrDeadlineExceeded, c.shard.now)
	}
}

// finish ends a request whose answer ended, or sends it again when the server was just closing the connection:
// nothing was made of it then. A server that dies over a request does not get so far, and is met again on the new
// connection.
func (c *shardConn) finish(err error, end time.Duration) {
	s := c.shard
	s.now = s.run.since()
	s.heap.drop(c)
	c.lastUse = s.now
	if c.werr == nil && err == nil && !c.reply.resp.close && c.wrote == len(c.req.bytes) {
		c.state = connIdle
		c.settle(nil, end)
		return
	}
	early := c.wrote < len(c.req.bytes) || s.now-c.sendAt < staleLimit
	if c.reused && c.reply.untouched() && stale(err) && early {
		c.shut()
		s.seen.resent.Store(s.seen.resent.Load() + 1)
		c.resent = true
		c.sendAt, c.sentAt = -1, -1
		c.reply.reset()
		c.dial()
		return
	}
	if c.werr != nil && err != nil && !c.reply.resp.headDone() {
		err = c.werr
	}
	c.reply.resp.close = true
	c.settle(err, end)
}

// fail ends a request that was never sent.
func (c *shardConn) fail(err error) {
	c.sendAt, c.sentAt = -1, -1
	c.reply.reset()
	c.settle(err, c.shard.now)
}

// settle judges a request and frees the slot.
func (c *shardConn) settle(err error, end time.Duration) {
	s := c.shard
	v := c.req.judge(&c.reply, err)
	if v.outcome != OK && c.reply.track.bearing == 0 {
		c.fails.Add(1)
	}
	goesOn := c.req.goesOn(v)
	if goesOn {
		c.follow(end)
	}
	c.end(v, end)
	if err != nil || c.reply.resp.close {
		c.shut()
	}
	if goesOn {
		return
	}
	if c.lane != nil {
		c.lane.freed(c)
		return
	}
	c.freed = end
	if n := c.fails.Load(); n > 0 {
		s.heap.set(c, s.now+backoff(n))
		return
	}
	s.next(c)
}

// end hands the request's record over.
func (c *shardConn) end(v verdict, at time.Duration) {
	s := c.shard
	f := s.run.out.blank()
	f.exact, f.class, f.open = c.req.exact, c.req.class, c.lane != nil
	f.rec = c.req.record()
	rec := &f.rec
	rec.Sched, rec.Admit, rec.Send, rec.Sent, rec.Resent = c.freed, c.admit, c.sendAt, c.sentAt, c.resent
	rec.Kernel = s.path.kernel
	rec.Retransmits = unknown
	if c.fd >= 0 {
		if n := lossOf(c.fd); n >= 0 {
			rec.Retransmits = n - c.losses
			s.seen.losses.Store(s.seen.losses.Load() + int64(rec.Retransmits))
			c.losses = n
		}
	}
	if c.sendAt >= 0 && c.lane == nil {
		s.seen.turn.add(c.sendAt - c.freed)
	} else if c.sendAt >= 0 {
		s.seen.lag.add(c.sendAt - c.freed)
	}
	f.goes = c.req.goesOn(v)
	s.run.settle(f, &c.reply, v, at)
	if c.lane != nil {
		c.lane.schedule.back(c.req.bytes)
	} else {
		c.feed.back(c.req.bytes)
	}
	c.req.bytes, c.busy = nil, false
	s.done = append(s.done, f)
}
