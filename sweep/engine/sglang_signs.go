package engine

import (
	"regexp"
	"slices"

	"sweep/sweep"
)

// sglangRules are the lines that explain an end, in the order in which they are compared: the first
// that fits is taken, so a special wording stands before a general one.
func sglangRules() []rule {
	return slices.Concat(sglangArguments, pythonArguments, hub, gpuSupport, sglangHost, hostMemory, sglangDevice, sglangPools, ports, deviceMemory, collectives, sglangRuntime, sglangEffects, deaths)
}

var sglangArguments = []rule{
	{begins: []string{"The arguments enable-hierarchical-cache and disable-radix-cache are mutually exclusive", "chunked_prefill_size must be divisible by page_size",
		"tp_size must be divisible by number of nodes", "multi-node data parallel is not supported unless dp attention",
		"Pipeline parallelism is not compatible with", "schedule_conservativeness must be non-negative", "To use priority scheduling, schedule_policy must be",
		"served_model_name cannot contain a colon", "--disable-cuda-graph-padding is incompatible", "HiCache with --dcp-size", "--hicache-storage-backend (L3) with --dcp-size",
		"--swa-full-tokens-ratio should be in range", "--hicache-host-memory", "Warning: User-specified context_length", "User-specified context_length",
		"The host memory should be larger than the device memory", "Chunked prefill is aligned to", "Total number of attention heads", "Unknown quantization method", "Unsupported quantization"},
		raised: true, phase: sweep.PhaseLaunch, flag: regexp.MustCompile(`(--[a-z][\w-]*[a-z])`),
		sign: sweep.Sign{Outcome: sweep.BadFlag, Priority: classFlag, Detail: refusedFlags}, detail: regexp.MustCompile(`^[\w.]+: (.*)$`)},
}

var sglangHost = []rule{
	{begins: []string{"Not enough host memory available", "Not enough host memory for"}, raised: true, phase: sweep.PhaseHostCache,
		sign:   sweep.Sign{Outcome: sweep.HostShort, Priority: classHost, Detail: "one rank's host cache needs $1 GB and $2 GB are free: lower hicache-size (it is per rank)"},
		detail: regexp.MustCompile(`Requesting ([\d.]+) GB but only have (-?[\d.]+) GB free`)},
	{begins: []string{"cudaHostRegister failed"}, raised: true, phase: sweep.PhaseHostCache,
		sign: sweep.Sign{Outcome: sweep.HostShort, Priority: classHost, Detail: "host memory could not be pinned: lower hicache-size, or raise the limit for locked memory"}},
}

var sglangDevice = []rule{
	{begins: []string{"Loaded weights leave no GPU memory"}, raised: true, phase: sweep.PhaseKV,
		sign:   sweep.Sign{Outcome: sweep.KVTooSmall, Priority: classTooSmall, Detail: "the weights leave no room for a KV pool: raise mem-fraction-static above $1"},
		detail: regexp.MustCompile(`Raise --mem-fraction-static above ([\d.]+\d)`)},
	{begins: []string{"Not enough memory. Please try to increase --mem-fraction-static", "Not enough memory. Please try to increase", "Not enough GPU memory for hybrid", "Hybrid (mamba/linear-attention) state cache is too small",
		"Memory pool size is too small", "max_running_request is zero"}, has: []string{"cannot hold even one request", "leaves no room for the full KV pool"}, raised: true, phase: sweep.PhaseKV,
		sign: sweep.Sign{Outcome: sweep.KVTooSmall, Priority: classTooSmall, Detail: "the weights leave no room for a KV pool: raise mem-fraction-static, or give the weights more devices"}},
	{begins: []string{"The memory capacity is unbalanced"}, raised: true, phase: sweep.PhaseDist,
		sign: sweep.Sign{Outcome: sweep.BusyGPU, Priority: classTooSmall, Detail: "the devices have unlike amounts of free memory: somebody else uses one"}},
}

