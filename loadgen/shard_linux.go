//go:build linux && (amd64 || arm64)

package loadgen

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const (
	readBuffer = 256 << 10             // bytes of the reads of one wake-up; one buffer serves all streams of a shard
	leastRead  = 32 << 10              // room for one more of them
	longWait   = 10 * time.Millisecond // of one wait for events, at most
	hungryWait = time.Millisecond      // the same while a slot waits for a request to be prepared
	dialsAhead = 64                    // connections that are opened at a time before the run

	// The slots of closed classes send their first requests one after the other, so far apart, all of them within
	// startTime: a burst that is denser than a server can read measures the queue of its socket.
	startStep = 25 * time.Microsecond
	startTime = 50 * time.Millisecond
)

// shard is a thread of its own with its own sockets, timers and counts. It shares nothing with others while events
// come, save counters; requests that ended leave it in batches.
type shard struct {
	path  *shardPath
	run   *run
	epoll *epoll
	bell  bell
	in    *receiver
	clock kernelClock
	conns []*shardConn
	lanes []*shardLane // of the open classes
	heap  timers
	shape template // of the events of all its streams

	mu           sync.Mutex
	turns, taken []nextTurn // of conversations, that were built; guarded by mu: turns

	arrivals []arrival // read, and not yet looked at
	ended    []ending  // answered, and not yet wound up
	hurry    bool      // one of them has more to read, which is no reason to wait
	stopping atomic.Bool
	hungry   []*shardConn // free, and no request was ready
	dialling int
	done     []*finished // since the last hand-over
	now      time.Duration

	batch struct { // of one wake-up
		tokens, firsts, texts int64
		at                    time.Duration // of the first read; −1: none
		moved                 bool

		reads, events, coalesced, lateCoalesced int64 // as in seen
	}
	seen shardSeen
}

// shardSeen is what a shard observed of itself. Only the shard writes it.
type shardSeen struct {
	thread                              atomic.Int64 // its id in the kernel
	began                               atomic.Int64 // ns since the start of the run
	idle                                atomic.Int64 // ns spent waiting for events
	reads, events, coalesced, unstamped atomic.Int64
	lateCoalesced                       atomic.Int64 // coalesced events that lay there before they were read
	starved                             atomic.Int64 // times that no request was ready for a free slot
	losses                              atomic.Int64 // segments sent again or out of order
	resent                              atomic.Int64
	gap                                 hist // how much later than the kernel's stamp the bytes were read
	turn                                hist // from a slot's release to its next request
	lag                                 hist // from the planned time to the first byte, in open classes
}

