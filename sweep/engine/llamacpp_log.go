package engine

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sweep/sweep"
)

// What llama-server says in its log, build 11434 and older forms.

var llamaMarks = []mark{
	{has: "loading model '", phase: sweep.PhaseWeights},
	{has: "llama_model_loader: loaded meta data", phase: sweep.PhaseWeights},
	{has: "load_tensors: loading model tensors", phase: sweep.PhaseWeights},
	{has: "llama_context: ", phase: sweep.PhaseKV},
	{has: "llama_new_context_with_model: ", phase: sweep.PhaseKV},
	{has: "KV buffer size = ", phase: sweep.PhaseKV},
	{has: "llama_kv_cache", end: "size = ", phase: sweep.PhaseKV},
	{has: "graph_reserve: ", phase: sweep.PhaseGraph},
	{has: "ggml_gallocr_reserve", phase: sweep.PhaseGraph},
	{has: "compute buffer size = ", phase: sweep.PhaseGraph},
	{has: "warming up the model", phase: sweep.PhaseWarmup},
	{has: "threadpool init", phase: sweep.PhaseWarmup},
	{has: "initializing, n_slots = ", phase: sweep.PhaseWarmup},
	{has: "initializing slots, n_slots = ", phase: sweep.PhaseWarmup},
	{has: ": model loaded", ready: true},
	{has: "all slots are idle", ready: true},
	{has: "server is listening on http", ready: true}, // older: after the model is loaded
	{has: "listening on http://", ready: true},
}

var llamaNumbers = []number{
	{name: "max_running_requests", has: "n_slots = ", find: regexp.MustCompile(`initializing(?: slots)?, n_slots = (\d+)`), fold: foldMin, final: true},
	{name: "context_length", has: "n_ctx_slot = ", find: regexp.MustCompile(`n_ctx_slot = (\d+)`), fold: foldMin, final: true},
	{name: "kv_buffer_mib", has: "KV buffer size = ", find: regexp.MustCompile(`KV buffer size = +([\d.]+) MiB`), fold: foldSum},
	{name: "graph_gib", has: "compute buffer size = ", find: regexp.MustCompile(`(?:CUDA|ROCm|Vulkan|Metal|SYCL)\S* compute buffer size = +([\d.]+) MiB`), fold: foldMax, scale: 1.0 / 1024},
	{name: "weights_gib", has: "model buffer size = ", find: regexp.MustCompile(`(?:CUDA|ROCm|Vulkan|Metal|SYCL)\d* model buffer size = +([\d.]+) MiB`), fold: foldMax, scale: 1.0 / 1024},
}

var llamaNotes = []note{
	{has: "retrying without pipeline parallelism", text: "pipeline parallelism off: its buffers did not fit", mark: noteDegraded},
	{has: "rounding down to", find: regexp.MustCompile(`n_ctx is not divisible by n_seq_max - rounding down to (\d+)`), text: "ctx-size: rounded to $1 by the server"},
	{has: "possible training context overflow", find: regexp.MustCompile(`n_ctx_seq \((\d+)\) > n_ctx_train \((\d+)\)`), text: "context of $1 tokens, trained for $2"},
	{has: "no usable GPU found", text: "no usable GPU: the model runs on the processor", mark: noteDegraded},
}

func llamaGrammar() *grammar {
	return (&grammar{
		lead:     llamaLead,
		quotes:   []string{"usage:", "----- common params"},
		births:   []string{"starting router server"},
		marks:    llamaMarks,
		numbers:  llamaNumbers,
		notes:    llamaNotes,
		rules:    llamaRules(),
		batches:  []string{" tokens per second)", "n_decoded = ", "prompt processing progress", "update_slots: id ", "launch_slot_: "},
		batch:    llamaBatch,
		retracts: []string{"failed to find free space in the KV cache", "failed to find a memory slot for batch", "no free KV cells"},
		rewinds:  true,
	}).compile()
}

var llamaStamp = regexp.MustCompile(`^(\[\d+\] )?(?:(\d+)\.(\d\d)\.(\d\d\d)\.(\d\d\d) )?(?:[IWED] )?`)

// llamaLead takes "0.00.421.326 E " off a line: minutes, seconds, milliseconds and microseconds since its start.
func llamaLead(line string) lead {
	m := llamaStamp.FindStringSubmatchIndex(line[:min(len(line), 64)])
	l := lead{message: line[m[1]:], stamped: m[1] > 0}
	if m[4] >= 0 {
		minutes, _ := decimal(line[m[4]:m[5]])
		secs, _ := decimal(line[m[6]:m[7]])
		milli, _ := decimal(line[m[8]:m[9]])
		micro, _ := decimal(line[m[10]:m[11]])
		l.clock = 1 + minutes*60 + secs + milli/1e3 + micro/1e6
	}
	return l
}

