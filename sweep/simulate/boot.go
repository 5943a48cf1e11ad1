package simulate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

func sortedFlags(table map[string]*flagDef) []*flagDef {
	list := make([]*flagDef, 0, len(table))
	for _, d := range table {
		list = append(list, d)
	}
	slices.SortFunc(list, func(a, b *flagDef) int { return strings.Compare(a.name, b.name) })
	return list
}

// phase begins a phase of the start: this is where faults strike.
func (l *launch) phase(ctx context.Context, name string) error {
	if l.faults.at("hang", name) {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	if l.faults.at("die", name) {
		kids := l.kids.schedulers()
		if len(kids) == 0 {
			l.log.main("kill_process_tree called: parent_pid=%d, include_parent=False, pid=%d", os.Getpid(), os.Getpid())
			l.log.raw(traceback([]frame{{"sglang/launch_server.py", 71, "<module>", "run_server(server_args)"}}, "RuntimeError: simulated failure in phase "+name))
			return &ending{1}
		}
		l.crashScheduler()
		<-ctx.Done() // the death is noticed elsewhere
	}
	if err := l.strike(l.faults.due(name, 0)); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// spend passes the time of a phase.
func (l *launch) spend(ctx context.Context, phase string, seconds float64) error {
	l.sleep(ctx, seconds*l.faults.factor(phase))
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// boot goes through the phases until the schedulers are ready.
func (l *launch) boot(ctx context.Context) error {
	steps := []func(context.Context) error{l.bootArgs, l.bootProcesses, l.bootDist, l.bootWeights, l.bootKV, l.bootGraphs, l.bootCache}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// bootArgs resolves the server args and refuses what does not go together.
func (l *launch) bootArgs(ctx context.Context) error {
	if err := l.spend(ctx, "import", l.p.Import); err != nil {
		return err
	}
	if err := l.phase(ctx, "import"); err != nil {
		return err
	}
	l.log.main("Multimodal feature transport auto-resolved to cuda_ipc (single-node CUDA). Pass --mm-feature-transport=cpu to opt out.")
	l.log.main("Using CUDA IPC for multimodal features: reserving up to 1024 MiB on base GPU 0 across 1 tokenizer worker(s). This reduces KV cache headroom; a full pool falls back to CPU transport.")
	l.log.main("CUDA IPC pool-handle caching is enabled. It reuses mappings to the existing bounded pool without reserving another pool; set SGLANG_USE_IPC_POOL_HANDLE_CACHE=0 to disable it.")
	l.log.main("Fail to set RLIMIT_NOFILE: current limit exceeds maximum limit")
	if err := l.spend(ctx, "args", l.p.ServerArgs); err != nil {
		return err
	}
	if l.faults.has("no-model") {
		l.log.main("kill_process_tree called: parent_pid=%d, include_parent=False, pid=%d", os.Getpid(), os.Getpid())
		l.log.raw(traceback([]frame{
			{"sglang/launch_server.py", 71, "<module>", "run_server(server_args)"},
			{"sglang/srt/utils/hf_transformers_utils.py", 233, "get_config", "config = AutoConfig.from_pretrained("},
			{"transformers/utils/hub.py", 479, "cached_files", "raise OSError("},
		}, "OSError: It looks like the config file at '"+l.set.modelPath+"/config.json' is not a valid JSON file."))
		return &ending{1}
	}
	if err := l.resolve(); err != nil {
		return err
	}
	l.log.main("server_args=%s", l.args.repr(l.rel.argsAsDict))
	if bad := checkCombinations(l.set, l.p, l.args); bad != nil {
		l.log.main("kill_process_tree called: parent_pid=%d, include_parent=False, pid=%d", os.Getpid(), os.Getpid())
		l.log.raw(traceback([]frame{
			{"sglang/launch_server.py", 71, "<module>", "run_server(server_args)"},
			{"sglang/srt/entrypoints/engine.py", 1054, "_launch_subprocesses", "server_args.check_server_args()"},
			{"sglang/srt/server_args.py", 8761, "check_server_args", bad.check},
		}, bad.kind+": "+bad.text))
		return &ending{1}
	}
	if err := l.phase(ctx, "args"); err != nil {
		return err
	}
	l.log.main("Using default HuggingFace chat template with detected content format: string")
	return nil
}

// resolve fills in what SGLang chooses for itself, from the size of the GPU.
func (l *launch) resolve() error {
	s, p := &l.set, l.p
	tokenizer, err := writeTokenizer(p, StateDir(p))
	if err != nil {
		return err
	}
	if s.servedName == "" {
		s.servedName = s.modelPath
	}
	if s.chunk == 0 {
		s.chunk = chunkSize(p.GPUTotalMiB)
	}
	if s.decodeBS == 0 {
		s.decodeBS = defaultDecodeBS(p.GPUTotalMiB, s.tp)
	}
	if s.maxRunning > 0 {
		s.decodeBS = min(s.decodeBS, max(1, s.maxRunning))
	}
	if s.fraction == 0 && !l.given["mem_fraction_static"] {
		s.fraction = defaultFraction(p.GPUTotalMiB, s.tp, s.chunk, s.decodeBS, p.MLA)
	}
	if s.contextLength == 0 {
		s.contextLength = p.ContextLength
	}
	if s.hicacheRatio == 0 {
		s.hicacheRatio = 2
	}
	a := &l.args
	a.set("tokenizer_path", tokenizer)
	a.set("served_model_name", s.servedName)
	a.set("chunked_prefill_size", s.chunk)
	a.set("mem_fraction_static", rawFloat(s.fraction))
	for name, value := range map[string]any{"attention_backend": "flashinfer", "sampling_backend": "flashinfer", "random_seed": 600_000_000 + os.Getpid()} {
		if !l.given[name] {
			a.set(name, value)
		}
	}
	phase := func(off bool, backend string, bs []int) map[string]any {
		if off {
			backend = "disabled"
		}
		return map[string]any{"backend": backend, "max_bs": bs[len(bs)-1], "bs": bs, "tc_compiler": "eager"}
	}
	a.set("cuda_graph_config", map[string]any{
		"decode":  phase(s.noDecodeGraph, "full", decodeBuckets(s.decodeBS)),
		"prefill": phase(s.noPrefillGraph, "breakable", prefillBuckets(max(4, s.chunk))),
	})
	return nil
}

// bootProcesses starts the schedulers and the detokenizer.
func (l *launch) bootProcesses(ctx context.Context) error {
	l.spawned = time.Now()
	var err error
	if l.gpus, err = visibleGPUs(l.p, os.Getenv("CUDA_VISIBLE_DEVICES")); err != nil {
		return err
	}
	for i := range l.set.tp {
		if _, err := l.kids.spawn("scheduler", i, l.stdout, l.log.w); err != nil {
			return err
		}
	}
	if _, err := l.kids.spawn("detokenizer", 0, l.stdout, l.log.w); err != nil {
		return err
	}
	if l.faults.has("leave-child") {
		if _, err := l.kids.spawn("leftover", 0, l.stdout, l.log.w); err != nil {
			return err
		}
	}
	if err := l.bootEscapes(); err != nil {
		return err
	}
	if err := l.spend(ctx, "dist", l.p.Spawn); err != nil {
		return err
	}
	if l.set.tp > len(l.gpus) {
		return l.startFailure(len(l.gpus), startFrames(), "torch.AcceleratorError: CUDA error: invalid device ordinal\nGPU device may be out of range, do you have enough GPUs?\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.")
	}
	return nil
}

// visibleGPUs reads CUDA_VISIBLE_DEVICES: indexes or UUIDs; empty: all.
func visibleGPUs(p *Profile, list string) ([]int, error) {
	var gpus []int
	if strings.TrimSpace(list) == "" {
		for i := range p.GPUCount {
			gpus = append(gpus, i)
		}
		return gpus, nil
	}
	for word := range strings.SplitSeq(list, ",") {
		word = strings.TrimSpace(word)
		i, err := strconv.Atoi(word)
		for j := range p.GPUCount {
			if err != nil && word != "" && strings.HasPrefix(p.UUID(j), word) {
				i, err = j, nil
			}
		}
		if err != nil || i < 0 || i >= p.GPUCount {
			break // CUDA ignores what follows an unknown device
		}
		gpus = append(gpus, i)
	}
	return gpus, nil
}

// startFailure is a scheduler's exception before it serves: the launched process kills its tree and itself at once.
func (l *launch) startFailure(rank int, frames []frame, exception string) error {
	return l.startFailureText(rank, traceback(frames, exception))
}

func (l *launch) startFailureText(rank int, text string) error {
	l.log.rank(rank, "Scheduler hit an exception: %s", text)
	l.log.main("Received sigquit from a child process. It usually means the child failed.")
	l.log.main("kill_process_tree called: parent_pid=%d, include_parent=True, pid=%d", os.Getpid(), os.Getpid())
	return &ending{-9}
}

func (l *launch) oom(want int64) string {
	return "torch.OutOfMemoryError: " + oomText(l.p, 0, want, max(0, l.mem.left()))
}

// bootDist joins the ranks and looks at what memory is free.
func (l *launch) bootDist(ctx context.Context) error {
	claims, err := liveClaims(l.p)
	if err != nil {
		return err
	}
	var least, most int64 = 1 << 62, 0
	for _, g := range l.gpus[:l.set.tp] {
		used := gpuUse(claims, g)
		least, most = min(least, used), max(most, used)
	}
	l.mem = newMemory(l.p, l.set.tp, kvFactor(l.set.kvDtype), most)
	if l.rel.parallelInit {
		l.log.ranks("Init parallel begin.")
	} else {
		l.log.ranks("Init torch distributed begin.")
	}
	if err := l.phase(ctx, "dist"); err != nil {
		return err
	}
	began := time.Now()
	if err := l.spend(ctx, "dist", l.p.Dist); err != nil {
		return err
	}
	if elapsed := time.Since(began).Seconds(); l.rel.parallelInit {
		l.log.ranks("Init parallel ends. elapsed=%.2f s", elapsed)
		l.log.ranks("Memory baseline taken. mem usage=%.2f GB", l.distUsage())
	} else {
		l.log.ranks("Init torch distributed ends. elapsed=%.2f s, mem usage=%.2f GB", elapsed, l.distUsage())
	}
	if free := l.p.FreeAtStartBytes; l.set.tp > 1 && float64(free-most) < 0.9*float64(free-least) {
		return l.startFailure(0, startFrames(), fmt.Sprintf("RuntimeError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes. pre_model_load_memory=%s, local_gpu_memory=%s, local_gpu_memory * 0.9=%s",
			gibText(free-most), gibText(free-least), gibText((free-least)*9/10)))
	}
	l.log.ranks("Ignore import error when loading sglang.srt.models.inkling: No module named 'helion'") // looks like a fault and is none
	return l.claim(l.mem.used())
}

// distUsage is what joining the ranks adds, in GiB: all that is gone before the weights, less the context of about half a GiB
// that a process takes as soon as it touches the device.
func (l *launch) distUsage() float64 {
	return float64((l.p.GPUTotalMiB-l.p.GPUReservedMiB)*mib-l.p.FreeAtStartBytes)/gib - 0.5
}

func kvFactor(dtype string) float64 {
	switch {
	case strings.HasPrefix(dtype, "fp8"), dtype == "mxfp8":
		return 0.5
	case strings.HasPrefix(dtype, "fp4"), dtype == "nvfp4":
		return 0.25
	}
	return 1
}

// bootWeights loads the checkpoint shard by shard.
func (l *launch) bootWeights(ctx context.Context) error {
	began := time.Now()
	l.log.ranks("Load weight begin. avail mem=%s GB", gibText(l.mem.left()))
	if err := l.phase(ctx, "weights"); err != nil {
		return err
	}
	before := l.mem.used()
	if !l.mem.loadWeights() {
		return l.startFailure(0, weightFrames(), l.oom(l.mem.weights/int64(l.p.Shards)))
	}
	whole := l.mem.used() - before
	bar := l.log.shardBar(l.p.Shards)
	bar.show(0)
	for i := range l.p.Shards {
		if err := l.spend(ctx, "weights", 1/l.p.ShardsPerS); err != nil {
			return err
		}
		bar.show(i + 1)
		if i%4 == 3 {
			if err := l.claim(before + whole*int64(i+1)/int64(l.p.Shards)); err != nil {
				return err
			}
		}
	}
	l.timings.weights = time.Since(began).Seconds()
	l.log.ranks("Load weight end. elapsed=%.2f s, type=%s, avail mem=%s GB, mem usage=%s GB.", l.timings.weights, l.p.Architecture, gibText(l.mem.left()), gibText(l.mem.weights))
	return l.claim(l.mem.used())
}

// bootKV sizes and allocates the KV pool.
func (l *launch) bootKV(ctx context.Context) error {
	began := time.Now()
	if err := l.phase(ctx, "kv"); err != nil {
		return err
	}
	if err := l.spend(ctx, "kv", l.p.KVAlloc); err != nil {
		return err
	}
	err := l.mem.sizeKV(l.set.fraction, l.set.pageSize, 0)
	if low := (*tooLowError)(nil); errors.As(err, &low) {
		return l.startFailure(0, tooLowFrames(), "ValueError: "+low.Error())
	}
	if asked := l.set.maxTotalTokens; asked > l.mem.tokens {
		l.log.ranks("max_total_tokens=%d is larger than the profiled value %d. Use the profiled value instead.", asked, l.mem.tokens)
	} else if asked > 0 {
		_ = l.mem.sizeKV(l.set.fraction, l.set.pageSize, asked) // it went well without the cap
	}
	if failed := l.mem.allocateKV(); failed > 0 {
		return l.startFailure(0, kvFrames(), l.oom(failed))
	}
	dtype := "torch.bfloat16"
	if f := kvFactor(l.set.kvDtype); f < 1 {
		dtype = "torch.float8_e4m3fn"
	}
	if l.p.MLA {
		l.log.ranks("KV Cache is allocated. dtype: %s, #tokens: %d, KV size: %s GB", dtype, l.mem.tokens, gibText(l.mem.pool))
	} else {
		l.log.ranks("KV Cache is allocated. dtype: %s, #tokens: %d, K size: %s GB, V size: %s GB", dtype, l.mem.tokens, gibText(l.mem.pool/2), gibText(l.mem.pool/2))
	}
	l.log.ranks("Memory pool end. avail mem=%s GB", gibText(l.mem.left()))
	l.timings.kv = time.Since(began).Seconds()
	if !l.mem.eagerBuffers() {
		return l.startFailure(0, eagerFrames(), l.oom(l.p.EagerBufferBytes))
	}
	return l.claim(l.mem.used())
}
