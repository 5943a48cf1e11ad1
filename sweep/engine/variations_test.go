package engine

import (
	"bytes"
	"fmt"

	"slices"
	"strings"
	"testing"

	"sweep/sweep"
)

// Pieces of logs that stand before many endings.
const (
	sglangStart = `[2026-03-01 10:00:00] server_args=ServerArgs(model_path='/models/m', tp_size=2)
[2026-03-01 10:00:09 TP1] Init torch distributed begin.
[2026-03-01 10:00:09 TP0] Init torch distributed begin.
[2026-03-01 10:00:10 TP1] Load weight begin. avail mem=78.31 GB
[2026-03-01 10:00:10 TP0] Load weight begin. avail mem=78.30 GB
`
	sglangLoaded = sglangStart + `[2026-03-01 10:00:20 TP1] Load weight end. elapsed=9.80 s, type=LlamaForCausalLM, dtype=torch.bfloat16, avail mem=62.02 GB, mem usage=16.29 GB.
[2026-03-01 10:00:20 TP0] Load weight end. elapsed=9.90 s, type=LlamaForCausalLM, dtype=torch.bfloat16, avail mem=62.01 GB, mem usage=16.30 GB.
`
	sglangPool = sglangLoaded + `[2026-03-01 10:00:21 TP0] KV Cache is allocated. #tokens: 301234, K size: 23.00 GB, V size: 23.00 GB
[2026-03-01 10:00:21 TP1] KV Cache is allocated. #tokens: 301234, K size: 23.00 GB, V size: 23.00 GB
[2026-03-01 10:00:21 TP0] Memory pool end. avail mem=9.50 GB
[2026-03-01 10:00:21 TP1] Memory pool end. avail mem=9.51 GB
`
	sglangReady = sglangPool + `[2026-03-01 10:00:30 TP0] max_total_num_tokens=301234, chunked_prefill_size=8192, max_prefill_tokens=16384, max_running_requests=2048, context_len=32768, available_gpu_mem=8.40 GB
[2026-03-01 10:00:31] INFO:     Uvicorn running on http://127.0.0.1:30000 (Press CTRL+C to quit)
[2026-03-01 10:00:33] The server is fired up and ready to roll!
`
	sglangBusy = sglangReady + `[2026-03-01 10:01:00 TP0] Prefill batch, #new-seq: 8, #new-token: 8192, #cached-token: 0, token usage: 0.02, #running-req: 0, #queue-req: 24, input throughput (token/s): 900.00
[2026-03-01 10:01:05 TP0] Decode batch, #running-req: 32, #token: 40000, token usage: 0.13, cuda graph: True, gen throughput (token/s): 300.10, #queue-req: 0
[2026-03-01 10:01:06 TP0] Decode batch, #running-req: 32, #token: 41280, token usage: 0.13, cuda graph: True, gen throughput (token/s): 1210.00, #queue-req: 0
`
	died      = "[2026-03-01 10:02:00] SIGQUIT received. signum=None, frame=None. It usually means one child failed.\n"
	hit       = "[2026-03-01 10:01:59 TP1] Scheduler hit an exception: Traceback (most recent call last):\n"
	vllmStart = `(APIServer pid=100) INFO 03-01 10:00:00 [api_server.py:1351] vLLM API server version 0.14.1
(EngineCore_DP0 pid=200) INFO 03-01 10:00:05 [core.py:93] Initializing a V1 LLM engine (v0.14.1) with config: model='/m'
`
	vllmLoaded = vllmStart + `(Worker_TP1 pid=302) INFO 03-01 10:00:09 [gpu_model_runner.py:3562] Starting to load model /m...
(Worker_TP0 pid=301) INFO 03-01 10:00:19 [gpu_model_runner.py:3659] Model loading took 16.2 GiB memory and 9.80 seconds
`
	vllmSized = vllmLoaded + `(Worker_TP1 pid=302) INFO 03-01 10:00:40 [gpu_worker.py:375] Available KV cache memory: 40.10 GiB
(EngineCore_DP0 pid=200) INFO 03-01 10:00:41 [kv_cache_utils.py:1291] GPU KV cache size: 656,992 tokens
(Worker_TP0 pid=301) Capturing CUDA graphs (mixed prefill-decode, PIECEWISE):   0%|          | 0/51 [00:00<?, ?it/s]
`
	vllmReady = vllmSized + `(Worker_TP0 pid=301) INFO 03-01 10:00:51 [gpu_model_runner.py:4587] Graph capturing finished in 9 secs, took 0.61 GiB
(EngineCore_DP0 pid=200) INFO 03-01 10:00:52 [core.py:259] init engine (profile, create kv cache, warmup model) took 33.10 seconds
(APIServer pid=100) INFO:     Application startup complete.
`
	vllmBusy = vllmReady + `(APIServer pid=100) INFO 03-01 10:02:00 [loggers.py:257] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 912.0 tokens/s, Running: 64 reqs, Waiting: 0 reqs, GPU KV cache usage: 21.0%, Prefix cache hit rate: 0.0%
`
	vllmDead  = "(APIServer pid=100) ERROR 03-01 10:02:11 [async_llm.py:525] vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.\n"
	vllmFails = "(APIServer pid=100) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore_DP0': 1}\n"
	worker    = "(Worker_TP1 pid=302) ERROR 03-01 10:02:10 [multiproc_executor.py:772] "
	core      = "(EngineCore_DP0 pid=200) ERROR 03-01 10:02:10 [core.py:866] "
	llamaUp   = `0.00.010.001 I build: 11434 (abcdef0) with GNU 13 for Linux x86_64
0.00.012.001 I srv    load_model: loading model '/models/m-Q4.gguf'
`
	llamaReady = llamaUp + `0.05.100.000 I srv    load_model: initializing, n_slots = 4, n_ctx_slot = 4096, kv_unified = 'false'
0.05.110.000 I srv  llama_server: model loaded
0.05.110.100 I srv  llama_server: server is listening on http://127.0.0.1:8080
`
)

