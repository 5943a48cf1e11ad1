package simulate

import (
	"fmt"
	"strings"
)

// frame is one frame of a Python traceback: file below site-packages, line, function, source.
type frame struct {
	file string
	line int
	fn   string
	code string
}

const sitePackages = "/usr/local/lib/python3.12/site-packages/"

func traceback(frames []frame, exception string) string {
	var b strings.Builder
	b.WriteString("Traceback (most recent call last):\n")
	for _, f := range frames {
		fmt.Fprintf(&b, "  File \"%s%s\", line %d, in %s\n    %s\n", sitePackages, f.file, f.line, f.fn, f.code)
	}
	b.WriteString(exception)
	b.WriteByte('\n')
	return b.String()
}

// startFrames are where a scheduler stands while it starts.
func startFrames(rest ...frame) []frame {
	return append([]frame{{"sglang/srt/managers/scheduler.py", 4931, "run_scheduler_process", "scheduler = Scheduler("}}, rest...)
}

func weightFrames() []frame {
	return startFrames(
		frame{"sglang/srt/managers/scheduler.py", 498, "__init__", "self.init_model_worker()"},
		frame{"sglang/srt/managers/tp_worker.py", 310, "__init__", "self._init_model_runner()"},
		frame{"sglang/srt/model_executor/model_runner.py", 612, "load_model", "self.model = get_model("},
		frame{"sglang/srt/model_loader/loader.py", 768, "load_model", "model = _initialize_model("},
		frame{"sglang/srt/layers/linear.py", 301, "__init__", "self.quant_method.create_weights("},
		frame{"torch/utils/_device.py", 109, "__torch_function__", "return func(*args, **kwargs)"},
	)
}

func poolFrames(rest ...frame) []frame {
	return startFrames(append([]frame{
		{"sglang/srt/managers/scheduler.py", 498, "__init__", "self.init_model_worker()"},
		{"sglang/srt/managers/scheduler.py", 981, "init_model_worker", "self.init_memory_pools()"},
		{"sglang/srt/managers/scheduler.py", 953, "init_memory_pools", "self.init_target_memory_pool()"},
		{"sglang/srt/managers/scheduler.py", 949, "init_target_memory_pool", "self.tp_worker.alloc_memory_pool()"},
		{"sglang/srt/managers/tp_worker.py", 399, "alloc_memory_pool", "self.model_runner.alloc_memory_pool(memory_pool_config)"},
		{"sglang/srt/model_executor/model_runner.py", 775, "alloc_memory_pool", "result = self.kv_cache_configurator.configure("},
	}, rest...)...)
}

func tooLowFrames() []frame {
	return poolFrames(
		frame{"sglang/srt/mem_cache/kv_cache_configurator.py", 247, "configure", "config = self._resolve_memory_pool_config(pre_model_load_memory)"},
		frame{"sglang/srt/mem_cache/kv_cache_configurator.py", 1782, "_resolve_memory_pool_config", "available_bytes = self._profile_available_bytes(pre_model_load_memory)"},
		frame{"sglang/srt/mem_cache/kv_cache_configurator.py", 1647, "_profile_available_bytes", "raise ValueError("},
	)
}

func kvFrames() []frame {
	return poolFrames(
		frame{"sglang/srt/mem_cache/kv_cache_configurator.py", 251, "configure", "pools = self._init_pools("},
		frame{"sglang/srt/mem_cache/kv_cache_configurator.py", 420, "_init_pools", "token_to_kv_pool = self._build_token_to_kv_pool("},
		frame{"sglang/srt/mem_cache/memory_pool.py", 1840, "__init__", "self._create_buffers()"},
		frame{"sglang/srt/mem_cache/memory_pool.py", 2092, "_create_buffers_normal", "torch.zeros(v_shape, dtype=self.store_dtype, device=self.device)"},
	)
}

// poolFullFrames are where a scheduler stands when its own count of the KV pool does not add up.
func poolFullFrames() []frame {
	return []frame{
		{"sglang/srt/managers/scheduler.py", 4951, "run_scheduler_process", "scheduler.run_event_loop()"},
		{"sglang/srt/managers/scheduler.py", 1502, "event_loop_overlap", "batch = self.get_next_batch_to_run()"},
		{"sglang/srt/managers/schedule_batch.py", 1731, "prepare_for_extend", "out_cache_loc = alloc_for_extend(self)"},
		{"sglang/srt/mem_cache/common.py", 214, "alloc_token_slots", "raise RuntimeError(error_msg)"},
	}
}

func eagerFrames() []frame {
	return startFrames(
		frame{"sglang/srt/managers/scheduler.py", 498, "__init__", "self.init_model_worker()"},
		frame{"sglang/srt/managers/scheduler.py", 985, "init_model_worker", "self.init_all_cuda_graphs()"},
		frame{"sglang/srt/model_executor/runner/eager_runner.py", 96, "__init__", "self.buffers = self._create_input_buffers()"},
	)
}

