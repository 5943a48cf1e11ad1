//go:build linux && (amd64 || arm64)

package loadgen

import (
	"io"
	"syscall"
	"time"
)

// lateRead is from when a read of several events is the client's doing: their bytes lay there for so long.
const lateRead = 200 * time.Microsecond

// read reads what has come. It is looked at later, save what nobody asked for.
func (c *shardConn) read() {
	s := c.shard
	if s.in.room() < leastRead {
		was := c.generation
		if s.digest(); c.generation != was {
			return
		}
	}
	b, real, e := s.in.read(c.fd)
	if e == syscall.EAGAIN || e == syscall.EINTR {
		return
	}
	s.now = s.run.since()
	if !c.busy {
		c.shut()
		return
	}
	a := arrival{conn: c, b: b, real: real, now: s.now}
	if e != 0 {
		a.err = e
	} else if len(b) == 0 {
		a.err = io.EOF
	}
	s.arrivals = append(s.arrivals, a)
}

// take looks at what was read.
func (c *shardConn) take(a *arrival) {
	if c.state == connEnded { // more than the answer, or the connection's end, which is told again and again
		c.reply.resp.close, c.shard.hurry = true, true
		return
	}
	if a.err != nil {
		c.broken(a.err, a.now)
		return
	}
	at := c.stamp(a)
	used, perr := c.reply.feed(a.b, at)
	c.arrived(at, a.now)
	r := &c.reply
	switch {
	case perr != nil:
		c.over(perr, at)
	case r.resp.state == stateEnd:
		r.resp.close = r.resp.close || used < len(a.b)
		c.over(nil, at)
	case r.done && c.state == connOpen:
		c.state = connLinger
		c.shard.heap.set(c, a.now+lingerLimit)
	}
}

// over ends a request whose answer ended: at once where the kernel stamps what comes meanwhile, else when nothing is left to read.
func (c *shardConn) over(err error, at time.Duration) {
	s := c.shard
	if s.path.kernel || c.wrote < len(c.req.bytes) {
		c.finish(err, at)
		return
	}
	s.heap.drop(c)
	c.state = connEnded
	s.ended = append(s.ended, ending{c, err, at})
}

// stamp is the time of a read.
func (c *shardConn) stamp(a *arrival) time.Duration {
	s := c.shard
	c.reply.late = false
	if !s.path.kernel {
		return a.now
	}
	if a.real != 0 {
		if at, ok := s.clock.stamp(a.real, a.now); ok {
			s.seen.gap.add(a.now - at)
			return at
		}
	}
	c.reply.late = true
	s.seen.unstamped.Store(s.seen.unstamped.Load() + 1)
	return a.now
}

// arrived notes what a read brought.
func (c *shardConn) arrived(at, now time.Duration) {
	s, r := c.shard, &c.reply
	b := &s.batch
	b.reads++
	b.events += int64(r.arrived)
	if r.arrived > 1 {
		b.coalesced += int64(r.arrived - 1)
		if now-at > lateRead {
			b.lateCoalesced += int64(r.arrived - 1)
		}
	}
	if b.at < 0 {
		b.at = now
	}
	b.moved = b.moved || r.moved
	if r.texts == 0 {
		return
	}
	if c.fails.Load() != 0 {
		c.fails.Store(0)
	}
	if r.track.bearing == r.texts {
		b.firsts++
	}
	b.tokens += int64(r.fresh)
	if r.fresh > 0 {
		b.texts += int64(r.fresh)
	} else {
		b.texts += int64(r.texts)
	}
}

// broken ends a connection that the other side ended. After the stream's end mark, or where it ends a body without a
// length, that is no error.
func (c *shardConn) broken(err error, at time.Duration) {
	r := &c.reply
	r.resp.close = true
	switch {
	case r.done:
		err = nil
	case err == io.EOF && r.resp.state == stateUntilEOF:
		r.resp.state = stateEnd
		err = nil
	}
	c.finish(err, at)
}
