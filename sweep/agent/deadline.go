package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sweep/sweep"
)

// errDeadline is the cause of a context that ended at the night's deadline.
var errDeadline = errors.New("the night's deadline")

// nightClock knows when the night ends and how long its launches take.
type nightClock struct {
	at     time.Time // with a monotonic reading
	bound  bool
	number int64                     // Job.Submission of the hand-over that says so
	phases map[sweep.Phase][]float64 // seconds of each phase of each start that became ready
	times  map[string][]float64      // the same of start_s, stop_s and harness_s
	loads  map[string][]float64      // load → seconds that it took, warm-up and commit included
}

func newNightClock() *nightClock {
	return &nightClock{phases: map[sweep.Phase][]float64{}, times: map[string][]float64{}, loads: map[string][]float64{}}
}

// take reads the deadline from the first job of a hand-over and the age of its file: both are this host's own, so no
// two clocks meet, and from then on the monotonic one counts.
func (c *nightClock) take(job sweep.Job, file string) error {
	if job.Remaining == nil || c.bound && c.number == job.Submission {
		return nil
	}
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	now := time.Now()
	c.at = now.Add(*job.Remaining - max(0, now.Sub(info.ModTime())))
	c.bound, c.number = true, job.Submission
	return nil
}

func (c *nightClock) deadline() (time.Time, bool) { return c.at, c.bound }

// remember reads how long the launches of a host took that ended before this agent began.
func (c *nightClock) remember(out, host string) error {
	files, err := filepath.Glob(filepath.Join(escapeGlob(out), "launches", "*", "*", "attempt=*", "launch.json"))
	if err != nil {
		return err
	}
	for _, file := range files {
		var r sweep.LaunchResult
		if err := readJSON(file, &r); err != nil || r.Host != host {
			continue // damaged: one less to reckon with
		}
		runs, err := readRuns(filepath.Dir(file))
		if err != nil {
			return err
		}
		c.saw(r, runs)
	}
	return nil
}

// saw learns from a launch.
func (c *nightClock) saw(r sweep.LaunchResult, runs []sweep.LoadResult) {
	if len(runs) == 0 {
		return // a start that failed is no measure of one that does not
	}
	for _, p := range r.Phases {
		c.phases[p.Phase] = append(c.phases[p.Phase], p.Seconds)
	}
	for _, name := range []string{"start_s", "stop_s", "harness_s"} {
		if v, ok := r.Times[name]; ok {
			c.times[name] = append(c.times[name], v)
		}
	}
	for _, run := range runs {
		if (run.Outcome == sweep.OK || run.Outcome == sweep.ClientBound) && run.Seconds > 0 {
			c.loads[run.Load.String()] = append(c.loads[run.Load.String()], run.Seconds)
		}
	}
}

// estimate is how long a launch with these loads is expected to take: for its start the median of each phase in this
// night, for each load the median of what it took in this night or else its shortest window, and the median stop.
// What this night has not seen yet counts as nothing, so the first launch always starts.
func (c *nightClock) estimate(loads []sweep.LoadJob) (start, load, stop time.Duration) {
	phases := 0.0
	for _, seconds := range c.phases {
		phases += median(seconds)
	}
	start = duration(max(phases, median(c.times["start_s"])) + median(c.times["harness_s"]))
	for _, l := range loads {
		load += c.loadTime(l)
	}
	return start, load, duration(median(c.times["stop_s"]))
}

func (c *nightClock) loadTime(l sweep.LoadJob) time.Duration {
	if seen := c.loads[l.Load.String()]; len(seen) > 0 {
		return duration(median(seen))
	}
	return l.Measure.WarmupTime + l.Measure.WindowMin
}

// holds says why a launch would not end in time; nil: it would.
func (c *nightClock) holds(job sweep.Job, loads []sweep.LoadJob) *sweep.Ending {
	if !c.bound || job.Remaining == nil {
		return nil
	}
	start, load, stop := c.estimate(loads)
	left := time.Until(c.at)
	if left > 0 && start+load+stop <= left {
		return nil
	}
	detail := "not run: the night's time was over"
	if left > 0 {
		detail = fmt.Sprintf("not run: it is expected to take %s (start %s, loads %s, stop %s), and %s of the night's time were left",
			short(start+load+stop), short(start), short(load), short(stop), short(left))
	}
	return &sweep.Ending{Outcome: sweep.SkippedDeadline, Phase: sweep.PhaseGate, ImpliedBy: "deadline", Detail: detail}
}

// holdsLoad says why one more load would not end in time; nil: it would.
func (c *nightClock) holdsLoad(job sweep.Job, l sweep.LoadJob) *sweep.Ending {
	if !c.bound || job.Remaining == nil {
		return nil
	}
	need, left := c.loadTime(l)+duration(median(c.times["stop_s"])), time.Until(c.at)
	if need <= left {
		return nil
	}
	return &sweep.Ending{Outcome: sweep.SkippedDeadline, Phase: sweep.PhaseLoad, ImpliedBy: "deadline",
		Detail: fmt.Sprintf("not run: it is expected to take %s, and %s of the night's time were left", short(need), short(max(0, left)))}
}

// short is a time with no more figures than an estimate has.
func short(d time.Duration) string {
	if d >= 10*time.Second {
		s := d.Round(time.Second).String()
		if strings.HasSuffix(s, "m0s") {
			s = strings.TrimSuffix(s, "0s")
		}
		return s
	}
	return d.Round(100 * time.Millisecond).String()
}

func duration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

// median of what was seen; 0 when nothing was.
func median(s []float64) float64 {
	if len(s) == 0 {
		return 0
	}
	s = slices.Sorted(slices.Values(s))
	return (s[len(s)/2] + s[(len(s)-1)/2]) / 2
}
