package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sweep/sweep"
)

func importOf(t *testing.T, files map[string]string) (*Imported, *Night) {
	t.Helper()
	dir := put(t, files)
	im, err := Import(t.TempDir(), "x", []string{dir}, time.Date(2026, 11, 29, 18, 0, 0, 0, time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	n, err := Read(im.Dir)
	if err != nil {
		t.Fatal(err)
	}
	return im, n
}

// Lines as SGLang's bench_serving writes them: a bare Infinity, null where nothing is known, details in the line.
const sglangLines = `{"tag": null, "backend": "sglang-oai", "dataset_name": "random", "request_rate": Infinity, "max_concurrency": 100, "random_input_len": 16, "random_output_len": 100, "server_info": {"version": "0.5.23", "mem_fraction_static": 0.85, "port": 30000}, "duration": 4.4, "completed": 200, "total_input_tokens": 3200, "total_output_tokens": 20000, "request_throughput": 45.4, "input_throughput": 727.3, "output_throughput": 4545.5, "total_throughput": 5272.7, "mean_ttft_ms": 211.9, "p99_ttft_ms": 223.1, "mean_tpot_ms": 20.1, "accept_length": null, "concurrency": 99.5, "input_lens": [16, 16], "output_lens": [3, 0], "ttfts": [0.2, 0], "itls": [[0.02, 0.03], []], "errors": ["", "boom NaN"]}
{"backend": "sglang-oai", "dataset_name": "random", "request_rate": 1e9, "max_concurrency": 100, "random_input_len": 16, "random_output_len": 100, "server_info": {"mem_fraction_static": 0.90, "port": 30001}, "duration": 4.0, "completed": 200, "total_output_tokens": 20000, "output_throughput": 5000, "total_throughput": 5800}
not a line of JSON
{"backend": "sglang-oai", "dataset_name": "random", "request_rate": Infinity, "max_concurrency": 100, "random_input_len": 16, "random_output_len": 100, "server_info": {"mem_fraction_static": 0.85}, "duration": 4.5, "completed": 200, "output_throughput": 4500, "total_throughput": 5200, "mean_ttft_ms": NaN}
`

func TestImportSGLang(t *testing.T) {
	im, n := importOf(t, map[string]string{"sglang_1129_200_16_100.jsonl": sglangLines, "notes.json": `{"some": "thing"}`, "readme.txt": "x"})
	if im.Records != 3 || len(im.Problems) != 1 || !strings.Contains(im.Problems[0], "jsonl:3") {
		t.Errorf("imported %+v", im)
	}
	if len(n.Configs) != 2 || n.Configs[0].Key != "mem-fraction-static=0.85" || n.Configs[1].Key != "mem-fraction-static=0.90" {
		t.Errorf("configs %+v", n.Configs)
	}
	if len(n.Loads) != 2 || n.Loads[0].Concurrency() != 100 || n.Loads[0].Workload != "random-input16-output100" || n.Loads[1].Workload != "random-input16-output100-rate1e9" {
		t.Errorf("loads %+v", n.Loads)
	}
	r := n.Records[0]
	for key, want := range map[string]float64{"output_throughput": 4545.5, "mean_ttft_ms": 211.9, "mean_concurrency": 99.5, "duration_s": 4.4, "prompt_tokens": 3200, "output_tokens": 20000, "completed": 200} {
		if got := r.Values[key]; got != want {
			t.Errorf("%s is %g, want %g", key, got, want)
		}
	}
	if _, ok := n.Records[2].Values["mean_ttft_ms"]; ok || n.Records[2].Repeat != 2 {
		t.Errorf("the third line: repeat %d, values %v", n.Records[2].Repeat, n.Records[2].Values)
	}
	var requests []Request
	if err := n.EachRequest(r, func(q *Request) { requests = append(requests, *q) }); err != nil {
		t.Fatal(err)
	}
	if len(requests) != 2 || requests[1].Outcome != "failed" || requests[0].TTFT != 200 {
		t.Fatalf("requests %+v", requests)
	}
	near(t, "TPOT", requests[0].TPOT, 25, 1e-9)
	near(t, "E2E", requests[0].E2E, 250, 1e-9)
}

func TestImportVLLM(t *testing.T) {
	run := func(number, throughput string) string {
		return `{"date": "20261129-180500", "endpoint_type": "openai", "backend": "vllm", "label": null, "model_id": "m", "num_prompts": 100, "request_rate": "inf", "burstiness": 1.0, "max_concurrency": 32,
		"duration": 60, "completed": 100, "failed": 0, "total_input_tokens": 6000, "total_output_tokens": 9000, "request_throughput": 1.67, "output_throughput": ` + throughput + `, "total_token_throughput": 250,
		"mean_ttft_ms": 100, "median_ttft_ms": 90, "p99_ttft_ms": 300, "mean_e2el_ms": 2000, "max_num_seqs": 64, "random_input_len": 512, "enable_chunked_prefill": true, "run_number": ` + number + `}`
	}
	folder := "exp/SERVE--max_num_seqs=64-enable_chunked_prefill=True-BENCH--random_input_len=512-max_concurrency=32"
	im, n := importOf(t, map[string]string{
		folder + "/run=0.json": run("0", "150"), folder + "/run=1.json": run("1", "151"), folder + "/summary.json": "[" + run("0", "150") + "]",
		folder + "/run=2.failure.json":            `{"run_number": 2, "error_type": "CalledProcessError", "error": "client died", "serve_overrides": {"max_num_seqs": 64, "enable_chunked_prefill": true}, "bench_overrides": {"random_input_len": 512, "max_concurrency": 32}}`,
		"exp/SERVE-max_num_seqs=512-failure.json": `{"error_type": "RuntimeError", "error": "out of memory", "serve_overrides": {"max_num_seqs": 512}}`,
	})
	if im.Records != 4 || len(im.Problems) != 0 {
		t.Fatalf("imported %+v", im)
	}
	byOutcome := map[sweep.Outcome]int{}
	for _, r := range n.Records {
		byOutcome[r.Outcome]++
	}
	if byOutcome[sweep.OK] != 2 || byOutcome[sweep.CrashLoad] != 1 || byOutcome[sweep.CrashStart] != 1 {
		t.Errorf("outcomes %v", byOutcome)
	}
	s := Summarize(n)
	sheet := s.sheet("bench-input512")
	if sheet == nil {
		t.Fatalf("workloads %+v", n.Loads)
	}
	q := sheet.Rows[0].Squares[0]
	if got := q.Values(throughput()); len(got) != 2 || got[1] != 151 {
		t.Errorf("values %v of %s", got, sheet.Rows[0].Config.Key)
	}
	if v, _ := q.Median(metric("mean_e2e_latency_ms")); q.death() == "" || v != 2000 {
		t.Errorf("latency %g, death %q: the third run died", v, q.death())
	}
	if v, ok := sheet.Rows[0].Config.Axes.Get("max-num-seqs"); !ok || v != "64" {
		t.Errorf("axes %v", sheet.Rows[0].Config.Axes)
	}
}

func TestImportNothing(t *testing.T) {
	root := t.TempDir()
	if _, err := Import(root, "x", []string{put(t, map[string]string{"a.json": "{}"})}, time.Now()); err == nil || !strings.Contains(err.Error(), "no run of") {
		t.Errorf("error %v", err)
	}
	if _, err := Import(root, "x", []string{filepath.Join(root, "gone")}, time.Now()); err == nil {
		t.Error("a file that is not there is no error")
	}
	if entries, err := os.ReadDir(root); err != nil || len(entries) > 0 {
		t.Errorf("something is left of an import of nothing: %v, %v", entries, err)
	}
}

func FuzzWithoutInfinities(f *testing.F) {
	for _, s := range []string{`{"a": Infinity, "b": -Infinity, "c": NaN, "d": "NaN Infinity \" NaN"}`, `"`, `Infinit`, ``} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		out := withoutInfinities(data)
		if strings.Count(string(data), `"`) == 0 && (strings.Contains(string(out), "Infinity") || strings.Contains(string(out), "NaN")) {
			t.Errorf("%q became %q", data, out)
		}
	})
}