func newShard(p *shardPath) (*shard, error) {
	s := &shard{path: p, run: p.run, in: newReceiver(readBuffer, p.kernel)}
	var err error
	if s.epoll, err = newEpoll(); err != nil {
		return nil, err
	}
	if s.bell, err = newBell(); err == nil {
		err = s.epoll.control(epollAdd, int(s.bell), epollIn, bellID, 0)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	s.clock.since = s.run.since
	s.batch.at = -1
	return s, nil
}

func (s *shard) close() {
	for _, c := range s.conns {
		c.shut()
	}
	if s.bell > 0 {
		closeSocket(int(s.bell))
	}
	s.epoll.close()
}

// live is the whole life of the shard's thread: dial ahead, say so, wait for the start, run until ctx ends.
func (s *shard) live(ctx context.Context, dialled func(), start <-chan struct{}) {
	runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine, as it is no ordinary one any more
	defer s.close()
	sharpen()
	s.seen.thread.Store(int64(threadID()))
	unhook := context.AfterFunc(ctx, func() {
		s.stopping.Store(true)
		s.bell.ring()
	})
	defer unhook()
	s.dialAhead()
	dialled()
	select {
	case <-start:
	case <-ctx.Done():
		return
	}
	s.now = s.run.since()
	s.clock.begin()
	s.seen.began.Store(int64(s.now))
	s.startSlots()
	for !s.stopping.Load() {
		s.turn()
	}
	s.cut(context.Cause(ctx))
}

// startSlots plans the first request of each slot.
func (s *shard) startSlots() {
	n := 0
	for _, c := range s.conns {
		if c.lane == nil {
			n++
		}
	}
	step, at := min(startStep, startTime/time.Duration(max(n, 1))), s.now
	for _, c := range s.conns {
		if c.lane != nil {
			continue
		}
		c.freed = at
		if at == s.now {
			s.next(c)
		} else {
			s.heap.set(c, at)
		}
		at += step
	}
}

// turn waits once for events and deals with them.
func (s *shard) turn() {
	s.feedHungry()
	before := s.run.since()
	events := s.epoll.wait(s.wait(before))
	s.now = s.run.since()
	s.seen.idle.Store(s.seen.idle.Load() + int64(s.now-before))
	for i := range events {
		s.event(int(events[i].Fd), events[i].Pad, events[i].Events)
		if i%16 == 15 { // a long batch must not delay what is due
			s.sendDue()
		}
	}
	s.digest()
	s.expire()
	s.sendDue()
	if len(s.ended) > 0 && (len(events) == 0 || s.hurry || s.now-s.ended[0].at > windUpLimit) {
		s.windUp(windUpAtOnce)
	}
	s.clock.check(s.now)
	s.handOver()
}

// arrival is what one read brought.
type arrival struct {
	conn *shardConn
	b    []byte
	real int64         // the kernel's stamp, of the real-time clock; 0: none
	now  time.Duration // when it was read
	err  error         // of the connection, in place of bytes
}

// digest looks at what was read. All that one wake-up tells of is read and stamped before any of it: so a stamp waits for reads
// only, and kernel and parser do not drive each other out of the processor's caches with each event.
func (s *shard) digest() {
	for i := range s.arrivals {
		a := &s.arrivals[i]
		a.conn.take(a)
		if i%16 == 15 {
			s.now = s.run.since()
			s.sendDue()
		}
	}
	if len(s.arrivals) > 0 {
		s.now = s.run.since()
	}
	s.arrivals = s.arrivals[:0]
	s.in.reset()
}

// ending is a request whose answer has ended.
type ending struct {
	conn *shardConn
	err  error
	at   time.Duration
}

// windUpLimit is how long a slot whose answer has ended may wait for its next request, as long as there is something to read and
// stamps are taken after reads: winding up a thousand streams that end together takes as long as many reads. So many are wound up
// before the sockets are looked at again.
const (
	windUpLimit  = 5 * time.Millisecond
	windUpAtOnce = 64
)

// windUp ends requests whose answers have ended, n at most.
func (s *shard) windUp(n int) {
	n = min(n, len(s.ended))
	for i := range s.ended[:n] {
		e := &s.ended[i]
		e.conn.finish(e.err, e.at)
	}
	s.ended = append(s.ended[:0], s.ended[n:]...)
	s.hurry = s.hurry && len(s.ended) > 0
}

// wait is how long to wait for events.
func (s *shard) wait(now time.Duration) time.Duration {
	if len(s.ended) > 0 {
		return 0
	}
	d := longWait
	if len(s.hungry) > 0 {
		d = hungryWait
	}
	if c := s.heap.first(); c != nil {
		d = min(d, max(0, c.due-now))
	}
	for _, l := range s.lanes {
		d = min(d, l.wait(now))
	}
	return d
}

func (s *shard) sendDue() {
	for _, l := range s.lanes {
		l.sendDue()
	}
}

func (s *shard) event(id int, generation int32, what uint32) {
	if id == bellID {
		s.bell.quiet()
		s.takeTurns()
		return
	}
	c := s.conns[id]
	if c.generation != generation {
		return // of a socket that is closed
	}
	c.event(what)
}

// expire fires the timers that are due.
func (s *shard) expire() {
	for {
		c := s.heap.first()
		if c == nil || c.due > s.now {
			return
		}
		s.heap.drop(c)
		c.expired()
	}
}

// next gives a free slot its next request.
func (s *shard) next(c *shardConn) {
	if s.stopping.Load() {
		return
	}
	req, ok := c.feed.take()
	if !ok && c.feed.over() {
		return
	}
	if !ok {
		s.seen.starved.Store(s.seen.starved.Load() + 1)
		s.hungry = append(s.hungry, c)
		return
	}
	c.begin(req)
}

func (s *shard) feedHungry() {
	list := s.hungry
	for len(list) > 0 {
		req, ok := list[0].feed.take()
		if !ok && list[0].feed.over() {
			list = list[1:]
			continue
		}
		if !ok { // its class has none; another's may: they take turns at the next wake-up
			break
		}
		c := list[0]
		list = list[1:]
		s.now = s.run.since()
		c.begin(req)
	}
	if len(list) > 1 && len(list) == len(s.hungry) {
		list = append(list[1:len(list):len(list)], list[0])
	}
	if len(list) == 0 {
		s.hungry = s.hungry[:0]
		return
	}
	s.hungry = append(s.hungry[:0], list...)
}

// handOver gives away what one wake-up brought.
func (s *shard) handOver() {
	b, r := &s.batch, s.run
	if b.at >= 0 {
		r.watch.span(b.at, s.now, b.moved, r.opened())
		r.spec.Counters.LastByte.Store(int64(r.sinceCounters(s.now)))
		b.at, b.moved = -1, false
		s.seen.reads.Add(b.reads)
		s.seen.events.Add(b.events)
		if b.coalesced > 0 {
			s.seen.coalesced.Add(b.coalesced)
			s.seen.lateCoalesced.Add(b.lateCoalesced)
		}
		b.reads, b.events, b.coalesced, b.lateCoalesced = 0, 0, 0, 0
	}
	if b.texts > 0 {
		if r.failing.Load() != 0 {
			r.failing.Store(0)
		}
		if b.firsts > 0 {
			r.spec.Counters.FirstTokens.Add(b.firsts)
		}
		if b.tokens > 0 {
			r.spec.Counters.Tokens.Add(b.tokens)
		}
		r.live.Add(b.texts)
		b.tokens, b.firsts, b.texts = 0, 0, 0
	}
	if len(s.done) > 0 {
		r.out.put(s.done...)
		s.done = s.done[:0]
	}
}

// cut ends every request that is in flight.
func (s *shard) cut(cause error) {
	s.now = s.run.since()
	s.windUp(len(s.ended))
	for _, c := range s.conns {
		if c.busy {
			c.end(cancelled(cause), s.now)
		}
	}
	for _, l := range s.lanes {
		l.leave(cancelled(cause))
	}
	s.handOver()
}

// dialAhead opens the connections of all slots, some at a time. It gives up at the first that fails: its slot will
// meet the reason with its first request.
func (s *shard) dialAhead() {
	s.now = s.run.since()
	left, failed := s.conns, false
	for !s.stopping.Load() && !failed && (len(left) > 0 || s.dialling > 0) {
		for len(left) > 0 && s.dialling < dialsAhead && !failed {
			left[0].dial()
			failed = left[0].fd < 0
			left = left[1:]
		}
		events := s.epoll.wait(longWait)
		s.now = s.run.since()
		for i := range events {
			s.event(int(events[i].Fd), events[i].Pad, events[i].Events)
		}
		for c := s.heap.first(); c != nil && c.due <= s.now; c = s.heap.first() {
			c.shut()
			failed = true
		}
	}
	for _, c := range s.conns {
		if c.state == connDialling {
			c.shut()
		}
	}
}
