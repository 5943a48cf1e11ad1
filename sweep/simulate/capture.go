package simulate

import (
	"context"
	"fmt"
	"time"
)

// bootGraphs captures CUDA graphs: prefill first, then decode.
func (l *launch) bootGraphs(ctx context.Context) error {
	if err := l.phase(ctx, "graph"); err != nil {
		return err
	}
	s := l.set
	switch {
	case s.noPrefillGraph || s.chunk <= 0:
		l.log.ranks("Disable prefill CUDA graph because cuda_graph_config resolved prefill.backend='disabled' (e.g. via --cuda-graph-backend-prefill=disabled or auto-disable rules).")
	case !s.prefillGraphForced && !l.mem.gate():
		l.log.ranks("Disabling auto-selected prefill CUDA graph: only %s GiB is free after model/KV/eager-buffer allocation; at least 4.00 GiB is required for capture. Set an explicit prefill CUDA graph backend to override this safety gate.", gibText(l.mem.left()))
	default:
		began := time.Now()
		if err := l.capture(ctx, true, prefillBuckets(s.chunk), l.mem.prefillGraphBytes(), l.p.PrefillGraph); err != nil {
			return err
		}
		l.mem.prefillGraph = true
		l.timings.prefill = time.Since(began).Seconds()
	}
	if !s.noDecodeGraph {
		began := time.Now()
		l.mem.maxDecodeBS = s.decodeBS
		if err := l.capture(ctx, false, decodeBuckets(s.decodeBS), l.mem.decodeGraphBytes(), l.p.DecodeGraph); err != nil {
			return err
		}
		l.timings.decode = time.Since(began).Seconds()
	}
	l.mem.ready()
	return nil
}

// capture captures graphs from the largest shape to the smallest; most of the memory goes to the first.
func (l *launch) capture(ctx context.Context, prefill bool, sizes []int, bytes int64, seconds float64) error {
	began := time.Now()
	kind, label := "decode", "Capturing batches (bs=%d avail_mem=%s GB)"
	if prefill {
		kind, label = "prefill", "Capturing num tokens (num_tokens=%d avail_mem=%s GB)"
		l.log.ranks("Capture target prefill CUDA graph begin. backend=breakable, num_tokens=%s, avail mem=%s GB", pyInts(sizes), gibText(l.mem.left()))
	} else {
		l.log.ranks("Capture target decode CUDA graph begin. backend=full, num_tokens_per_req=1, bs=%s, avail mem=%s GB", pyInts(sizes), gibText(l.mem.left()))
	}
	left := func(done int) int64 {
		return l.mem.left() - min(bytes, bytes*int64(done+len(sizes)/4)/int64(len(sizes)))
	}
	bar := l.log.captureBar(len(sizes), func(done int) string {
		return fmt.Sprintf(label, sizes[len(sizes)-1-min(done, len(sizes)-1)], gibText(max(0, left(done))))
	})
	l.log.raw(fmt.Sprintf("\r  0%%|          | 0/%d [00:00<?, ?it/s]", len(sizes)))
	for i := range sizes {
		bar.show(i)
		if left(i) < 0 {
			l.log.raw("\n") // the bar is closed by the exception
			return l.startFailureText(0, captureText(prefill, oomText(l.p, 0, max(20*mib, bytes/int64(len(sizes))/2), max(0, l.mem.left()%(20*mib)))))
		}
		if err := l.spend(ctx, "graph", seconds/float64(len(sizes))); err != nil {
			return err
		}
	}
	if !l.mem.take(bytes) {
		l.log.raw("\n")
		return l.startFailureText(0, captureText(prefill, oomText(l.p, 0, 20*mib, max(0, l.mem.left()%(20*mib)))))
	}
	bar.show(len(sizes))
	l.log.ranks("Capture target %s CUDA graph end. elapsed=%.2f s, mem usage=%s GB, avail mem=%s GB.", kind, time.Since(began).Seconds(), gibText(bytes), gibText(l.mem.left()))
	return l.claim(l.mem.used())
}