// llamaBatch reads "eval time = 16120.00 ms / 192 tokens (83.96 ms per token, 11.91 tokens per second)", one for each request
// that ended. The running "n_decoded = 172, tg = 12.00 t/s" says that work goes on, and no more.
func llamaBatch(message string, _ *fieldNames) (kind string, values sweep.Values, ok bool) {
	text := strings.TrimLeft(message, " ")
	if i := strings.Index(text, "| "); i >= 0 && strings.HasPrefix(text, "slot ") {
		text = strings.TrimLeft(text[strings.LastIndex(text, "| ")+1:], " ")
	}
	switch {
	case strings.HasPrefix(text, "eval time ="):
		open, end := strings.LastIndexByte(text, ','), strings.LastIndex(text, " tokens per second")
		if open < 0 || end < open {
			return "", nil, false
		}
		if v, number := decimal(strings.TrimSpace(text[open+1 : end])); number {
			return "decode", sweep.Values{sweep.SignalGenThroughput: v}, true
		}
	case strings.HasPrefix(text, "prompt eval time ="), strings.Contains(message, "prompt processing progress"), strings.Contains(message, "update_slots: id "), strings.Contains(message, "launch_slot_: "):
		return "prefill", nil, true
	case strings.Contains(text, "n_decoded = "):
		return "decode", nil, true
	}
	return "", nil, false
}

var handling = regexp.MustCompile(`^error while handling argument "([^"]*)": (?:error: )?(.*)$`)

// llamaRules explain the ends of a llama-server. Memory of a CPU backend is the host's; that of a CUDA,
// ROCm or Metal buffer is the device's.
func llamaRules() []rule {
	return slices.Concat(llamaStart, gpuSupport, llamaMemory, llamaEnds, deaths)
}

var llamaStart = []rule{
	{begins: []string{"error: invalid argument: ", "error: unknown argument: ", "error: unrecognized argument: "}, phase: sweep.PhaseLaunch, flag: anyFlag,
		sign: sweep.Sign{Outcome: sweep.BadFlag, Priority: classFlag, Detail: "the server does not know the flag $1"}, detail: regexp.MustCompile(`argument: (.*)$`)},
	{begins: []string{"error while handling argument "}, phase: sweep.PhaseLaunch, flag: anyFlag, ends: []string{": stoi", ": stof", ": stoul", ": stoll"},
		sign: sweep.Sign{Outcome: sweep.BadFlag, Priority: classFlag, Detail: "the server refuses its flags: $1 wants a number"}, detail: handling},
	{begins: []string{"error while handling argument ", "error: argument has been removed", "error: invalid parameter for argument", "error: invalid value for argument"}, phase: sweep.PhaseLaunch, flag: anyFlag,
		sign: sweep.Sign{Outcome: sweep.BadFlag, Priority: classFlag, Detail: "the server refuses its flags: $1: $2"}, detail: handling},
	{has: []string{"quantized V cache requires flash_attn", "V cache quantization requires flash_attn"}, phase: sweep.PhaseKV,
		sign: sweep.Sign{Outcome: sweep.BadFlag, Priority: classFlag, Detail: "the server refuses its flags: a quantized V cache needs flash attention (fa: on)"}},
	{has: []string{"unable to allocate CUDA", "unable to allocate ROCm", "unable to allocate Vulkan", "unable to allocate Metal", "unable to allocate SYCL"}, phase: sweep.PhaseWeights, sign: sweep.Sign{Priority: classOOM}},
	{has: []string{"Cannot allocate memory", "std::bad_alloc"}, unless: "failed to mlock", sign: sweep.Sign{Outcome: sweep.HostShort, Priority: classHost, Detail: "host memory ran out: $1"}, detail: everything},
	{has: []string{"failed to download model", "failed to get model from", "invalid HF repo"}, phase: sweep.PhaseLaunch, sign: sweep.Sign{Outcome: sweep.BadModel, Priority: classFlag, Detail: modelUnread}, detail: everything},
	{has: []string{"failed to open GGUF file", "invalid magic characters", "failed to read key-value pairs", "has invalid GGUF type", "data is not within the file bounds", "unknown model architecture",
		"error loading model: ", "missing tensor '"}, unless: "out of memory", phase: sweep.PhaseWeights,
		sign: sweep.Sign{Outcome: sweep.BadModel, Priority: classFlag, Detail: "the model cannot be read: $1"}, detail: regexp.MustCompile(`^[\w ]+: (.*)$`)},
	{has: []string{"couldn't bind HTTP server socket", "couldn't bind to server socket"}, phase: sweep.PhaseLaunch,
		sign: sweep.Sign{Outcome: sweep.BusyPort, Priority: classPort, Detail: "the port is taken: $1"}, detail: regexp.MustCompile(`(couldn't .*)$`)},
}

