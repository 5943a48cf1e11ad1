package simulate

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// flagDef is one flag as argparse knows it.
type flagDef struct {
	name    string // without dashes
	kind    string // bool, int, float, str or json
	choices []string
	many    bool // takes any number of values
	field   string
}

// aliases are the other names of flags, which the usage text does not show.
var aliases = map[string]string{
	"model": "model-path", "tensor-parallel-size": "tp-size", "tp": "tp-size", "data-parallel-size": "dp-size", "dp": "dp-size",
	"expert-parallel-size": "ep-size", "ep": "ep-size", "pipeline-parallel-size": "pp-size", "pp": "pp-size",
	"cuda-graph-max-bs": "cuda-graph-max-bs-decode", "cuda-graph-bs": "cuda-graph-bs-decode", "stream-output": "incremental-streaming-output",
	"random-seed-value": "random-seed",
}

// kinds are the types of flags whose default does not tell.
var kinds = map[string]string{
	"mem-fraction-static": "float", "max-running-requests": "int", "max-queued-requests": "int", "max-total-tokens": "int",
	"chunked-prefill-size": "int", "prefill-max-requests": "int", "page-size": "int", "context-length": "int", "random-seed": "int",
	"nccl-port": "int", "dist-timeout": "int", "soft-watchdog-timeout": "float", "watchdog-timeout": "float", "hicache-ratio": "float",
	"cuda-graph-max-bs-decode": "int", "cuda-graph-max-bs-prefill": "int", "cuda-graph-bs-decode": "int", "cuda-graph-bs-prefill": "int",
	"enable-multimodal": "bool", "enable-lora": "bool", "cpu-offload-gb": "int", "speculative-num-steps": "int",
	"speculative-eagle-topk": "int", "speculative-num-draft-tokens": "int", "hicache-host-memory-fraction": "float",
}

// flagTable reads the flags from the usage text; types come from the defaults.
func flagTable(r release) map[string]*flagDef {
	table := map[string]*flagDef{}
	text := strings.Join(strings.Fields(r.usage), " ")
	for i := 0; ; {
		j := strings.Index(text[i:], "--")
		if j < 0 {
			break
		}
		i += j + 2
		end := i
		for end < len(text) && (text[end] == '-' || text[end] >= 'a' && text[end] <= 'z' || text[end] >= '0' && text[end] <= '9') {
			end++
		}
		d := &flagDef{name: text[i:end], kind: "str"}
		d.field = strings.ReplaceAll(d.name, "-", "_")
		rest := text[end:]
		next := strings.Index(rest, "[--")
		if next < 0 {
			next = len(rest)
		}
		value := strings.TrimSpace(rest[:next])
		d.many = strings.Contains(value, "...")
		if value == "]" || value == "" {
			d.kind = "bool"
		} else if k := strings.IndexByte(value, '{'); k >= 0 && k <= 1 {
			d.choices = strings.Split(value[k+1:strings.IndexByte(value, '}')], ",")
		}
		if d.kind != "bool" && d.choices == nil {
			d.kind = kindOf(d, r)
		}
		table[d.name] = d
		i = end
	}
	return table
}

func kindOf(d *flagDef, r release) string {
	if k := kinds[d.name]; k != "" {
		return k
	}
	raw, ok := r.args.get(d.field)
	if !ok {
		return "str"
	}
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return "str"
	}
	if f, isNumber := v.(float64); isNumber {
		if strings.ContainsAny(string(raw), ".e") || f != math.Trunc(f) {
			return "float"
		}
		return "int"
	}
	return "str"
}

// usageError is what argparse prints before it exits with 2.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

