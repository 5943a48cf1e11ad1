package engine

import (
	"regexp"
	"strconv"
	"strings"

	"sweep/sweep"
)

// What SGLang says in its log, from 0.4 to 0.5.23. A new version's wording is one more entry.

// sglangMarks are the lines with which phases begin. The HTTP port opens only after the last of them.
var sglangMarks = []mark{
	{has: "Init torch distributed begin", phase: sweep.PhaseDist, again: true},
	{has: "Init parallel begin", phase: sweep.PhaseDist, again: true}, // 0.5.23
	{has: "Init torch begin", phase: sweep.PhaseDist, again: true},    // 0.1
	{has: "Load weight begin", phase: sweep.PhaseWeights, again: true},
	{has: "Load weight end", phase: sweep.PhaseKV, seen: "weights"},
	{has: "KV Cache is allocated", seen: "kv"},
	{has: "Memory pool end", phase: sweep.PhaseGraph, seen: "kv"},
	{has: "KV cache allocated", phase: sweep.PhaseWarmup, seen: "kv"}, // sized after the graphs, from mid 2026
	{has: "Capture ", end: "raph begin", phase: sweep.PhaseGraph, again: true},
	{has: "Capture ", end: "raph end", phase: sweep.PhaseKV, given: "weights", not: "kv", again: true}, // graphs first, the pool from what they leave: from mid 2026
	{has: "max_total_num_tokens=", end: "max_running_requests=", phase: sweep.PhaseHostCache},
	{has: "Allocating ", end: "host memory", phase: sweep.PhaseHostCache, text: "allocating and pinning the host cache"},
	{has: "Tree cache initialized", phase: sweep.PhaseWarmup},
	{has: "Uvicorn running on", phase: sweep.PhaseWarmup},
	{has: "Entering DeepGEMM JIT Pre-Compile", text: textJIT},
	{has: "The server is fired up and ready to roll!", ready: true},
}

var sglangNumbers = []number{
	{name: "kv_tokens", has: "KV Cache is allocated", find: regexp.MustCompile(`#tokens: (\d+)`), fold: foldMin},
	{name: "kv_tokens", has: "KV cache allocated", find: regexp.MustCompile(`#tokens: (\d+)`), fold: foldMin},
	{name: "kv_tokens", has: "max_total_num_tokens=", find: regexp.MustCompile(`^max_total_num_tokens=(\d+),`), fold: foldMin, final: true},
	{name: "weights_gib", has: "Load weight end", find: regexp.MustCompile(`mem usage=([\d.]+) GB`), fold: foldMax},
	{name: "avail_after_weights_gib", has: "Load weight end", find: regexp.MustCompile(`(?i)avail mem=([\d.]+) GB`), fold: foldMin},
	{name: "graph_gib", has: "raph end.", find: regexp.MustCompile(`^Capture .*end\..* mem usage=([\d.]+) GB`), fold: foldSum},
	{name: "headroom_gib", has: "Memory pool end", find: regexp.MustCompile(`avail mem=([\d.]+) GB`), fold: foldMin},
	{name: "headroom_gib", has: "raph end.", find: regexp.MustCompile(`^Capture .*end\..*avail mem=([\d.]+) GB`), fold: foldMin},
	{name: "headroom_gib", has: "KV cache allocated", find: regexp.MustCompile(`avail mem=([\d.]+) GB`), fold: foldMin},
	{name: "headroom_gib", has: "available_gpu_mem=", find: regexp.MustCompile(`available_gpu_mem=([\d.]+) GB`), fold: foldMin},
	{name: "host_pool_tokens", has: "KV host pool: ", find: regexp.MustCompile(`^Allocating (?:kv )?hierarchical KV host pool: (\d+) tokens`), fold: foldMin},
	{name: "host_pool_gb", has: "host memory", find: regexp.MustCompile(`^Allocating (?:.*tokens, )?([\d.]+) GB host memory`), fold: foldSum},
	{name: "max_running_requests", has: "max_running_requests=", find: regexp.MustCompile(`^max_total_num_tokens=.*max_running_requests=(\d+)`), fold: foldMin, final: true},
	{name: "context_length", has: "context_len=", find: regexp.MustCompile(`^max_total_num_tokens=.*context_len=(\d+)`), fold: foldMin, final: true},
	{name: "chunked_prefill_size", has: "chunked_prefill_size=", find: regexp.MustCompile(`^max_total_num_tokens=.*chunked_prefill_size=(-?\d+)`), fold: foldMin, final: true},
}

