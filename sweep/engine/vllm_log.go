package engine

import (
	"regexp"
	"strings"

	"sweep/sweep"
)

// What vLLM says in its log, from 0.5 (2024) to 0.32. Its processes log parts of one start each, so a
// phase belongs to all of them.

var vllmMarks = []mark{
	{has: "Initializing a V1 LLM engine", phase: sweep.PhaseDist},
	{has: "Initializing an LLM engine", phase: sweep.PhaseDist},
	{has: "Initializing a V0 LLM engine", phase: sweep.PhaseDist},
	{has: "vLLM is using nccl", phase: sweep.PhaseDist},
	{has: "world_size=", end: "distributed_init_method=", phase: sweep.PhaseDist},
	{has: "Starting to load model", phase: sweep.PhaseWeights},
	{has: "Loading model weights took", phase: sweep.PhaseKV},
	{has: "Model loading took", phase: sweep.PhaseKV},
	{has: "Loading weights took", phase: sweep.PhaseWeights},
	{has: "Available KV cache memory:", phase: sweep.PhaseKV},
	{has: "for KV cache on node", phase: sweep.PhaseKV},
	{has: " KV cache size: ", phase: sweep.PhaseKV},
	{has: " blocks: ", end: "# CPU blocks", phase: sweep.PhaseKV},
	{has: "Capturing the model for CUDA graphs", phase: sweep.PhaseGraph},
	{has: "Capturing cudagraphs", phase: sweep.PhaseGraph},
	{has: "Graph capturing finished", phase: sweep.PhaseWarmup},
	{has: "init engine (profile, create kv cache", phase: sweep.PhaseWarmup},
	{has: "Starting vLLM API server", phase: sweep.PhaseWarmup},
	{has: "Starting vLLM server on", phase: sweep.PhaseWarmup},
	{has: "Application startup complete", ready: true},
	{has: "Uvicorn running on", ready: true},
	{has: "torch.compile takes ", text: "torch.compile"},
	{has: "torch.compile took ", text: "torch.compile"},
	{has: "Dynamo bytecode transform time", text: "torch.compile"},
	{has: "Compiling a graph for ", text: "torch.compile"},
}

var vllmNumbers = []number{
	{name: "kv_tokens", has: " KV cache size: ", find: regexp.MustCompile(`KV cache size: ([\d,]+) tokens`), fold: foldMin},
	{name: "kv_blocks", has: " blocks: ", find: regexp.MustCompile(`# \w+ blocks: (\d+), # CPU blocks`), fold: foldMin},
	{name: "weights_gib", has: "Model loading took", find: regexp.MustCompile(`Model loading took ([\d.]+) Gi?B`), fold: foldMax},
	{name: "weights_gib", has: "Loading model weights took", find: regexp.MustCompile(`Loading model weights took ([\d.]+) GB`), fold: foldMax},
	{name: "kv_pool_gib", has: "Available KV cache memory:", find: regexp.MustCompile(`Available KV cache memory: (-?[\d.]+) GiB`), fold: foldMin},
	{name: "graph_gib", has: "Graph capturing finished", find: regexp.MustCompile(`took ([\d.]+) GiB`), fold: foldSum},
	{name: "context_length", has: "Using max model len", find: regexp.MustCompile(`Using max model len (\d+)`), fold: foldMin},
	{name: "max_len_hint", has: "estimated maximum model length is", find: regexp.MustCompile(`estimated maximum model length is (\d+)`), fold: foldMin},
	{name: "compile_s", has: "torch.compile t", find: regexp.MustCompile(`torch\.compile t(?:akes|ook) ([\d.]+) s`), fold: foldMax},
	{name: "init_engine_s", has: "init engine (profile, create kv cache", find: regexp.MustCompile(`took ([\d.]+) s`), fold: foldMax},
}

var vllmBars = []bar{
	{"checkpoint shards", "weights", sweep.PhaseWeights}, {"Loading pt", "weights", sweep.PhaseWeights},
	{"Capturing", "graph", sweep.PhaseGraph}, {"DeepGEMM", "DeepGEMM kernels", ""},
}

var vllmNotes = []note{
	{has: "falling back to eager", text: "the engine runs without graphs: it fell back to eager mode", mark: noteDegraded},
	{has: "Falling back to eager", text: "the engine runs without graphs: it fell back to eager mode", mark: noteDegraded},
	{has: "Overriding num_gpu_blocks=", find: regexp.MustCompile(`num_gpu_blocks=(\d+) with num_gpu_blocks_override=(\d+)`), text: "the KV pool is set to $2 blocks; $1 would fit"},
	{has: "Auto-fit max_model_len: reduced", find: regexp.MustCompile(`reduced from (\d+) to (\d+)`), text: "max-model-len: asked $1, in effect $2"},
	{has: "is preempted by PreemptionMode", text: "requests were preempted for lack of KV pool"},
}

