//go:build linux

package agent

import (
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sweep/sweep"
)

// simulatedAt is a launch of the simulator at a fraction.
func (n *night) simulatedAt(fraction string) sweep.Job {
	job := n.simulatedJob("", "a@2")
	job.ID, job.Config.Key = fraction+"/repeat=1", fraction
	job.Config.Settings[0].Values[0] = fraction
	job.Command = append(job.Command[:5:5], "--speedup", "50")
	job.Loads[0].Measure.WindowMin = 300 * time.Millisecond
	return job
}

// TestForecastInANight: each launch is forecast from those before it, before it runs, and its record has both the
// forecast and how far off that was.
func TestForecastInANight(t *testing.T) {
	t.Parallel()
	n := newNight(t)
	jobs := []sweep.Job{n.simulatedAt("0.76"), n.simulatedAt("0.78"), n.simulatedAt("0.80"), n.simulatedAt("0.60"), n.simulatedAt("0.81")}
	limit := 4.0
	jobs[4].SkipHeadroomGiB = &limit
	jobs[0].SkipHeadroomGiB = &limit // there is nothing to go by yet
	n.submit(jobs...)
	if err := n.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	var facts []sweep.Values
	var ends []sweep.LaunchResult
	for _, j := range jobs {
		all := n.launches(j)
		ends = append(ends, all[len(all)-1])
		facts = append(facts, all[len(all)-1].Facts)
	}
	for i := range 2 {
		if _, ok := facts[i]["forecast_kv_tokens"]; ok || facts[i]["kv_tokens"] == 0 {
			t.Errorf("launch %d: %v", i, facts[i])
		}
	}
	third := facts[2]
	if off := third["forecast_kv_tokens_error"]; third["forecast_kv_tokens"] == 0 || math.Abs(off) > 0.001*third["kv_tokens"] || math.Abs(off-(third["kv_tokens"]-third["forecast_kv_tokens"])) > 1 {
		t.Errorf("tokens: %v", third)
	}
	if off, ok := third["forecast_headroom_error_gib"]; !ok || math.Abs(off) > 0.3 || math.Abs(off) > third["forecast_headroom_within_gib"] {
		t.Errorf("headroom: %v", third)
	}
	var ready sweep.LaunchResult
	if err := readJSON(filepath.Join(n.opt.Out, jobs[2].Dir(1), sweep.ReadyFile), &ready); err != nil || ready.Facts["forecast_kv_tokens"] != third["forecast_kv_tokens"] {
		t.Errorf("ready.json: %v, %v", ready.Facts, err)
	}
	// The weights leave no room at 0.60: foreseen, and run all the same, as nobody asked to skip it.
	if ends[3].Outcome != sweep.KVTooSmall || facts[3]["forecast_kv_tokens"] >= 0 {
		t.Errorf("0.60: %s %v", ends[3].Outcome, facts[3])
	}
	if _, ok := facts[3]["forecast_headroom_error_gib"]; ok {
		t.Errorf("0.60 has an error of headroom, though it was never ready: %v", facts[3])
	}
	if e := ends[4].Ending; e.Outcome != sweep.SkippedImplied || !strings.Contains(e.Detail, "of headroom would be left") || !strings.Contains(e.ImpliedBy, "0.76/repeat=1") {
		t.Errorf("0.81: %+v", e)
	}
	if e := ends[4].Loads[0]; e.Outcome != sweep.SkippedImplied || e.State != stateDone {
		t.Errorf("its load: %+v", e)
	}
}

// TestForecastFromEarlierNights: the first launch of a night is forecast from what the job brings along.
func TestForecastFromEarlierNights(t *testing.T) {
	t.Parallel()
	n := newNight(t)
	job := n.simulatedAt("0.60")
	for fraction, tokens := range map[string]float64{"0.76": 11000, "0.80": 18000} {
		s := sweep.SightingOf(n.simulatedAt(fraction))
		s.Launch, s.Facts = "before/"+s.Launch, sweep.Values{"kv_tokens": tokens}
		job.Earlier = append(job.Earlier, s)
	}
	zero := 0.0
	job.SkipHeadroomGiB = &zero
	n.submit(job)
	if err := n.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := n.launches(job)[0]
	if r.Outcome != sweep.SkippedImplied || !strings.Contains(r.ImpliedBy, "before/0.80/repeat=1") || r.Facts["forecast_kv_tokens"] != -17000 {
		t.Errorf("%+v %v", r.Ending, r.Facts)
	}
}

// TestGateRefuses: what is known before a start is said at the gate, and nothing is started.
func TestGateRefuses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		change func(*sweep.Job)
		want   sweep.Outcome
		detail string
	}{
		{"model", func(j *sweep.Job) { j.Simulate, j.Command, j.Model = "", []string{"sleep"}, "/no/such/model" }, sweep.BadModel, "model /no/such/model: no such folder or file"},
		{"flag", func(j *sweep.Job) {
			j.Config.Settings = append(j.Config.Settings, sweep.Setting{Name: "hicache-sise", Values: []string{"4"}})
		}, sweep.BadFlag, `sglang does not know the flag "hicache-sise" (did you mean hicache-size?)`},
		{"ranks", func(j *sweep.Job) {
			j.Config.Settings = append(j.Config.Settings, sweep.Setting{Name: "tp-size", Values: []string{"2"}})
		}, sweep.SkippedPreflight, "2 ranks need a GPU each"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			n := newNight(t)
			job := n.simulatedJob("", "a@2")
			test.change(&job)
			n.submit(job)
			if err := n.run(t.Context()); err != nil {
				t.Fatal(err)
			}
			all := n.launches(job)
			if r := all[0]; len(all) != 1 || r.Outcome != test.want || r.Phase != sweep.PhaseGate || !strings.Contains(r.Detail, test.detail) {
				t.Errorf("%d attempts, %+v", len(all), r.Ending)
			}
			if logs, _ := filepath.Glob(filepath.Join(n.opt.Out, job.Dir(1), "server.log")); len(logs) > 0 {
				t.Error("a server was started")
			}
		})
	}
}
