package engine

import (
	"bytes"

	"sweep/sweep"
)

// detectBytes is how much of a log is read before its engine is guessed.
const detectBytes = 256 << 10

// tells are words of engines in their logs, with their weight. Other software brings words of an engine too: SGLang
// imports vLLM, which then logs a line.
var tells = []struct {
	engine, text string
	weight       int
}{
	{"sglang", "sglang", 2}, {"sglang", "server_args=ServerArgs(", 5}, {"sglang", "#running-req", 3}, {"sglang", "Prefill batch", 3}, {"sglang", "Decode batch", 3},
	{"sglang", "sigquit from a child proc", 5}, {"sglang", "Load weight begin", 4}, {"sglang", "Load weight end", 4}, {"sglang", "Scheduler hit an exception", 4}, {"sglang", "launch_server", 5},
	{"sglang", "Capture cuda graph", 3}, {"sglang", "Init torch distributed", 4}, {"sglang", "/health_generate", 3}, {"sglang", "/get_model_info", 2}, {"sglang", "watchdog_timeout", 2}, {"sglang", "mem-fraction-static", 2},
	{"sglang", "DetokenizerManager", 3}, {"sglang", "fired up and ready to roll", 5}, {"sglang", "token_to_kv_pool", 3}, {"sglang", "Memory pool end", 3}, {"sglang", "max_total_num_tokens", 3}, {"sglang", "Retract requests", 4},
	{"sglang", " TP0] ", 2}, {"sglang", " TP1] ", 2}, {"sglang", "[gpu_id=", 3}, {"sglang", "[gpu=", 2}, {"sglang", "scheduler is dead", 3}, {"sglang", "GenerateReqInput", 2},
	{"vllm", "vllm", 2}, {"vllm", "vLLM", 3}, {"vllm", "(EngineCore", 4}, {"vllm", "(APIServer pid=", 4}, {"vllm", "(VllmWorker", 4}, {"vllm", "(Worker_", 3}, {"vllm", "(Worker pid=", 3}, {"vllm", "Avg generation throughput", 4},
	{"vllm", "GPU KV cache size", 3}, {"vllm", "# GPU blocks", 3}, {"vllm", "gpu_memory_utilization", 3}, {"vllm", "SamplingParams(", 2}, {"vllm", "Engine core initialization", 4}, {"vllm", "Received request cmpl", 2}, {"vllm", "ProcessGroupNCCL.cpp", 0},
	{"llama.cpp", "llama_", 3}, {"llama.cpp", "ggml_", 3}, {"llama.cpp", "gguf", 3}, {"llama.cpp", "llama-server", 4}, {"llama.cpp", "srv  ", 3}, {"llama.cpp", "slot ", 2}, {"llama.cpp", "n_slots = ", 3}, {"llama.cpp", "GGML_", 3},
	{"llama.cpp", "error: invalid argument: ", 4}, {"llama.cpp", "error: unknown argument: ", 4}, {"llama.cpp", "error while handling argument", 5}, {"llama.cpp", "tokens per second)", 3}, {"llama.cpp", "llama.cpp", 4},
	{"llama.cpp", "cmd_child_to_router", 4}, {"llama.cpp", "common_init_from_params", 3}, {"llama.cpp", "print_timing", 3}, {"llama.cpp", "build: ", 1},
}

// Detect names the engine that wrote the beginning of a log; "" when nothing tells.
func Detect(head []byte) string {
	scores := map[string]int{}
	for _, t := range tells {
		scores[t.engine] += t.weight * min(bytes.Count(head, []byte(t.text)), 3)
	}
	best := ""
	for _, name := range Names() {
		if scores[name] > scores[best] {
			best = name
		}
	}
	return best
}

// reads returns a log reader of this engine, and the reader inside of it that knows the server's processes.
func reads(name string) (sweep.LogReader, *reader) {
	switch name {
	case "sglang":
		r := newReader(sglangLines())
		return r, r
	case "vllm":
		r := newReader(vllmLines())
		return r, r
	case "llama.cpp":
		r := &llamaReader{reader: newReader(llamaLines())}
		return r, r.reader
	}
	r := newReader(otherLines())
	return r, r
}