// captureText is the double traceback of a failed capture.
func captureText(prefill bool, oom string) string {
	kind, file, backend := "cuda graph", "decode_cuda_graph_runner.py", "full_cuda_graph_backend.py"
	hints := "Possible solutions:\n1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)\n2. set --cuda-graph-max-bs-decode to a smaller value (e.g., 16)\n3. disable decode CUDA graph by --cuda-graph-backend-decode=disabled. (Not recommended. Huge performance loss)\nOpen an issue on GitHub https://github.com/sgl-project/sglang/issues/new/choose \n"
	exception := "Exception"
	if prefill {
		kind, file, backend = "prefill CUDA graph", "prefill_cuda_graph_runner.py", "breakable_cuda_graph_backend.py"
		exception = "RuntimeError"
		hints = "Possible suggestions:\n1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)\n2. set --cuda-graph-backend-prefill=disabled\nOpen an issue on GitHub https://github.com/sgl-project/sglang/issues/new/choose \n"
	}
	runner := "sglang/srt/model_executor/runner/" + file
	inner := traceback([]frame{
		{runner, 415, "__init__", "self.capture()"},
		{runner, 915, "_capture_one_stream", "self.capture_one_shape(bs, forward, stream_idx, variant_label)"},
		{"sglang/srt/model_executor/runner_backend/" + backend, 92, "capture_one", "forward_fn()"},
		{"sglang/srt/layers/activation.py", 145, "forward_cuda", "out = torch.empty(output_shape, dtype=x.dtype, device=x.device)"},
	}, "torch.OutOfMemoryError: "+oom)
	outer := traceback(startFrames(
		frame{"sglang/srt/managers/scheduler.py", 498, "__init__", "self.init_model_worker()"},
		frame{"sglang/srt/managers/scheduler.py", 985, "init_model_worker", "self.init_all_cuda_graphs()"},
		frame{"sglang/srt/model_executor/model_runner_components/cuda_graph_setup.py", 144, "capture_cuda_graphs", "decode = capture_decode_graph(model_runner=model_runner)"},
		frame{runner, 417, "__init__", "raise Exception("},
	), exception+": Capture "+kind+" failed: "+oom)
	return inner + "\nDuring handling of the above exception, another exception occurred:\n\n" + outer + hints + "\n"
}

func hostFrames() []frame {
	return startFrames(
		frame{"sglang/srt/managers/scheduler.py", 504, "__init__", "result = kv_cache_builder.build_kv_cache("},
		frame{"sglang/srt/mem_cache/kv_cache_builder.py", 239, "build_kv_cache", "tree_cache = create_tree_cache("},
		frame{"sglang/srt/mem_cache/registry.py", 210, "create_tree_cache", "cache = default_radix_cache_factory(ctx)"},
		frame{"sglang/srt/mem_cache/registry.py", 125, "default_radix_cache_factory", "cache = HiRadixCache(params=params, server_args=server_args)"},
		frame{"sglang/srt/mem_cache/hiradix_cache.py", 87, "__init__", "self.token_to_kv_pool_host = get_mha_host_pool_cls(self.kv_cache)("},
		frame{"sglang/srt/mem_cache/pool_host/base.py", 146, "__init__", "raise ValueError("},
	)
}

// loopFrames are where a serving scheduler stands in a forward pass.
func loopFrames(p *Profile, prefill bool) []frame {
	execute, line, model := "_execute_decode", 266, "llama.py"
	if prefill {
		execute, line = "_execute_extend", 331
	}
	if p.MLA {
		model = "deepseek_v2.py"
	}
	return []frame{
		{"sglang/srt/managers/scheduler.py", 4947, "run_scheduler_process", "scheduler.run_event_loop()"},
		{"sglang/srt/managers/scheduler.py", 1662, "run_event_loop", "dispatch_event_loop(self)"},
		{"sglang/srt/managers/scheduler.py", 4795, "dispatch_event_loop", "scheduler.event_loop_overlap()"},
		{"sglang/srt/managers/scheduler.py", 1763, "event_loop_overlap", "batch_result = self.run_batch(batch)"},
		{"sglang/srt/managers/scheduler.py", 3594, "run_batch", "batch_result = self.model_worker.forward_batch_generation("},
		{"sglang/srt/managers/tp_worker.py", 593, "forward_batch_generation", "out = self.model_runner.forward("},
		{"sglang/srt/model_executor/model_runner.py", 1427, "forward", "output = self._forward_raw("},
		{"sglang/srt/model_executor/model_runner.py", 1614, "_forward_raw", "ret = self.eager_runner.execute("},
		{"sglang/srt/model_executor/runner/eager_runner.py", 206, "execute", "return self." + execute + "(forward_batch, pp_proxy_tensors)"},
		{"sglang/srt/model_executor/runner/eager_runner.py", line, execute, "ret = model_runner.model.forward("},
		{"sglang/srt/models/" + model, 566, "forward", "hidden_states = self.model("},
		{"sglang/srt/models/" + model, 362, "forward", "hidden_states = self.mlp(hidden_states)"},
		{"sglang/srt/layers/linear.py", 474, "forward", "output_parallel = self.quant_method.apply(self, input_, bias)"},
	}
}

// oomText is what torch says when the device's memory runs out.
func oomText(p *Profile, gpu int, want, free int64) string {
	inUse := p.TorchCapacityGiB*gib - float64(free)
	return fmt.Sprintf("CUDA out of memory. Tried to allocate %s. GPU %d has a total capacity of %.2f GiB of which %s is free. Including non-PyTorch memory, this process has %.2f GiB memory in use. Of the allocated memory %.2f GiB is allocated by PyTorch, and %.2f MiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for Memory Management  (https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)",
		sizeText(want), gpu, p.TorchCapacityGiB, sizeText(free), inUse/gib, inUse/gib-0.75, 41.25)
}

func sizeText(bytes int64) string {
	if bytes >= gib {
		return fmt.Sprintf("%.2f GiB", float64(bytes)/gib)
	}
	return fmt.Sprintf("%.2f MiB", float64(max(0, bytes))/mib)
}
