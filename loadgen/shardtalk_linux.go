//go:build linux && (amd64 || arm64)

package loadgen

import (
	"bytes"
	"time"
)

// follow asks for the next turn of the conversation whose answer ended at a time. It comes back through arrivedNext.
func (c *shardConn) follow(end time.Duration) {
	s := c.shard
	c.freed = end
	s.run.builder.jobs <- followJob{
		req: c.req, said: bytes.Clone(c.reply.said), tokens: max(0, c.reply.completion),
		deliver: func(next request) {
			s.mu.Lock()
			s.turns = append(s.turns, nextTurn{c, next})
			s.mu.Unlock()
			s.bell.ring()
		},
	}
}

// nextTurn is a turn that was built for a slot.
type nextTurn struct {
	conn *shardConn
	req  request
}

// takeTurns sets the times at which the turns that were built are to go.
func (s *shard) takeTurns() {
	s.mu.Lock()
	s.taken, s.turns = s.turns, s.taken[:0]
	s.mu.Unlock()
	for _, t := range s.taken {
		c := t.conn
		c.next, c.hasNext = t.req, true
		c.freed += t.req.think
		s.heap.set(c, c.freed)
	}
	clear(s.taken)
}
