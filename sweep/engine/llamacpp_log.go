package engine

import (
	"regexp"
	"strconv"

	"sweep/sweep"
)

// What llama-server says in its log, build 11434 and older forms.

var llamaMarks = []mark{
	{has: "loading model '", phase: sweep.PhaseWeights},
	{has: "llama_context: ", phase: sweep.PhaseKV},
	{has: "threadpool init", phase: sweep.PhaseWarmup},
	{has: "initializing, n_slots = ", phase: sweep.PhaseWarmup},
	{has: "server is listening on http", ready: true}, // older: after the model is loaded
	{has: "listening on http://", ready: true},
}

var llamaNumbers = []number{
	{name: "max_running_requests", has: "n_slots = ", find: regexp.MustCompile(`initializing, n_slots = (\d+)`), fold: foldMin, final: true},
	{name: "context_length", has: "n_ctx_slot = ", find: regexp.MustCompile(`n_ctx_slot = (\d+)`), fold: foldMin, final: true},
	{name: "kv_buffer_mib", has: "KV buffer size = ", find: regexp.MustCompile(`KV buffer size = +([\d.]+) MiB`), fold: foldSum},
}

var llamaNotes = []note{
	{has: "retrying without pipeline parallelism", text: "pipeline parallelism off: its buffers did not fit"},
	{has: "rounding down to", find: regexp.MustCompile(`n_ctx is not divisible by n_seq_max - rounding down to (\d+)`), text: "ctx-size: rounded to $1 by the server"},
	{has: "possible training context overflow", find: regexp.MustCompile(`n_ctx_seq \((\d+)\) > n_ctx_train \((\d+)\)`), text: "context of $1 tokens, trained for $2"},
}

func llamaGrammar() *grammar {
	return &grammar{
		prefix: llamaPrefix,
		quotes: []string{"usage:"},
		marks:  llamaMarks, numbers: llamaNumbers, notes: llamaNotes,
		rules: llamaRules,
		batch: func(string) (string, sweep.Values, bool) { return "", nil, false },
	}
}

var llamaStamp = regexp.MustCompile(`^(?:\[\d+\] )?(?:\d+\.\d\d\.\d\d\d\.\d\d\d )?(?:[IWED] )?`)

// llamaPrefix takes "0.00.421.326 E " off a line, and the port that a router puts before it.
func llamaPrefix(line string) (rank, message string, prefixed bool) {
	n := len(llamaStamp.FindString(line[:min(len(line), 64)]))
	return "", line[n:], n > 0
}

var handling = regexp.MustCompile(`^error while handling argument "([^"]*)": (?:error: )?(.*)$`)