// parseArgs puts SGLang's flags into a copy of the defaults. given lists the fields that were set.
func parseArgs(r release, table map[string]*flagDef, argv []string) (args object, given map[string]bool, err error) {
	args, given = r.args.clone(), map[string]bool{}
	var unknown []string
	for i := 0; i < len(argv); {
		word := argv[i]
		i++
		name, value, hasValue := strings.Cut(strings.TrimPrefix(word, "--"), "=")
		if full, ok := aliases[name]; ok {
			name = full
		}
		d := table[name]
		if !strings.HasPrefix(word, "--") || d == nil {
			unknown = append(unknown, word)
			continue
		}
		var values []string
		switch {
		case hasValue:
			values = []string{value}
		case d.kind == "bool":
		case d.many:
			for i < len(argv) && !strings.HasPrefix(argv[i], "--") {
				values = append(values, argv[i])
				i++
			}
		case i < len(argv) && !strings.HasPrefix(argv[i], "--"):
			values = []string{argv[i]}
			i++
		default:
			return nil, nil, &usageError{fmt.Sprintf("argument --%s: expected one argument", d.name)}
		}
		if err := setField(&args, d, values); err != nil {
			return nil, nil, err
		}
		given[d.field] = true
	}
	if !given["model_path"] {
		return nil, nil, &usageError{"the following arguments are required: --model-path/--model"}
	}
	if len(unknown) > 0 {
		return nil, nil, &usageError{"unrecognized arguments: " + strings.Join(unknown, " ")}
	}
	return args, given, nil
}

func setField(args *object, d *flagDef, values []string) error {
	if d.kind == "bool" {
		args.set(d.field, true)
		return nil
	}
	var list []any
	for _, v := range values {
		if d.choices != nil && !slices.Contains(d.choices, v) {
			quoted := make([]string, len(d.choices))
			for i, c := range d.choices {
				quoted[i] = pyString(c)
			}
			return &usageError{fmt.Sprintf("argument --%s: invalid choice: %s (choose from %s)", d.name, pyString(v), strings.Join(quoted, ", "))}
		}
		x, err := convert(d, v)
		if err != nil {
			return err
		}
		list = append(list, x)
	}
	if d.many {
		args.set(d.field, list)
	} else {
		args.set(d.field, list[0])
	}
	return nil
}

func convert(d *flagDef, v string) (any, error) {
	switch d.kind {
	case "int":
		n, err := strconv.Atoi(v)
		if err != nil {
			return nil, &usageError{fmt.Sprintf("argument --%s: invalid int value: %s", d.name, pyString(v))}
		}
		return n, nil
	case "float":
		f, err := strconv.ParseFloat(v, 64)
		if err != nil {
			return nil, &usageError{fmt.Sprintf("argument --%s: invalid float value: %s", d.name, pyString(v))}
		}
		return json.RawMessage(pyFloat(f)), nil
	}
	return v, nil
}

// settings are the server args that the simulation itself works by.
type settings struct {
	modelPath, servedName, host, apiKey, kvDtype, writePolicy string
	port, tp, pageSize, contextLength                         int
	fraction                                                  float64 // 0: not given
	maxTotalTokens, maxRunning, maxQueued, chunk, maxPrefill  int
	prefillRequests, decodeBS, decodeLog, streamInterval      int
	conservativity, hicacheRatio                              float64
	hicacheSize                                               int
	hicache, noRadix, metrics, cacheReport, incremental       bool
	noPrefillGraph, noDecodeGraph, prefillGraphForced         bool
	skipWarmup, quietAccess, includeUsage                     bool
}

