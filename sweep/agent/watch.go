package agent

import (
	"fmt"
	"time"

	"sweep/sweep"
)

// pulse is what can be seen of a starting server's work at one moment. CPU time is not part of it: a
// collective operation that waits for a dead rank spins at 100 % for hours.
type pulse struct {
	LogBytes    int64 // of the server's output
	ReadBytes   int64 // read by the tree's processes, all files
	GPUBytes    int64 // in use on the launch's devices
	SharedBytes int64 // shared and resident memory of the tree: host pools and weights on their way
	CompilerCPU int64 // CPU time of compilers in the tree (any unit that grows): kernels being built
}

// How much must have changed to count: servers that hang still poll sockets and write heartbeats.
const (
	readStep   = 1 << 20
	memoryStep = 32 << 20
)

// watcher judges whether a starting server still makes progress.
type watcher struct {
	limits sweep.Limits
	stall  map[sweep.Phase]time.Duration // an engine's own, where a phase needs more

	began time.Time
	moved time.Time // when progress was last seen
	base  pulse     // at that moment
	phase sweep.Phase
	why   string // what moved last
}

func newWatcher(l sweep.Limits, stall map[sweep.Phase]time.Duration, now time.Time) *watcher {
	return &watcher{limits: l.WithDefaults(), stall: stall, began: now, moved: now, phase: sweep.PhaseLaunch, why: "start"}
}

// verdict of a watcher.
type verdict int

const (
	alive verdict = iota
	hung          // no progress of any kind for the limit of the phase
	slow          // the hard limit passed, and it still made progress
)

// observe takes what is seen now and says how the start goes.
func (w *watcher) observe(now time.Time, phase sweep.Phase, p pulse) verdict {
	if why := w.progress(phase, p); why != "" {
		w.moved, w.base, w.phase, w.why = now, p, phase, why
	}
	switch {
	case now.Sub(w.moved) >= w.stallLimit():
		return hung
	case now.Sub(w.began) >= w.limits.Start:
		return slow
	}
	return alive
}

func (w *watcher) progress(phase sweep.Phase, p pulse) string {
	switch {
	case phase != w.phase:
		return "phase " + string(phase)
	case p.LogBytes > w.base.LogBytes:
		return "log"
	case p.CompilerCPU > w.base.CompilerCPU:
		return "compilers"
	case p.ReadBytes-w.base.ReadBytes >= readStep:
		return "reads"
	case apart(p.GPUBytes, w.base.GPUBytes) >= memoryStep:
		return "device memory"
	case apart(p.SharedBytes, w.base.SharedBytes) >= memoryStep:
		return "host memory"
	}
	return ""
}

func apart(a, b int64) int64 { return max(a-b, b-a) }

// stallLimit is the longest silence in the present phase: the grid's, or the engine's where that is longer.
func (w *watcher) stallLimit() time.Duration { return max(w.limits.Stall, w.stall[w.phase]) }

// silence says for a person how long nothing moved.
func (w *watcher) silence(now time.Time) string {
	return fmt.Sprintf("no progress for %s in phase %s: no output, no reads, no memory growing, no compiler at work; the last sign of life was %s, %s after the start",
		now.Sub(w.moved).Round(time.Second), w.phase, w.why, w.moved.Sub(w.began).Round(time.Second))
}

// phaseClock keeps how long each phase of a start took, in order.
type phaseClock struct {
	times []sweep.PhaseTime
	phase sweep.Phase
	since time.Time
}

// enter ends the present phase and begins another. A phase that comes again adds to its earlier time.
func (c *phaseClock) enter(phase sweep.Phase, now time.Time) {
	c.close(now)
	c.phase, c.since = phase, now
}

func (c *phaseClock) close(now time.Time) {
	if c.phase == "" {
		return
	}
	d := now.Sub(c.since).Seconds()
	for i := range c.times {
		if c.times[i].Phase == c.phase {
			c.times[i].Seconds += d
			c.phase = ""
			return
		}
	}
	c.times = append(c.times, sweep.PhaseTime{Phase: c.phase, Seconds: d})
	c.phase = ""
}
