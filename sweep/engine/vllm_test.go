package engine

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"sweep/sweep"
)

func vllmEngine(t testing.TB) *sweep.Engine {
	t.Helper()
	eng, ok := Lookup("vllm")
	if !ok {
		t.Fatal("no engine vllm")
	}
	return eng
}

func TestVLLMArgv(t *testing.T) {
	spec := sweep.ServerSpec{Model: "/m", ServedName: "night-1", Host: "127.0.0.1", Port: 30000, Settings: set("gpu-memory-utilization=0.92", "enforce-eager=true", "enable-prefix-caching=off", "max-num-seqs=16")}
	got := strings.Join(vllmEngine(t).Argv(spec), " ")
	if want := "/m --served-model-name night-1 --host 127.0.0.1 --port 30000 --gpu-memory-utilization 0.92 --enforce-eager --max-num-seqs 16"; got != want {
		t.Errorf("have %s\nwant %s", got, want)
	}
}

func TestVLLMPreflight(t *testing.T) {
	m := sweep.Machine{Name: "gpu1", MemAvailableBytes: 100e9, GPUCount: 4}
	for _, c := range []struct {
		settings []sweep.Setting
		machine  sweep.Machine
		want     string
	}{
		{set("gpu-memory-utilization=92"), m, "gpu-memory-utilization 92 is no share of the device: write a number above 0 and at most 1"},
		{set("gpu-memory-utilization=0"), m, "gpu-memory-utilization 0 is no share"},
		{set("gpu-memory-utilization=1"), m, ""},
		{set("tensor-parallel-size=4", "pipeline-parallel-size=2"), m, "8 ranks (tensor × pipeline × data parallel) need as many devices, and gpu1 has 4"},
		{set("tensor-parallel-size=2", "data-parallel-size=2"), m, ""},
		{set("tensor-parallel-size=8"), sweep.Machine{}, ""}, // nothing known, nothing claimed
		{set("tensor-parallel-size=4", "cpu-offload-gb=30"), m, "cpu-offload-gb 30 is GiB for each rank: 129 GB of host memory, but only 100 GB are free on gpu1"},
		{set("tensor-parallel-size=4", "kv-offloading-size=30"), m, ""},
		{set("tensor-parallel-size=4", "kv-offloading-size=120"), m, "kv-offloading-size 120 is GiB for all ranks"},
	} {
		got := vllmEngine(t).Preflight(c.settings, c.machine)
		if c.want == "" && got != nil || c.want != "" && (got == nil || !strings.HasPrefix(got.Detail, c.want) || got.Outcome != sweep.SkippedPreflight) {
			t.Errorf("%v: have %+v, want %q", c.settings, got, c.want)
		}
	}
}

func TestVLLMSample(t *testing.T) {
	for name, c := range map[string]struct {
		page string
		want sweep.Values
	}{
		"a recorded page under load": {file(t, "vllm_metrics_busy.txt"), sweep.Values{"running": 16, "queued": 4, "token_usage": 0.5079365079365079, "decode_tokens_total": 6049 - 65, "finished_tokens_total": 3990,
			"finished_total": 49, "prompt_tokens_total": 1424, "retractions_total": 0, "cached_tokens_device_total": 0, "cached_tokens_host_total": 0}},
		"two replicas, of 2025": {`vllm:num_requests_running{engine="0",model_name="m"} 3
vllm:num_requests_running{engine="1",model_name="m"} 4
vllm:gpu_cache_usage_perc{engine="0",model_name="m"} 0.25
vllm:gpu_cache_usage_perc{engine="1",model_name="m"} 0.75
vllm:prefix_cache_hits_total{engine="0",model_name="m"} 12
vllm:generation_tokens_total{engine="0",model_name="m"} 100
`, sweep.Values{"running": 7, "token_usage": 0.75, "cached_tokens_device_total": 12}}, // without the count of first tokens the decoded ones are not known
	} {
		got, err := vllmEngine(t).Sample(t.Context(), answers{"GET /metrics": c.page}.get)
		if err != nil || !maps.Equal(got, c.want) {
			t.Errorf("%s:\nhave %v %v\nwant %v", name, got, err, c.want)
		}
	}
}

