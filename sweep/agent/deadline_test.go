package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sweep/sweep"
)

// TestClockReckons: a launch is held when what this night has seen of such launches does not fit any more.
func TestClockReckons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		job := testJob("w@2", "w@4")
		for i := range job.Loads {
			job.Loads[i].Measure = sweep.Measure{WarmupTime: 10 * time.Second, WindowMin: time.Minute}
		}
		c := newNightClock()
		if e := c.holds(job, job.Loads); e != nil {
			t.Errorf("without a deadline: %+v", e)
		}
		left := 5 * time.Minute
		job.Remaining = &left
		c.at, c.bound = time.Now().Add(left), true
		if e := c.holds(job, job.Loads); e != nil {
			t.Errorf("the first launch: %s", e.Detail)
		}
		run := func(at int, seconds float64) sweep.LoadResult {
			return sweep.LoadResult{Load: job.Loads[at].Load, Seconds: seconds, Ending: sweep.Ending{Outcome: sweep.OK}}
		}
		launch := func(weights, graph float64) sweep.LaunchResult {
			return sweep.LaunchResult{Phases: []sweep.PhaseTime{{Phase: sweep.PhaseWeights, Seconds: weights}, {Phase: sweep.PhaseGraph, Seconds: graph}},
				Times: sweep.Values{"start_s": weights + graph, "stop_s": 10, "harness_s": 2}}
		}
		c.saw(launch(600, 300), []sweep.LoadResult{run(0, 80), run(1, 90)}) // the first start is cold
		c.saw(launch(20, 30), []sweep.LoadResult{run(0, 80), run(1, 90)})
		c.saw(launch(22, 28), []sweep.LoadResult{run(0, 80), run(1, 90)})
		c.saw(launch(9000, 9000), nil) // never became ready: no measure of a start
		start, load, stop := c.estimate(job.Loads)
		if start != 54*time.Second || load != 170*time.Second || stop != 10*time.Second {
			t.Errorf("start %s, loads %s, stop %s; want 54s, 2m50s and 10s", start, load, stop)
		}
		if e := c.holds(job, job.Loads); e != nil {
			t.Errorf("234 s of 300 s: %s", e.Detail)
		}
		time.Sleep(70 * time.Second)
		e := c.holds(job, job.Loads)
		if e == nil || e.Outcome != sweep.SkippedDeadline || !strings.Contains(e.Detail, "expected to take 3m54s (start 54s, loads 2m50s, stop 10s), and 3m50s of the night's time were left") {
			t.Errorf("234 s of 230 s: %+v", e)
		}
		if e := c.holds(job, job.Loads[:1]); e != nil {
			t.Errorf("a launch with one load still fits: %s", e.Detail)
		}
		time.Sleep(150 * time.Second)
		if e := c.holdsLoad(job, job.Loads[0]); e == nil || e.Phase != sweep.PhaseLoad {
			t.Errorf("90 s of 80 s: %+v", e)
		}
		time.Sleep(time.Hour)
		if e := c.holds(job, nil); e == nil || e.Detail != "not run: the night's time was over" {
			t.Errorf("after the deadline: %+v", e)
		}
	})
}

// TestClockTakesTheAgeOfAJob: what was left when the job was handed over is less by the age of its file.
func TestClockTakesTheAgeOfAJob(t *testing.T) {
	file := filepath.Join(t.TempDir(), "0001.json")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	if err := os.Chtimes(file, now, now.Add(-10*time.Minute)); err != nil {
		t.Fatal(err)
	}
	left := time.Hour
	c := newNightClock()
	if err := c.take(sweep.Job{}, file); err != nil || c.bound {
		t.Errorf("a job without a deadline binds: %t, %v", c.bound, err)
	}
	if err := c.take(sweep.Job{Remaining: &left}, file); err != nil || !c.bound {
		t.Fatalf("bound %t, %v", c.bound, err)
	}
	if d := c.at.Sub(now.Add(50 * time.Minute)).Abs(); d > time.Minute {
		t.Errorf("the deadline is off by %s", d)
	}
	was := c.at
	if err := os.Chtimes(file, now, now.Add(-30*time.Minute)); err != nil { // as if the clock had been set meanwhile
		t.Fatal(err)
	}
	if err := c.take(sweep.Job{Remaining: &left}, file); err != nil || c.at != was {
		t.Errorf("another job of the same hand-over moved the deadline by %s, %v", c.at.Sub(was), err)
	}
	if err := c.take(sweep.Job{Remaining: &left, Submission: 7}, file); err != nil || c.at == was {
		t.Errorf("the next hand-over left the deadline as it was, %v", err)
	}
}
