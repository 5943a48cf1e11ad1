package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"sweep/sweep"
)

// nightSpec describes a synthetic night. The same spec gives the same bytes.
type nightSpec struct {
	name      string
	axes      []sweep.Axis // each value's label is all that counts
	workloads []sweep.Workload
	loads     []sweep.Load
	repeats   int
	drift     bool
	plan      bool // write manifest.json
	raw       bool // write the raw files of measured runs, and launch.json
	// end says how a cell ended; nil, or an empty outcome, is ok.
	end func(c sweep.Config, l sweep.Load, repeat int) sweep.Ending
	// edit may change a record, or say that it does not exist yet.
	edit func(r *sweep.Record) (exists bool)
	// configs may change the configs before they are used.
	configs func([]sweep.Config) []sweep.Config
}

func axis(name string, values ...string) sweep.Axis {
	a := sweep.Axis{Name: name}
	for _, v := range values {
		a.Values = append(a.Values, sweep.AxisValue{Label: v})
	}
	return a
}

func load(workload string, pools ...any) sweep.Load {
	l := sweep.Load{Workload: workload}
	for i := 0; i < len(pools); i += 2 {
		l.Pools = append(l.Pools, sweep.Pool{Class: pools[i].(string), Concurrency: pools[i+1].(int)})
	}
	return l
}

func (s nightSpec) product() []sweep.Config {
	configs := []sweep.Config{{}}
	for _, a := range s.axes {
		var next []sweep.Config
		for _, c := range configs {
			for _, v := range a.Values {
				params := append(sweep.Params{}, c.Axes...)
				next = append(next, sweep.Config{Axes: append(params, sweep.Param{Name: a.Name, Value: v.Label})})
			}
		}
		configs = next
	}
	for i := range configs {
		configs[i].Key = cmp.Or(configs[i].Axes.String(), "default")
	}
	configs[0].Baseline = true
	if s.configs != nil {
		configs = s.configs(configs)
	}
	return configs
}

// records makes the night's records by a simple model: a pool of KV tokens that grows with the axes, and a
// throughput that saturates with it.
func (s nightSpec) records() []sweep.Record {
	rng := rand.New(rand.NewPCG(1, 2))
	start := time.Date(2026, 11, 29, 18, 0, 0, 0, time.UTC)
	var out []sweep.Record
	configs := s.product()
	for repeat := 1; repeat <= s.repeats; repeat++ {
		for i, c := range configs {
			for _, l := range s.loads {
				out = append(out, s.record(rng, start, c, float64(i), l, repeat, sweep.RoleMeasure))
			}
		}
		if s.drift {
			for _, l := range s.loads {
				out = append(out, s.record(rng, start, configs[0], 0, l, repeat, sweep.RoleDrift))
			}
		}
	}
	kept := out[:0]
	for i := range out {
		if s.edit == nil || s.edit(&out[i]) {
			kept = append(kept, out[i])
		}
	}
	return kept
}

func (s nightSpec) record(rng *rand.Rand, start time.Time, c sweep.Config, index float64, l sweep.Load, repeat int, role sweep.Role) sweep.Record {
	strength := 1.0 // of the config
	for k, p := range c.Axes {
		v, err := strconv.ParseFloat(p.Value, 64)
		if err == nil && v < 1.5 {
			strength += 3 * (v - 0.8)
		} else if p.Value != "off" {
			strength += 0.18 * float64(k)
		}
	}
	if c.Label != "" || len(c.Axes) == 0 {
		strength += 0.05 * index
	}
	launch := sweep.Launch{Config: c, Repeat: repeat, Role: role}
	r := sweep.Record{
		Night: s.name, Cell: launch.CellKey(l), ContentKey: "k", Role: role, Config: c.Key, Load: l, Repeat: repeat, Attempt: 1,
		Host: "local", GPU: "NVIDIA RTX PRO 6000", GPUCount: 8, Engine: "sglang", EngineVersion: "0.5.17", Model: "/models/kimi-k2.5",
		Axes: c.Axes, Baseline: c.Baseline, Unacceptable: c.Unacceptable, Notes: []string{"simulated ×20"},
		Command: "python -m sglang.launch_server --model-path /models/kimi-k2.5 " + strings.ReplaceAll(c.Axes.String(), ",", " "),
		Values:  sweep.Values{"kv_tokens": math.Round(116171 * strength), "headroom_gib": 8.3 - 3*(strength-1), "start_s": 300 + 10*rng.Float64()},
		Dir:     fmt.Sprintf("launches/%s/attempt=1", launch.ID()),
	}
	r.StartedAt = start.Add(time.Duration(index+100*float64(repeat)) * time.Minute)
	r.EndedAt = r.StartedAt.Add(2 * time.Minute)
	noise := 1 + 0.01*rng.NormFloat64()
	if s.end != nil {
		r.Ending = s.end(c, l, repeat)
	}
	if r.Outcome == "" {
		r.Outcome = sweep.OK
	}
	if r.Outcome != sweep.OK {
		return r
	}
	n := float64(l.Concurrency())
	rate := 1400 * strength * n / (n + 60*strength) * noise
	v := r.Values
	v["output_throughput"], v["request_throughput"] = rate, rate/600
	v["running"], v["queued"] = min(n, 90*strength), max(0, n-90*strength)
	v["token_usage"], v["token_usage_over_085"] = min(0.92, n/150), 0.25
	v["client_server_ratio"], v["window_s"] = 0.998, 120
	v["sent"], v["completed"], v["failed"] = n*4, n*4, 0
	steady := true
	r.Steady, r.Verdict = &steady, "valid"
	prefixes := []string{""}
	if len(l.Pools) > 1 {
		for _, p := range l.Pools {
			prefixes = append(prefixes, p.Class+"_")
		}
	}
	for i, p := range prefixes {
		v[p+"median_ttft_ms"], v[p+"p99_ttft_ms"] = (400+float64(i)*900)*noise, 2300*noise*float64(i+1)
		v[p+"median_tpot_ms"], v[p+"p99_tpot_ms"] = n/rate*1000*noise, n/rate*1600*noise
		v[p+"p99_itl_ms"], v[p+"median_e2e_latency_ms"] = 310*noise, 38000*noise
	}
	return r
}

