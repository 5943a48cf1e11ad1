//go:build linux

package agent

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sweep/loadgen"
	"sweep/sweep"
)

// readRecord reads a load's binary record.
func readRecord(t *testing.T, dir string, each func(*loadgen.Record) error) loadgen.Recording {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, recordFile))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rec, err := loadgen.ReadRecord(f, each)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// A committed load has its whole record, and its result says what the load generator saw of itself, over the window and over the
// full run.
func TestLoadKeepsItsRecord(t *testing.T) {
	t.Parallel()
	n := newNight(t)
	job := n.job("ready", "a@3")
	n.submit(job)
	if err := n.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(n.opt.Out, job.Dir(1), job.Loads[0].Dir())
	var run sweep.LoadResult
	if err := readJSON(filepath.Join(dir, "run.json"), &run); err != nil {
		t.Fatal(err)
	}
	events, inside := 0, 0
	rec := readRecord(t, dir, func(r *loadgen.Record) error {
		events += len(r.Chunks)
		return nil
	})
	lines, err := os.ReadFile(filepath.Join(dir, "requests.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	inside = bytes.Count(lines, []byte("\n"))
	if rec.Requests == 0 || rec.Requests != inside || rec.End == nil || rec.Torn || rec.Opened < 0 || rec.Closed <= rec.Opened || events < 5*rec.Requests/2 {
		t.Errorf("record %+v with %d events, %d lines", rec, events, inside)
	}
	if run.Verdict != rec.End.Verdict || len(run.VerdictWhy) != len(rec.End.Why) || run.Client != rec.Head.Client || run.Stamps != rec.Head.Stamps || run.Client == "" || run.Stamps == "" {
		t.Errorf("run.json says %s %q by %s, %s; the record %s %q by %s, %s", run.Verdict, run.VerdictWhy, run.Client, run.Stamps,
			rec.End.Verdict, rec.End.Why, rec.Head.Client, rec.Head.Stamps)
	}
	for _, why := range run.VerdictWhy {
		for _, note := range run.Notes {
			if note == why {
				t.Errorf("%q is among the notes too", why)
			}
		}
	}
	if run.Values["client_events"] != rec.End.Evidence["events"] || run.Values["client_events"] <= 0 {
		t.Errorf("%v events in run.json, %v in the record", run.Values["client_events"], rec.End.Evidence["events"])
	}
	full := run.FullRun
	if full == nil || full.Seconds <= run.WindowSeconds || run.Values["full_s"] != full.Seconds || full.Client["events"] < run.Values["client_events"] {
		t.Fatalf("full run %+v of a window of %v s", full, run.WindowSeconds)
	}
	if c := run.Values["full_completed"]; c <= run.Values["completed"] || c != full.Values["completed"] || full.Values["output_throughput"] != run.Values["full_output_throughput"] {
		t.Errorf("%v of %v requests in the window; %v", run.Values["completed"], c, full.Values)
	}
}

// The record of a killed agent is good as far as it goes.
func TestRecordOfAKilledAgent(t *testing.T) {
	t.Parallel()
	n := newNight(t)
	job := n.job("ready", "a@4")
	job.Loads[0].Measure.WindowMin, job.Loads[0].Measure.WindowMax = time.Minute, time.Minute
	n.submit(job)
	cmd := exec.Command(n.opt.Self, "agent", n.opt.Dir, n.opt.Out)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	part := filepath.Join(n.opt.Out, job.Dir(1), job.Loads[0].Dir()+partSuffix)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for written := int64(0); written < 4<<10; {
		select {
		case err := <-ended:
			t.Fatalf("it ended by itself: %v", err)
		case <-time.After(10 * time.Millisecond):
		}
		if i, err := os.Stat(filepath.Join(part, recordFile)); err == nil {
			written = i.Size()
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-ended
	rec := readRecord(t, part, nil)
	if rec.Requests < 20 || rec.End != nil || rec.Head.Started.IsZero() {
		t.Errorf("%+v", rec)
	}
	f, err := os.Open(filepath.Join(part, "requests.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := 0
	for s := bufio.NewScanner(f); s.Scan(); lines++ {
	}
	if lines < 20 {
		t.Errorf("%d lines of requests", lines)
	}
}

// A server that counts other prompt tokens than were sent gets no number: the lengths are not those of the grid.
func TestPromptsOfOtherLengths(t *testing.T) {
	t.Parallel()
	n := newNight(t)
	job := n.job("counts-otherwise", "a@2")
	n.submit(job)
	if err := n.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	results := n.launches(job)
	if got, want := endings(results), "a@2=load.failed… | a@2=load.failed"; got != want {
		t.Fatalf("endings %s, want %s", got, want)
	}
	if l := results[1].Loads[0]; !strings.Contains(l.Detail, "another length at the server than the grid asks for") || !strings.Contains(l.Detail, "tokens by its count") {
		t.Errorf("detail %q", l.Detail)
	}
}
