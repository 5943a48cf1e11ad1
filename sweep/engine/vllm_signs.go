package engine

import (
	"regexp"
	"slices"

	"sweep/sweep"
)

// vllmRules are the lines that explain an end, in the order in which they are compared.
func vllmRules() []rule {
	return slices.Concat(vllmArguments, pythonArguments, hub, vllmDevice, gpuSupport, vllmCPU, hostMemory, ports, deviceMemory, collectives, vllmRuntime, vllmEffects, deaths)
}

var vllmArguments = []rule{
	{begins: []string{"User-specified max_model_len", "max_num_batched_tokens (", "Total number of attention heads", "Unknown quantization method", "Quantization method specified in the model config", "Chunked prefill is not supported", "Pipeline parallelism is not supported", "--enable-auto-tool-choice requires", "'invalid tool call parser", "'invalid reasoning parser"},
		raised: true, phase: sweep.PhaseLaunch, flag: regexp.MustCompile(`(--[a-z][\w-]*[a-z])`),
		sign: sweep.Sign{Outcome: sweep.BadFlag, Priority: classFlag, Detail: refusedFlags}, detail: behindValue},
	{has: []string{" validation error for ", " validation errors for "}, classes: []string{"pydantic_core._pydantic_core.ValidationError"}, raised: true,
		sign: sweep.Sign{Outcome: sweep.BadFlag, Priority: classConfig, Detail: refusedFlags}, detail: everything},
}

// behindValue is the text behind the words of pydantic.
var behindValue = regexp.MustCompile(`^(?:\s*(?:Value|Assertion) error, |[\w.]+: )?(.*)$`)

var vllmDevice = []rule{
	{begins: []string{"Free memory on device"}, raised: true, phase: sweep.PhaseDist,
		sign:   sweep.Sign{Outcome: sweep.BusyGPU, Priority: classTooSmall, Detail: "only $1 of $2 GiB are free on the device at the start: somebody else holds the rest"},
		detail: regexp.MustCompile(`\(([\d.]+)/([\d.]+) GiB\)`), judge: tooLittleFree},
	{begins: []string{"Error in memory profiling", "Initial free memory"}, raised: true, phase: sweep.PhaseKV,
		sign: sweep.Sign{Outcome: sweep.BusyGPU, Priority: classTooSmall, Detail: "somebody else gave device memory back while it was measured: $1"}, detail: behind},
	{begins: []string{"To serve at least one request with"}, has: []string{"is larger than the available KV cache memory"}, raised: true, phase: sweep.PhaseKV,
		sign:   sweep.Sign{Outcome: sweep.KVTooSmall, Priority: classTooSmall, Detail: "the KV pool cannot hold one request of max-model-len ($1 tokens): raise gpu-memory-utilization or lower max-model-len"},
		detail: regexp.MustCompile(`max(?:imum)? seq(?:uence)? len(?:gth)? \((\d+)\)`)},
	{begins: []string{"The model's max seq len"}, has: []string{"that can be stored in KV cache"}, raised: true, phase: sweep.PhaseKV,
		sign:   sweep.Sign{Outcome: sweep.KVTooSmall, Priority: classTooSmall, Detail: "the KV pool holds $1 tokens, less than one request of max-model-len: raise gpu-memory-utilization or lower max-model-len"},
		detail: regexp.MustCompile(`KV cache \((\d+)\)`)},
	{begins: []string{"No available memory for the cache blocks", "Cannot auto-fit max_model_len"}, raised: true, phase: sweep.PhaseKV,
		sign: sweep.Sign{Outcome: sweep.KVTooSmall, Priority: classTooSmall, Detail: "the weights leave no room for a KV pool: raise gpu-memory-utilization, or give the weights more devices"}},
}

var vllmCPU = []rule{
	{begins: []string{"Available memory on node"}, raised: true, phase: sweep.PhaseKV,
		sign: sweep.Sign{Outcome: sweep.HostShort, Priority: classHost, Detail: "host memory refused: $1"}, detail: behind},
}

var vllmRuntime = []rule{
	{begins: []string{"RPC call to ", "cancelled by timeout"}, has: []string{"timed out"}, classes: nil, raised: true, also: "RPC call to ",
		sign: sweep.Sign{Outcome: sweep.CrashStart, Cause: "watchdog", Priority: classRuntime, Detail: "the engine's own time limit for a step passed: $1"}, detail: behind},
	{begins: []string{"Timed out waiting for engine", "Engine core process did not", "Engine process (pid"}, raised: true,
		sign: sweep.Sign{Outcome: sweep.CrashStart, Cause: "unknown", Priority: classDeath}},
}

// vllmEffects point at a cause that stands elsewhere.
var vllmEffects = []rule{
	{begins: []string{"Worker proc ", "Worker ", "Engine core proc"}, has: []string{"died, exit code: -9"}, also: "exit code: -9",
		sign: sweep.Sign{Outcome: sweep.CrashStart, Cause: "killed", Priority: classDeath, Detail: "a process of the engine got SIGKILL; nothing proves from whom"}},
	{has: []string{"died unexpectedly", "engine core exited unexpectedly"},
		sign: sweep.Sign{Outcome: sweep.CrashStart, Cause: "unknown", Priority: classGone, Detail: "a process of the engine died and said nothing of a reason"}},
	{begins: []string{"Worker "}, also: "died, exit code: ", sign: sweep.Sign{Effect: true, Priority: classDeath}},
	{has: []string{"EngineDeadError", "AsyncEngineDeadError", "EngineCore encountered an issue. See stack trace", "Engine loop is not running", "Background loop has errored already", "Background loop is stopped", "EngineCore encountered a fatal error"}, serving: true,
		sign: sweep.Sign{Outcome: sweep.CrashStart, Cause: "unknown", Priority: classStopped, Detail: "the engine died; the log does not say why"}},
	{begins: []string{"[shutdown] API server: shutdown triggered", "Received SIGTERM", "Received SIGINT", "SIGTERM received"},
		sign: sweep.Sign{Outcome: sweep.Aborted, Priority: classStopped, Detail: "the server was stopped from outside"}},
	{has: []string{"Engine core initialization failed", "EngineCore failed to start", "WorkerProc failed to start", "WorkerProc initialization failed", "WorkerProc hit an exception", "See root cause above", "Engine process failed to start", "AsyncLLM output_handler failed",
		"EngineCore hit an exception", "Failed to start engine core", "See stack trace for root cause"},
		sign: sweep.Sign{Effect: true, Priority: classStopped}},
}