var sglangPools = []rule{
	{begins: []string{"Prefill out of memory. Try to lower your batch size", "Prefill out of memory. This should"}, serving: true,
		sign: sweep.Sign{Outcome: sweep.KVExhausted, Priority: classAccounting, Step: "prefill", Detail: "the KV pool could not hold a prefill: the server's own accounting failed, device memory did not run out"}},
	{begins: []string{"Decode out of memory. Try to lower your batch size"}, serving: true,
		sign: sweep.Sign{Outcome: sweep.KVExhausted, Priority: classAccounting, Step: "decode", Detail: "the KV pool could not hold a decode step: the server's own accounting failed, device memory did not run out"}},
	{begins: []string{"alloc_req_slots runs out of memory"}, raised: true, serving: true,
		sign: sweep.Sign{Outcome: sweep.KVExhausted, Priority: classAccounting, Detail: "the server ran out of request slots: lower max-running-requests or the concurrency"}},
	{has: []string{"memory leak detected!"}, raised: true, serving: true,
		sign: sweep.Sign{Outcome: sweep.KVExhausted, Priority: classAccounting, Detail: "the server's own count of its KV pool did not add up, and it ended itself"}},
}

var sglangRuntime = []rule{
	{has: []string{"atchdog timeout (self.watchdog_timeout="}, unless: "self.soft=True", serving: true,
		sign: sweep.Sign{Outcome: sweep.CrashStart, Cause: "watchdog", Priority: classRuntime, Detail: "the server's own watchdog saw no progress for $1 s and ended it"}, detail: regexp.MustCompile(`watchdog_timeout=([\d.]+)`)},
	{begins: []string{"DetokenizerManager hit an exception"}, serving: true,
		sign: sweep.Sign{Outcome: sweep.CrashStart, Cause: "detokenizer", Priority: classRuntime, Detail: "the detokenizer raised an exception"}},
	{has: []string{"could finish the model loading, but there are other ranks that didn't"}, raised: true, phase: sweep.PhaseWeights,
		sign: sweep.Sign{Outcome: sweep.CrashStart, Cause: "unknown", Priority: classRuntime, Detail: "another rank or node did not finish loading; its own log knows why"}},
	{begins: []string{"Initialization failed. warmup error"}, phase: sweep.PhaseWarmup,
		sign: sweep.Sign{Outcome: sweep.CrashStart, Cause: "unknown", Priority: classWarmup, Detail: "the server's own warm-up request failed"}},
}

// sglangEffects are lines that follow from a failure elsewhere.
var sglangEffects = []rule{
	{has: []string{"died during initialization (exit code: -9)", "crashed with exit code -9"}, begins: []string{"Exit code: -9"},
		sign: sweep.Sign{Outcome: sweep.CrashStart, Cause: "killed", Priority: classDeath, Detail: "a child of the server got SIGKILL; nothing proves from whom"}},
	{has: []string{"crashed with exit code -15", "crashed with exit code -2."},
		sign: sweep.Sign{Outcome: sweep.Aborted, Priority: classStopped, Detail: "a child of the server was stopped from outside"}},
	{has: []string{"died during initialization (exit code:", "crashed with exit code"}, begins: []string{"Exit code: "},
		sign: sweep.Sign{Outcome: sweep.CrashStart, Cause: "unknown", Priority: classDeath}},
	{begins: []string{"SIGTERM received.", "Gracefully exiting..."},
		sign: sweep.Sign{Outcome: sweep.Aborted, Priority: classStopped, Detail: "the server was stopped from outside by SIGTERM"}},
	{has: []string{"is dead. Please check if there are relevant logs"}, sign: sweep.Sign{Effect: true, Priority: classDeath}},
	{begins: []string{"Scheduler hit an exception", "TokenizerManager hit an exception", "Received sigquit from a child proces", "kill_process_tree called"},
		sign: sweep.Sign{Effect: true, Priority: classStopped}},
	{begins: []string{"SIGQUIT received.", "Sleeping 5 seconds before crash diagnostics"}, serving: true, sign: sweep.Sign{Effect: true, Priority: classStopped}},
}