// vllmFrames are functions that tell in a stack trace what was being done.
var vllmFrames = map[string]frame{
	"parse_args":                          {phase: sweep.PhaseLaunch, step: "args"},
	"validate_parsed_serve_args":          {phase: sweep.PhaseLaunch, step: "args"},
	"create_engine_config":                {phase: sweep.PhaseLaunch},
	"init_device":                         {phase: sweep.PhaseDist},
	"init_worker_distributed_environment": {phase: sweep.PhaseDist},
	"load_model":                          {phase: sweep.PhaseWeights},
	"load_weights":                        {phase: sweep.PhaseWeights},
	"determine_available_memory":          {phase: sweep.PhaseKV},
	"determine_num_available_blocks":      {phase: sweep.PhaseKV},
	"profile_run":                         {phase: sweep.PhaseKV},
	"_initialize_kv_caches":               {phase: sweep.PhaseKV},
	"initialize_kv_cache":                 {phase: sweep.PhaseKV},
	"initialize_kv_cache_tensors":         {phase: sweep.PhaseKV},
	"capture_model":                       {phase: sweep.PhaseGraph},
	"_capture_cudagraphs":                 {phase: sweep.PhaseGraph},
	"_dummy_sampler_run":                  {phase: sweep.PhaseWarmup},
	"_dummy_pooler_run":                   {phase: sweep.PhaseWarmup},
	"sample_tokens":                       {step: "decode"},
	"_sample":                             {step: "decode"},
	"compute_logits":                      {step: "decode"},
	"apply_top_k_top_p":                   {step: "decode"},
	"sample":                              {step: "decode"},
}

// vllmSources: sampling works on the logits of one token for each request, so it is the decode's part of a step.
var vllmSources = []source{{"logits.sort(", frame{step: "decode"}}, {"logits.softmax(", frame{step: "decode"}}, {"self.sampler(", frame{step: "decode"}}, {"log_softmax(", frame{step: "decode"}}}

func vllmGrammar() *grammar {
	return (&grammar{
		lead:     pythonLead,
		quotes:   []string{"Received request", "Receive: obj=", "Finish: obj=", "non-default args:", "args: Namespace(", "usage: ", "Generated response", "Dumping input data", "Dumping scheduler output"},
		births:   []string{"vLLM API server version", "non-default args: "},
		marks:    vllmMarks,
		numbers:  vllmNumbers,
		bars:     vllmBars,
		notes:    vllmNotes,
		frames:   vllmFrames,
		sources:  vllmSources,
		together: true,
		wrappers: []wrapper{
			{text: "Exception in worker ", until: ": ", raised: true},
			{text: "Error executing method ", until: ". ", raised: true},
			{text: "Error in model execution", until: ": ", raised: true},
			{text: "  Value error, ", phase: sweep.PhaseLaunch, raised: true},
			{text: "  Assertion error, ", phase: sweep.PhaseLaunch, raised: true},
		},
		rules:    vllmRules(),
		heads:    []string{"EngineCore", "WorkerProc hit an exception"},
		batches:  []string{"Avg generation throughput: "},
		batch:    vllmBatch,
		retracts: []string{"is preempted by PreemptionMode"},
		silences: []string{"No available shared memory broadcast block found in", "No available block found in"},
	}).compile()
}

// vllmFields are the parts of the line that vLLM prints every ten seconds.
var vllmFields = map[string]string{
	"Avg prompt throughput": "prompt_throughput", "Avg generation throughput": sweep.SignalGenThroughput, "Running": sweep.SignalRunning,
	"Waiting": sweep.SignalQueued, "Pending": sweep.SignalQueued, "Swapped": "swapped", "Preemptions": "preemptions", "Prefix cache hit rate": "prefix_hit_rate",
}

// vllmBatch reads "Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 239.2 tokens/s, Running: 8 reqs, …".
func vllmBatch(message string, _ *fieldNames) (kind string, values sweep.Values, ok bool) {
	begin := strings.Index(message, "Avg prompt throughput: ")
	if begin < 0 || begin > 40 {
		return "", nil, false
	}
	values = sweep.Values{}
	if number, ok := strings.CutPrefix(message[:begin], "Engine "); ok { // a data-parallel replica
		if v, ok := decimal(strings.TrimRight(number, ": ")); ok {
			values["engine"] = v
		}
	}
	for field := range strings.SplitSeq(message[begin:], ", ") {
		name, text, found := strings.Cut(field, ": ")
		if !found {
			continue
		}
		text = strings.TrimSuffix(text, ".")
		number, _, _ := strings.Cut(text, " ")
		v, isNumber := decimal(strings.TrimSuffix(number, "%"))
		if !isNumber {
			continue
		}
		if known, found := vllmFields[name]; found {
			values[known] = v
		} else if strings.HasSuffix(name, "KV cache usage") && name != "CPU KV cache usage" || name == "CPU KV cache usage" && values[sweep.SignalTokenUsage] == 0 {
			values[sweep.SignalTokenUsage] = v / 100
		}
	}
	kind = "decode"
	if values["prompt_throughput"] > 0 {
		kind = "prefill"
	}
	return kind, values, true
}
