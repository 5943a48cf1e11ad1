//go:build linux && (amd64 || arm64)

package loadgen

import "time"

// timers is a heap of connections by the time at which each is to be looked at. A connection has one timer.
type timers []*shardConn

// first is the connection whose time comes first; nil for none.
func (t timers) first() *shardConn {
	if len(t) == 0 {
		return nil
	}
	return t[0]
}

// set gives a connection its time.
func (t *timers) set(c *shardConn, due time.Duration) {
	c.due = due
	if c.heapAt < 0 {
		c.heapAt = len(*t)
		*t = append(*t, c)
	}
	if !t.up(c.heapAt) {
		t.down(c.heapAt)
	}
}

// drop takes a connection's timer away.
func (t *timers) drop(c *shardConn) {
	i := c.heapAt
	if i < 0 {
		return
	}
	last := len(*t) - 1
	t.swap(i, last)
	(*t)[last] = nil
	*t = (*t)[:last]
	c.heapAt = -1
	if i < last && !t.up(i) {
		t.down(i)
	}
}

func (t timers) swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].heapAt, t[j].heapAt = i, j
}

func (t timers) up(i int) (moved bool) {
	for i > 0 {
		parent := (i - 1) / 2
		if t[parent].due <= t[i].due {
			return moved
		}
		t.swap(i, parent)
		i, moved = parent, true
	}
	return moved
}

func (t timers) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(t) {
			return
		}
		if other := child + 1; other < len(t) && t[other].due < t[child].due {
			child = other
		}
		if t[i].due <= t[child].due {
			return
		}
		t.swap(i, child)
		i = child
	}
}