// write makes the night's folder and returns it.
func (s nightSpec) write(tb testing.TB) string {
	tb.Helper()
	dir := filepath.Join(tb.TempDir(), s.name)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		tb.Fatal(err)
	}
	var lines []byte
	for _, r := range s.records() {
		line, err := json.Marshal(r)
		if err != nil {
			tb.Fatal(err)
		}
		lines = append(append(lines, line...), '\n')
	}
	if err := os.WriteFile(filepath.Join(dir, CellsFile), lines, 0o666); err != nil {
		tb.Fatal(err)
	}
	if s.raw {
		for _, r := range s.records() {
			if r.Outcome == sweep.OK {
				syntheticRun{open: 20, length: 100}.write(tb, dir, r)
			}
		}
	}
	if s.plan {
		data, err := json.Marshal(map[string]any{"schema": 1, "configs": s.product(), "loads": s.loads, "workloads": s.workloads, "repeats": s.repeats})
		if err != nil {
			tb.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, ManifestFile), data, 0o666); err != nil {
			tb.Fatal(err)
		}
	}
	return dir
}

func (s nightSpec) read(tb testing.TB) (*Night, *Summary) {
	tb.Helper()
	n, err := Read(s.write(tb))
	if err != nil {
		tb.Fatal(err)
	}
	return n, Summarize(n)
}

// preflight300 is the sentence that a person needs when the host pool does not fit.
const preflight300 = "8 ranks × 300 GB = 2,400 GB of host memory for hicache, but the host has 449 GB"

// kimi is the founding night: 0.93 dies under long prompts, 300 GB a rank does not fit the host.
func kimi(repeats int) nightSpec {
	return nightSpec{
		name: "kimi-k2.5-20261129T180000Z", repeats: repeats, drift: true, plan: true,
		axes: []sweep.Axis{axis("mem-fraction-static", "0.85", "0.88", "0.93"), axis("hicache-size", "off", "48", "300")},
		loads: []sweep.Load{
			load("short-only", "short", 64), load("short-only", "short", 150),
			load("synth", "short", 53, "long", 11), load("synth", "short", 150, "long", 32),
		},
		workloads: []sweep.Workload{
			{Name: "short-only", Classes: []sweep.Class{{Name: "short"}}},
			{Name: "synth", Classes: []sweep.Class{{Name: "short"}, {Name: "long"}}},
		},
		configs: func(all []sweep.Config) []sweep.Config {
			var out []sweep.Config
			for _, c := range all {
				if c.Key != "mem-fraction-static=0.85,hicache-size=300" {
					out = append(out, c)
				}
			}
			return append(out, sweep.Config{
				Key: "fp8", Label: "fp8", Unacceptable: "quality",
				Axes: sweep.Params{{Name: "mem-fraction-static", Value: "0.88"}, {Name: "kv-cache-dtype", Value: "fp8_e4m3"}},
			})
		},
		end: func(c sweep.Config, l sweep.Load, _ int) sweep.Ending {
			mem, _ := c.Axes.Get("mem-fraction-static")
			hi, _ := c.Axes.Get("hicache-size")
			switch {
			case hi == "300":
				return sweep.Ending{Outcome: sweep.SkippedPreflight, Phase: sweep.PhaseGate, Detail: preflight300, ImpliedBy: "rule: ranks × hicache-size"}
			case mem == "0.93" && l.Workload == "synth" && l.Concurrency() > 64:
				return sweep.Ending{
					Outcome: sweep.OOMPrefill, Phase: sweep.PhaseLoad, Detail: "CUDA ran out of memory in a prefill of 8,192 tokens",
					Evidence: &sweep.Evidence{File: "launches/x/server.log", Line: 812, Text: "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.02 GiB"},
				}
			}
			return sweep.Ending{}
		},
	}
}