var sglangBars = []bar{
	{"checkpoint shards", "weights", sweep.PhaseWeights}, {"loading shards", "weights", sweep.PhaseWeights},
	{"Capturing", "graph", sweep.PhaseGraph}, {"Compiling num tokens", "graph", sweep.PhaseGraph},
	{"DeepGEMM", "DeepGEMM kernels", ""},
}

var sglangNotes = []note{
	{has: "Disabling auto-selected prefill CUDA graph", find: regexp.MustCompile(`only ([\d.]+) GiB is free .*at least ([\d.]+) GiB`),
		text: "prefill graphs dropped by the server: $1 GiB free, $2 GiB needed", mark: noteDegraded},
	{has: "is smaller than the device pool", find: regexp.MustCompile(`pool \((\d+) tokens\) is smaller than the device pool \((\d+) tokens\)`),
		text: "host cache of $1 tokens is smaller than the device's pool of $2"},
	{has: "fewer than --context-length", find: regexp.MustCompile(`KV pool holds (\d+) tokens, fewer than --context-length (\d+)`),
		text: "KV pool of $1 tokens is smaller than the context of $2: longer requests are refused"},
	{has: "max_running_requests was reduced", find: regexp.MustCompile(`from the requested (\d+) to (\d+)`), text: "max-running-requests: asked $1, in effect $2"},
	{has: "max_running_requests is capped to", find: regexp.MustCompile(`capped to (\d+)`), text: "max-running-requests: capped to $1 by the state cache"},
	{has: "is larger than the profiled value", find: regexp.MustCompile(`max_total_tokens=(\d+) is larger than the profiled value (\d+)`),
		text: "max-total-tokens: asked $1, in effect $2"},
	{has: "page_size from", find: regexp.MustCompile(`(?i)chang\w+ page_size from (\S+) to (\d+)`), text: "page-size: asked $1, in effect $2"},
	{has: "chunked prefill size is adjusted", text: "chunked-prefill-size: adjusted by the server"},
	{has: "Retract requests.", text: "requests were retracted for lack of KV pool"},
	{has: "Decode out of memory happened", text: "requests were retracted for lack of KV pool"},
	{has: "memory leak detected!", find: regexp.MustCompile(`Warning: .*memory leak detected!`), text: "the server's own count of its KV pool does not add up (a warning)", mark: noteLeak},
	{has: "memory leak detected!", find: regexp.MustCompile(`Error: .*memory leak detected!`), text: "the server's own count of its KV pool did not add up", mark: noteLeak},
	{has: "KV cache on device are dropped without backup", text: "KV cache was dropped without a copy: the host cache is under pressure"},
	{has: "silently return stale data", text: "host cache memory is not pinned", mark: noteDegraded},
}

// sglangFrames are functions that tell in a stack trace what was being done. Which batch ran is surer
// from here than from the last batch line: a decode can fail while only prefills were logged.
var sglangFrames = map[string]frame{
	"prepare_server_args":         {phase: sweep.PhaseLaunch, step: "args"},
	"init_torch_distributed":      {phase: sweep.PhaseDist},
	"load_model":                  {phase: sweep.PhaseWeights},
	"init_memory_pool":            {phase: sweep.PhaseKV},
	"alloc_memory_pool":           {phase: sweep.PhaseKV},
	"init_cuda_graphs":            {phase: sweep.PhaseGraph},
	"init_device_graphs":          {phase: sweep.PhaseGraph},
	"build_kv_cache":              {phase: sweep.PhaseHostCache},
	"_execute_server_warmup":      {phase: sweep.PhaseWarmup},
	"_execute_extend":             {step: "prefill"},
	"forward_extend":              {step: "prefill"},
	"_execute_decode":             {step: "decode"},
	"forward_decode":              {step: "decode"},
	"prepare_for_extend":          {step: "prefill"},
	"prepare_for_decode":          {step: "decode"},
	"process_batch_result_decode": {step: "decode"},
	"init_kv_buffer":              {step: stepHost},
	"alloc_with_pin_memory":       {step: stepHost},
}

