package engine

import (
	"compress/gzip"
	"io"
	"os"
	"strings"
	"testing"

	"sweep/sweep"
)

const gb = 1_000_000_000

func TestSGLangPreflight(t *testing.T) {
	t.Parallel()
	kimi := sweep.Machine{Name: "gpu1", MemAvailableBytes: 405 * gb, MemTotalBytes: 449 * gb, GPUCount: 8, GPUMemoryBytes: 97_887 << 20}
	h200 := sweep.Machine{MemAvailableBytes: 129 * gb, GPUCount: 1, GPUMemoryBytes: 143_771 << 20, WeightBytes: 13_500 << 20}
	foreseen := func(m sweep.Machine, pool, tokens, within float64) sweep.Machine {
		m.Forecast = &sweep.Forecast{PoolGiB: pool, KVTokens: &sweep.Estimate{Value: tokens, Within: within}}
		return m
	}
	for _, test := range []struct {
		name     string
		settings []sweep.Setting
		machine  sweep.Machine
		want     string // a part of the refusal; empty: none
	}{
		{"nothing", nil, sweep.Machine{}, ""},
		{"48 for each of 8", set("tp-size=8", "hicache-size=48"), kimi, ""},
		{"50 for each of 8", set("tp-size=8", "hicache-size=50"), kimi, "8 ranks × 50 GB = 400 GB of host memory, but only 405 GB of 449 GB are free on gpu1; at most 49 fits"},
		{"300 for each of 8", set("tp-size=8", "hicache-size=300"), kimi, "8 ranks × 300 GB = 2,400 GB"},
		{"replicas", set("tp-size=4", "dp-size=2", "hicache-size=50"), kimi, "8 ranks × 50 GB"},
		{"replicas inside", set("tp-size=4", "dp-size=2", "enable-dp-attention=true", "hicache-size=90"), kimi, ""},
		{"stages", set("tp-size=4", "pp-size=2", "hicache-size=50"), kimi, "8 ranks × 50 GB"},
		{"memory not known", set("tp-size=8", "hicache-size=300"), sweep.Machine{GPUCount: 8}, ""},
		{"off", set("tp-size=8", "hicache-size=off", "enable-hierarchical-cache=true"), foreseen(kimi, 1000, 1e6, 1), ""},

		{"default ratio", set("mem-fraction-static=0.80", "enable-hierarchical-cache=true"), h200, "the default hicache-ratio 2 is a multiple of the KV pool of each rank: 1 × 2 × 100 GB (at least, beside the weights) = 200 GB"},
		{"default ratio, small pool", set("mem-fraction-static=0.30", "enable-hierarchical-cache=true"), h200, ""},
		{"ratio", set("mem-fraction-static=0.80", "enable-hierarchical-cache=true", "hicache-ratio=1.1"), h200, ""},
		{"ratio, forecast", set("mem-fraction-static=0.80", "enable-hierarchical-cache=true", "hicache-ratio=1.3"), foreseen(h200, 97.8, 801018, 10), "hicache-ratio 1.3 is a multiple of the KV pool of each rank: 1 × 1.3 × 105 GB (forecast) = 137 GB"},
		{"ratio, vague forecast", set("mem-fraction-static=0.80", "enable-hierarchical-cache=true", "hicache-ratio=1.3"), foreseen(h200, 97.8, 801018, 400000), ""},
		{"ratio of all ranks", set("tp-size=8", "enable-hierarchical-cache=true"), foreseen(kimi, 30, 459277, 2), "8 × 2 × 32 GB (forecast) = 515 GB"},
		{"size 0 is ratio", set("mem-fraction-static=0.80", "enable-hierarchical-cache=true", "hicache-size=0"), h200, "the default hicache-ratio"},
		{"ratio without the cache", set("mem-fraction-static=0.80", "hicache-ratio=5"), h200, ""},
		{"capped pool", set("mem-fraction-static=0.80", "enable-hierarchical-cache=true", "max-total-tokens=1000"), h200, ""},

		{"too many ranks", set("tp-size=8", "pp-size=2"), kimi, "tp-size × pp-size = 16 ranks need a GPU each, and gpu1 has 8"},
		{"too many replicas", set("tp-size=8", "dp-size=2"), kimi, "tp-size × pp-size × dp-size = 16 ranks"},
		{"ranks on the CPU", set("tp-size=16", "device=cpu"), kimi, ""},
		{"devices not known", set("tp-size=16"), sweep.Machine{}, ""},

		{"weights", set("mem-fraction-static=0.05"), h200, "mem-fraction-static 0.05 of 140.4 GiB is 7.0 GiB, less than the weights of one rank, 13.2 GiB: raise it above 0.10"},
		{"weights of two ranks", set("mem-fraction-static=0.05", "tp-size=2"), sweep.Machine{GPUCount: 2, GPUMemoryBytes: h200.GPUMemoryBytes, WeightBytes: h200.WeightBytes}, ""},
		{"weights made smaller", set("mem-fraction-static=0.05", "quantization=fp8"), h200, ""},
		{"weights not known", set("mem-fraction-static=0.05"), kimi, ""},
		{"no share", set("mem-fraction-static=0"), kimi, "no share of the device"},

		{"no radix cache", set("hicache-size=4", "disable-radix-cache=true"), kimi, "take one of the two out"},
		{"no radix cache, off", set("hicache-size=off", "disable-radix-cache=true"), kimi, ""},
		{"half a GB", set("hicache-size=0.5"), kimi, "no whole number of GB"},
		{"chunk and page", set("chunked-prefill-size=1000", "page-size=64"), kimi, "no multiple of page-size 64: write 960"},
		{"chunk off", set("chunked-prefill-size=-1", "page-size=64"), kimi, ""},
		{"attention replicas", set("tp-size=4", "dp-size=3", "enable-dp-attention=true"), kimi, "must be a multiple of dp-size 3"},
		{"stages and speculation", set("pp-size=2", "speculative-algorithm=EAGLE"), kimi, "pipeline parallelism"},
		{"conservative", set("schedule-conservativeness=-0.1"), kimi, "below zero"},
		{"priority", set("enable-priority-scheduling=true", "schedule-policy=lpm"), kimi, "fcfs or lof, not lpm"},
		{"priority, default policy", set("enable-priority-scheduling=true"), kimi, ""},
		{"padding", set("disable-cuda-graph-padding=true", "enable-torch-compile=true"), kimi, "enable-torch-compile"},
		{"dcp", set("hicache-size=4", "dcp-size=2"), kimi, "dcp-size"},
		{"window share", set("swa-full-tokens-ratio=1.5"), kimi, "no share"},
		{"host share", set("hicache-host-memory-fraction=0"), kimi, "no share"},
		{"buffer", set("hicache-host-memory-mode=buffer_only"), kimi, "needs a hicache-storage-backend"},
		{"buffer written back", set("hicache-host-memory-mode=buffer_only", "hicache-storage-backend=file", "hicache-write-policy=write_back"), kimi, "write_back"},
	} {
		got := ""
		if e := sglangPreflight(test.settings, test.machine); e != nil {
			got = e.Detail
			if e.Outcome != sweep.SkippedPreflight || e.ImpliedBy == "" || strings.HasSuffix(got, ".") {
				t.Errorf("%s: %+v", test.name, e)
			}
		}
		if !strings.Contains(got, test.want) || test.want == "" && got != "" {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

func help(t *testing.T, name string) string {
	t.Helper()
	f, err := os.Open("testdata/help/" + name + ".txt.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestFlags holds settings against the help of real servers.
func TestFlags(t *testing.T) {
	t.Parallel()
	flags := map[string]Flags{}
	for name, file := range map[string]string{"sglang": "sglang-0.5.23", "vllm": "vllm-0.32.0", "llama.cpp": "llama-server"} {
		f, ok := ParseHelp(help(t, file))
		if !ok || len(f.Known) < 200 {
			t.Fatalf("%s: %d flags", name, len(f.Known))
		}
		flags[name] = f
	}
	for _, test := range []struct {
		engine   string
		settings []sweep.Setting
		want     string // problems as "flag: text (remedy)", each in part
	}{
		{"sglang", set("tp-size=8", "tensor-parallel-size=8", "mem-fraction-static=0.8", "hicache-size=48", "enable-metrics=true", "cuda-graph-max-bs-decode=64", "disable-radix-cache=off"), ""},
		{"sglang", set("mem-fraction-statc=0.8"), `mem-fraction-statc: sglang does not know the flag "mem-fraction-statc" (did you mean mem-fraction-static?)`},
		{"sglang", set("tp_size=8"), `tp_size: sglang does not know the flag "tp_size" (did you mean tp-size?)`},
		{"sglang", set("gpu-memory-utilization=0.9"), `gpu-memory-utilization: sglang does not know the flag "gpu-memory-utilization" ()`},
		{"sglang", set("mem-frac=0.8"), `mem-frac: flag "mem-frac" is an abbreviation, which the next version may read otherwise (write mem-fraction-static)`},
		{"sglang", set("cuda-graph-max-bs=64"), `cuda-graph-max-bs: sglang does not know the flag "cuda-graph-max-bs" (did you mean cuda-graph-max-bs-decode?)`}, // two begin so
		{"sglang", set("no-such-flag=off"), ""},
		{"sglang", set("kv-cache-dtype=fp8"), `kv-cache-dtype: flag "kv-cache-dtype" of sglang takes no "fp8" (`},
		{"sglang", set("kv-cache-dtype=fp8_e4m3", "schedule-policy=lpm"), ""},
		{"sglang", set("schedule-policy=lmp"), `schedule-policy: flag "schedule-policy" of sglang takes no "lmp" (did you mean lpm?)`},
		{"vllm", set("gpu-memory-utilization=0.9", "tensor_parallel_size=2", "compilation-config.level=3", "no-enable-prefix-caching=true", "max-num-seqs=64", "kv-cache-dtype=fp8"), ""},
		{"vllm", set("gpu-memory-utilisation=0.9"), `gpu-memory-utilisation: vllm does not know the flag "gpu-memory-utilisation" (did you mean gpu-memory-utilization?)`},
		{"vllm", set("mem-fraction-static=0.9"), `mem-fraction-static: vllm does not know`},
		{"llama.cpp", set("ngl=99", "c=4096", "np=4", "ctk=q8_0", "n-gpu-layers=99", "fa=on", "ctx_size=5"), ""},
		{"llama.cpp", set("ctx-sise=4096"), `ctx-sise: llama.cpp does not know the flag "ctx-sise" (did you mean ctx-size?)`},
	} {
		e, _ := Lookup(test.engine)
		var got []string
		for _, p := range CheckFlags(e, flags[test.engine], test.settings) {
			got = append(got, p.Flag+": "+p.Text+" ("+p.Remedy+")")
		}
		if text := strings.Join(got, "\n"); !strings.Contains(text, test.want) || test.want == "" && text != "" {
			t.Errorf("%s %v: %q, want %q", test.engine, test.settings, text, test.want)
		}
	}
	// The help of one server is not that of another: what sweep adds is not known there.
	e, _ := Lookup("sglang")
	if got := CheckFlags(e, flags["llama.cpp"], nil); len(got) == 0 || !strings.Contains(got[0].Text, "sweep starts sglang with --") {
		t.Errorf("sglang by llama-server's help: %v", got)
	}
	for _, text := range []string{"", "usage: x [-h] [--a A]\n", "Traceback (most recent call last):\n  --x\n"} {
		if f, ok := ParseHelp(text); ok {
			t.Errorf("%q lists flags: %v", text, f.Known)
		}
	}
}

func FuzzParseHelp(f *testing.F) {
	f.Add("usage: s [--a {x,y}]\n  --b-c B, -b B   text\n-c,    --ctx N   words\n")
	f.Fuzz(func(t *testing.T, text string) {
		flags, _ := ParseHelp(text)
		for _, k := range flags.Known {
			if k == "" || strings.HasPrefix(k, "-") {
				t.Errorf("flag %q", k)
			}
		}
	})
}

// TestCellBytes holds the size of a token against what real launches told: pool ÷ tokens.
func TestCellBytes(t *testing.T) {
	t.Parallel()
	const llama8b = `{"num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "hidden_size": 4096, "torch_dtype": "bfloat16"%s}`
	const mla = `{"hidden_size": 2048, "num_hidden_layers": 8, "num_attention_heads": 16, "num_key_value_heads": 16, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "v_head_dim": 128, "torch_dtype": "bfloat16"}`
	const kimi = `{"model_type": "kimi_k25", "dtype": "bfloat16", "text_config": {"num_hidden_layers": 61, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "quantization_config": {"kv_cache_scheme": null}}}`
	with := func(more string) string { return strings.Replace(llama8b, "%s", more, 1) }
	for _, test := range []struct {
		name, config string
		settings     []sweep.Setting
		want         float64 // 0: cannot be told
	}{
		{"grouped heads", with(""), nil, 131072}, // 97.78 GiB for 801,018 tokens
		{"on two ranks", with(""), set("tp-size=2"), 65536},
		{"more ranks than heads", with(""), set("tp-size=16"), 8192 * 2},
		{"attention replicas", with(""), set("tp-size=4", "dp-size=2", "enable-dp-attention=true"), 65536},
		{"two stages", with(""), set("pp-size=2"), 65536},
		{"fp8", with(""), set("kv-cache-dtype=fp8_e5m2"), 65536}, // twice the tokens at the same fraction
		{"latent", mla, set("tp-size=8"), 9216},                  // 68.00 GiB for 7,922,467 tokens
		{"latent, inside", kimi, set("tp-size=8"), 70272},
		{"no head size", `{"num_hidden_layers": 2, "num_attention_heads": 8, "hidden_size": 512, "torch_dtype": "float16"}`, nil, 2 * 8 * 128 * 2},
		{"window", with(`, "sliding_window": 4096`), nil, 0},
		{"window not used", with(`, "sliding_window": 4096, "use_sliding_window": false`), nil, 131072},
		{"hybrid", with(`, "layer_types": ["full_attention", "linear_attention"]`), nil, 0},
		{"quantized pool", with(`, "quantization_config": {"kv_cache_scheme": {"num_bits": 8}}`), nil, 0},
		{"draft model", with(""), set("speculative-algorithm=EAGLE"), 0},
		{"unknown type", with(""), set("kv-cache-dtype=nvfp4"), 0},
		{"no config", `[]`, nil, 0},
		{"empty", `{}`, nil, 0},
	} {
		got, err := cellBytes([]byte(test.config), test.settings)
		if got != test.want || (err != nil) != (test.want == 0) {
			t.Errorf("%s: %v bytes, error %v, want %v", test.name, got, err, test.want)
		}
	}
}
