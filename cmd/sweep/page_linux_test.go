package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sweep/report"
	"sweep/report/browsertest"
	"sweep/sweep"
)

// shortDemo is the demo's grid cut down to what has each kind of end: a config that serves, one that dies under the second load, and one
// that is refused before its start.
const shortDemo = `name: short-demo
engine: sglang
model: meta-llama/Llama-3.1-8B-Instruct
command: [sweep, simulate, sglang, --profile, llama-8b-24gb, --speedup, "10"]
hosts: [{simulate: llama-8b-24gb}]
server: {enable-metrics: true, enable-cache-report: true, decode-log-interval: 10}
sweep:
  mem-fraction-static: [0.80, 0.95]
  hicache-size: [off, 100]
exclude:
  - {mem-fraction-static: 0.95, hicache-size: 100}
workloads:
  chat:
    classes:
      short: {share: 7, input: 40..80, output: 30..60}
      long: {share: 1, input: 4200..4800, output: 20..40, shared_prefix: {groups: 8, tokens: 4000}}
load:
  - {workload: chat, concurrency: [8, 16]}
measure:
  window: {min: 2s, max: 3s}
drift: off
`

// The page of a real night: all that is on it is what the night measured, and all that can be chosen works.
func TestPageOfANight(t *testing.T) {
	if testing.Short() {
		t.Skip("a night on the simulator, and a browser")
	}
	t.Parallel()
	browser := browsertest.Start(t)
	b := newBed(t)
	b.grid(shortDemo)
	if code, said := b.run("run", "grid.yaml"); code != exitOK && code != exitOther {
		t.Fatalf("exit code %d: %s", code, said)
	}
	night := b.night()
	p := browsertest.Open(t, browser, filepath.Join(night, "report", "index.html"), "")
	p.SameCells(night)
	p.Shoot("night-light")
	p.EveryControl()
	for _, want := range []string{"Which config?", "Where is the edge?", "0.95, which ran out of device memory (OOM prefill) with 14 short + 2 long requests in flight", "hicache-size 100"} {
		if !strings.Contains(p.Text("#decision"), want) {
			t.Errorf("the decision does not say %q: %s", want, p.Text("#decision"))
		}
	}
	if !strings.Contains(p.Text("#failures"), "torch.OutOfMemoryError") {
		t.Error("the evidence of the failure is not on the page")
	}
	p.Media("", "dark")
	p.Shoot("night-dark")
	p.Media("print", "light")
	p.Shoot("night-print")
	p.Quiet()
	sameMedians(t, night)
	if rest := b.processes(); len(rest) > 0 {
		t.Errorf("processes are left: %v", rest)
	}
}

// sameMedians holds the report's own numbers against the lines of cells.jsonl, read with nothing of ours: one repeat, so each median is a line's value.
func sameMedians(t *testing.T, night string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(night, report.CellsFile))
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]map[string]any{}
	for line := range strings.Lines(string(data)) {
		var l map[string]any
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		lines[l["config"].(string)+"/"+l["load"].(string)] = l
	}
	n := must(report.Read(night))
	checked := 0
	for _, sheet := range report.Summarize(n).Sheets {
		for _, row := range sheet.Rows {
			for _, q := range row.Squares {
				v, ok := q.Median(report.MetricByName("output_throughput"))
				l := lines[row.Config.Key+"/"+q.Load.String()]
				if l == nil {
					t.Errorf("%s at %s has no line", row.Config.Key, q.Load)
					continue
				}
				if want, measured := l["output_throughput"].(float64); ok && (!measured || want != v) {
					t.Errorf("%s at %s: the report has %v, the line %v", row.Config.Key, q.Load, v, l["output_throughput"])
				}
				checked++
			}
		}
	}
	if asked := len(n.Configs) * len(n.Loads); checked != asked || len(lines) != asked {
		t.Errorf("%d squares and %d lines for %d cells", checked, len(lines), asked)
	}
	if n.Records[0].Outcome != sweep.OK && n.Records[0].Outcome != sweep.ClientBound {
		t.Errorf("the baseline ended as %s", n.Records[0].Outcome)
	}
}