var llamaMemory = []rule{
	{has: []string{"insufficient memory (attempted to allocate"},
		sign:   sweep.Sign{Outcome: sweep.HostShort, Priority: classHost, Detail: "host memory refused: tried to allocate $1 MB"},
		detail: regexp.MustCompile(`attempted to allocate +([\d.]+) MB`)},
	{has: []string{"cpu_buffer_type_alloc_buffer: failed to allocate buffer of size", "failed to allocate CPU buffer of size"},
		sign:   sweep.Sign{Outcome: sweep.HostShort, Priority: classHost, Detail: "host memory refused: tried to allocate $1 bytes"},
		detail: regexp.MustCompile(`of size (\d+)`)},
	{has: []string{"failed to allocate buffer for kv cache", "failed to allocate buffer for rs cache"}, phase: sweep.PhaseKV, sign: sweep.Sign{Outcome: sweep.OOMKV, Priority: classOOM, Detail: "device memory ran out while the KV pool was allocated"}},
	{has: []string{"failed to allocate compute buffers", "failed to allocate compute pp buffers", "failed to reserve"}, unless: "retrying", phase: sweep.PhaseGraph,
		sign: sweep.Sign{Outcome: sweep.OOMGraph, Priority: classOOM, Detail: "device memory ran out while compute buffers were allocated"}},
	{has: []string{"cudaMalloc failed: out of memory", "CUDA error: out of memory", "hipMalloc failed: out of memory", "ErrorOutOfDeviceMemory", "ggml_vulkan: Device memory allocation of size", "CUBLAS_STATUS_ALLOC_FAILED", "ROCm error: out of memory"}, unless: "pinned memory",
		sign:   sweep.Sign{Priority: classOOMAny, Detail: "tried to allocate $1 on device $2"},
		detail: regexp.MustCompile(`allocating ([\d.]+ MiB) on device (\d+)`)},
}

var llamaEnds = []rule{
	{begins: []string{"CUDA error: ", "ggml_cuda_error", "ROCm error: "}, has: []string{"CUDA error: an illegal memory access"},
		sign: sweep.Sign{Outcome: sweep.CrashStart, Cause: "cuda", Priority: classCUDA}},
	{has: []string{"GGML_ASSERT(", "GGML_ABORT"}, sign: sweep.Sign{Outcome: sweep.CrashStart, Cause: "unknown", Priority: classRuntime}},
	{has: []string{"http client error: Failed to read connection", "instance exited with status"}, sign: sweep.Sign{Outcome: sweep.CrashStart, Cause: "unknown", Priority: classGone}},
	{begins: []string{"Received second interrupt", "^C"}, has: []string{"cleaning up before exit"}, sign: sweep.Sign{Outcome: sweep.Aborted, Priority: classShutdown, Detail: "the server was stopped from outside"}},
	{has: []string{"failed to load model", "failed to create context", "failed to create_context", "exiting due to", "encountered an error while trying to fit params", "failed to initialize the context"},
		sign: sweep.Sign{Effect: true, Priority: classStopped}},
}

// llamaReader adds the size of the KV pool, which llama-server does not print: it is the context of one
// sequence for each slot, or for all slots together when they share one pool. The line about the slots
// cuts the context to what the model was trained for; the pool is not cut, and a warning says its size.
type llamaReader struct {
	*reader
	sequence float64 // tokens, from the warning; 0: there was none
	out      []sweep.LogEvent
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
	r.out = r.out[:0]
	for _, e := range events {
		r.out = append(r.out, e)
		switch {
		case e.Kind == sweep.LogStart:
			r.sequence = 0
		case e.Kind == sweep.LogNote:
			if m := sequenceLine.FindStringSubmatch(e.Evidence.Text); m != nil {
				r.sequence, _ = strconv.ParseFloat(m[1], 64)
			}
		case e.Kind == sweep.LogFact && e.Name == "context_length":
			m := slotsLine.FindStringSubmatch(e.Evidence.Text)
			if m == nil {
				continue
			}
			e.Name = "kv_tokens"
			if r.sequence > 0 {
				e.Value = r.sequence
			}
			if slots, err := strconv.ParseFloat(m[1], 64); err == nil && m[3] != "true" {
				e.Value *= slots
			}
			r.out = append(r.out, e)
		}
	}
	return r.out
}