// stepHost is the step of a stack in which pinned host memory was being allocated: what the driver calls out of memory
// there is the host's.
const stepHost = "host"

func sglangGrammar() *grammar {
	return (&grammar{
		lead:    pythonLead,
		quotes:  []string{"server_args=", "Receive: obj=", "Finish: obj=", "Received request", "self.cur_batch", "usage: "},
		births:  []string{"server_args=ServerArgs("},
		marks:   sglangMarks,
		numbers: sglangNumbers,
		bars:    sglangBars,
		notes:   sglangNotes,
		frames:  sglangFrames,
		sources: []source{{"pin_memory=True", frame{step: stepHost}}, {"pin_memory=self.pin_memory", frame{step: stepHost}}},
		wrappers: []wrapper{
			{text: "Capture cuda graph failed: ", phase: sweep.PhaseGraph},
			{text: "Capture CPU graph failed: ", phase: sweep.PhaseGraph},
			{text: "Capture prefill CUDA graph failed: ", phase: sweep.PhaseGraph},
			{text: "Capture CUDA graph failed: ", phase: sweep.PhaseGraph},
			{text: "Piecewise CUDA Graph failed with error: ", phase: sweep.PhaseGraph},
		},
		rules:    sglangRules(),
		heads:    []string{"Scheduler hit an exception", "DetokenizerManager hit an exception", "TokenizerManager hit an exception"},
		batches:  []string{"Prefill batch", "Decode batch"},
		batch:    sglangBatch,
		retracts: []string{"Retract requests.", "Decode out of memory happened"},
		silences: []string{"Health check failed. Server couldn't get a response"},
	}).compile()
}

// sglangBatch reads a line about the running batch: "Decode batch, #running-req: 64, #token: 210344, …".
// Its fields come and go with versions and models, so every one is taken as it comes, by its own name.
func sglangBatch(message string, names *fieldNames) (kind string, values sweep.Values, ok bool) {
	switch {
	case strings.HasPrefix(message, "Decode batch"):
		kind = "decode"
	case strings.HasPrefix(message, "Prefill batch"):
		kind = "prefill"
	default:
		return "", nil, false
	}
	rest := message[len(kind)+len(" batch"):]
	if behind, found := strings.CutPrefix(rest, " ["); found { // [iteration]
		if _, rest, found = strings.Cut(behind, "]"); !found {
			return "", nil, false
		}
	}
	if rest == "" || rest[0] != '.' && rest[0] != ',' {
		return "", nil, false
	}
	values = make(sweep.Values, 6+3*strings.Count(kind, "prefill"))
	usage, haveUsage := 0.0, false
	for rest = rest[1:]; rest != ""; {
		var field string
		field, rest, _ = strings.Cut(rest, ", ")
		i := strings.LastIndex(field, ": ")
		if i < 0 {
			continue
		}
		v, number := batchValue(field[i+2:])
		if !number {
			continue
		}
		name := names.field(strings.TrimLeft(field[:i], " "), batchField)
		values[name] = v
		if strings.HasSuffix(name, "usage") {
			usage, haveUsage = max(usage, v), true
		}
	}
	if haveUsage { // of several pools the fullest decides
		values[sweep.SignalTokenUsage] = usage
	}
	return kind, values, true
}

func batchValue(text string) (float64, bool) {
	text = strings.TrimRight(text, ", %")
	switch text {
	case "True":
		return 1, true
	case "False":
		return 0, true
	}
	if v, ok := decimal(text); ok {
		return v, true
	}
	v, err := strconv.ParseFloat(text, 64)
	return v, err == nil
}

var batchNames = map[string]string{"running_req": sweep.SignalRunning, "queue_req": sweep.SignalQueued}

// batchField gives "#running-req" and "gen throughput (token/s)" the form of our names.
func batchField(raw string) string {
	if i := strings.IndexByte(raw, '('); i > 0 {
		raw = strings.TrimSpace(raw[:i])
	}
	name := strings.NewReplacer("#", "", "-", "_", " ", "_", ".", "").Replace(strings.ToLower(raw))
	if known, ok := batchNames[name]; ok {
		return known
	}
	return name
}
