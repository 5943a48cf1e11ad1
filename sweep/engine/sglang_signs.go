package engine

import (
	"regexp"

	"sweep/sweep"
)

var (
	allocation = regexp.MustCompile(`(?i)tried to allocate ([\d.]+ [KMG]iB)\. GPU (\d+) has a total capacity of ([\d.]+ [KMG]iB) of which ([\d.]+ [KMG]iB) is free`)
	argparse   = regexp.MustCompile(`error: (.*?)(?: \(choose from.*)?$`)
	everything = regexp.MustCompile(`(?s)^(.*)$`)
)

// sglangRules are the lines that explain an end, in the order in which they are compared: the first
// that fits is taken, so a special wording stands before a general one.
func sglangRules() []rule {
	var rules []rule
	for _, part := range [][]rule{sglangArguments, sglangHost, sglangDevice, sglangPools, sglangRuntime, sglangEffects} {
		rules = append(rules, part...)
	}
	return rules
}

var sglangArguments = []rule{
	{has: []string{"sglang serve: error: ", "sglang: error: ", "launch_server.py: error: ", "launch_server: error: "}, phase: sweep.PhaseLaunch,
		sign: sweep.Sign{Outcome: sweep.BadFlag, Priority: classFlag, Detail: "the server refuses its flags: $1"}, detail: argparse},
	{begins: []string{"The arguments enable-hierarchical-cache and disable-radix-cache are mutually exclusive", "chunked_prefill_size must be divisible by page_size",
		"tp_size must be divisible by number of nodes", "multi-node data parallel is not supported unless dp attention",
		"Pipeline parallelism is not compatible with", "schedule_conservativeness must be non-negative", "To use priority scheduling, schedule_policy must be",
		"served_model_name cannot contain a colon", "--disable-cuda-graph-padding is incompatible", "HiCache with --dcp-size", "--hicache-storage-backend (L3) with --dcp-size",
		"--swa-full-tokens-ratio should be in range", "--hicache-host-memory", "Warning: User-specified context_length", "User-specified context_length",
		"The host memory should be larger than the device memory"},
		raised: true, phase: sweep.PhaseLaunch,
		sign: sweep.Sign{Outcome: sweep.BadFlag, Priority: classFlag, Detail: "the server refuses its flags: $1"}, detail: regexp.MustCompile(`^[\w.]+: (.*)$`)},
	{begins: []string{"Repo id must be in the form", "You are trying to access a gated repo", "Cannot access gated repo", "We couldn't connect to", "Repository Not Found",
		"Unrecognized model in", "Cannot find any model weights with", "It looks like the config file at", "Model architectures"},
		has:  []string{"is not a local folder and is not a valid model identifier", "does not appear to have a file named", "is not a valid JSON file", "Entry Not Found for url"},
		sign: sweep.Sign{Outcome: sweep.BadModel, Priority: classFlag, Detail: "the model cannot be read: $1"}, detail: regexp.MustCompile(`^(?:[\w.]+: )?(.*)$`)},
	{has: []string{"no kernel image is available"},
		sign: sweep.Sign{Outcome: sweep.BadGPU, Priority: classFlag, Detail: "the device is not supported: no kernel image for it in this build"}},
	{has: []string{"CUDA error: invalid device ordinal"},
		sign: sweep.Sign{Outcome: sweep.BadGPU, Priority: classFlag, Detail: "the flags ask for more devices than there are"}},
	{begins: []string{"Found no NVIDIA driver", "No CUDA GPUs are available"}, raised: true,
		sign: sweep.Sign{Outcome: sweep.BadGPU, Priority: classFlag, Detail: "the server finds no usable device"}},
	{begins: []string{"[Errno 98]"}, sign: sweep.Sign{Outcome: sweep.BusyPort, Priority: classPort, Detail: "the port is taken: $1"}, detail: everything},
	{begins: []string{"Port is already in use.", "Address already in use"}, has: []string{"is not available in 30 seconds", "failed to listen on any local network address"}, raised: true,
		sign: sweep.Sign{Outcome: sweep.BusyPort, Priority: classPort, Detail: "a port of the inside is taken: $1"}, detail: everything},
}

