package report

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"sweep/sweep"
)

// results/README.md documents each key that a record can have.
func TestReadmeDocumentsEachKey(t *testing.T) {
	readme, err := os.ReadFile("../results/README.md")
	if err != nil {
		t.Fatal(err)
	}
	steady := true
	l := load("synth", "short", 150, "long", 32)
	full := sweep.Record{
		Night: "n", Cell: "c", ContentKey: "k", Role: sweep.RoleMeasure, Config: "c", Load: l, Repeat: 1, Attempt: 1, Host: "local", GPU: "g", GPUCount: 1,
		Engine: "sglang", EngineVersion: "1", Model: "m", Axes: sweep.Params{{Name: "mem-fraction-static", Value: "0.80"}}, Baseline: true, Unacceptable: "u", Command: "x",
		Ending: sweep.Ending{Outcome: sweep.CrashLoad, Phase: sweep.PhaseLoad, Cause: "cuda", Detail: "d", ImpliedBy: "i", Evidence: &sweep.Evidence{Text: "t"}, Exit: &sweep.Exit{Code: 1}},
		Steady: &steady, Verdict: "valid", Failures: map[string]int{"cut": 1}, Notes: []string{"n"}, Dir: "d",
	}
	full.StartedAt = full.StartedAt.AddDate(2025, 0, 0)
	full.EndedAt = full.StartedAt
	var flat map[string]any
	if err := json.Unmarshal([]byte(lineOf(t, full)), &flat); err != nil {
		t.Fatal(err)
	}
	var keys []string
	for k := range flat {
		if !strings.HasSuffix(k, "_concurrency") {
			keys = append(keys, k)
		}
	}
	for _, m := range metrics() {
		if !strings.HasPrefix(m.Name, "median_") && !strings.HasPrefix(m.Name, "p99_") && !strings.HasPrefix(m.Name, "p95_") { // explained once for all as median_X_ms
			keys = append(keys, m.Name)
		}
	}
	for _, k := range keys {
		if !strings.Contains(string(readme), "`"+k+"`") {
			t.Errorf("results/README.md does not document %s", k)
		}
	}
}
