package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sweep/sweep"
	"sweep/sweep/proc/proctest"
)

// lateGrid is a night of twelve starts whose time is over in its middle.
const lateGrid = `name: late
engine: sglang
model: llama-3-8b
command: [sweep, simulate, sglang, --profile, llama-8b-24gb, --speedup, "100"]
hosts: [{simulate: llama-8b-24gb}]
sweep:
  mem-fraction-static: 0.70:0.81:0.01
workloads:
  chat: {classes: {short: {input: 100..200, output: 20..40}}}
load: [{workload: chat, concurrency: [4]}]
measure: {warmup: 0s, window: 1s}
drift: off
budget: 10s
`

// bookkeeping is for what a launch has to write, and to ask its machine, when its time is over.
const bookkeeping = 2 * time.Second

// TestDeadline: a night whose time is over in its middle starts nothing that would not be done by then, ends what is
// under way, and says of each cell what became of it; a resume goes on with the rest.
func TestDeadline(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a night")
	}
	t.Parallel()
	b := newBed(t)
	b.grid(lateGrid)
	lateness := proctest.Measure()
	code, said := b.run("run", "grid.yaml")
	busy := lateness.Stop() // by so much this machine made everything late
	if code != exitOK && code != exitOther {
		t.Fatalf("exit code %d: %s", code, said)
	}
	if !strings.Contains(said, "the night ends by ") {
		t.Errorf("nothing says when it ends: %s", said)
	}
	b.nothingLeft()
	m, err := sweep.ReadManifest(b.night())
	if err != nil {
		t.Fatal(err)
	}
	records, err := sweep.ReadRecords(b.night())
	if err != nil || len(records) != len(m.Cells) || len(records) != 12 {
		t.Fatalf("%d records of %d cells, %v", len(records), len(m.Cells), err)
	}
	deadline := m.Created.Add(10 * time.Second) // the run itself begins a moment later
	measured, skipped := 0, 0
	for _, r := range records {
		switch r.Outcome {
		case sweep.OK, sweep.ClientBound:
			measured++
		case sweep.SkippedDeadline:
			skipped++
			if r.Detail == "" {
				t.Errorf("%s does not say why", r.Cell)
			}
		default:
			t.Errorf("%s: %s", r.Cell, r.Outcome)
		}
		var l sweep.LaunchResult
		data, err := os.ReadFile(filepath.Join(b.night(), r.Dir, "launch.json"))
		if err != nil || json.Unmarshal(data, &l) != nil {
			t.Fatalf("%s: %v", r.Dir, err)
		}
		if l.Times == nil { // no server was started
			continue
		}
		stop := time.Duration(l.Times["stop_s"] * float64(time.Second))
		late := l.EndedAt.Sub(deadline)
		if late > stop+bookkeeping+busy {
			t.Errorf("%s ended %s after the deadline, its stop took %s, and this machine was busy for %s", r.Dir, late, stop, busy)
		}
		if late > 0 {
			t.Logf("%s ended %s after the deadline, its stop took %s", r.Dir, late, stop)
		}
	}
	if measured == 0 || skipped == 0 {
		t.Errorf("%d measured, %d skipped: %s", measured, skipped, said)
	}
	if code, said := b.run("report", b.night()); code != exitOK {
		t.Errorf("report: exit code %d: %s", code, said)
	}
	if code, said := b.run("resume", "results"); code != exitOK && code != exitOther || !strings.Contains(said, "newest unfinished night") {
		t.Errorf("resume: exit code %d: %s", code, said)
	}
	again, err := sweep.ReadRecords(b.night())
	if err != nil {
		t.Fatal(err)
	}
	left := 0
	for _, r := range again {
		if r.Outcome == sweep.SkippedDeadline {
			left++
		}
	}
	// A machine so busy that one launch took the whole time may rightly begin none with as much again.
	if left > skipped || left == skipped && measured > 1 || len(again) != 12 {
		t.Errorf("a resume left %d of %d skipped, %d records", left, skipped, len(again))
	}
	b.nothingLeft()
}