// bootCache reports the pool, builds the prefix cache with its host tier, and readies the scheduler.
func (l *launch) bootCache(ctx context.Context) error {
	s := l.set
	running := min(max(int(float64(l.mem.tokens)/float64(s.contextLength)*512), 2048), 4096)
	if s.maxRunning > 0 {
		running = s.maxRunning
	}
	running = min(running, l.mem.tokens/2)
	if running <= 0 {
		return l.startFailure(0, startFrames(), "AssertionError: max_running_request is zero")
	}
	chunk := fmt.Sprint(s.chunk)
	l.log.rank(0, "max_total_num_tokens=%d, chunked_prefill_size=%s, max_prefill_tokens=%d, max_running_requests=%d, context_len=%d, available_gpu_mem=%s GB",
		l.mem.tokens, chunk, s.maxPrefill, running, s.contextLength, gibText(l.mem.headroom))
	if err := l.claim(l.mem.used()); err != nil {
		return err
	}
	c := newCache(l.mem.tokens, s.noRadix)
	if s.hicache {
		if err := l.bootHost(ctx, c); err != nil {
			return err
		}
	}
	l.logTree(s)
	l.timings.scheduler = time.Since(l.spawned).Seconds()
	l.timings.tokenizer = time.Since(l.began).Seconds()
	l.log.main("Engine startup timings (s): load_weight=%.2f, kv_cache_allocation=%.2f, scheduler_e2e=%.2f, cuda_graph={prefill=%.2f, decode=%.2f, target_verify=0.00, draft_prefill=0.00, draft_decode=0.00, draft_extend=0.00}, tokenizer_e2e=%.2f",
		l.timings.weights, l.timings.kv, l.timings.scheduler, l.timings.prefill, l.timings.decode, l.timings.tokenizer)
	l.sched = newScheduler(l.p, l.mem, c, limits{
		chunk: max(0, s.chunk), maxPrefill: max(s.maxPrefill, s.contextLength), maxRunning: running, maxQueued: s.maxQueued,
		conservativity: s.conservativity, logInterval: s.decodeLog, prefillRequests: s.prefillRequests, clip: clipFromEnviron(),
	}, l.speed)
	return nil
}

func (l *launch) logTree(s settings) {
	impl, hierarchical := l.rel.radixImpl, "False"
	if s.hicache {
		impl, hierarchical = l.rel.hiradixImpl, "True"
	}
	if s.noRadix {
		impl = "ChunkCache"
	}
	tail := ""
	if l.rel.streamingWrapped {
		tail = " streaming_wrapped=False"
	}
	if l.rel.unifiedTree != "" {
		l.log.ranks("%s", l.rel.unifiedTree)
	}
	l.log.ranks("Tree cache initialized: source=default impl=%s hybrid_swa=False hybrid_ssm=False %s=%s%s", impl, l.rel.treeField, hierarchical, tail)
}

// hangBytes of host memory are left when a host that is asked for too much stops responding: 449 GB were filled to 439.
const hangBytes = 10 * gb

// bootHost allocates the host tier of each rank. Each rank checks for room alone, and all at the same time, so together
// they may ask for more than there is: the host then fills up and nothing moves any more.
func (l *launch) bootHost(ctx context.Context, c *cache) error {
	s := l.set
	tokens, bytes := l.mem.hostPoolTokens(s.hicacheSize, s.hicacheRatio, s.pageSize)
	claims, err := liveClaims(l.p)
	if err != nil {
		return err
	}
	available := l.p.HostTotalBytes - l.p.HostIdleBytes - hostUse(claims)
	if err := checkHost(bytes, available); err != nil {
		return l.startFailure(0, hostFrames(), "ValueError: "+err.Error())
	}
	if tokens < l.mem.tokens {
		l.log.ranks("HiCache kv host pool (%d tokens) is smaller than the device pool (%d tokens);L2 cache effectiveness is reduced. Consider increasing --hicache-ratio or --hicache-size.", tokens, l.mem.tokens)
	}
	l.log.ranks("Allocating kv hierarchical KV host pool: %d tokens, %.2f GB host memory.", tokens, float64(bytes)/gb)
	if err := l.phase(ctx, "host_cache"); err != nil {
		return err
	}
	const parts = 20
	whole := bytes * int64(s.tp)
	for i := range int64(parts) {
		if whole*(i+1)/parts > available-hangBytes {
			<-ctx.Done() // the machine has no page left to give
			return context.Cause(ctx)
		}
		if err := l.spend(ctx, "host_cache", float64(whole)/parts/l.p.PinBytesPerS); err != nil {
			return err
		}
		l.host = bytes * (i + 1) / parts
		if err := l.claim(l.mem.used()); err != nil {
			return err
		}
	}
	c.host = &hostTier{total: tokens}
	return nil
}
