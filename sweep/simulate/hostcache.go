package simulate

// loadBackThreshold is how many tokens a hit on the host must bring to be worth a copy.
const loadBackThreshold = 10

// hostTier is the second tier of the prefix cache in host memory, in tokens of one rank. It is
// written through: what enters the tree on the device is copied to the host at once.
type hostTier struct {
	total int
	used  int

	loadBackTotal int64
	backupTotal   int64
}

func (h *hostTier) reset() { h.used = 0 }

// backup copies a node to the host. Where it finds no room, the node is lost when the device evicts it.
func (c *cache) backup(n *node) {
	if n.host || !n.parent.host {
		return
	}
	size := len(n.key)
	if c.host.used+size > c.host.total {
		c.evictHost(c.host.used + size - c.host.total)
	}
	if c.host.used+size > c.host.total {
		return
	}
	n.host = true
	c.host.used += size
	c.host.backupTotal += int64(size)
}

// evictHost drops at least n tokens that only the host has, the least recently used first, or all that can be.
func (c *cache) evictHost(n int) {
	for n > 0 {
		victim := oldestHostLeaf(c.root, nil)
		if victim == nil {
			return
		}
		n -= len(victim.key)
		c.host.used -= len(victim.key)
		delete(victim.parent.children, victim.key[0])
	}
}

// oldestHostLeaf finds the least recently used node that is on the host alone and has nothing below.
func oldestHostLeaf(at, best *node) *node {
	for _, child := range at.children {
		if len(child.children) == 0 {
			if child.host && !child.device && child.locks == 0 && (best == nil || child.used < best.used) {
				best = child
			}
			continue
		}
		best = oldestHostLeaf(child, best)
	}
	return best
}

// loadBack copies a prefix found on the host back to the device and returns how many tokens came. Too
// small a find, or one for which there is no room, stays where it is.
func (c *cache) loadBack(f *found) int {
	if f.host == nil || f.hostLen < loadBackThreshold || f.hostLen > c.available() {
		return 0
	}
	c.lock(f.device) // its ancestors must not make the room
	ok := c.allocate(f.hostLen)
	c.unlock(f.device)
	if !ok {
		return 0
	}
	var chain []*node
	for n := f.host; n != f.device; n = n.parent {
		chain = append(chain, n)
	}
	for i := len(chain) - 1; i >= 0; i-- { // from above, so that only the last is a leaf
		c.toDevice(chain[i])
	}
	got := f.hostLen
	c.host.loadBackTotal += int64(got)
	f.device, f.deviceLen = f.host, f.deviceLen+got
	f.host, f.hostLen = nil, 0
	return got
}
