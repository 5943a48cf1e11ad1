package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sweep/sweep"
	"sweep/sweep/engine"
)

// TestDoctorMissing holds that a grid for a machine that this one is not is told everything that is missing.
func TestDoctorMissing(t *testing.T) {
	dir := t.TempDir()
	for name, value := range map[string]string{"PATH": dir, "HOME": dir, "HF_TOKEN": "", "XDG_CACHE_HOME": dir} {
		t.Setenv(name, value)
	}
	if err := os.Unsetenv("HF_TOKEN"); err != nil { // set back by t.Setenv
		t.Fatal(err)
	}
	code, stdout, stderr := runSweep(t, "doctor", "../../grids/kimi-k2.5.yaml", "-o", filepath.Join(dir, "results"))
	if code != exitEnvironment {
		t.Errorf("exit code %d", code)
	}
	for _, want := range []string{
		"missing  workdir ", "workdir /shared: no such folder on this machine",
		"missing  command ", "command /opt/sglang/bin/python: no such file on this machine",
		"missing  env ", "env HF_TOKEN refers to ${env:HF_TOKEN}, which is not set on this machine",
		"missing  model ", "model /shared/kimi-k2.5-int4: no such folder or file on this machine",
		"missing  tokenizer ", "missing  GPUs ", "8 are needed, and this machine shows none",
		"warning  flags ", "refused  configs ", "hicache-size 300 is per rank: 8 ranks × 300 GB = 2,400 GB of host memory",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("standard output lacks %q", want)
		}
	}
	if !strings.Contains(stderr, "6 things missing") {
		t.Errorf("standard error %q", stderr)
	}
	if t.Failed() {
		t.Log(stdout)
	}
}

// TestDoctorFormats holds each format of a machine that has all.
func TestDoctorFormats(t *testing.T) {
	t.Parallel()
	results := filepath.Join(t.TempDir(), "results")
	for _, format := range []string{"table", "markdown", "csv", "json"} {
		code, stdout, stderr := runSweep(t, "doctor", "../../grids/kimi-k2.5-sim.yaml", "--format", format, "-o", results)
		if code != exitOK || stderr != "" {
			t.Errorf("%s: exit code %d, standard error %q", format, code, stderr)
		}
		if !strings.Contains(stdout, "at most 49 fits") || !strings.Contains(stdout, "NVIDIA RTX PRO 6000") {
			t.Errorf("%s:\n%s", format, stdout)
		}
		switch format {
		case "json":
			var found []sweep.Finding
			if err := json.Unmarshal([]byte(stdout), &found); err != nil || len(found) < 7 {
				t.Errorf("%d findings, %v", len(found), err)
			}
			refused := slices.IndexFunc(found, func(f sweep.Finding) bool { return f.Level == sweep.LevelRefused })
			if refused < 0 || len(found[refused].Configs) != 3 {
				t.Errorf("refused: %+v", found)
			}
		case "csv":
			if rows, err := csv.NewReader(strings.NewReader(stdout)).ReadAll(); err != nil || len(rows) < 8 {
				t.Errorf("%d rows, %v", len(rows), err)
			}
		}
	}
	if code, stdout, _ := runSweep(t, "doctor", "-o", results); code != exitOK || !strings.Contains(stdout, "llama.cpp") || !strings.Contains(stdout, "host memory") {
		t.Errorf("without a grid: exit code %d\n%s", code, stdout)
	}
	if _, err := os.Stat(results); err == nil {
		t.Error("doctor made the results directory")
	}
}

// badFlags is a grid with three flags that the server does not take.
const badFlags = `engine: sglang
model: llama-3-8b
command: [sweep, simulate, sglang, --profile, llama-8b-24gb]
hosts: [{simulate: llama-8b-24gb}]
server: {enable-metrics: true, mem-fraction-statc: 0.8}
sweep:
  schedule-policy: [fcfs, lmp]
  cache: {off: {}, small: {hicache-sise: 4}}
workloads: {w: {classes: {c: {input: 10, output: 5}}}}
load: [{workload: w, concurrency: [1]}]
`

// TestRunRefusesFlags holds that a flag which the server does not know is found before the night, at its place.
func TestRunRefusesFlags(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	grid := filepath.Join(dir, "grid.yaml")
	if err := os.WriteFile(grid, []byte(badFlags), 0o600); err != nil {
		t.Fatal(err)
	}
	results := filepath.Join(dir, "results")
	code, stdout, stderr := runSweep(t, "run", grid, "-o", results)
	if code != exitUsage || stdout != "" {
		t.Errorf("exit code %d, standard output %q", code, stdout)
	}
	for _, want := range []string{
		`grid.yaml:5:32: sglang does not know the flag "mem-fraction-statc" (did you mean mem-fraction-static?)`,
		`grid.yaml:7:3: flag "schedule-policy" of sglang takes no "lmp" (did you mean lpm?)`,
		`grid.yaml:8:28: sglang does not know the flag "hicache-sise" (did you mean hicache-size?)`,
		"cannot run: 3 problems with flags", "--no-flag-check",
	} {
		if !strings.Contains(stderr, want) {
			t.Errorf("standard error lacks %s\n%s", want, stderr)
		}
	}
	if _, err := os.Stat(results); err == nil {
		t.Error("a night was made")
	}
	if code, _, _ := runSweep(t, "doctor", grid, "-o", results); code != exitUsage {
		t.Errorf("doctor: exit code %d", code)
	}
}

