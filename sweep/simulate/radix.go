package simulate

// node is one edge of the radix tree with the tokens on it. Its KV is on the device, on the host, or on both (the host
// tier is inclusive); what is on neither is no longer in the tree. Above a device node all are device nodes,
// above a host node all are host nodes.
type node struct {
	parent   *node
	children map[int32]*node // by first token
	key      []int32
	device   bool
	host     bool
	locks    int   // running requests that stand on it or below
	used     int64 // stamp of the last use
}

// cache is the KV pool as SGLang's radix cache sees it, in tokens:
//
//	total = free + evictable + protected + what running requests hold outside the tree
type cache struct {
	root      *node
	disabled  bool // requests keep their tokens to themselves and give them back at their end
	total     int
	free      int
	evictable int // in the tree, held by nobody
	protected int // in the tree, under running requests
	stamp     int64
	leaves    map[*node]struct{} // device nodes without device children
	host      *hostTier          // nil: none

	evictedTotal int64
}

func newCache(total int, disabled bool) *cache {
	c := &cache{total: total, disabled: disabled}
	c.reset()
	return c
}

// reset empties the tree; nothing may be running.
func (c *cache) reset() {
	c.root = &node{children: map[int32]*node{}, device: true, host: true, locks: 1}
	c.leaves = map[*node]struct{}{}
	c.free, c.evictable, c.protected = c.total, 0, 0
	if c.host != nil {
		c.host.reset()
	}
}

// usedTokens is what running requests hold: cached but evictable tokens do not count.
func (c *cache) usedTokens() int { return c.total - c.free - c.evictable }

// available is what could be allocated now.
func (c *cache) available() int { return c.free + c.evictable }

// found is the longest known prefix of a prompt.
type found struct {
	device    *node // deepest on the device
	deviceLen int
	host      *node // deepest on the host below it; nil: none
	hostLen   int   // tokens between the two
}

// match finds the longest known prefix, splitting a node where the prefix ends inside it.
func (c *cache) match(ids []int32) found {
	f := found{device: c.root}
	if c.disabled {
		return f
	}
	c.stamp++
	at := c.root
	for len(ids) > 0 {
		child := at.children[ids[0]]
		if child == nil {
			break
		}
		n := commonPrefix(child.key, ids)
		if n < len(child.key) {
			child = c.split(child, n)
		}
		child.used = c.stamp
		if child.device {
			f.device = child
			f.deviceLen += n
		} else {
			f.host = child
			f.hostLen += n
		}
		ids = ids[n:]
		at = child
	}
	return f
}

func commonPrefix(a, b []int32) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// split cuts a node's edge after n tokens and returns the new upper half.
func (c *cache) split(low *node, n int) *node {
	up := &node{
		parent: low.parent, children: map[int32]*node{low.key[n]: low}, key: low.key[:n:n],
		device: low.device, host: low.host, locks: low.locks, used: low.used,
	}
	low.parent.children[low.key[0]] = up
	low.parent = up
	low.key = low.key[n:]
	return up // up has a device child if it is on the device: never a leaf
}

// insert puts a sequence into the tree. Of its tokens held are allocated to the caller beyond the first known ones
// that were in the tree when it matched; tokens that the tree has meanwhile got from somebody else are freed. It returns the last node.
func (c *cache) insert(ids []int32, known int) *node {
	c.stamp++
	at, done := c.root, 0
	for done < len(ids) {
		child := at.children[ids[done]]
		if child == nil {
			break
		}
		n := commonPrefix(child.key, ids[done:])
		if n < len(child.key) {
			child = c.split(child, n)
		}
		child.used = c.stamp
		if own := done + n - max(known, done); child.device {
			c.free += max(0, own) // a duplicate
		} else {
			c.toDevice(child) // back on the device with the caller's tokens
		}
		if c.host != nil {
			c.backup(child)
		}
		done += n
		at = child
	}
	if done == len(ids) {
		return at
	}
	leaf := &node{parent: at, children: map[int32]*node{}, key: ids[done:], used: c.stamp}
	at.children[ids[done]] = leaf
	c.toDevice(leaf)
	if c.host != nil {
		c.backup(leaf)
	}
	return leaf
}

// toDevice marks a node's tokens as being on the device and in the tree.
func (c *cache) toDevice(n *node) {
	n.device = true
	delete(c.leaves, n.parent)
	c.leaves[n] = struct{}{}
	if n.locks > 0 {
		c.protected += len(n.key)
	} else {
		c.evictable += len(n.key)
	}
}

// lock protects a node and all above it from eviction.
func (c *cache) lock(n *node) {
	for ; n != c.root; n = n.parent {
		if n.locks == 0 {
			c.evictable -= len(n.key)
			c.protected += len(n.key)
		}
		n.locks++
	}
}

// unlock takes one lock back.
func (c *cache) unlock(n *node) {
	for ; n != c.root; n = n.parent {
		n.locks--
		if n.locks == 0 {
			c.protected -= len(n.key)
			c.evictable += len(n.key)
		}
	}
}

// allocate takes n tokens, evicting the least recently used when too few are free. It reports false, having taken
// nothing, when there are not enough even so.
func (c *cache) allocate(n int) bool {
	if n > c.free {
		c.evict(n - c.free)
	}
	if n > c.free {
		return false
	}
	c.free -= n
	return true
}

// evict frees at least n tokens of the device, or all that can be.
func (c *cache) evict(n int) {
	for n > 0 && c.evictable > 0 {
		var victim *node
		for leaf := range c.leaves {
			if leaf.locks == 0 && (victim == nil || leaf.used < victim.used) {
				victim = leaf
			}
		}
		if victim == nil {
			return
		}
		size := len(victim.key)
		n -= size
		c.free += size
		c.evictable -= size
		c.evictedTotal += int64(size)
		c.offDevice(victim)
	}
}

// offDevice takes an evicted node from the device, and out of the tree unless the host has it.
func (c *cache) offDevice(n *node) {
	n.device = false
	delete(c.leaves, n)
	if !n.host {
		delete(n.parent.children, n.key[0])
	}
	if p := n.parent; p != c.root && !hasDeviceChild(p) {
		c.leaves[p] = struct{}{}
	}
}

func hasDeviceChild(n *node) bool {
	for _, child := range n.children {
		if child.device {
			return true
		}
	}
	return false
}