func readSettings(args object) settings {
	str := func(name string) string {
		raw, _ := args.get(name)
		var s string
		_ = json.Unmarshal(raw, &s) // null leaves it empty
		return s
	}
	num := func(name string) float64 {
		raw, _ := args.get(name)
		var f float64
		_ = json.Unmarshal(raw, &f)
		return f
	}
	is := func(name string) bool {
		raw, _ := args.get(name)
		return string(raw) == "true"
	}
	s := settings{
		modelPath: str("model_path"), servedName: str("served_model_name"), host: str("host"), apiKey: str("api_key"),
		kvDtype: str("kv_cache_dtype"), writePolicy: str("hicache_write_policy"),
		port: int(num("port")), tp: int(num("tp_size")), pageSize: int(num("page_size")), contextLength: int(num("context_length")),
		fraction: num("mem_fraction_static"), maxTotalTokens: int(num("max_total_tokens")), maxRunning: int(num("max_running_requests")),
		maxQueued: int(num("max_queued_requests")), chunk: int(num("chunked_prefill_size")), maxPrefill: int(num("max_prefill_tokens")),
		prefillRequests: int(num("prefill_max_requests")), decodeBS: int(num("cuda_graph_max_bs_decode")), decodeLog: int(num("decode_log_interval")),
		streamInterval: int(num("stream_interval")), conservativity: num("schedule_conservativeness"), hicacheRatio: num("hicache_ratio"),
		hicacheSize: int(num("hicache_size")), hicache: is("enable_hierarchical_cache"), noRadix: is("disable_radix_cache"), metrics: is("enable_metrics"),
		cacheReport: is("enable_cache_report"), incremental: is("incremental_streaming_output"), skipWarmup: is("skip_server_warmup"),
		includeUsage: is("stream_response_default_include_usage"),
	}
	off := is("disable_cuda_graph")
	s.noPrefillGraph = off || is("disable_prefill_cuda_graph") || str("cuda_graph_backend_prefill") == "disabled"
	s.noDecodeGraph = off || is("disable_decode_cuda_graph") || str("cuda_graph_backend_decode") == "disabled"
	s.prefillGraphForced = !s.noPrefillGraph && str("cuda_graph_backend_prefill") != ""
	level := str("log_level_http")
	if level == "" {
		level = str("log_level")
	}
	s.quietAccess = level == "warning" || level == "error" || level == "critical"
	s.pageSize = max(1, s.pageSize)
	s.tp = max(1, s.tp)
	return s
}

// combination is a mistake that SGLang finds after argparse: a Python exception and exit code 1.
type combination struct {
	kind, text, check string // exception, message, the line of source shown
}

// checkCombinations finds flags that do not go together.
func checkCombinations(s settings, p *Profile, args object) *combination {
	policy, _ := args.get("schedule_policy")
	priority, _ := args.get("enable_priority_scheduling")
	switch {
	case s.hicache && s.noRadix:
		return &combination{"ValueError", "The arguments enable-hierarchical-cache and disable-radix-cache are mutually exclusive and cannot be used at the same time. Please use only one of them.", "raise ValueError("}
	case s.chunk > 0 && s.chunk%s.pageSize != 0:
		return &combination{"AssertionError", "chunked_prefill_size must be divisible by page_size", "self.chunked_prefill_size % self.page_size == 0"}
	case s.conservativity < 0:
		return &combination{"AssertionError", "schedule_conservativeness must be non-negative", "self.schedule_conservativeness >= 0"}
	case strings.Contains(s.servedName, ":"):
		return &combination{"AssertionError", "served_model_name cannot contain a colon (':') character. The colon is reserved for the 'model:adapter' syntax used in LoRA adapter specification. Invalid value: " + pyString(s.servedName), `assert ":" not in self.served_model_name, (`}
	case string(priority) == "true" && string(policy) != `"fcfs"` && string(policy) != `"lof"`:
		return &combination{"AssertionError", "To use priority scheduling, schedule_policy must be 'fcfs' or 'lof'.", "assert self.schedule_policy in ["}
	case s.contextLength > p.ContextLength:
		return &combination{"ValueError", fmt.Sprintf("Warning: User-specified context_length (%d) is greater than the derived context_length (%d). This may lead to incorrect model outputs or CUDA errors. Note that the derived context_length may differ from max_position_embeddings in the model's config. To allow overriding this maximum, set the env var SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1", s.contextLength, p.ContextLength), "raise ValueError("}
	}
	return nil
}
