//go:build linux && (amd64 || arm64)

package loadgen

import (
	"sync/atomic"
	"time"
)

// kernelClock turns the kernel's stamps, which are of the real-time clock, into times since the start of the run. The
// distance of the two clocks is measured again and again, so that a real-time clock that is being adjusted
// does no harm; one that is set is noticed. It is one thread's, save steps.
type kernelClock struct {
	since  func() time.Duration
	offset int64         // real time in ns minus time since the start
	next   time.Duration // when to measure again
	steps  atomic.Int64  // how often the real-time clock was set
	worst  atomic.Int64  // the largest of these steps, ns
}

const (
	clockEvery = 100 * time.Millisecond
	clockStep  = 200 * time.Microsecond // more than an adjustment (at most 500 ppm) and the measurement's own error
	clockBlur  = 20 * time.Microsecond  // a measurement that took longer is not used
)

// measure is the distance of the clocks, and how long the best of n readings took.
func (c *kernelClock) measure(n int) (offset int64, took time.Duration) {
	took = never
	for range n {
		a := c.since()
		real := time.Now().UnixNano()
		b := c.since()
		if b-a < took {
			took, offset = b-a, real-int64(a+b)/2
		}
	}
	return offset, took
}

func (c *kernelClock) begin() {
	c.offset, _ = c.measure(50)
	c.next = c.since() + clockEvery
}

// check measures when it is time to.
func (c *kernelClock) check(now time.Duration) {
	if now >= c.next {
		c.again(now)
	}
}

func (c *kernelClock) again(now time.Duration) {
	offset, took := c.measure(3)
	if took > clockBlur {
		return // the thread was off its core meanwhile: tried again at the next wake-up
	}
	c.next = now + clockEvery
	if d := max(offset-c.offset, c.offset-offset); d > int64(clockStep) {
		c.steps.Add(1)
		c.worst.Store(max(c.worst.Load(), d))
	}
	c.offset = offset
}

// stamp converts. ok is false when the result lies after now, which no arrival does: the real-time clock was set.
func (c *kernelClock) stamp(real int64, now time.Duration) (at time.Duration, ok bool) {
	const slack = 20 * time.Microsecond
	if at = time.Duration(real - c.offset); at <= now+slack {
		return at, true
	}
	c.again(now)
	at = time.Duration(real - c.offset)
	return at, at <= now+slack
}