var sglangHost = []rule{
	{begins: []string{"Not enough host memory available", "Not enough host memory for"}, raised: true, phase: sweep.PhaseHostCache,
		sign:   sweep.Sign{Outcome: sweep.HostShort, Priority: classHost, Detail: "one rank's host cache needs $1 GB and $2 GB are free: lower hicache-size (it is per rank)"},
		detail: regexp.MustCompile(`Requesting ([\d.]+) GB but only have (-?[\d.]+) GB free`)},
	{begins: []string{"cudaHostRegister failed"}, raised: true, phase: sweep.PhaseHostCache,
		sign: sweep.Sign{Outcome: sweep.HostShort, Priority: classHost, Detail: "host memory could not be pinned: lower hicache-size, or raise the limit for locked memory"}},
	{has: []string{"DefaultCPUAllocator: can't allocate memory"},
		sign:   sweep.Sign{Outcome: sweep.HostShort, Priority: classHost, Detail: "host memory ran out: tried to allocate $1 bytes"},
		detail: regexp.MustCompile(`you tried to allocate (\d+) bytes`)},
	{begins: []string{"[Errno 12] Cannot allocate memory", "std::bad_alloc"}, raised: true,
		sign: sweep.Sign{Outcome: sweep.HostShort, Priority: classHost, Detail: "host memory ran out: $1"}, detail: everything},
	{classes: []string{"MemoryError"}, sign: sweep.Sign{Outcome: sweep.HostShort, Priority: classHost, Detail: "host memory ran out: $1"}, detail: everything},
}

var sglangDevice = []rule{
	{begins: []string{"Loaded weights leave no GPU memory"}, raised: true, phase: sweep.PhaseKV,
		sign:   sweep.Sign{Outcome: sweep.KVTooSmall, Priority: classTooSmall, Detail: "the weights leave no room for a KV pool: raise mem-fraction-static above $1"},
		detail: regexp.MustCompile(`Raise --mem-fraction-static above ([\d.]+\d)`)},
	{begins: []string{"Not enough memory. Please try to increase --mem-fraction-static", "Not enough GPU memory for hybrid", "Hybrid (mamba/linear-attention) state cache is too small",
		"Memory pool size is too small", "max_running_request is zero"}, raised: true, phase: sweep.PhaseKV,
		sign: sweep.Sign{Outcome: sweep.KVTooSmall, Priority: classTooSmall, Detail: "the weights leave no room for a KV pool: raise mem-fraction-static, or give the weights more devices"}},
	{begins: []string{"The memory capacity is unbalanced"}, raised: true, phase: sweep.PhaseDist,
		sign: sweep.Sign{Outcome: sweep.BusyGPU, Priority: classTooSmall, Detail: "the devices have unlike amounts of free memory: somebody else uses one"}},
	{begins: []string{"CUDA out of memory", "HIP out of memory"}, raised: true, sign: sweep.Sign{Priority: classOOM, Detail: "tried to allocate $1 on GPU $2 with $4 of $3 free"}, detail: allocation},
	{begins: []string{"CUDA error: out of memory", "CUDA driver error: out of memory", "CUDA Error: out of memory", "HIP error: out of memory"}, sign: sweep.Sign{Priority: classOOM}},
	{has: []string{"CUBLAS_STATUS_ALLOC_FAILED", "Failed to allocate memory for batch_prefill_tmp_v", "Masked grouped-GEMM workspace allocation failed"}, raised: true,
		sign: sweep.Sign{Priority: classOOM}},
}

var sglangPools = []rule{
	{begins: []string{"Prefill out of memory. Try to lower your batch size", "Prefill out of memory. This should"},
		sign: sweep.Sign{Outcome: sweep.KVExhausted, Priority: classAccounting, Step: "prefill", Detail: "the KV pool could not hold a prefill: the server's own accounting failed, device memory did not run out"}},
	{begins: []string{"Decode out of memory. Try to lower your batch size"},
		sign: sweep.Sign{Outcome: sweep.KVExhausted, Priority: classAccounting, Step: "decode", Detail: "the KV pool could not hold a decode step: the server's own accounting failed, device memory did not run out"}},
	{begins: []string{"alloc_req_slots runs out of memory"}, raised: true,
		sign: sweep.Sign{Outcome: sweep.KVExhausted, Priority: classAccounting, Detail: "the server ran out of request slots: lower max-running-requests or the concurrency"}},
	{has: []string{"memory leak detected!"}, raised: true,
		sign: sweep.Sign{Outcome: sweep.KVExhausted, Priority: classAccounting, Detail: "the server's own count of its KV pool did not add up, and it ended itself"}},
}

