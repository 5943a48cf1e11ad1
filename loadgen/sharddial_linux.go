//go:build linux && (amd64 || arm64)

package loadgen

import (
	"fmt"
	"os"
)

// dial begins to open a connection.
func (c *shardConn) dial() {
	s := c.shard
	fd, err := openSocket(s.path.to, s.path.localOf(c.index), s.path.kernel)
	if err == nil {
		c.fd, c.used, c.losses = fd, false, 0
		c.generation++
		err = s.epoll.control(epollAdd, fd, epollOut, int32(c.index), c.generation)
	}
	if err != nil {
		c.undialled(os.NewSyscallError("connect", err))
		return
	}
	c.state = connDialling
	s.dialling++
	s.heap.set(c, s.now+dialTimeout)
}

// undialled ends a request for which no connection came about.
func (c *shardConn) undialled(err error) {
	c.shut()
	if c.busy {
		c.fail(fmt.Errorf("dial tcp %s: %w", c.shard.path.address, err))
	}
}

// shut closes the connection.
func (c *shardConn) shut() {
	if c.fd < 0 {
		return
	}
	if c.state == connDialling {
		c.shard.dialling--
		c.shard.heap.drop(c)
	}
	closeSocket(c.fd) // which takes it out of the epoll too
	c.fd, c.state, c.wantOut = -1, connIdle, false
	c.generation++
}

// connected goes on when a connection came about, or did not.
func (c *shardConn) connected() {
	s := c.shard
	if e := socketError(c.fd); e != 0 {
		c.undialled(os.NewSyscallError("connect", e))
		return
	}
	s.dialling--
	c.state = connIdle
	s.heap.drop(c)
	c.interest(false)
	if c.busy {
		c.send()
	}
}
