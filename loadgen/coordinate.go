package loadgen

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// tick is how often the coordinator looks when no request ends.
const tick = 50 * time.Millisecond

// coordinator decides when the window opens and closes. It is one goroutine's.
type coordinator struct {
	r        *run
	nextTick time.Duration
	told     time.Duration // when progress was last told
	toldAt   int64         // tokens then
	rate     float64       // tokens/s over the last second
}

// coordinate returns nil when the window has closed by its rule, else why the run cannot go on.
func (r *run) coordinate(ctx context.Context) error {
	c := &coordinator{r: r, nextTick: tick}
	timer := time.NewTimer(tick)
	defer timer.Stop()
	for {
		due := c.due()
		timer.Reset(max(0, due-r.since()))
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-r.moved:
		case <-timer.C:
			c.woke(due)
		}
		if err := c.health(); err != nil {
			return err
		}
		if r.opened() < 0 && c.warm() {
			r.shots.open = r.shoot()
			r.open(time.Now())
			c.nextTick = max(c.nextTick, r.since()) // the callback's time is not our lateness
		}
		if r.opened() >= 0 && c.full() {
			r.closeWindow()
			return nil
		}
		c.tell()
	}
}

// due is when to look next: at the next tick, or at the window's min or max when that is sooner.
func (c *coordinator) due() time.Duration {
	now, at := c.r.since(), c.nextTick
	if opened := c.r.opened(); opened >= 0 {
		for _, d := range []time.Duration{c.r.spec.Window.Min, c.r.spec.Window.Max} {
			if t := opened + d; t > now {
				at = min(at, t)
			}
		}
	} else if t := c.r.spec.Warmup.Time; t > now {
		at = min(at, t)
	}
	return at
}

// woke notes a wake-up by the timer.
func (c *coordinator) woke(due time.Duration) {
	r, now := c.r, c.r.since()
	r.watch.late.add(max(0, now-due))
	for c.nextTick <= now {
		c.nextTick += tick
	}
	r.watch.mark(now, r.live.Load())
}

