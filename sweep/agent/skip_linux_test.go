package agent

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"sweep/sweep"
)

// An attempt that is not made still tells what the server of an earlier one, whose agent was killed, said it holds.
func TestSkipKnowsEarlierFacts(t *testing.T) {
	t.Parallel()
	n := newNight(t)
	job := n.job("ready", "a@1")
	ready := sweep.LaunchResult{Schema: sweep.Schema, Job: job.ID, Attempt: 1, EngineVersion: "1.0", Facts: sweep.Values{"kv_tokens": 1234}}
	dir := filepath.Join(n.opt.Out, filepath.FromSlash(job.Dir(1)))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := writeJSON(filepath.Join(dir, sweep.ReadyFile), ready); err != nil {
		t.Fatal(err)
	}
	job.Attempt, job.Remaining = 2, new(time.Duration) // the night is over
	n.submit(job)
	if err := n.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	var r sweep.LaunchResult
	if err := readJSON(filepath.Join(n.opt.Out, filepath.FromSlash(job.Dir(2)), "launch.json"), &r); err != nil {
		t.Fatal(err)
	}
	if r.Outcome != sweep.SkippedDeadline || r.Facts["kv_tokens"] != 1234 || r.EngineVersion != "1.0" {
		t.Errorf("%+v", r)
	}
}
