//go:build real && linux

package main

import (
	"path/filepath"
	"strings"
	"testing"

	"sweep/sweep"
)

// TestReal runs the night of grids/smollm-cpu.yaml: a real llama-server with a real model. It needs what
// .ci/setup installs, and two minutes.
func TestReal(t *testing.T) {
	b := newBed(t)
	grid, err := filepath.Abs("../../grids/smollm-cpu.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if code, story := b.run("run", grid, "-o", filepath.Join(b.dir, "results")); code != 0 {
		t.Fatalf("exit code %d\n%s", code, story)
	}
	records, err := sweep.ReadRecords(b.night())
	if err != nil {
		t.Fatal(err)
	}
	measured := map[string]map[int]bool{} // concurrencies by config
	for _, r := range records {
		if r.Config == "huge-context" {
			// 4 Mi tokens of context: 96,636,764,160 bytes of KV cache in host memory.
			if r.Outcome != sweep.HostShort || r.Evidence == nil || !strings.Contains(r.Evidence.Text, "alloc") && !strings.Contains(r.Evidence.Text, "insufficient memory") {
				t.Errorf("%s: %s, evidence %+v; want host.short with the line of the refused allocation", r.Cell, r.Outcome, r.Evidence)
			}
			continue
		}
		if r.Outcome != sweep.OK {
			t.Errorf("%s: %s: %s", r.Cell, r.Outcome, r.Detail)
			continue
		}
		if ratio, ok := r.Values["client_server_ratio"]; !ok || ratio < 0.98 || ratio > 1.02 {
			t.Errorf("%s: client_server_ratio %v (known: %v), want 1 within 2 %%", r.Cell, ratio, ok)
		}
		if r.Role == sweep.RoleMeasure {
			if measured[r.Config] == nil {
				measured[r.Config] = map[int]bool{}
			}
			measured[r.Config][r.Load.Concurrency()] = true
		}
	}
	full := 0
	for _, levels := range measured {
		if len(levels) >= 3 {
			full++
		}
	}
	if full < 4 {
		t.Errorf("%d configs measured at three concurrencies, want 4: %v", full, measured)
	}
}
