package simulate

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// audit recounts a cache from its tree.
func audit(t *testing.T, c *cache, outside int) {
	t.Helper()
	evictable, protected, host := 0, 0, 0
	leaves := map[*node]struct{}{}
	var walk func(n *node)
	walk = func(n *node) {
		for first, child := range n.children {
			if child.parent != n || len(child.key) == 0 || child.key[0] != first {
				t.Fatal("a broken edge")
			}
			if child.device && !n.device || child.host && !n.host {
				t.Fatal("a tier with a hole")
			}
			if !child.device && !child.host {
				t.Fatal("a node that is nowhere")
			}
			if child.device && child.locks > 0 {
				protected += len(child.key)
			} else if child.device {
				evictable += len(child.key)
			}
			if child.host {
				host += len(child.key)
			}
			if child.device && !hasDeviceChild(child) {
				leaves[child] = struct{}{}
			}
			walk(child)
		}
	}
	walk(c.root)
	if evictable != c.evictable || protected != c.protected {
		t.Fatalf("evictable %d (counted %d), protected %d (counted %d)", c.evictable, evictable, c.protected, protected)
	}
	if c.free+evictable+protected+outside != c.total {
		t.Fatalf("free %d + evictable %d + protected %d + outside %d are not %d", c.free, evictable, protected, outside, c.total)
	}
	if len(leaves) != len(c.leaves) {
		t.Fatalf("%d leaves, counted %d", len(c.leaves), len(leaves))
	}
	if c.host != nil && c.host.used != host {
		t.Fatalf("host %d, counted %d", c.host.used, host)
	}
}

// serveOne takes a prompt through the cache as the scheduler does; it returns what was found where.
func serveOne(t *testing.T, c *cache, ids []int32) (device, host int) {
	t.Helper()
	f := c.match(ids[:len(ids)-1])
	c.lock(f.device)
	loaded := c.loadBack(&f)
	if loaded > 0 {
		c.lock(f.device)
		c.unlock(ancestor(f.device, loaded))
	}
	if !c.allocate(len(ids) - f.deviceLen) {
		c.unlock(f.device)
		return 0, 0
	}
	last := c.insert(ids, f.deviceLen)
	c.unlock(f.device)
	c.lock(last)
	c.unlock(last)
	return f.deviceLen - loaded, loaded
}

func sequence(seed uint64, n int) []int32 {
	rng := rand.New(rand.NewPCG(seed, 0))
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32(rng.IntN(50_000))
	}
	return ids
}

func TestCacheFindsPrefixes(t *testing.T) {
	c := newCache(10_000, false)
	a := sequence(1, 1000)
	b := slices.Concat(a[:600], sequence(2, 400))
	for i, want := range []int{0, 999, 600, 999} {
		got, _ := serveOne(t, c, [][]int32{a, a, b, b}[i])
		if got != want {
			t.Errorf("prompt %d: %d tokens found, want %d", i, got, want)
		}
		audit(t, c, 0)
	}
	if c.evictable != 1400 || c.usedTokens() != 0 {
		t.Errorf("%d tokens in the tree (want 1,400, the shared 600 once), %d used", c.evictable, c.usedTokens())
	}
}

func TestCacheEvictsLeastRecentlyUsed(t *testing.T) {
	c := newCache(3000, false)
	for i := range uint64(3) {
		serveOne(t, c, sequence(i, 1000))
	}
	serveOne(t, c, sequence(0, 1000)) // now 1 is the oldest
	serveOne(t, c, sequence(3, 1000))
	for i, want := range []int{999, 0, 999, 999} {
		if f := c.match(sequence(uint64(i), 1000)[:999]); f.deviceLen != want {
			t.Errorf("prompt %d: %d tokens left, want %d", i, f.deviceLen, want)
		}
	}
	audit(t, c, 0)
}

// As recorded with real SGLang: ten prompts of 8,000 tokens through a pool of 40,000 with a host tier of 122,071; the second time each
// finds 7,999 tokens on the host, none on the device.
func TestHostTierAsRecorded(t *testing.T) {
	c := newCache(40_000, false)
	c.host = &hostTier{total: 122_071}
	for pass := range 2 {
		for i := range uint64(10) {
			device, host := serveOne(t, c, sequence(i, 8000))
			if wantHost := pass * 7999; device != 0 || host != wantHost {
				t.Errorf("pass %d, prompt %d: device %d, host %d; want 0 and %d", pass, i, device, host, wantHost)
			}
			audit(t, c, 0)
		}
	}
	if c.host.loadBackTotal != 79_990 {
		t.Errorf("%d tokens loaded back, want the recorded 79,990", c.host.loadBackTotal)
	}
}

// A host tier smaller than what comes by keeps the latest.
func TestHostTierEvicts(t *testing.T) {
	c := newCache(2000, false)
	c.host = &hostTier{total: 3000}
	for i := range uint64(6) {
		serveOne(t, c, sequence(i, 1000))
		audit(t, c, 0)
	}
	if c.host.used > 3000 {
		t.Errorf("%d tokens on a host of 3,000", c.host.used)
	}
	if f := c.match(sequence(0, 1000)); f.deviceLen+f.hostLen != 0 {
		t.Error("the oldest prompt is still there")
	}
	if f := c.match(sequence(3, 1000)); f.hostLen != 1000 {
		t.Errorf("the latest evicted prompt: %d tokens on the host, want 1,000", f.hostLen)
	}
}

// Whatever comes, the counts agree with the tree.
func FuzzCache(f *testing.F) {
	f.Add(uint64(1), true)
	f.Add(uint64(2), false)
	f.Fuzz(func(t *testing.T, seed uint64, host bool) {
		rng := rand.New(rand.NewPCG(seed, 9))
		c := newCache(500+rng.IntN(3000), false)
		if host {
			c.host = &hostTier{total: rng.IntN(6000)}
		}
		for range 200 {
			base := sequence(uint64(rng.IntN(12)), 50+rng.IntN(400))
			cut := rng.IntN(len(base))
			ids := append(slices.Clone(base[:cut]), sequence(rng.Uint64N(40), 1+rng.IntN(200))...)
			serveOne(t, c, ids)
			audit(t, c, 0)
		}
	})
}