var sglangRuntime = []rule{
	{has: []string{"CUDA error: an illegal memory access", "CUDA error: device-side assert", "CUBLAS_STATUS_EXECUTION_FAILED", "CUDA error: unspecified launch failure", "CUDA error: misaligned address"},
		unless: "HTTP/1.1\"", sign: sweep.Sign{Outcome: sweep.CrashStart, Cause: "cuda", Priority: classCUDA}},
	{begins: []string{"NCCL error"}, raised: true, sign: sweep.Sign{Outcome: sweep.CrashStart, Cause: "nccl", Priority: classRuntime, Detail: "a collective failed: $1"}, detail: everything},
	{has: []string{"Watchdog caught collective operation timeout"}, sign: sweep.Sign{Outcome: sweep.CrashStart, Cause: "nccl", Priority: classRuntime}},
	{begins: []string{"Timed out waiting"}, raised: true, sign: sweep.Sign{Outcome: sweep.CrashStart, Cause: "nccl", Priority: classRuntime}},
	{classes: []string{"torch.distributed.DistBackendError", "c10::DistBackendError", "torch.distributed.DistNetworkError", "torch.distributed.DistStoreError"},
		sign: sweep.Sign{Outcome: sweep.CrashStart, Cause: "nccl", Priority: classRuntime, Detail: "a collective failed: $1"}, detail: everything},
	{has: []string{"atchdog timeout (self.watchdog_timeout="}, unless: "self.soft=True",
		sign: sweep.Sign{Outcome: sweep.CrashStart, Cause: "watchdog", Priority: classRuntime, Detail: "the server's own watchdog saw no progress for $1 s and ended it"}, detail: regexp.MustCompile(`watchdog_timeout=([\d.]+)`)},
	{begins: []string{"DetokenizerManager hit an exception"},
		sign: sweep.Sign{Outcome: sweep.CrashStart, Cause: "detokenizer", Priority: classRuntime, Detail: "the detokenizer raised an exception"}},
	{has: []string{"could finish the model loading, but there are other ranks that didn't"}, raised: true, phase: sweep.PhaseWeights,
		sign: sweep.Sign{Outcome: sweep.CrashStart, Cause: "unknown", Priority: classRuntime, Detail: "another rank or node did not finish loading; its own log knows why"}},
	{has: []string{"CUDA error: "}, raised: true, sign: sweep.Sign{Outcome: sweep.CrashStart, Cause: "cuda", Priority: classCUDA}},
	{begins: []string{"Initialization failed. warmup error"}, phase: sweep.PhaseWarmup,
		sign: sweep.Sign{Outcome: sweep.CrashStart, Cause: "unknown", Priority: classWarmup, Detail: "the server's own warm-up request failed"}},
}

// sglangEffects are lines that follow from a failure elsewhere.
var sglangEffects = []rule{
	{has: []string{"died during initialization (exit code: -9)", "crashed with exit code -9"}, begins: []string{"Exit code: -9"},
		sign: sweep.Sign{Outcome: sweep.CrashStart, Cause: "killed", Priority: classDeath, Detail: "a child of the server got SIGKILL; nothing proves from whom"}},
	{has: []string{"crashed with exit code -15", "crashed with exit code -2."},
		sign: sweep.Sign{Outcome: sweep.Aborted, Priority: classStopped, Detail: "a child of the server was stopped from outside"}},
	{has: []string{"died during initialization (exit code:", "crashed with exit code"},
		sign: sweep.Sign{Outcome: sweep.CrashStart, Cause: "unknown", Priority: classDeath}},
	{begins: []string{"SIGTERM received. signum="},
		sign: sweep.Sign{Outcome: sweep.Aborted, Priority: classStopped, Detail: "the server was stopped from outside by SIGTERM"}},
	{has: []string{"is dead. Please check if there are relevant logs"}, sign: sweep.Sign{Effect: true, Priority: classDeath}},
	{begins: []string{"Scheduler hit an exception", "Received sigquit from a child proces", "SIGQUIT received.", "kill_process_tree called"},
		sign: sweep.Sign{Effect: true, Priority: classStopped}},
}
