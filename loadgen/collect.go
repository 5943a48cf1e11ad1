package loadgen

import (
	"fmt"
	"sync"
	"time"
)

// collector takes every request that ended: it computes what the run comes to and packs the lines of the request
// file and the frames of the record. It is one goroutine's, so that neither a stream nor a shard waits for
// arithmetic; what it packs goes to the writer.
type collector struct {
	r   *run
	out *writer

	mu     sync.Mutex
	queue  []*finished
	spare  []*finished
	closed bool
	wake   chan struct{} // of capacity 1

	// Of the loop alone.
	batch   []*finished
	chunks  []Chunk
	bearing []Chunk
	sample  sample
}

// maxSpare is how many requests that were dealt with are kept to be used again.
const maxSpare = 512

func newCollector(r *run) *collector {
	return &collector{r: r, out: newWriter(r.spec.Requests, r.spec.Record), wake: make(chan struct{}, 1)}
}

// blank returns an empty request to fill in.
func (c *collector) blank() *finished {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.spare); n > 0 {
		f := c.spare[n-1]
		c.spare = c.spare[:n-1]
		return f
	}
	return new(finished)
}

// put hands over requests that ended.
func (c *collector) put(list ...*finished) {
	c.mu.Lock()
	c.queue = append(c.queue, list...)
	c.mu.Unlock()
	c.signal()
}

func (c *collector) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// close lets loop deal with what is queued and return.
func (c *collector) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.signal()
}

func (c *collector) loop() {
	for range c.wake {
		c.gather()
		c.mu.Lock()
		c.batch, c.queue = c.queue, c.batch[:0]
		closed := c.closed
		c.mu.Unlock()
		for _, f := range c.batch {
			c.take(f)
		}
		c.mu.Lock()
		if room := maxSpare - len(c.spare); room > 0 {
			c.spare = append(c.spare, c.batch[:min(room, len(c.batch))]...)
		}
		c.mu.Unlock()
		if len(c.batch) > 0 {
			clear(c.batch)
			c.out.push(false)
			select {
			case c.r.moved <- struct{}{}:
			default:
			}
		}
		if closed {
			return
		}
	}
}

// gatherTime is from the end of a request to the arithmetic about it, as long as others are in flight. Streams that a server
// writes in step end together: what is computed for the first of them on the same core would delay the stamps of the rest.
const gatherTime = 10 * time.Millisecond

// gather waits for more requests to end. Failures are told at once: why a run cannot go on is read from them.
func (c *collector) gather() {
	timer := time.NewTimer(gatherTime)
	defer timer.Stop()
	for c.r.inFlight.Load() > 0 && c.r.failing.Load() == 0 && !c.isClosed() {
		select {
		case <-timer.C:
			return
		case <-c.wake:
		}
	}
}

func (c *collector) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

func (c *collector) take(f *finished) {
	r, rec, x := c.r, &f.rec, &c.sample
	var err error
	if c.chunks, err = appendChunks(c.chunks[:0], f.track); err != nil {
		c.out.fail(fmt.Errorf("request %s: %w", rec.ID(), err)) // our own fault
	}
	rec.Class, rec.Chunks = r.spec.Classes[f.class].Name, c.chunks
	c.bearing = rec.Bearing(c.bearing[:0])
	x.class, x.open = f.class, f.open
	x.fill(rec, c.bearing)
	r.mu.Lock()
	r.summary.add(x, c.bearing, r.win)
	r.count(x, rec, f.goes)
	r.checkPrompt(f)
	r.mu.Unlock()
	c.out.add(f, x)
	rec.Chunks = nil
}