// Each rule, in the words of another version, another rank or another place than in the reports.
var variations = []struct {
	name, log, want string // outcome, phase, cause and notes
}{
	// device memory
	{"weights, ROCm", sglangStart + hit + "  File \"a.py\", line 1, in load_model\ntorch.cuda.OutOfMemoryError: HIP out of memory. Tried to allocate 1.00 GiB. GPU 1 has a total capacity of 63.98 GiB of which 0 bytes is free.\n" + died, "oom.weights weights"},
	{"weights, vLLM, on one worker", vllmStart + "(Worker_TP3 pid=304) INFO 03-01 10:00:09 [gpu_model_runner.py:3562] Starting to load model /m...\n" + worker + "WorkerProc failed to start.\n" + worker + "Traceback (most recent call last):\n" + worker + "  File \"b.py\", line 2, in load_model\n" + worker + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 896.00 MiB. GPU 3 has a total capacity of 44.40 GiB of which 512.31 MiB is free.\n" + vllmFails, "oom.weights weights"},
	{"weights, llama.cpp", llamaUp + "0.01.000.000 E ggml_backend_cuda_buffer_type_alloc_buffer: allocating 22000.50 MiB on device 0: cudaMalloc failed: out of memory\n0.01.000.001 E alloc_tensor_range: failed to allocate CUDA0 buffer of size 23069130752\n0.01.000.002 E llama_model_load: error loading model: unable to allocate CUDA0 buffer\n0.01.000.003 E srv    load_model: failed to load model, '/models/m-Q4.gguf'\n", "oom.weights weights"},
	{"pool, SGLang", sglangLoaded + hit + "  File \"a.py\", line 1, in init_memory_pool\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.40 GiB. GPU 1 has a total capacity of 79.10 GiB of which 408.31 MiB is free.\n", "oom.kv kv"},
	{"pool, vLLM", vllmLoaded + "(Worker_TP0 pid=301) INFO 03-01 10:00:40 [gpu_worker.py:375] Available KV cache memory: 40.10 GiB\n" + worker + "Traceback (most recent call last):\n" + worker + "  File \"b.py\", line 2, in initialize_kv_cache_tensors\n" + worker + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.20 GiB. GPU 1 has a total capacity of 79.10 GiB of which 1.00 GiB is free.\n" + vllmFails, "oom.kv kv"},
	{"profiling, vLLM", vllmLoaded + core + "Traceback (most recent call last):\n" + core + "  File \"b.py\", line 2, in profile_run\n" + core + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.00 GiB. GPU 0 has a total capacity of 79.10 GiB of which 1.00 GiB is free.\n" + vllmFails, "oom.kv kv"},
	{"graphs before the pool: captured, then no room", sglangLoaded + "[2026-09-01 10:00:21 TP0] Capture target decode CUDA graph begin. backend=full, bs=[1, 2], avail mem=9.39 GB\n[2026-09-01 10:00:25 TP0] Capture target decode CUDA graph end. elapsed=4.58 s, mem usage=0.20 GB, avail mem=9.19 GB.\n[2026-09-01 10:00:26 TP0] Scheduler hit an exception: Traceback (most recent call last):\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.40 GiB.\n", "oom.kv kv"},
	{"after the pool, before the graphs", sglangPool + hit + "  File \"a.py\", line 1, in init_eager_buffers\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB.\n" + died, "oom.graph graph"},
	{"graphs, piecewise", sglangPool + "[2026-03-01 10:00:22 TP0] Capture piecewise CUDA graph begin. avail mem=9.40 GB\n[2026-03-01 10:00:23 TP0] Scheduler hit an exception: Traceback (most recent call last):\nRuntimeError: Piecewise CUDA Graph failed with error: CUDA out of memory. Tried to allocate 20.00 MiB.\n", "oom.graph graph"},
	{"graphs, vLLM", vllmSized + core + "Traceback (most recent call last):\n" + core + "  File \"b.py\", line 2, in capture_model\n" + core + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 24.00 MiB. GPU 0 has a total capacity of 79.10 GiB of which 1.00 MiB is free.\n" + vllmFails, "oom.graph graph"},
	{"compute buffers, llama.cpp", llamaUp + "0.02.000.000 I llama_context: n_ctx = 131072\n0.02.100.000 E ggml_backend_cuda_buffer_type_alloc_buffer: allocating 9000.00 MiB on device 0: cudaMalloc failed: out of memory\n0.02.100.001 E ggml_gallocr_reserve_n: failed to allocate CUDA0 buffer of size 9437184000\n0.02.100.002 E llama_init_from_model: failed to initialize the context: failed to allocate compute pp buffers\n0.02.100.003 E srv    load_model: failed to load model, '/models/m-Q4.gguf'\n", "oom.graph graph"},
	{"pool, llama.cpp on Vulkan", llamaUp + "0.02.000.000 I llama_context: n_ctx = 131072\n0.02.100.000 E ggml_vulkan: Device memory allocation of size 4563402752 failed.\n0.02.100.001 E ggml_vulkan: vk::Device::allocateMemory: ErrorOutOfDeviceMemory\n0.02.100.002 E llama_init_from_model: failed to initialize the context: failed to allocate buffer for kv cache\n0.02.100.003 E main: exiting due to model loading error\n", "oom.kv kv"},
	{"sampler warm-up, older vLLM", vllmSized + worker + "RuntimeError: CUDA out of memory occurred when warming up pooler (task='embed') with 256 dummy requests. Please try lowering `max_num_seqs` or `gpu_memory_utilization` when initializing the engine.\n" + vllmFails, "oom.warmup warmup"},
	{"cuBLAS in the server's own warm-up", sglangReady[:strings.Index(sglangReady, "[2026-03-01 10:00:33]")] + hit + "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`\n" + died, "oom.warmup warmup"},
	{"prefill, DP attention", sglangBusy + "[2026-03-01 10:01:59 DP1 TP1] Scheduler hit an exception: Traceback (most recent call last):\n  File \"a.py\", line 1, in forward_extend\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 448.00 MiB.\n[2026-03-01 10:01:59 DP0 TP0] Decode batch, #running-req: 31, #token: 41280, token usage: 0.13, cuda graph: True, gen throughput (token/s): 1110.00, #queue-req: 0\n" + died, "oom.prefill load"},
	{"decode, though prefills were logged last", sglangBusy + "[2026-03-01 10:01:58 TP0] Prefill batch, #new-seq: 8, #new-token: 8192, #cached-token: 0, token usage: 0.02, #running-req: 9, #queue-req: 24\n" + hit + "  File \"a.py\", line 1, in forward_decode\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 192.00 MiB.\n" + died, "oom.decode load"},
	{"by the driver, with the last batch a decode", sglangBusy + hit + "RuntimeError: CUDA driver error: out of memory\n" + died, "oom.decode load"},
	{"vLLM V0 in its loop", vllmBusy + "ERROR 03-01 10:02:10 [engine.py:160] RuntimeError: Error in model execution (input dumped to /tmp/err_execute_model_input_1.pkl): CUDA out of memory. Tried to allocate 1.16 GiB. GPU 0 has a total capacity of 23.57 GiB of which 1.00 GiB is free.\n" + vllmDead, "oom.decode load"},
	{"vLLM in a prefill", strings.Replace(vllmBusy, "prompt throughput: 0.0", "prompt throughput: 8120.4", 1) + core + "EngineCore encountered a fatal error.\n" + core + "Traceback (most recent call last):\n" + core + "  File \"b.py\", line 2, in forward\n" + core + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 896.00 MiB. GPU 0 has a total capacity of 79.10 GiB of which 1.00 MiB is free.\n" + vllmDead, "oom.prefill load"},
	{"only the tail of a log", core + "EngineCore encountered a fatal error.\n" + core + "Traceback (most recent call last):\n" + core + "  File \"b.py\", line 2, in compute_logits\n" + core + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 896.00 MiB.\n" + vllmDead, "oom.decode load"},
	{"llama.cpp under load", llamaReady + "0.20.000.000 I slot print_timing: id  0 | task 88 | n_decoded =    172, tg =  12.02 t/s\nCUDA error: out of memory\n  current device: 0, in function alloc at ggml/src/ggml-cuda/ggml-cuda.cu:510\nAborted (core dumped)\n", "oom.decode load"},
	{"a C++ exception", sglangBusy + "terminate called after throwing an instance of 'c10::OutOfMemoryError'\n  what():  CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB of which 1.00 MiB is free.\n[2026-03-01 10:02:00] Subprocess scheduler_0 (pid=8123) crashed with exit code -6. Triggering SIGQUIT for cleanup...\n", "oom.decode load"},
	{"handled: a smaller batch was tried", sglangStart + "[2026-03-01 10:00:15 TP0] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB. Retrying.\n" + strings.TrimPrefix(sglangBusy, sglangStart), "ok load"},
	{"a request's failure that the server survived", sglangBusy + "[2026-03-01 10:01:10] ERROR:    Exception in ASGI application\nTraceback (most recent call last):\n  File \"a.py\", line 1, in app\nKeyError: 'messages'\n[2026-03-01 10:01:30 TP0] Decode batch, #running-req: 32, #token: 42560, token usage: 0.14, cuda graph: True, gen throughput (token/s): 1208.00, #queue-req: 0\n", "ok load"},

	// KV pool
	{"fraction too low, 2026", sglangLoaded + hit + "  File \"a.py\", line 1, in _profile_available_bytes\nValueError: Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static=0.2. Raise --mem-fraction-static above 0.221 (minimum viable = 1 - available/pre = 0.2209).\n" + died, "kv.too_small kv"},
	{"fraction too low, late 2025", sglangLoaded + hit + "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value: self.server_args.mem_fraction_static=0.2\n", "kv.too_small kv"},
	{"hybrid model", sglangLoaded + hit + "ValueError: Not enough GPU memory for hybrid (mamba/linear-attention) state cache.\n", "kv.too_small kv"},
	{"one request does not fit, 2024", vllmLoaded + core + "ValueError: The model's max seq len (32768) is larger than the maximum number of tokens that can be stored in KV cache (7456). Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.\n", "kv.too_small kv"},
	{"one request does not fit, without an estimate", vllmLoaded + core + "ValueError: To serve at least one request with the models's max seq len (131072), (16.00 GB KV cache is needed, which is larger than the available KV cache memory (9.66 GB). Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.\n" + vllmFails, "kv.too_small kv"},
	{"no blocks", vllmLoaded + "ERROR 03-01 10:02:10 [core.py:515] ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.\n", "kv.too_small kv"},
	{"decode pool, paged, 2026", sglangBusy + hit + "RuntimeError: Decode out of memory. Try to lower your batch size.\nTry to allocate 64 tokens.\nAvailable tokens: 0 (available_size=0 + evictable_size=0)\n" + died, "kv.exhausted load"},
	{"request slots", sglangBusy + hit + "RuntimeError: alloc_req_slots runs out of memory. Please set a smaller number for `--max-running-requests`. req_to_token_pool.available_size()=0, num_reqs=1\n" + died, "kv.exhausted load"},
	{"leak, as another check names it", sglangBusy + hit + "ValueError: req_to_token_pool memory leak detected! available_size=2047, total_size=2048\n" + died, "kv.exhausted load accounting_leak"},
	{"retraction, 2026", sglangBusy + "[2026-03-01 10:01:07 TP0] KV cache pool is full. Retract requests. #retracted_reqs: 2, #new_tokens_gained: 652, #new_token_ratio: 0.8703 -> 0.9599\n[2026-03-01 10:01:09 TP0] Decode batch, #running-req: 30, #token: 42560, token usage: 0.99, cuda graph: True, gen throughput (token/s): 1208.00, #queue-req: 2\n", "ok load kv_pressure"},
	{"preemption, vLLM V0", strings.ReplaceAll(vllmBusy, "(APIServer pid=100) ", "") + "WARNING 03-01 10:02:10 scheduler.py:1242] Sequence group cmpl-1 is preempted by PreemptionMode.RECOMPUTE mode because there is not enough KV cache space. total_num_cumulative_preemption=1\n", "ok load kv_pressure"},
	{"preemption, vLLM 0.32", vllmBusy + "(APIServer pid=100) INFO 03-01 10:02:10 [loggers.py:335] Engine 000: Avg prompt throughput: 14.0 tokens/s, Avg generation throughput: 812.0 tokens/s, Running: 60 reqs, Waiting: 4 reqs, Preemptions: 4, GPU KV cache usage: 88.0%, Prefix cache hit rate: 0.0%\n", "ok load kv_pressure"},
	{"a queue is no pressure while the pool has room", sglangBusy + strings.Repeat("[2026-03-01 10:01:09 TP0] Decode batch, #running-req: 30, #token: 42560, token usage: 0.51, cuda graph: True, gen throughput (token/s): 1208.00, #queue-req: 22\n", 3), "ok load"},

	// host
	{"host cache", sglangReady[:strings.Index(sglangReady, "[2026-03-01 10:00:31]")] + "[2026-03-01 10:00:31 TP1] Scheduler hit an exception: Traceback (most recent call last):\n  File \"a.py\", line 1, in __init__\nValueError: Not enough host memory available. Requesting 300.00 GB but only have 116.51 GB free. Please reduce the size of the hierarchical cache.\n", "host.short host_cache"},
	{"pinning", sglangReady[:strings.Index(sglangReady, "[2026-03-01 10:00:31]")] + hit + "RuntimeError: cudaHostRegister failed (rc=2, out of memory) for ptr=0x7f size=48000000000; host buffer is not pinned and device transfers may silently return stale data.\n", "host.short host_cache"},
	{"shared memory", sglangStart + "gpu3:812:990 [1] misc/shmutils.cc:87 NCCL WARN Error: failed to extend /dev/shm/nccl-a8F2kX to 33030532 bytes, error: No space left on device (28)\n" + hit + "RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)\n", "host.short weights"},
	{"ENOMEM at a fork", "[2026-03-01 10:00:00] server_args=ServerArgs(model_path='/m')\nTraceback (most recent call last):\n  File \"popen_fork.py\", line 66, in _launch\n    self.pid = os.fork()\nBlockingIOError: [Errno 12] Cannot allocate memory\n", "host.short launch"},
	{"MemoryError", sglangStart + hit + "  File \"a.py\", line 1, in load_model\nMemoryError\n", "host.short weights"},
	{"llama.cpp, mapping", llamaUp + "0.01.000.002 E llama_model_load: error loading model: mmap failed: Cannot allocate memory\n0.01.000.003 E srv    load_model: failed to load model, '/models/m-Q4.gguf'\n", "host.short weights"},
	{"systemd knows the OOM killer", sglangBusy + "systemd[1]: sglang.service: A process of this unit has been killed by the OOM killer.\nsystemd[1]: sglang.service: Main process exited, code=killed, status=9/KILL\n", "host.killed load"},
	{"a child killed in the start, 2026", sglangStart + "[2026-03-01 10:00:40] RuntimeError: Rank 1 scheduler died during initialization (exit code: -9). If exit code is -9 (SIGKILL), a common cause is the OS OOM killer. Run `dmesg -T | grep -i oom` to check.\n", "crash.start weights killed"},
	{"a scheduler killed under load", sglangBusy + "[2026-03-01 10:02:00] Subprocess scheduler_1 (pid=8123) crashed with exit code -9. Triggering SIGQUIT for cleanup...\n" + died, "crash.load load killed"},
	{"an engine of vLLM that vanished", vllmBusy + "(APIServer pid=100) ERROR 03-01 10:02:10 [core_client.py:598] Engine core proc EngineCore_DP0 died unexpectedly, shutting down client.\n" + vllmDead, "crash.load load unknown"},
	{"a full disk", sglangStart + hit + "OSError: [Errno 28] No space left on device: '/root/.cache/huggingface/tmp1'\n", "infra.disk weights"},

	{"pinned memory, 2025: the driver's word", sglangReady[:strings.Index(sglangReady, "[2026-03-01 10:00:31]")] + "[2026-03-01 10:00:31 TP1] Allocating 60.00 GB host memory for hierarchical KV cache.\n[2026-03-01 10:00:51 TP1] Scheduler hit an exception: Traceback (most recent call last):\n  File \"memory_pool_host.py\", line 1, in init_kv_buffer\n    return torch.empty(\nRuntimeError: CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.\n", "host.short host_cache"},
	{"a busy pool, llama.cpp", llamaReady + "0.20.000.000 I slot print_timing: id  0 | task 88 | n_decoded =    172, tg =  12.02 t/s\n0.20.100.000 W decode: failed to find a memory slot for batch of size 512\n0.20.100.001 W srv  update_slots: failed to find free space in the KV cache, retrying with smaller batch size, i = 0, n_batch = 512, ret = 1\n0.20.300.000 I slot print_timing: id  0 | task 88 | n_decoded =    190, tg =  11.02 t/s\n", "ok load kv_pressure"},

	// flags, model, device
	{"choice, SGLang 2024", "usage: launch_server.py [-h] --model-path MODEL_PATH\n                        [--watchdog-timeout WATCHDOG_TIMEOUT] [--enable-nccl-nvls]\nlaunch_server.py: error: argument --schedule-policy: invalid choice: 'fifo' (choose from 'lpm', 'random')\n", "bad.flag launch"},
	{"required", "usage: sglang serve [-h] --model-path MODEL_PATH\nsglang serve: error: the following arguments are required: --model-path/--model\n", "bad.flag launch"},
	{"flag, vLLM's module", "usage: api_server.py [-h] [--host HOST]\napi_server.py: error: unrecognized arguments: --enable-hierarchical-cache\n", "bad.flag launch"},
	{"flag, older llama.cpp", "error: unknown argument: -hf\nusage: ./llama-server [options]\n", "bad.flag launch"},
	{"heads do not divide", vllmStart + "(APIServer pid=100) pydantic_core._pydantic_core.ValidationError: 1 validation error for VllmConfig\n(APIServer pid=100)   Value error, Total number of attention heads (14) must be divisible by tensor parallel size (4). [type=value_error, input_value=ArgsKwargs((), {}), input_type=ArgsKwargs]\n", "bad.flag dist"},
	{"hub says 404", vllmStart + "OSError: org/no-such-model is not a local folder and is not a valid model identifier listed on 'https://hub.example/models'\n", "bad.model dist"},
	{"architecture", "[2026-03-01 10:00:00] server_args=ServerArgs(model_path='/m')\nTraceback (most recent call last):\n  File \"a.py\", line 1, in <module>\nValueError: Unrecognized model in /m. Should have a `model_type` key in its config.json\n", "bad.model launch"},
	{"architecture, vLLM", vllmStart + "(APIServer pid=100) pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig\n(APIServer pid=100)   Value error, Model architectures ['FooForCausalLM'] are not supported for now. Supported architectures: dict_keys(['A'])\n", "bad.model dist"},
	{"architecture, llama.cpp", llamaUp + "0.01.000.002 E llama_model_load: error loading model: error loading model architecture: unknown model architecture: 'foo'\n0.01.000.003 E main: exiting due to model loading error\n", "bad.model weights"},
	{"too old a card, vLLM", vllmLoaded + core + "ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0. Your Tesla T4 GPU has compute capability 7.5.\n" + vllmFails, "bad.gpu kv"},
	{"quantization and card", vllmStart + core + "ValueError: The quantization method awq_marlin is not supported for the current GPU. Minimum capability: 80. Current capability: 75.\n" + vllmFails, "bad.gpu dist"},
	{"no kernel image under load", sglangBusy + hit + "torch.AcceleratorError: CUDA error: no kernel image is available for execution on the device\n" + died, "bad.gpu load"},
	{"no kernel image, llama.cpp", llamaReady + "CUDA error: no kernel image is available for execution on the device\n  current device: 0, in function ggml_cuda_mul_mat at ggml-cuda.cu:1200\n", "bad.gpu ready"},
	{"no card", "[2026-03-01 10:00:00] server_args=ServerArgs(model_path='/m')\nTraceback (most recent call last):\n  File \"a.py\", line 1, in <module>\nRuntimeError: No CUDA GPUs are available\n", "bad.gpu launch"},

	{"a flag without the one it needs, vLLM", "Traceback (most recent call last):\n  File \"serve.py\", line 1, in validate_parsed_serve_args\nTypeError: Error: --enable-auto-tool-choice requires --tool-call-parser\n(APIServer pid=3) INFO x vLLM\n", "bad.flag launch"},

	// somebody else
	{"an exclusive card", sglangStart[:strings.Index(sglangStart, "[2026-03-01 10:00:10")] + hit + "torch.AcceleratorError: CUDA error: CUDA-capable device(s) is/are busy or unavailable\n", "busy.gpu dist"},
	{"a port that is tried at once", "[2026-03-01 10:00:00] server_args=ServerArgs(model_path='/m')\nTraceback (most recent call last):\n  File \"a.py\", line 1, in <module>\nRuntimeError: Port 30000 is already in use\n", "busy.port launch"},
	{"card in use, vLLM 2026", vllmStart + core + "ValueError: Free memory on device cuda:0 (12.04/79.10 GiB) on startup is less than desired GPU memory utilization (0.9, 71.19 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.\n" + vllmFails, "busy.gpu dist"},
	{"card free, and the wish too large", vllmStart + core + "ValueError: Free memory on device (78.60/79.10 GiB) on startup is less than desired GPU memory utilization (0.999, 79.02 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.\n" + vllmFails, "bad.flag dist"},
	{"unbalanced at once", "[2026-03-01 10:00:09 TP1] Init torch distributed begin.\n[2026-03-01 10:00:10 TP1] Scheduler hit an exception: Traceback (most recent call last):\nRuntimeError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes. pre_model_load_memory=40.1, local_gpu_memory=78.3, local_gpu_memory * 0.9=70.5\n", "busy.gpu dist"},
	{"inner port", vllmStart + core + "zmq.error.ZMQError: Address already in use (addr='tcp://127.0.0.1:5570')\n" + vllmFails, "busy.port dist"},
	{"rendezvous port", "[2026-03-01 10:00:09 TP0] Init torch distributed begin.\n[W301 10:00:09.1 socket.cpp:478] [c10d] The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).\n[2026-03-01 10:00:10 TP0] Scheduler hit an exception: Traceback (most recent call last):\ntorch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use\n", "busy.port dist"},
	{"another server answers the warm-up", sglangReady[:strings.Index(sglangReady, "[2026-03-01 10:00:31]")] + "[2026-03-01 10:00:31] ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 30000): address already in use\n[2026-03-01 10:00:33] The server is fired up and ready to roll!\n", "busy.port host_cache"},
	{"llama.cpp's port, older", "0.00.001.000 I main: binding port with default address family\nmain: couldn't bind HTTP server socket, hostname: 0.0.0.0, port: 8080\n", "busy.port launch"},

	// collectives, kernels, watchdogs
	{"NCCL times out", sglangBusy + "[rank1]:[E301 10:11:10.1 ProcessGroupNCCL.cpp:632] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=12, OpType=ALLREDUCE, NumelIn=4096, Timeout(ms)=600000) ran for 600012 milliseconds before timing out.\n" + died, "crash.load load nccl"},
	{"NCCL, vLLM", vllmStart + worker + "WorkerProc failed to start.\n" + worker + "Traceback (most recent call last):\n" + worker + "  File \"b.py\", line 1, in init_device\n" + worker + "RuntimeError: NCCL error: invalid usage (run with NCCL_WARN=INFO for details)\n" + vllmFails, "crash.start dist nccl"},
	{"NCCL that ran out of device memory", sglangLoaded + hit + "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3690, unhandled cuda error, NCCL version 2.27.5\nncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nCuda failure 2 'out of memory'\n" + died, "oom.kv kv"},
	{"NCCL after a kernel failed", sglangLoaded + hit + "torch.AcceleratorError: CUDA error: an illegal memory access was encountered\n" + hit + "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:93, unhandled cuda error, NCCL version 2.28.9\nncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nFailed to CUDA calloc 10485760 bytes\n" + died, "crash.start kv cuda"},
	{"peers of a rank that ran out of memory", sglangPool + "[2026-03-01 10:00:22 TP0] Capture cuda graph begin. This can take up to several minutes. avail mem=9.40 GB\n[2026-03-01 10:00:23 TP0] Scheduler hit an exception: Traceback (most recent call last):\nException: Capture cuda graph failed: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:1234\n[2026-03-01 10:00:23 TP1] Scheduler hit an exception: Traceback (most recent call last):\nException: Capture cuda graph failed: CUDA out of memory. Tried to allocate 20.00 MiB.\n", "oom.graph graph"},
	{"illegal access, vLLM", vllmBusy + core + "EngineCore encountered a fatal error.\n" + core + "Traceback (most recent call last):\n" + core + "torch.AcceleratorError: CUDA error: an illegal memory access was encountered\n" + vllmDead, "crash.load load cuda"},
	{"illegal access, llama.cpp", llamaReady + "0.20.000.000 I slot print_timing: id  0 | task 88 | n_decoded =    172, tg =  12.02 t/s\nCUDA error: an illegal memory access was encountered\n  current device: 1, in function ggml_backend_cuda_synchronize at ggml-cuda.cu:2400\n", "crash.load load cuda"},
	{"watchdog, 2026", sglangBusy + "[2026-03-01 10:06:30 TP0] Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)\n" + died, "crash.load load watchdog"},
	{"soft watchdog: it goes on", sglangBusy + "[2026-03-01 10:06:30 TP0] Scheduler watchdog timeout (self.watchdog_timeout=60, self.soft=True)\n[2026-03-01 10:06:31 TP0] Decode batch, #running-req: 32, #token: 42560, token usage: 0.14, cuda graph: True, gen throughput (token/s): 1208.00, #queue-req: 0\n", "ok load"},
	{"vLLM's limit for a step", vllmBusy + core + "EngineCore encountered a fatal error.\n" + core + "Traceback (most recent call last):\n" + core + "TimeoutError: RPC call to execute_model timed out.\n" + vllmDead, "crash.load load watchdog"},
	{"detokenizer, 2026", sglangBusy + "[2026-03-01 10:01:59] DetokenizerManager hit an exception: Traceback (most recent call last):\n  File \"a.py\", line 1, in event_loop\nRuntimeError: Decode status not found for request a1. It may be due to the request being evicted from the decode status due to memory pressure.\n" + died, "crash.load load detokenizer"},
	{"a bug in a scheduler", sglangBusy + hit + "  File \"a.py\", line 1, in event_loop_overlap\nAttributeError: 'NoneType' object has no attribute 'shape'\n" + died, "crash.load load unknown"},
	{"a bug in the start", sglangLoaded + hit + "  File \"a.py\", line 1, in __init__\nTypeError: __init__() got an unexpected keyword argument 'x'\n", "crash.start kv unknown"},
	{"an assertion of ggml", llamaReady + "/src/llama.cpp/ggml/src/ggml.c:3100: GGML_ASSERT(a->ne[2] == b->ne[0]) failed\nAborted (core dumped)\n", "crash.load ready unknown"},
	{"a segmentation fault", vllmBusy + "!!!!!!! Segfault encountered !!!!!!!\n  File \"<unknown>\", line 0, in raise\n", "crash.load load unknown"},
	{"its own kill is no killing", sglangBusy + hit + "  File \"a.py\", line 1, in x\nZeroDivisionError: division by zero\n" + died + "./serve.sh: line 3:  4711 Killed                  python3 -m sglang.launch_server --mem-fraction-static 0.9\n", "crash.load load unknown"},
	{"killed, says the shell alone", sglangBusy + "Killed\n", "crash.load load killed"},

	// slow, silent, stopped, restarted
	{"JIT, then ready", sglangPool + "[2026-03-01 10:00:22 TP0] Entering DeepGEMM JIT Pre-Compile session. It may take a long time (typically 10-20 mins) if you have not run `sglang.compile_deep_gemm`.\nDeepGEMM warmup: 100%|##########| 16384/16384 [08:06<00:00, 33.70it/s]\n" + strings.TrimPrefix(sglangReady, sglangPool), "ok ready slow_start"},
	{"twenty minutes of loading", strings.Replace(sglangReady, "10:00:33] The server", "10:21:33] The server", 1), "ok ready slow_start"},
	{"compiling for eight minutes, vLLM", strings.Replace(vllmReady, "took 33.10 seconds", "took 701.10 seconds", 1), "ok ready slow_start"},
	{"JIT without an end", sglangPool + "[2026-03-01 10:00:22 TP0] Entering DeepGEMM JIT Pre-Compile session. It may take a long time (typically 10-20 mins).\nDeepGEMM warmup:  12%|#         | 1966/16384 [01:06<09:00, 30.11it/s]\n", "null graph"},
	{"stops in the graphs", vllmSized, "null graph"},
	{"stops at the distributed start", "[2026-03-01 10:00:09 TP1] Init torch distributed begin.\n[2026-03-01 10:00:09 TP0] Init torch distributed begin.\n[Gloo] Rank 0 is connected to 1 peer ranks. Expected number of connected peer ranks is : 1\n", "null dist"},
	{"heartbeat lost for good", sglangBusy + "[2026-03-01 10:10:40] Health check failed. Server couldn't get a response from detokenizer for last 20 seconds. tic start time: 10:10:20. last_heartbeat time: 10:01:06\n[2026-03-01 10:10:40] INFO:     127.0.0.1:4 - \"GET /health HTTP/1.1\" 503 Service Unavailable\n", "hang.load load"},
	{"heartbeat lost and found", sglangBusy + "[2026-03-01 10:04:40] Health check failed. Server couldn't get a response from detokenizer for last 20 seconds. tic start time: 10:04:20. last_heartbeat time: 10:01:06\n[2026-03-01 10:04:45 TP0] Prefill batch, #new-seq: 1, #new-token: 8192, #cached-token: 0, token usage: 0.02, #running-req: 32, #queue-req: 24\n", "ok load"},
	{"vLLM stands still", vllmBusy + strings.Repeat("(APIServer pid=100) INFO 03-01 10:02:10 [loggers.py:257] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 0.0 tokens/s, Running: 64 reqs, Waiting: 9 reqs, GPU KV cache usage: 21.0%, Prefix cache hit rate: 0.0%\n", 2) + "(APIServer pid=100) INFO 03-01 10:05:10 [loggers.py:257] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 0.0 tokens/s, Running: 64 reqs, Waiting: 9 reqs, GPU KV cache usage: 21.0%, Prefix cache hit rate: 0.0%\n", "hang.load load"},
	{"vLLM idles", vllmBusy + strings.Repeat("(APIServer pid=100) INFO 03-01 10:02:10 [loggers.py:257] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 0.0 tokens/s, Running: 0 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.0%, Prefix cache hit rate: 0.0%\n", 4), "ok load"},
	{"vLLM schedules nothing", vllmBusy + strings.Repeat("(APIServer pid=100) INFO 03-01 10:02:10 [loggers.py:257] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 0.0 tokens/s, Running: 0 reqs, Waiting: 3 reqs, GPU KV cache usage: 0.0%, Prefix cache hit rate: 0.0%\n", 2) + "(APIServer pid=100) INFO 03-01 10:05:10 [loggers.py:257] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 0.0 tokens/s, Running: 0 reqs, Waiting: 9 reqs, GPU KV cache usage: 0.0%, Prefix cache hit rate: 0.0%\n", "hang.load load"},
	{"vLLM without a token for ten seconds", vllmBusy + "(APIServer pid=100) INFO 03-01 10:02:10 [loggers.py:257] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 0.0 tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 20.0%, Prefix cache hit rate: 0.0%\n", "null load"},
	{"times taken off", "[TP1] Load weight begin. avail mem=78.31 GB\n[TP0] Load weight begin. avail mem=78.30 GB\n[TP1] Scheduler hit an exception: Traceback (most recent call last):\n  File \"a.py\", line 1, in load_model\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB.\n", "oom.weights weights"},
	{"the first prompt, llama.cpp", llamaReady + "0.09.000.000 I slot launch_slot_: id  0 | task 0 | processing task\n0.09.000.100 I slot update_slots: id  0 | task 0 | new prompt, n_ctx_slot = 4096, n_keep = 0, n_prompt_tokens = 3000\n/src/ggml-cuda.cu:104: CUDA error\nCUDA error: out of memory\n  current device: 0, in function alloc at ggml-cuda.cu:529\n", "oom.prefill load"},
	{"stopped while loading, by Ctrl-C", sglangBusy + "^C[2026-03-01 10:02:00] INFO:     Shutting down\n[2026-03-01 10:02:01] INFO:     Finished server process [812]\n", "aborted load"},
	{"SIGTERM, and what breaks by it", sglangBusy + "[2026-03-01 10:02:00] SIGTERM received. signum=15 frame=<frame at 0x1>. Draining requests and shutting down...\n[2026-03-01 10:02:05 TP1] Scheduler hit an exception: Traceback (most recent call last):\nRuntimeError: [../gloo/pair.cc:534] Connection closed by peer [127.0.0.1]:1\n" + died, "aborted load"},
	{"vLLM was told to end", vllmBusy + "(APIServer pid=100) INFO 03-01 10:02:00 [launcher.py:254] [shutdown] API server: shutdown triggered\n" + vllmDead, "aborted load"},
	{"restarts until it works", strings.Repeat(vllmStart+core+"ValueError: Free memory on device (12.04/79.10 GiB) on startup is less than desired GPU memory utilization (0.9, 71.19 GiB).\n"+vllmFails, 2) + vllmReady, "ok ready restarted"},
	{"restarts that all fail", strings.Repeat(sglangLoaded+hit+"RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.\n"+died, 3), "kv.too_small kv restarted"},
	{"died under load and came back", sglangBusy + hit + "  File \"a.py\", line 1, in forward_extend\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 448.00 MiB.\n" + died + sglangReady, "oom.prefill load restarted"},
	{"llama.cpp's clock goes back", llamaReady + "0.20.000.000 I slot print_timing: id  0 | task 88 | n_decoded =    172, tg =  12.02 t/s\nSegmentation fault (core dumped)\n" + llamaReady, "crash.load load unknown restarted"},
	{"no GPU at all, llama.cpp", llamaUp + "0.00.013.001 W warning: no usable GPU found, --gpu-layers option will be ignored\n" + strings.TrimPrefix(llamaReady, llamaUp), "ok ready degraded"},
	{"speed does not come back", sglangBusy + strings.Repeat("[2026-03-01 10:01:07 TP0] Decode batch, #running-req: 32, #token: 41280, token usage: 0.99, cuda graph: True, gen throughput (token/s): 1210.00, #queue-req: 0\n", 3) +
		"[2026-03-01 10:01:08 TP0] KV cache pool is full. Retract requests. #retracted_reqs: 1, #new_token_ratio: 0.2210 -> 1.0000\n" + strings.Repeat("[2026-03-01 10:02:07 TP0] Decode batch, #running-req: 31, #token: 41280, token usage: 0.80, cuda graph: True, gen throughput (token/s): 61.00, #queue-req: 1\n", 4), "ok load kv_pressure degraded"},
	{"an unknown server", "level=INFO msg=\"loading model\"\ncudaMalloc failed: out of memory\nRuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB of which 1.00 MiB is free.\n", "oom.weights launch"},
	{"nothing", "", "null launch"},
}

func TestVariations(t *testing.T) {
	for _, v := range variations {
		got := verdictOf(t, []byte(v.log), "")
		words := []string{got.Outcome, got.Phase, got.Cause}
		words = append(words, strings.Fields(strings.Trim(got.Notes, "[]"))...)
		have := strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), " ")
		if have != v.want {
			t.Errorf("%s: have %q, want %q (line %d)", v.name, have, v.want, got.Line)
		}
	}
}

// What is known beside a log decides where the log cannot.
func TestExitAndKernel(t *testing.T) {
	kill := func(pid int, name string) []sweep.OOMKill {
		return []sweep.OOMKill{{PID: pid, Name: name, Evidence: sweep.Evidence{Line: 3, Text: "Killed process"}}}
	}
	for _, c := range []struct {
		name, log string
		exit      *sweep.Exit
		kernel    []sweep.OOMKill
		want      string
	}{
		{"exit 137 proves nothing", sglangBusy, &sweep.Exit{Code: -1, Signal: 9}, nil, "crash.load load killed"},
		{"a kernel line about our pid", vllmBusy, &sweep.Exit{Code: -1, Signal: 9}, kill(301, "python3"), "host.killed load"},
		{"about a title that only servers have", sglangBusy, nil, kill(999, "sglang::schedul"), "host.killed load"},
		{"about any python, and a child was killed", sglangStart + "[2026-03-01 10:00:40] Rank 1 scheduler is dead. Please check if there are relevant logs.\n[2026-03-01 10:00:40] Exit code: -9\n", nil, kill(4242, "python3"), "host.killed weights"},
		{"about any python, and nothing of ours died", sglangBusy, nil, kill(4242, "python3"), "null load companion_killed"},
		{"about a companion, and ours died otherwise", sglangBusy + hit + "RuntimeError: CUDA error: an illegal memory access was encountered\n" + died, nil, kill(4242, "lmcache"), "crash.load load cuda companion_killed"},
		{"a refusal of host memory explains more than the kill", sglangStart + hit + "OSError: [Errno 12] Cannot allocate memory\n", &sweep.Exit{Code: -1, Signal: 9}, kill(4242, "sglang::schedul"), "host.short weights"},
		{"SIGTERM while loading", sglangStart, &sweep.Exit{Code: -1, Signal: 15}, nil, "aborted weights"},
		{"our own kill", sglangBusy, &sweep.Exit{Code: -1, Signal: 9, By: "sweep"}, nil, "aborted load"},
		{"exit 0 after a killed engine", vllmBusy + "(APIServer pid=100) ERROR 03-01 10:02:10 [core_client.py:598] Engine core proc EngineCore died unexpectedly, shutting down client.\n" + vllmDead, &sweep.Exit{}, nil, "crash.load load unknown"},
		{"a silent end", llamaUp, &sweep.Exit{Code: -1, Signal: 4}, nil, "crash.start weights unknown"},
	} {
		e, err := Explain(strings.NewReader(c.log), Question{Exit: c.exit, Kernel: c.kernel, KernelFile: "dmesg"})
		if err != nil {
			t.Fatal(err)
		}
		have := strings.Join(slices.DeleteFunc(append([]string{word(e.Outcome), string(e.Phase), e.Cause}, e.Notes...), func(w string) bool { return w == "" }), " ")
		if have != c.want {
			t.Errorf("%s: have %q, want %q", c.name, have, c.want)
		}
		if strings.HasPrefix(c.want, "host.killed") && (e.Evidence == nil || e.Evidence.File != "dmesg" || e.Evidence.Line != 3) {
			t.Errorf("%s: evidence %+v", c.name, e.Evidence)
		}
	}
}

func TestKernelKills(t *testing.T) {
	const log = `[Thu Aug 27 00:51:09 2026] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=a,task=sglang::schedul,pid=51230,uid=0
[Thu Aug 27 00:51:09 2026] Memory cgroup out of memory: Killed process 51230 (sglang::schedul) total-vm:81300112kB, anon-rss:1061204kB
Aug 27 00:51:10 gpu3 kernel: Out of memory: Killed process 51231 (VLLM::EngineCor) total-vm:1kB
[ 8123.456789] Out of memory: Kill process 51232 (python) score 912 or sacrifice child
Aug 27 00:51:10 gpu3 kernel: oom_reaper: reaped process 51231 (VLLM::EngineCor), now anon-rss:0kB
user typed: Killed process 7 (x)
      Reason:       OOMKilled
"OOMKilled": false,
oom_kill 0
`
	kills, err := KernelKills(strings.NewReader(log))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, k := range kills {
		got = append(got, fmt.Sprintf("%d %s %d", k.PID, k.Name, k.Line))
	}
	if want := []string{"51230 sglang::schedul 2", "51231 VLLM::EngineCor 3", "51232 python 4", "0  7"}; !slices.Equal(got, want) {
		t.Errorf("have %q, want %q", got, want)
	}
}

// Facts in other words than in the reports.
func TestVariedFacts(t *testing.T) {
	for log, want := range map[string]map[string]any{
		"INFO 03-01 10:00:00 gpu_executor.py:122] # CUDA blocks: 7406, # CPU blocks: 2048\n":                                                                         {"kv_blocks": 7406.0},
		"(EngineCore pid=1) INFO 11-29 13:21:30 [kv_cache_utils.py:2327] CPU KV cache size: 8,192 tokens, Maximum concurrency for 2,048 tokens per request: 4.00x\n": {"kv_tokens": 8192.0},
		"vllm serve: error: argument --max-num-seqs: expected one argument\n":                                                                                        {"flag": "--max-num-seqs"},
		"sglang serve: error: argument --tensor-parallel-size/--tp-size: invalid int value: 'two'\n":                                                                 {"flag": "--tensor-parallel-size"},
		"error while handling argument \"--ctx-size\": stoi\n\nusage:\n--ctx-size N\n":                                                                               {"flag": "--ctx-size"},
		llamaReady: {"kv_tokens": 16384.0, "max_running_requests": 4.0},
		sglangBusy: {"kv_tokens": 301234.0, "weights_gib": 16.3, "avail_after_weights_gib": 62.01, "headroom_gib": 8.4, "decode_throughput_steady": 1210.0},
		sglangBusy + "[2026-03-01 10:01:07 TP0] Retract requests. #retracted_reqs: 1\n[2026-03-01 10:01:07 TP1] Retract requests. #retracted_reqs: 1\n[2026-03-01 10:01:08 TP1] Retract requests. #retracted_reqs: 1\n[2026-03-01 10:01:08 TP0] Retract requests. #retracted_reqs: 1\n": {"retractions": 2.0},
		vllmBusy + vllmBusy[strings.LastIndex(vllmBusy[:len(vllmBusy)-1], "\n")+1:] + vllmBusy[strings.LastIndex(vllmBusy[:len(vllmBusy)-1], "\n")+1:]:                                                                                                                                  {"kv_tokens": 656992.0, "decode_throughput_steady": 912.0, "graph_gib": 0.61},
	} {
		e, err := Explain(bytes.NewReader([]byte(log)), Question{})
		if err != nil {
			t.Fatal(err)
		}
		for name, v := range want {
			if e.Facts[name] != v {
				t.Errorf("%s is %v, want %v in\n%s", name, e.Facts[name], v, log[max(0, len(log)-200):])
			}
		}
	}
}