// llamaRules explain the ends of a llama-server. Memory of a CPU backend is the host's; that of a CUDA,
// ROCm or Metal buffer is the device's.
var llamaRules = []rule{
	{begins: []string{"error: invalid argument: ", "error: unknown argument: "}, phase: sweep.PhaseLaunch,
		sign: sweep.Sign{Outcome: sweep.BadFlag, Priority: classFlag, Detail: "the server does not know the flag $1"}, detail: regexp.MustCompile(`argument: (.*)$`)},
	{begins: []string{"error while handling argument "}, phase: sweep.PhaseLaunch, ends: []string{": stoi", ": stof", ": stoul", ": stoll"},
		sign: sweep.Sign{Outcome: sweep.BadFlag, Priority: classFlag, Detail: "the server refuses its flags: $1 wants a number"}, detail: handling},
	{begins: []string{"error while handling argument "}, phase: sweep.PhaseLaunch,
		sign: sweep.Sign{Outcome: sweep.BadFlag, Priority: classFlag, Detail: "the server refuses its flags: $1: $2"}, detail: handling},
	{has: []string{"quantized V cache requires flash_attn", "V cache quantization requires flash_attn"}, phase: sweep.PhaseKV,
		sign: sweep.Sign{Outcome: sweep.BadFlag, Priority: classFlag, Detail: "the server refuses its flags: a quantized V cache needs flash attention (fa: on)"}},
	{has: []string{"failed to open GGUF file", "invalid magic characters", "failed to read key-value pairs", "has invalid GGUF type", "data is not within the file bounds", "unknown model architecture",
		"error loading model: ", "missing tensor '"}, unless: "out of memory", phase: sweep.PhaseWeights,
		sign: sweep.Sign{Outcome: sweep.BadModel, Priority: classFlag, Detail: "the model cannot be read: $1"}, detail: regexp.MustCompile(`^[\w ]+: (.*)$`)},
	{has: []string{"couldn't bind HTTP server socket", "couldn't bind to server socket"}, phase: sweep.PhaseLaunch,
		sign: sweep.Sign{Outcome: sweep.BusyPort, Priority: classPort, Detail: "the port is taken: $1"}, detail: regexp.MustCompile(`(couldn't .*)$`)},
	{has: []string{"insufficient memory (attempted to allocate"},
		sign:   sweep.Sign{Outcome: sweep.HostShort, Priority: classHost, Detail: "host memory refused: tried to allocate $1 MB"},
		detail: regexp.MustCompile(`attempted to allocate +([\d.]+) MB`)},
	{has: []string{"cpu_buffer_type_alloc_buffer: failed to allocate buffer of size", "failed to allocate CPU buffer of size"},
		sign:   sweep.Sign{Outcome: sweep.HostShort, Priority: classHost, Detail: "host memory refused: tried to allocate $1 bytes"},
		detail: regexp.MustCompile(`of size (\d+)`)},
	{begins: []string{"std::bad_alloc"}, sign: sweep.Sign{Outcome: sweep.HostShort, Priority: classHost, Detail: "host memory ran out"}},
	{has: []string{"failed to allocate buffer for kv cache"}, phase: sweep.PhaseKV, sign: sweep.Sign{Outcome: sweep.OOMKV, Priority: classOOM, Detail: "device memory ran out while the KV pool was allocated"}},
	{has: []string{"failed to allocate compute buffers", "failed to allocate compute pp buffers", "failed to reserve"}, unless: "retrying", phase: sweep.PhaseGraph,
		sign: sweep.Sign{Outcome: sweep.OOMGraph, Priority: classOOM, Detail: "device memory ran out while compute buffers were allocated"}},
	{has: []string{"unable to allocate CUDA", "unable to allocate ROCm", "unable to allocate Vulkan", "unable to allocate Metal"}, phase: sweep.PhaseWeights, sign: sweep.Sign{Priority: classOOM}},
	{has: []string{"cudaMalloc failed: out of memory", "CUDA error: out of memory", "hipMalloc failed: out of memory", "ErrorOutOfDeviceMemory"},
		sign:   sweep.Sign{Priority: classOOMAny, Detail: "tried to allocate $1 on device $2"},
		detail: regexp.MustCompile(`allocating ([\d.]+ MiB) on device (\d+)`)},
	{begins: []string{"CUDA error: ", "ggml_cuda_error", "ROCm error: "}, has: []string{"CUDA error: an illegal memory access"},
		sign: sweep.Sign{Outcome: sweep.CrashStart, Cause: "cuda", Priority: classCUDA}},
	{has: []string{"GGML_ASSERT(", "GGML_ABORT"}, sign: sweep.Sign{Outcome: sweep.CrashStart, Cause: "unknown", Priority: classRuntime}},
	{has: []string{"failed to load model", "failed to create context", "failed to create_context", "exiting due to", "encountered an error while trying to fit params", "failed to initialize the context"},
		sign: sweep.Sign{Effect: true, Priority: classStopped}},
}

// llamaReader adds the size of the KV pool, which llama-server does not print: it is the context of one
// sequence for each slot, or for all slots together when they share one pool. The line about the slots
// cuts the context to what the model was trained for; the pool is not cut, and a warning says its size.
type llamaReader struct {
	*reader
	sequence float64 // tokens, from the warning; 0: there was none
}

var (
	slotsLine    = regexp.MustCompile(`initializing, n_slots = (\d+), n_ctx_slot = (\d+)(?:, kv_unified = '(true|false)')?`)
	sequenceLine = regexp.MustCompile(`n_ctx_seq \((\d+)\) > n_ctx_train`)
)

// Feed reads the next bytes of the log.
func (r *llamaReader) Feed(p []byte) []sweep.LogEvent { return r.withPool(r.reader.Feed(p)) }

// Close reads what is left of an unfinished line.
func (r *llamaReader) Close() []sweep.LogEvent { return r.withPool(r.reader.Close()) }

func (r *llamaReader) withPool(events []sweep.LogEvent) []sweep.LogEvent {
	var out []sweep.LogEvent
	for _, e := range events {
		out = append(out, e)
		if m := sequenceLine.FindStringSubmatch(e.Evidence.Text); m != nil {
			r.sequence, _ = strconv.ParseFloat(m[1], 64)
		}
		m := slotsLine.FindStringSubmatch(e.Evidence.Text)
		if m == nil || e.Kind != sweep.LogFact || e.Name != "context_length" {
			continue
		}
		e.Name = "kv_tokens"
		if r.sequence > 0 {
			e.Value = r.sequence
		}
		if slots, err := strconv.ParseFloat(m[1], 64); err == nil && m[3] != "true" {
			e.Value *= slots
		}
		out = append(out, e)
	}
	return out
}