func TestVLLMInspect(t *testing.T) {
	routes := answers{"GET /version": `{"version":"0.32.0"}`, "GET /v1/models": file(t, "vllm_models.json"), "GET /metrics": file(t, "vllm_metrics_busy.txt")}
	in, err := vllmEngine(t).Inspect(t.Context(), routes.get)
	if err != nil {
		t.Fatal(err)
	}
	if want := (sweep.Values{"kv_tokens": 8192, "kv_blocks": 64, "context_length": 2048}); in.Version != "0.32.0" || !maps.Equal(in.Facts, want) {
		t.Errorf("have %s %v, want %v", in.Version, in.Facts, want)
	}
	got := in.Differences(set("gpu-memory-utilization=0.9", "block-size=128", "max-model-len=4096", "enable-prefix-caching=true"))
	if want := []string{"gpu-memory-utilization: asked 0.9, in effect 0.92", "max-model-len: asked 4096, in effect 2048"}; !slices.Equal(got, want) {
		t.Errorf("differences %q, want %q", got, want)
	}
	routes["GET /metrics"] = `vllm:cache_config_info{block_size="16",num_gpu_blocks="100"} 1` + "\n" + `vllm:cache_config_info{block_size="16",num_gpu_blocks="90"} 1` + "\n"
	if in, err = vllmEngine(t).Inspect(t.Context(), routes.get); err != nil || in.Facts["kv_tokens"] != 1440 {
		t.Errorf("two replicas of 2025: %v %v", in.Facts, err)
	}
	delete(routes, "GET /version")
	if _, err := vllmEngine(t).Inspect(t.Context(), routes.get); err == nil {
		t.Error("a server without a version is no error")
	}
}

func TestVLLMFlush(t *testing.T) {
	const route = "POST /reset_prefix_cache"
	for name, c := range map[string]struct{ reply, fails string }{
		"done":             {`{"success":true}`, ""},
		"done, until 2025": {"200|", ""},
		"busy to the end":  {`{"success":false}`, "still holds blocks"},
		"no such route":    {"404|Not Found", "VLLM_SERVER_DEV_MODE=1"},
		"it failed":        {"500|x", "answered 500"},
	} {
		synctest.Test(t, func(t *testing.T) {
			err := vllmEngine(t).Flush(t.Context(), answers{route: c.reply}.get)
			if c.fails == "" && err != nil || c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) { // it becomes idle
		asked := 0
		err := vllmEngine(t).Flush(t.Context(), func(context.Context, string, string, []byte) (int, []byte, error) {
			asked++
			return 200, fmt.Appendf(nil, `{"success":%v}`, asked > 3), nil
		})
		if err != nil || asked != 4 {
			t.Errorf("asked %d times: %v", asked, err)
		}
	})
}

func TestVLLMVocabulary(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "model")
	writeModel(t, folder, 600, 650)
	ids, err := vllmEngine(t).Vocabulary(t.Context(), answers{"GET /v1/models": fmt.Sprintf(`{"data":[{"id":"night-1","root":%q}]}`, folder)}.get, "night-1")
	if err != nil || len(ids) != 550 || ids[0] != 100 {
		t.Errorf("%d ids, %v", len(ids), err)
	}
}

// The environment must leave the log and the routes as they are known.
func TestVLLMEnvironment(t *testing.T) {
	env := vllmEngine(t).Environ
	for _, want := range []string{"VLLM_SERVER_DEV_MODE=1", "VLLM_LOGGING_LEVEL=INFO"} {
		if !slices.Contains(env, want) {
			t.Errorf("%q lacks %s", env, want)
		}
	}
}
