package main

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sweep/report"
	"sweep/sweep"
)

// twinsGrid has two configs that are the same server, under two names.
const twinsGrid = `name: twins
engine: sglang
model: llama-3-8b
command: [sweep, simulate, sglang, --profile, llama-8b-24gb, --speedup, "10"]
hosts: [{simulate: llama-8b-24gb}]
sweep:
  twin: {a: {}, b: {}}
workloads:
  chat: {classes: {short: {input: 100..200, output: 20..40}}}
load:
  - {workload: chat, concurrency: [4]}
measure:
  window: {min: 2s, max: 2s}
repeats: 2
drift: off
`

// A night of two configs that are the same is run and its candidate confirmed: nothing tells them apart for good, and the runs of the
// confirmation are fresh starts with prompts of their own. A busy machine may withhold what was measured; the candidate is confirmed by
// numbers that are put in its place, so that no machine is too busy for the rest.
func TestConfirmTwins(t *testing.T) {
	if testing.Short() {
		t.Skip("two nights on the simulator")
	}
	t.Parallel()
	b := newBed(t)
	if err := os.WriteFile(filepath.Join(b.dir, "grid.yaml"), []byte(twinsGrid), 0o600); err != nil {
		t.Fatal(err)
	}
	b.run("run", "grid.yaml")
	first := b.night()
	n, err := report.Read(first)
	if err != nil {
		t.Fatal(err)
	}
	sheet := report.Summarize(n).Sheets[0]
	for _, row := range sheet.Rows {
		// One pair in twenty is told apart by chance at 5 %; what is the same and still differs for a reason is far beyond that.
		if v := sheet.AgainstBase(row.Squares[0]); v.Known && v.P < 0.001 && math.Abs(v.Change) > 0.1 {
			t.Errorf("a twin is told apart: %+v", v)
		}
	}
	for _, r := range n.Records {
		if r.Outcome != sweep.OK && (r.Outcome != sweep.ClientBound || r.Detail == "") {
			t.Errorf("%s, repeat %d: %s %q, want a number or why it is withheld", r.Cell, r.Repeat, r.Outcome, r.Detail)
		}
	}
	measuredAs(t, first, n.Records, map[string]float64{"twin=a": 100, "twin=b": 104})
	code, said := b.run("confirm", first, "--top", "1", "--repeats", "2", "--soak", "2s")
	if _, err := os.Stat(filepath.Join(first, report.ConfirmedFile)); err != nil {
		t.Fatalf("exit code %d, no verdict: %s", code, said)
	}
	nights, err := sweep.Nights(filepath.Join(b.dir, "results"))
	if err != nil || len(nights) != 3 {
		t.Fatalf("nights %v, %v", nights, err)
	}
	i := slices.IndexFunc(nights, func(d string) bool { return strings.Contains(d, "twins-confirm-") })
	again, err := sweep.ReadManifest(nights[max(i, 0)])
	if err != nil || i < 0 {
		t.Fatal(nights, err)
	}
	was, err := sweep.ReadManifest(first)
	if err != nil {
		t.Fatal(err)
	}
	if len(n.Records) != 4 {
		t.Errorf("%d records, want two configs twice", len(n.Records))
	}
	bursts := 0
	for _, c := range again.Cells {
		if strings.HasPrefix(c.Load.Workload, "chat-burst") {
			bursts++
		}
		if slices.ContainsFunc(was.Cells, func(o sweep.PlannedCell) bool { return o.Seed == c.Seed }) {
			t.Errorf("%s, repeat %d, has the prompts of the night itself", c.Cell, c.Repeat)
		}
	}
	if bursts == 0 || again.Repeats != 2 {
		t.Errorf("%d bursts in %d repeats", bursts, again.Repeats)
	}
	if code == exitOK && !strings.Contains(said, "Confirmed by 2 fresh starts") || code != exitOK && !strings.Contains(said, "Not confirmed") {
		t.Errorf("exit code %d: %s", code, said)
	}
	if rest := b.processes(); len(rest) > 0 {
		t.Errorf("processes are left: %v", rest)
	}
}

// measuredAs gives each config of a night a throughput, a little higher in each repeat.
func measuredAs(t *testing.T, dir string, records []sweep.Record, throughput map[string]float64) {
	t.Helper()
	var lines bytes.Buffer
	for _, r := range records {
		r.Ending, r.Verdict, r.VerdictWhy = sweep.Ending{Outcome: sweep.OK}, "valid", nil
		r.Values["output_throughput"] = throughput[r.Config] + 0.1*float64(r.Repeat)
		if err := json.NewEncoder(&lines).Encode(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, report.CellsFile), lines.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	n, err := report.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if best := report.Summarize(n).Sheets[0].Best; best == nil || best.Config.Key != "twin=b" {
		t.Fatalf("the candidate is %+v", best)
	}
}