// TestRunRefusesModel holds that a model which is not there is found before the night.
func TestRunRefusesModel(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	grid := filepath.Join(dir, "grid.yaml")
	text := strings.NewReplacer("llama-3-8b", "/no/such/model", "[sweep, simulate, sglang, --profile, llama-8b-24gb]", "[sleep]", "hosts: [{simulate: llama-8b-24gb}]\n", "").Replace(badFlags)
	if err := os.WriteFile(grid, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := runSweep(t, "run", grid, "-o", filepath.Join(dir, "results"), "--no-flag-check")
	if code != exitEnvironment || !strings.Contains(stderr, "no night was started: model /no/such/model: no such folder or file on this machine") || !strings.Contains(stderr, "sweep doctor "+grid) {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}

// TestPlanForecast holds that a plan shows what earlier nights say of its launches, and puts those last that are
// not expected to start.
func TestPlanForecast(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	results := filepath.Join(dir, "results")
	grid := filepath.Join(dir, "kimi.yaml")
	text, err := os.ReadFile("../../grids/kimi-k2.5-sim.yaml")
	if err != nil {
		t.Fatal(err)
	}
	wide := strings.Replace(string(text), "[0.85, 0.88, 0.93]", "[0.85, 0.95, 0.93, 0.88]", 1)
	if err := os.WriteFile(grid, []byte(wide), 0o600); err != nil {
		t.Fatal(err)
	}
	code, before, stderr := runSweep(t, "plan", grid, "-o", results)
	if code != exitOK || !strings.Contains(before, "to be forecast from launches 1 and 4") || strings.Contains(before, "forecast: ") {
		t.Fatalf("without earlier nights: exit code %d, %s\n%s", code, stderr, before)
	}
	if n := strings.Count(before, "not started: hicache-size 300 is per rank"); n != 4 {
		t.Errorf("%d launches are said to be refused", n)
	}
	pretendNight(t, filepath.Join(results, "kimi-20261129T180000Z"), grid, map[string]sweep.Values{
		"mem-fraction-static=0.85,hicache-size=off": {"kv_tokens": 116171, "headroom_gib": 8.3, "graph_gib": 5.64},
		"mem-fraction-static=0.88,hicache-size=48":  {"kv_tokens": 159277, "headroom_gib": 5.47, "graph_gib": 5.64},
	})
	_, after, _ := runSweep(t, "plan", grid, "-o", results)
	for _, want := range []string{"forecast: 231,120 ± 9 KV tokens, 0.7", "that is little", "from kimi-20261129T180000Z/mem-fraction-static=0.85,hicache-size=off/repeat=1 and kimi-"} {
		if !strings.Contains(after, want) {
			t.Errorf("the plan lacks %q\n%s", want, after)
		}
	}
	_, data, _ := runSweep(t, "plan", grid, "-o", results, "--format", "json")
	var night plannedNight
	if err := json.Unmarshal([]byte(data), &night); err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, l := range night.Launches {
		order = append(order, strings.TrimPrefix(l.Config, "mem-fraction-static="))
		if l.Forecast == nil || l.Forecast.Version != "0.5.17" {
			t.Errorf("%s: forecast %+v", l.Config, l.Forecast)
		}
	}
	want := "0.85,hicache-size=off 0.85,hicache-size=48 0.85,hicache-size=300 0.93,hicache-size=off 0.93,hicache-size=48 0.93,hicache-size=300 " +
		"0.88,hicache-size=off 0.88,hicache-size=48 0.88,hicache-size=300 0.95,hicache-size=off 0.95,hicache-size=48 0.95,hicache-size=300 0.85,hicache-size=off"
	if got := strings.Join(order, " "); got != want {
		t.Errorf("the order is\n%s, want\n%s", got, want)
	}
}

// pretendNight makes a night with launches that were ready, by config.
func pretendNight(t *testing.T, dir, grid string, facts map[string]sweep.Values) {
	t.Helper()
	plan, eng, err := gridOf(&environ{Stderr: os.Stderr}, grid, 0)
	if err != nil {
		t.Fatal(err)
	}
	save := func(path string, v any) {
		t.Helper()
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	save(filepath.Join(dir, "manifest.json"), sweep.Manifest{Schema: sweep.Schema, Night: filepath.Base(dir)})
	for _, j := range plan.Probes(eng) {
		if f, ok := facts[j.Config.Key]; ok {
			save(filepath.Join(dir, j.Dir(1), "job.json"), j)
			save(filepath.Join(dir, j.Dir(1), sweep.ReadyFile), sweep.LaunchResult{Schema: sweep.Schema, Job: j.ID, EngineVersion: "0.5.17", GPU: "NVIDIA RTX PRO 6000 Blackwell Server Edition", GPUCount: 8, Facts: f})
		}
	}
}

// TestSchemaCommand holds that the schema knows the engines that there are.
func TestSchemaCommand(t *testing.T) {
	t.Parallel()
	code, stdout, _ := runSweep(t, "schema")
	var schema struct {
		Properties struct {
			Engine struct {
				Enum []string `json:"enum"`
			} `json:"engine"`
		} `json:"properties"`
	}
	if err := json.Unmarshal([]byte(stdout), &schema); code != exitOK || err != nil {
		t.Fatalf("exit code %d, %v", code, err)
	}
	if got, want := fmt.Sprint(schema.Properties.Engine.Enum), fmt.Sprint(engine.Names()); got != want {
		t.Errorf("engines %s, want %s", got, want)
	}
}