// health says why the run cannot go on: nothing moves, nothing succeeds, or its file cannot be written.
func (c *coordinator) health() error {
	r, now := c.r, c.r.since()
	if err := r.out.out.failed(); err != nil {
		return err
	}
	r.out.out.push(false)
	if r.spec.Exact {
		r.mu.Lock()
		err := r.badCount
		r.mu.Unlock()
		if err != nil {
			return err
		}
	}
	if r.inFlight.Load() > 0 {
		quiet := now - max(time.Duration(r.watch.lastMoved.Load()), time.Duration(r.openSince.Load()))
		if quiet >= r.spec.Stall {
			return fmt.Errorf("%w: no byte on any of %d streams for %v", ErrStalled, r.inFlight.Load(), quiet.Round(time.Millisecond))
		}
	}
	if r.failing.Load() < 10 {
		return nil
	}
	if !r.path.failing() {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Errorf("%w: %s", ErrFailing, r.lastFail)
}

// warm says whether the warm-up is over.
func (c *coordinator) warm() bool {
	r, now, w := c.r, c.r.since(), c.r.spec.Warmup
	if now < w.Time {
		return false
	}
	if w.Cohort && r.live.Load() == 0 { // requests that only fail are no cohort
		return false
	}
	if (w.Cohort || r.spec.Exact) && !r.cohort(w.Cohort) {
		return false
	}
	if w.Stable && now < w.StableMax {
		return r.watch.stable(min(max(w.StableMax/12, time.Second/2), 10*time.Second))
	}
	return true
}

// cohort says whether the first requests of each class have ended: as many as its pool holds, or at least one.
func (r *run) cohort(whole bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.spec.Exact && r.badCount != nil { // it came since health looked
		return false
	}
	for i, class := range r.spec.Classes {
		need := min(1, class.slots)
		switch {
		case class.Arrivals != nil:
			need = 1
		case whole:
			need = class.slots
		}
		if r.ends[i] < need {
			return false
		}
	}
	return true
}

// full says whether the window may close.
func (c *coordinator) full() bool {
	r := c.r
	length := r.since() - r.opened()
	if length >= r.spec.Window.Max {
		return true
	}
	if length < r.spec.Window.Min {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, class := range r.spec.Classes {
		n := r.inside[i]
		if r.spec.Window.Exactly {
			n = r.over[i]
		}
		if n < r.spec.share(r.spec.Window.Requests[class.Name]) {
			return false
		}
	}
	if p := r.spec.Window.Precision; p > 0 {
		half, mean, ok := r.watch.interval(window{r.opened(), r.since()}, r.summary.life())
		return ok && half <= p*mean
	}
	return true
}

// open opens the window.
func (r *run) open(now time.Time) {
	r.mu.Lock()
	r.win.opened = now.Sub(r.start)
	r.result.Opened = now
	r.openedAt.Store(int64(r.win.opened))
	r.watch.mark(r.win.opened, r.live.Load())
	close(r.openedC)
	r.mu.Unlock()
	r.out.out.note(frameMark, RecordMark{markOpened, r.win.opened})
	if r.spec.OnWindow != nil {
		r.spec.OnWindow(true)
	}
}

// closeWindow closes the window; the streams go on until the run cuts them.
func (r *run) closeWindow() {
	r.endWindow()
	r.result.Complete = true
	if r.spec.OnWindow != nil {
		r.spec.OnWindow(false)
	}
}

// endWindow sets the end of what is measured.
func (r *run) endWindow() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.shots.close == nil {
		r.shots.close = r.shoot()
	}
	if r.win.opened < 0 || r.win.closed != never {
		return
	}
	now := time.Now()
	r.win.closed = now.Sub(r.start)
	r.result.Closed = now
	r.watch.mark(r.win.closed, r.live.Load())
	if r.inFlight.Load() > 0 {
		r.watch.silence(r.win.closed - max(time.Duration(r.watch.lastByte.Load()), r.win.opened))
	}
	r.out.out.note(frameMark, RecordMark{markClosed, r.win.closed})
}

// tell calls OnProgress about once a second.
func (c *coordinator) tell() {
	r, now := c.r, c.r.since()
	if r.spec.OnProgress == nil || now-c.told < time.Second {
		return
	}
	tokens := r.live.Load()
	c.rate = float64(tokens-c.toldAt) / (now - c.told).Seconds()
	c.told, c.toldAt = now, tokens
	r.mu.Lock()
	p := Progress{Phase: "warm-up", Open: int(r.inFlight.Load()), Failed: r.result.Failed + r.result.Rejected}
	at := now
	if opened := r.win.opened; opened >= 0 {
		p.Phase, at = "window", now-opened
		p.Done = r.share(at)
		for _, n := range r.inside {
			p.Finished += n
		}
	}
	r.mu.Unlock()
	p.Text = fmt.Sprintf("%s %d s · %d open · %s tok/s", p.Phase, int(at.Seconds()), p.Open, thousands(int(c.rate+0.5)))
	r.spec.OnProgress(p)
	c.nextTick = max(c.nextTick, r.since())
}

// share is how much of the window's rule is fulfilled: the least of its parts; r.mu is held.
func (r *run) share(length time.Duration) float64 {
	w := r.spec.Window
	done := 1.0
	if w.Min > 0 {
		done = min(done, length.Seconds()/w.Min.Seconds())
	}
	for i, class := range r.spec.Classes {
		if n := w.Requests[class.Name]; n > 0 {
			done = min(done, float64(r.inside[i])/float64(n))
		}
	}
	return min(1, max(done, length.Seconds()/w.Max.Seconds()))
}

// thousands writes a number with commas: 3,104.
func thousands(n int) string {
	s := fmt.Sprint(n)
	var b strings.Builder
	for i, c := range s {
		if i > 0 && (len(s)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(c)
	}
	return b.String()
}
