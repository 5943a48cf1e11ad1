package agent

import (
	"time"

	"sweep/sweep"
)

// stopwatch sums up the time of a launch that is not sweep's own.
type stopwatch struct {
	began                       time.Time
	start, warmup, window, stop time.Duration
	// memoryBack is from the end of the server's last process until its devices' memory was free; nil: not proved.
	memoryBack *float64
}

// times gives the sums, with what is left as sweep's own.
func (s stopwatch) times(now time.Time) sweep.Values {
	v := sweep.Values{"harness_s": (now.Sub(s.began) - s.start - s.warmup - s.window - s.stop).Seconds()}
	for name, d := range map[string]time.Duration{"start_s": s.start, "stop_s": s.stop} {
		if d > 0 {
			v[name] = d.Seconds()
		}
	}
	if s.memoryBack != nil {
		v["memory_back_s"] = *s.memoryBack
	}
	return v
}
