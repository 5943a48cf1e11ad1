//go:build linux && (amd64 || arm64)

package loadgen

import "time"

// shardLane is a shard's part of an open class: the next request of its schedule, and connections that wait for one.
type shardLane struct {
	shard    *shard
	schedule *schedule
	number   int // of the lane
	head     request
	has      bool // head is a request
	over     bool // no more will come
	idle     []*shardConn
	open     int // requests in flight
	most     int // of them; 0: no bound
}

// newLane gives a shard its part of an open class.
func newLane(s *shard, sch *schedule, number, most int) *shardLane {
	l := &shardLane{shard: s, schedule: sch, number: number, most: most}
	s.lanes = append(s.lanes, l)
	return l
}

// peek has the next request ready, if there is one.
func (l *shardLane) peek() bool {
	if !l.has && !l.over {
		l.head, l.has, l.over = l.schedule.take(l.number)
	}
	return l.has
}

// wait is the time until the next request is due.
func (l *shardLane) wait(now time.Duration) time.Duration {
	switch {
	case l.over || l.full():
		return longWait
	case !l.peek():
		return hungryWait
	}
	return max(0, l.head.due-now)
}

func (l *shardLane) full() bool { return l.most > 0 && l.open >= l.most }

// atOnce bounds the requests that are sent before the sockets are looked at again.
const atOnce = 64

// sendDue sends what is due. Late requests go at once.
func (l *shardLane) sendDue() {
	s := l.shard
	for n := 0; n < atOnce && !s.stopping.Load() && l.peek() && l.head.due <= s.now && !l.full(); n++ {
		req := l.head
		l.head, l.has = request{}, false
		l.open++
		c := l.connection()
		c.freed = req.due
		c.begin(req)
		s.now = s.run.since()
	}
}

// connection is one that waits, the one used last first; a new one when none does.
func (l *shardLane) connection() *shardConn {
	if n := len(l.idle); n > 0 {
		c := l.idle[n-1]
		l.idle = l.idle[:n-1]
		return c
	}
	c := newShardConn(l.shard, nil)
	c.lane = l
	return c
}

// freed takes a connection back.
func (l *shardLane) freed(c *shardConn) {
	l.open--
	l.idle = append(l.idle, c)
}

// leave records what was due and never went.
func (l *shardLane) leave(v verdict) {
	s := l.shard
	for l.peek() && l.head.due <= s.now {
		s.done = append(s.done, unsent(s.run.out.blank(), l.head, v, s.now))
		l.has = false
	}
}
