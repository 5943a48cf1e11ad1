package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"sweep/sweep"
)

// readForeign reads the runs in one file; one that holds something else has none.
func readForeign(path string) (runs []foreign, problems []string, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	base := filepath.Base(path)
	if base == "summary.json" || strings.HasSuffix(base, ".pytorch.json") {
		return nil, nil, nil // the same runs once more
	}
	data = withoutInfinities(data)
	take := func(object []byte, source string) {
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(object, &fields); err != nil {
			problems = append(problems, sweep.Printable(fmt.Sprintf("%s: not read: %v", source, err)))
			return
		}
		if run, ok := recognize(fields); ok {
			run.source = source
			run.fromPath(path)
			runs = append(runs, run)
		}
	}
	if json.Valid(data) {
		if bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
			take(data, path)
		}
		return runs, problems, nil
	}
	for i, line := range bytes.Split(data, []byte("\n")) {
		if len(bytes.TrimSpace(line)) > 0 {
			take(line, fmt.Sprintf("%s:%d", path, i+1))
		}
	}
	return runs, problems, nil
}

// withoutInfinities replaces the words Infinity and NaN, which Python writes and JSON does not know, outside strings.
func withoutInfinities(data []byte) []byte {
	if !bytes.Contains(data, []byte("Infinity")) && !bytes.Contains(data, []byte("NaN")) {
		return data
	}
	out := make([]byte, 0, len(data))
	for i := 0; i < len(data); {
		if data[i] == '"' {
			end := stringEnd(data, i)
			if end < 0 {
				return append(out, data[i:]...)
			}
			out = append(out, data[i:end]...)
			i = end
			continue
		}
		replaced := false
		for _, word := range []string{"-Infinity", "Infinity", "NaN"} {
			if bytes.HasPrefix(data[i:], []byte(word)) {
				out = append(out, "null"...)
				i += len(word)
				replaced = true
				break
			}
		}
		if !replaced {
			out = append(out, data[i])
			i++
		}
	}
	return out
}

// recognize tells a run by its keys.
func recognize(f map[string]json.RawMessage) (foreign, bool) {
	has := func(names ...string) bool {
		for _, n := range names {
			if _, ok := f[n]; !ok {
				return false
			}
		}
		return true
	}
	run := foreign{fields: f, serve: map[string]string{}, bench: map[string]string{}}
	switch {
	case has("error_type", "error", "serve_overrides"):
		run.tool, run.phase = "vllm bench sweep", sweep.PhaseLaunch
		run.failed = run.text("error_type") + ": " + run.text("error")
		run.overrides("serve_overrides", run.serve)
		if has("bench_overrides") {
			run.phase = sweep.PhaseLoad
			run.overrides("bench_overrides", run.bench)
		}
		return run, true
	case has("duration", "completed", "total_token_throughput"):
		run.tool = "vllm bench serve"
	case has("duration", "completed", "total_throughput") || has("duration", "completed", "backend", "output_throughput"):
		run.tool = "sglang bench_serving"
	default:
		return run, false
	}
	return run, true
}

func (run *foreign) text(key string) string {
	raw, ok := run.fields[key]
	if !ok {
		return ""
	}
	return scalar(raw)
}

// scalar is a JSON value as text; lists and objects have none.
func scalar(raw json.RawMessage) string {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" || raw[0] == '{' || raw[0] == '[' {
		return ""
	}
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

func (run *foreign) number(key string) (float64, bool) {
	v, err := strconv.ParseFloat(run.text(key), 64)
	return v, err == nil && !math.IsNaN(v) && !math.IsInf(v, 0)
}

func (run *foreign) overrides(key string, to map[string]string) {
	var m map[string]json.RawMessage
	if json.Unmarshal(run.fields[key], &m) == nil {
		for k, v := range m {
			if s := scalar(v); s != "" {
				to[k] = s
			}
		}
	}
}

// standardKeys are the keys of both tools that are no parameters of a sweep.
func standardKeys() []string {
	return strings.Fields(`tag backend dataset_name request_rate max_concurrency sharegpt_output_len random_input_len random_output_len random_range_ratio server_info duration
 completed failed date endpoint_type label model_id tokenizer_id num_prompts burstiness protocol accept_length run_number ramp_up_strategy ramp_up_start_rps ramp_up_end_rps rtfx concurrency
 total_input_tokens total_input_text_tokens total_input_vision_tokens total_output_tokens total_output_tokens_retokenized request_throughput request_goodput input_throughput output_throughput
 total_throughput total_token_throughput max_output_tokens_per_s max_concurrent_requests input_lens output_lens ttfts itls generated_texts errors start_times latencies queue_times
 cached_tokens cached_tokens_details cache_report rps_change_events _benchmark_name`)
}

// fromPath takes the parameters that vLLM's sweep adds to a run: which are the server's and which the load's, its folder says.
func (run *foreign) fromPath(path string) {
	if v, ok := run.number("run_number"); ok && v >= 0 {
		run.repeat = int(v) + 1
	}
	if run.tool != "vllm bench serve" {
		return
	}
	_, bench, _ := strings.Cut(filepath.Base(filepath.Dir(path)), "BENCH--")
	standard := standardKeys()
	for k := range run.fields {
		if slices.Contains(standard, k) || strings.HasPrefix(k, "sweep_") || strings.HasSuffix(k, "_ms") || strings.HasPrefix(k, "spec_decode_") || strings.HasPrefix(k, "probe_") || strings.HasPrefix(k, "diffusion_") {
			continue
		}
		v := run.text(k)
		switch {
		case v == "":
		case strings.HasPrefix(bench, k+"=") || strings.Contains(bench, "-"+k+"="):
			run.bench[k] = v
		default:
			run.serve[k] = v
		}
	}
}

// addVaryingServerInfo makes parameters of what SGLang's server said of itself, as far as the runs differ in it.
func addVaryingServerInfo(runs []foreign) {
	volatile := volatileInfo()
	values := map[string]map[string]bool{}
	infos := make([]map[string]json.RawMessage, len(runs))
	for i, run := range runs {
		if json.Unmarshal(run.fields["server_info"], &infos[i]) != nil {
			continue
		}
		for k, raw := range infos[i] {
			if v := scalar(raw); v != "" && !slices.Contains(volatile, k) {
				if values[k] == nil {
					values[k] = map[string]bool{}
				}
				values[k][v] = true
			}
		}
	}
	for i := range runs {
		for k, raw := range infos[i] {
			if len(values[k]) > 1 {
				runs[i].serve[k] = scalar(raw)
			}
		}
	}
}

// volatileInfo differs from start to start and is no setting.
func volatileInfo() []string {
	return []string{"port", "nccl_port", "host", "random_seed", "status", "last_gen_throughput", "max_total_num_tokens", "max_req_input_len", "served_model_name", "api_key", "log_level", "dist_init_addr"}
}
