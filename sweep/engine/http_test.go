package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"sweep/sweep"
)

// answers is a server of recorded replies; a path without one is not found.
type answers map[string]string

func (a answers) get(_ context.Context, method, path string, _ []byte) (int, []byte, error) {
	reply, ok := a[method+" "+path]
	if !ok {
		return 404, []byte("Not Found"), nil
	}
	if status, body, ok := strings.Cut(reply, "|"); ok && len(status) == 3 {
		var code int
		fmt.Sscan(status, &code)
		return code, []byte(body), nil
	}
	return 200, []byte(reply), nil
}

func file(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "http", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestSample(t *testing.T) {
	const none = "" // no such route
	for _, c := range []struct {
		name, engine, metrics, loads string
		want                         sweep.Values
	}{
		{"after host hits", "sglang", file(t, "sglang_metrics_hicache.txt"), none, sweep.Values{"running": 0, "queued": 0, "token_usage": 0, "gen_throughput": 0, "decode_tokens_total": 169,
			"finished_tokens_total": 168, "finished_total": 21, "prompt_tokens_total": 160007, "retractions_total": 0, "cached_tokens_device_total": 0, "cached_tokens_host_total": 79990, "load_back_tokens_total": 79990}},
		{"before any hit: a counter that never counted is zero", "sglang", file(t, "sglang_metrics_fresh.txt"), none, sweep.Values{"running": 0, "queued": 0, "token_usage": 5e-05, "gen_throughput": 0,
			"decode_tokens_total": 9, "finished_tokens_total": 8, "finished_total": 1, "prompt_tokens_total": 7, "retractions_total": 0, "cached_tokens_device_total": 0, "cached_tokens_host_total": 0, "load_back_tokens_total": 0}},
		{"after retractions", "sglang", file(t, "sglang_metrics_retraction.txt"), none, sweep.Values{"running": 0, "queued": 0, "token_usage": 0, "gen_throughput": 0, "decode_tokens_total": 4783,
			"finished_tokens_total": 4808, "finished_total": 25, "prompt_tokens_total": 410, "retractions_total": 36, "cached_tokens_device_total": 85, "cached_tokens_host_total": 0, "load_back_tokens_total": 0}},
		{"without enable-metrics", "sglang", none, file(t, "sglang_v1_loads_busy.json"), sweep.Values{"running": 16, "queued": 4, "token_usage": 0.5676, "gen_throughput": 1491.74}},
		{"replicas", "sglang", none, `{"loads":[{"num_running_reqs":3,"token_usage":0.2},{"num_running_reqs":4,"token_usage":0.9}]}`, sweep.Values{"running": 7, "token_usage": 0.9}},
		{"every rank of two replicas reports", "sglang", `sglang:realtime_tokens_total{dp_rank="0",mode="decode",tp_rank="0"} 10
sglang:realtime_tokens_total{dp_rank="0",mode="decode",tp_rank="1"} 10
sglang:realtime_tokens_total{dp_rank="1",mode="decode",tp_rank="2"} 7
`, none, sweep.Values{"decode_tokens_total": 17, "retractions_total": 0, "cached_tokens_device_total": 0, "cached_tokens_host_total": 0, "load_back_tokens_total": 0}},
		{"storage of two kinds", "sglang", `sglang:realtime_tokens_total{mode="decode",tp_rank="0"} 1
sglang:cached_tokens_total{cache_source="storage_HiCacheFile"} 7
sglang:cached_tokens_total{cache_source="storage_Mooncake"} 4
`, none, sweep.Values{"decode_tokens_total": 1, "retractions_total": 0, "cached_tokens_device_total": 0, "cached_tokens_host_total": 0, "cached_tokens_storage_total": 11, "load_back_tokens_total": 0}},
		{"an old server says less", "sglang", "sglang:num_running_reqs{model_name=\"m\"} 2\nsglang:cached_tokens_total{model_name=\"m\"} 5\n", none, sweep.Values{"running": 2}},
		{"busy slots", "llama.cpp", file(t, "llama_metrics_busy.txt"), none, sweep.Values{"running": 4, "queued": 2, "finished_tokens_total": 987, "prompt_tokens_total": 1673, "cached_tokens_device_total": 475}},
	} {
		eng, _ := Lookup(c.engine)
		routes := answers{}
		if c.metrics != none {
			routes["GET /metrics"] = c.metrics
		}
		if c.loads != none {
			routes["GET /v1/loads"] = c.loads
		}
		got, err := eng.Sample(t.Context(), routes.get)
		if err != nil || !maps.Equal(got, c.want) {
			t.Errorf("%s:\nhave %v %v\nwant %v", c.name, got, err, c.want)
		}
	}
	for _, name := range Names() {
		eng, _ := Lookup(name)
		if got, err := eng.Sample(t.Context(), answers{}.get); err == nil {
			t.Errorf("%s: a server without counters gives %v and no error", name, got)
		}
	}
}

func TestInspect(t *testing.T) {
	eng, _ := Lookup("sglang")
	routes := answers{"GET /server_info": file(t, "sglang_server_info.json"), "GET /simulator": `{"profile":"x","speedup":20}`}
	in, err := eng.Inspect(t.Context(), routes.get)
	if err != nil {
		t.Fatal(err)
	}
	if in.Version != "0.5.17" || !slices.Equal(in.Notes, []string{"hierarchical cache is on", "simulated ×20"}) {
		t.Errorf("version %q, notes %q", in.Version, in.Notes)
	}
	want := sweep.Values{"kv_tokens": 40000, "weights_gib": 13.504, "graph_gib": 0, "headroom_gib": 120.27, "max_running_requests": 2048}
	for name, v := range want {
		if got, ok := in.Facts[name]; !ok || got < v-0.01 || got > v+0.01 {
			t.Errorf("%s: have %v, want %v", name, got, v)
		}
	}
	for name := range in.Effective {
		if strings.Contains(name, "key") {
			t.Errorf("a key is kept: %s", name)
		}
	}
	got := in.Differences(set("hicache-size=16", "mem-fraction-static=0.80", "hicache-io-backend=kernel", "hicache-mem-layout=layer_first", "page-size=64", "page-size=1", "no-such-flag=1", "enable-metrics=true"))
	if want := []string{"hicache-mem-layout: asked layer_first, in effect page_first"}; !slices.Equal(got, want) {
		t.Errorf("differences %q, want %q", got, want)
	}

	delete(routes, "GET /simulator")
	routes["GET /get_server_info"] = routes["GET /server_info"]
	delete(routes, "GET /server_info")
	if in, err := eng.Inspect(t.Context(), routes.get); err != nil || in.Version != "0.5.17" || slices.Contains(in.Notes, "simulated ×20") {
		t.Errorf("an old, real server: %+v %v", in.Notes, err)
	}
	if _, err := eng.Inspect(t.Context(), answers{"GET /server_info": "{"}.get); err == nil {
		t.Error("a broken reply is no error")
	}

	llama, _ := Lookup("llama.cpp")
	in, err = llama.Inspect(t.Context(), answers{"GET /props": file(t, "llama_props.json")}.get)
	if err != nil || in.Facts["context_length"] != 1024 || in.Facts["max_running_requests"] != 4 || in.Version == "" {
		t.Errorf("llama.cpp: %+v %v", in, err)
	}
}

func TestFlush(t *testing.T) {
	eng, _ := Lookup("sglang")
	const route = "POST /flush_cache?timeout=30"
	for _, c := range []struct {
		name, reply, fails string
	}{
		{"done", "Cache flushed.\nPlease check backend logs for more details.", ""},
		{"busy to the end", "400|Timed out waiting for idle state.", "Timed out"},
		{"an old server stays busy", "400|Flush cache failed.", "answered 400: Flush cache failed."},
		{"says nothing of a flush", "200|ok", "answered 200: ok"},
		{"needs a key", "401|{\"error\":\"Unauthorized\"}", "answered 401"},
	} {
		synctest.Test(t, func(t *testing.T) {
			err := eng.Flush(t.Context(), answers{route: c.reply}.get)
			if c.fails == "" && err != nil || c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)) {
				t.Errorf("%s: %v", c.name, err)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) { // an old server that becomes idle
		asked := 0
		err := eng.Flush(t.Context(), func(context.Context, string, string, []byte) (int, []byte, error) {
			if asked++; asked < 4 {
				return 400, []byte("Flush cache failed."), nil
			}
			return 200, []byte("Cache flushed.\n"), nil
		})
		if err != nil || asked != 4 {
			t.Errorf("asked %d times: %v", asked, err)
		}
	})
	gone := errors.New("connection refused")
	if err := eng.Flush(t.Context(), func(context.Context, string, string, []byte) (int, []byte, error) { return 0, nil, gone }); !errors.Is(err, gone) {
		t.Errorf("a dead server: %v", err)
	}
}

// writeModel makes a model folder with words from first to first+n−1 as byte-level BPE tokens, and traps.
func writeModel(t *testing.T, folder string, n, configSize int) {
	t.Helper()
	vocab := map[string]int{"<|endoftext|>": 0, "!": 1, "Ġ": 2, "Ãł": 3, "the1": 4, "addedword": 5, "<special>": 6}
	for i := range n {
		vocab[fmt.Sprintf("Ġ%c%c%c", 'a'+i%26, 'a'+i/26%26, 'A'+i/676)] = 100 + i
	}
	tokenizer, err := json.Marshal(map[string]any{
		"version": "1.0", "normalizer": nil, "post_processor": map[string]any{"x": []any{1, map[string]any{"y": 2}}},
		"added_tokens": []any{map[string]any{"id": 0, "content": "<|endoftext|>", "special": true}, map[string]any{"id": 5, "content": "addedword", "special": false}},
		"model":        map[string]any{"type": "BPE", "merges": []any{"a b", []string{"c", "d"}}, "vocab": vocab},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"tokenizer.json": tokenizer, "config.json": fmt.Appendf(nil, `{"text_config": {"vocab_size": %d}}`, configSize)} {
		if err := os.WriteFile(filepath.Join(folder, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestVocabularyOfAModel(t *testing.T) {
	eng, _ := Lookup("sglang")
	home := t.TempDir()
	t.Setenv("HF_HOME", home)
	t.Setenv("HF_HUB_CACHE", "")
	t.Setenv("HUGGINGFACE_HUB_CACHE", "")
	folder := filepath.Join(home, "model")
	writeModel(t, folder, 600, 650)
	snapshot := filepath.Join(home, "hub", "models--org--name", "snapshots", "abc")
	writeModel(t, snapshot, 300, 0)
	if err := os.MkdirAll(filepath.Join(home, "hub", "models--org--name", "refs"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, "hub", "models--org--name", "refs", "main"), []byte("abc\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	small := filepath.Join(home, "small")
	writeModel(t, small, 100, 0)
	for name, want := range map[string]struct{ n, first, last int }{
		folder:           {550, 100, 649}, // ids from 650 on are beyond the model's embedding
		"org/name":       {300, 100, 399},
		small:            {0, 0, 0}, // too few to draw from
		"org/other":      {0, 0, 0},
		"/no/such/model": {0, 0, 0},
	} {
		reply, err := json.Marshal(map[string]string{"tokenizer_path": name})
		if err != nil {
			t.Fatal(err)
		}
		ids, err := eng.Vocabulary(t.Context(), answers{"GET /model_info": string(reply)}.get, name)
		if err != nil || len(ids) != want.n || want.n > 0 && (ids[0] != want.first || ids[len(ids)-1] != want.last) {
			t.Errorf("%s: %d ids, %v; want %+v", name, len(ids), err, want)
		}
	}
	if err := os.WriteFile(filepath.Join(folder, "tokenizer.json"), []byte(`{"model": {"vocab": 3}}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := eng.Vocabulary(t.Context(), answers{"GET /model_info": fmt.Sprintf("{%q:%q}", "tokenizer_path", folder)}.get, ""); err == nil {
		t.Error("a broken tokenizer is no error")
	}
}

func TestVocabularyOfALlamaServer(t *testing.T) {
	eng, _ := Lookup("llama.cpp")
	var tokens []string
	for i := range 300 {
		tokens = append(tokens, fmt.Sprintf(`{"id":%d,"piece":" w%c%c"}`, 10+i, 'a'+i%26, 'a'+i/26))
	}
	reply := `{"tokens":[{"id":1,"piece":"<|im_start|>"},{"id":2,"piece":[226,128]},{"id":3,"piece":"."},` + strings.Join(tokens, ",") + `,{"id":10,"piece":" waa"}]}`
	ids, err := eng.Vocabulary(t.Context(), answers{"POST /tokenize": reply}.get, "")
	if err != nil || len(ids) != 300 || ids[0] != 10 || ids[299] != 309 {
		t.Errorf("%d ids, %v", len(ids), err)
	}
	if _, err := eng.Vocabulary(t.Context(), answers{}.get, ""); err == nil {
		t.Error("a server without the route is no error")
	}
}

func TestParseSample(t *testing.T) {
	for line, want := range map[string]struct {
		ok          bool
		name, label string
		value       float64
	}{
		`a 1`: {true, "a", "", 1},
		`a:b{x="1",cache_source="ho}st"} 2.5e3 1700000000`: {true, "a:b", `ho}st`, 2500},
		`a{cache_source="q\"uo\\te",} +Inf`:                {true, "a", `q\"uo\\te`, math.Inf(1)},
		`a NaN`:                                            {},
		`# TYPE a gauge`:                                   {},
		`a{x="1" 2`:                                        {},
		`a`:                                                {},
		`{} 1`:                                             {},
		`a{x=1} 3`:                                         {true, "a", "", 3},
		`a one`:                                            {},
	} {
		s, ok := parseSample([]byte(line))
		if ok != want.ok || ok && (string(s.name) != want.name || s.label("cache_source") != want.label || s.value != want.value) {
			t.Errorf("%s: have %v %q %q %v", line, ok, s.name, s.label("cache_source"), s.value)
		}
	}
}

func FuzzPrometheus(f *testing.F) {
	for _, name := range []string{"sglang_metrics_hicache.txt", "llama_metrics_busy.txt"} {
		f.Add([]byte(file(f, name)[:2000]))
	}
	f.Add([]byte("a{b=\"\\"))
	f.Fuzz(func(t *testing.T, page []byte) {
		samples(page, func(s sample) {
			if len(s.name) == 0 || s.value != s.value {
				t.Errorf("sample %q %v", s.name, s.value)
			}
			s.key(sglangRankLabels)
			s.label("x")
		})
		sglangMetrics(page, sweep.Values{})
	})
}

func FuzzTokenizer(f *testing.F) {
	f.Add(`{"added_tokens":[{"id":1}],"model":{"vocab":{"a":0,"b":1},"merges":["a b"]}}`)
	f.Add(`{"model":{"vocab":[["a",-1.5],["b",2]]}}`)
	f.Add(`{"model":null,"x":[[{}]]}`)
	f.Fuzz(func(t *testing.T, s string) {
		ids, err := readTokenizer(strings.NewReader(s))
		if err == nil && !slices.IsSorted(ids) {
			t.Errorf("ids out of order: %v", ids)
		}
	})
}

func BenchmarkMetrics(b *testing.B) {
	page := []byte(file(b, "sglang_metrics_retraction.txt"))
	b.SetBytes(int64(len(page)))
	b.ReportAllocs()
	for b.Loop() {
		sglangMetrics(page, sweep.Values{})
	}
}
