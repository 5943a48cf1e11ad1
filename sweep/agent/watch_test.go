package agent

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"sweep/sweep"
)

func TestWatcher(t *testing.T) {
	limits := sweep.Limits{Start: 10 * time.Minute, Stall: time.Minute}
	engineStall := map[sweep.Phase]time.Duration{sweep.PhaseWarmup: 5 * time.Minute}
	// Each step lasts 30 s.
	type step struct {
		phase sweep.Phase
		pulse pulse
	}
	still := func(p sweep.Phase, n int) []step { return slices.Repeat([]step{{p, pulse{}}}, n) }
	growing := func(n int, grow func(i int64) pulse) []step {
		var s []step
		for i := range n {
			s = append(s, step{sweep.PhaseWeights, grow(int64(i + 1))})
		}
		return s
	}
	tests := []struct {
		name  string
		steps []step
		want  verdict
		after time.Duration
	}{
		{"silence", still(sweep.PhaseLaunch, 10), hung, time.Minute},
		{"a longer limit of the engine in this phase", still(sweep.PhaseWarmup, 30), hung, 5*time.Minute + 30*time.Second},
		{"log keeps it alive to the hard limit", growing(30, func(i int64) pulse { return pulse{LogBytes: i} }), slow, 10 * time.Minute},
		{"reads", growing(30, func(i int64) pulse { return pulse{ReadBytes: i << 20} }), slow, 10 * time.Minute},
		{"reads of a poller are no progress", growing(30, func(i int64) pulse { return pulse{ReadBytes: i << 12} }), hung, 90 * time.Second},
		{"device memory grows", growing(30, func(i int64) pulse { return pulse{GPUBytes: i << 30} }), slow, 10 * time.Minute},
		{"device memory is given back", growing(30, func(i int64) pulse { return pulse{GPUBytes: 1<<40 - i<<30} }), slow, 10 * time.Minute},
		{"host memory grows", growing(30, func(i int64) pulse { return pulse{SharedBytes: i << 28} }), slow, 10 * time.Minute},
		{"compilers", growing(30, func(i int64) pulse { return pulse{CompilerCPU: i} }), slow, 10 * time.Minute},
		{"slow growth adds up", growing(30, func(i int64) pulse { return pulse{SharedBytes: i << 24} }), slow, 10 * time.Minute},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				w := newWatcher(limits, engineStall, began)
				for _, s := range tt.steps {
					time.Sleep(30 * time.Second)
					if v := w.observe(time.Now(), s.phase, s.pulse); v != alive {
						if d := time.Since(began); v != tt.want || d != tt.after {
							t.Errorf("verdict %d after %s, want %d after %s", v, d, tt.want, tt.after)
						}
						return
					}
				}
				t.Error("still alive")
			})
		})
	}
}

func TestPhaseClock(t *testing.T) {
	at := time.Unix(0, 0)
	var c phaseClock
	for _, s := range []struct {
		phase sweep.Phase
		after time.Duration
	}{{sweep.PhaseLaunch, 0}, {sweep.PhaseWeights, time.Second}, {sweep.PhaseGraph, 30 * time.Second}, {sweep.PhaseWeights, 32 * time.Second}} {
		c.enter(s.phase, at.Add(s.after))
	}
	c.close(at.Add(40 * time.Second))
	want := []sweep.PhaseTime{{Phase: sweep.PhaseLaunch, Seconds: 1}, {Phase: sweep.PhaseWeights, Seconds: 37}, {Phase: sweep.PhaseGraph, Seconds: 2}}
	if !slices.Equal(c.times, want) {
		t.Errorf("%v, want %v", c.times, want)
	}
}
