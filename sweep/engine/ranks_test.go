package engine

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"sweep/sweep"
)

// Facts that ranks tell of themselves are kept apart, in whatever order the ranks speak.
func TestByRank(t *testing.T) {
	t.Parallel()
	const text = `[2026-11-29 12:00:01 TP1] Load weight end. elapsed=1.00 s, type=X, avail mem=20.00 GB, mem usage=70.25 GB.
[2026-11-29 12:00:01 TP0] Load weight end. elapsed=1.00 s, type=X, avail mem=19.75 GB, mem usage=70.50 GB.
[2026-11-29 12:00:02 TP0] Allocating 48.00 GB host memory for hierarchical KV cache.
[2026-11-29 12:00:02 TP1] Allocating 48.00 GB host memory for hierarchical KV cache.
`
	eng, _ := Lookup("sglang")
	log := eng.NewLog()
	log.Feed([]byte(text))
	log.Close()
	by := log.(sweep.RankReader).ByRank()
	if want := map[string]float64{"TP0": 70.5, "TP1": 70.25}; !maps.Equal(by["weights_gib"], want) {
		t.Errorf("weights_gib %v, want %v", by["weights_gib"], want)
	}
	if want := map[string]float64{"TP0": 48, "TP1": 48}; !maps.Equal(by["host_pool_gb"], want) {
		t.Errorf("host_pool_gb %v, want %v", by["host_pool_gb"], want)
	}
}

// A cell whose label says off or on, and whose server does the reverse.
func TestMislabelled(t *testing.T) {
	t.Parallel()
	eng, _ := Lookup("sglang")
	for name, c := range map[string]struct {
		info string
		axes sweep.Params
		want string
	}{
		"off and on":          {`"enable_hierarchical_cache":true,"hicache_size":0`, sweep.Params{{Name: "hicache-size", Value: "off"}}, "mislabelled: hicache-size is off here, but in effect on"},
		"off and on by size":  {`"enable_hierarchical_cache":true,"hicache_size":16`, sweep.Params{{Name: "hicache-size", Value: "off"}}, "but in effect 16"},
		"on and off":          {`"enable_hierarchical_cache":false,"hicache_size":48`, sweep.Params{{Name: "hicache-size", Value: "48"}}, "mislabelled: hicache-size is 48 here, but in effect off"},
		"off":                 {`"enable_hierarchical_cache":false,"hicache_size":0`, sweep.Params{{Name: "hicache-size", Value: "off"}}, ""},
		"on":                  {`"enable_hierarchical_cache":true,"hicache_size":48`, sweep.Params{{Name: "hicache-size", Value: "48"}}, ""},
		"another size":        {`"enable_hierarchical_cache":true,"hicache_size":16`, sweep.Params{{Name: "hicache-size", Value: "48"}}, ""},
		"a switch":            {`"disable_radix_cache":false`, sweep.Params{{Name: "disable-radix-cache", Value: "true"}}, "mislabelled: disable-radix-cache is true here, but in effect false"},
		"a bundle of another": {`"disable_radix_cache":false`, sweep.Params{{Name: "spec", Value: "off"}}, ""},
	} {
		routes := answers{"GET /server_info": `{"version":"0.5.17",` + c.info + `,"internal_states":[{}]}`}
		in, err := eng.Inspect(t.Context(), routes.get)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(in.Mislabelled(c.axes), "; ")
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// Data-parallel replicas have a KV pool each: the least of them, and all together.
func TestReplicasTotal(t *testing.T) {
	t.Parallel()
	eng, _ := Lookup("sglang")
	info := func(states ...string) sweep.Values {
		in, err := eng.Inspect(t.Context(), answers{"GET /server_info": `{"version":"0.5.17","max_total_num_tokens":1000,"internal_states":[` + strings.Join(states, ",") + `]}`}.get)
		if err != nil {
			t.Fatal(err)
		}
		return in.Facts
	}
	two := info(`{"memory_usage":{"token_capacity":1000}}`, `{"memory_usage":{"token_capacity":900}}`)
	if two["kv_tokens"] != 900 || two["kv_tokens_per_rank"] != 900 || two["kv_tokens_total"] != 1900 {
		t.Errorf("two replicas: %v", two)
	}
	for _, facts := range []sweep.Values{info(`{"memory_usage":{"token_capacity":1000}}`), info(`{"memory_usage":{"token_capacity":1000}}`, `{}`)} {
		if slices.ContainsFunc(slices.Collect(maps.Keys(facts)), func(n string) bool { return strings.HasSuffix(n, "_total") }) {
			t.Errorf("a total of what is not known: %v", facts)
		}
	}
	vllm, _ := Lookup("vllm")
	in, err := vllm.Inspect(t.Context(), answers{
		"GET /version": `{"version":"0.32.0"}`, "GET /v1/models": `{"data":[{"max_model_len":2048}]}`,
		"GET /metrics": "vllm:cache_config_info{engine=\"0\",num_gpu_blocks=\"10\",block_size=\"16\"} 1\nvllm:cache_config_info{engine=\"1\",num_gpu_blocks=\"8\",block_size=\"16\"} 1\n",
	}.get)
	if err != nil || in.Facts["kv_tokens"] != 128 || in.Facts["kv_tokens_total"] != 288 {
		t.Errorf("vLLM: %v %v", in.Facts, err)
	}
}
