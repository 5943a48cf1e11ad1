//go:build engines && linux

package main

import (
	"path/filepath"
	"strings"
	"testing"

	"sweep/sweep"
)

// runReal runs the night of a grid of the project and returns its records. It needs what .ci/real/setup installs,
// 6 GB of memory, and minutes.
func runReal(t *testing.T, grid string) []sweep.Record {
	t.Helper()
	b := newBed(t)
	path, err := filepath.Abs("../../grids/" + grid)
	if err != nil {
		t.Fatal(err)
	}
	code, story := b.run("run", path, "-o", filepath.Join(b.dir, "results"))
	t.Logf("%s", story)
	if code != exitOK {
		t.Fatalf("exit code %d", code)
	}
	records, err := sweep.ReadRecords(b.night())
	if err != nil {
		t.Fatal(err)
	}
	b.nothingLeft()
	return records
}

// agrees checks that client and server have counted the same tokens, within 2 %.
func agrees(t *testing.T, r sweep.Record) {
	t.Helper()
	if ratio, ok := r.Values["client_server_ratio"]; !ok || ratio < 0.98 || ratio > 1.02 {
		t.Errorf("%s: client_server_ratio %v (known: %v), want 1 within 2 %%", r.Cell, ratio, ok)
	}
	for _, note := range r.Notes { // random weights are no reason to doubt a server
		if strings.HasPrefix(note, "output_suspect") || strings.HasPrefix(note, "mislabelled") {
			t.Errorf("%s: %s", r.Cell, note)
		}
	}
}

// TestRealSGLang: three sizes of the pool at two concurrencies are measured, a fraction that leaves no room is named
// so, and a pool that is too small for its load makes the server retract requests and live.
func TestRealSGLang(t *testing.T) {
	measured := 0
	retractions := map[string]float64{}
	for _, r := range runReal(t, "sglang-cpu.yaml") {
		if r.Config == "no-room" {
			if r.Outcome != sweep.KVTooSmall || r.Evidence == nil || !strings.Contains(r.Evidence.Text, "Loaded weights leave no GPU memory") || !strings.Contains(r.Detail, "raise") {
				t.Errorf("%s: %s, %q, evidence %+v", r.Cell, r.Outcome, r.Detail, r.Evidence)
			}
			continue
		}
		if r.Outcome != sweep.OK {
			t.Errorf("%s: %s: %s", r.Cell, r.Outcome, r.Detail)
			continue
		}
		measured++
		agrees(t, r)
		retractions[r.Config] = max(retractions[r.Config], r.Values["retractions"])
		if r.EngineVersion != "0.5.23" || r.Values["running"] <= 0 || r.Values["token_usage"] <= 0 {
			t.Errorf("%s: version %q, running %v, usage %v", r.Cell, r.EngineVersion, r.Values["running"], r.Values["token_usage"])
		}
		if asked, ok := r.Axes.Get("max-total-tokens"); !ok || r.Values["kv_tokens"] <= 0 {
			t.Errorf("%s: %v KV tokens of %s", r.Cell, r.Values["kv_tokens"], asked)
		}
	}
	if measured != 8 {
		t.Errorf("%d cells measured, want 8", measured)
	}
	for config, n := range retractions {
		if (n > 0) != (config == "retracts") {
			t.Errorf("%s: %v retractions", config, n)
		}
	}
}

// TestRealVLLM: two sizes of the pool at two concurrencies; the small one preempts at the higher.
func TestRealVLLM(t *testing.T) {
	measured := 0
	for _, r := range runReal(t, "vllm-cpu.yaml") {
		if r.Outcome != sweep.OK {
			t.Errorf("%s: %s: %s", r.Cell, r.Outcome, r.Detail)
			continue
		}
		measured++
		agrees(t, r)
		small := r.Config == "num-gpu-blocks-override=32"
		if n := r.Values["retractions"]; (n > 0) != (small && r.Load.Concurrency() == 24) {
			t.Errorf("%s: %v preemptions", r.Cell, n)
		}
		if want := map[bool]float64{true: 4096, false: 16384}[small]; r.Values["kv_tokens"] != want {
			t.Errorf("%s: %v KV tokens, want %v", r.Cell, r.Values["kv_tokens"], want)
		}
	}
	if measured != 4 {
		t.Errorf("%d cells measured, want 4", measured)
	}
}
