package simulate

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// gauges are the scheduler's gauges: SGLang refreshes them with each prefill and each decode line only, so they may be old.
type gauges struct {
	running, waiting, used, free, evictable int
	usage, gen, hitRate, ratio              float64
	hostUsed, hostTotal                     int
}

func gaugesOf(s *scheduler, throughput float64, prefill bool) *gauges {
	g := &gauges{
		running: len(s.running), waiting: len(s.waiting), used: s.cache.usedTokens(), free: s.cache.free, evictable: s.cache.evictable,
		ratio: s.ratio,
	}
	g.usage = float64(g.used) / float64(s.cache.total)
	if !prefill {
		g.gen = throughput
	} else if old := s.load.Load(); old != nil {
		g.gen = old.gen
	}
	if cached, computed := float64(s.lastCached), float64(s.lastComputed); prefill && cached+computed > 0 {
		g.hitRate = cached / (cached + computed)
	}
	if h := s.cache.host; h != nil {
		g.hostUsed, g.hostTotal = h.used, h.total
	}
	return g
}

// histogram is a Prometheus histogram.
type histogram struct {
	bounds []float64
	counts []int64
	sum    float64
	n      int64
}

func (h *histogram) add(v float64) {
	i, _ := slices.BinarySearch(h.bounds, v)
	if i < len(h.counts) {
		h.counts[i]++
	}
	h.sum += v
	h.n++
}

var (
	latencyBounds = []float64{0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400}
	itlBounds     = []float64{0.002, 0.004, 0.006, 0.008, 0.01, 0.015, 0.02, 0.025, 0.03, 0.035, 0.04, 0.06, 0.08, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8}
)

// byStream are the counters that SGLang keeps for streams and others apart.
type byStream struct {
	prompt, generated, requests int64
	ttft, e2e                   histogram
}

// tally counts what the HTTP side sees.
type tally struct {
	mu                       sync.Mutex
	requests, responses      map[string]int64 // by label text
	streams                  [2]byStream
	queue, itl               histogram
	aborted                  int64
	cachedDevice, cachedHost int64
	active                   int64
}

func (t *tally) init() {
	t.requests, t.responses = map[string]int64{}, map[string]int64{}
	for i := range t.streams {
		t.streams[i].ttft = newHistogram(latencyBounds)
		t.streams[i].e2e = newHistogram(latencyBounds)
	}
	t.queue, t.itl = newHistogram(latencyBounds), newHistogram(itlBounds)
}

func newHistogram(bounds []float64) histogram {
	return histogram{bounds: bounds, counts: make([]int64, len(bounds))}
}

func (t *tally) request(path, method string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.requests[fmt.Sprintf("{endpoint=%q,method=%q}", path, method)]++
	t.active++
}

func (t *tally) response(path, method string, status int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.responses[fmt.Sprintf("{endpoint=%q,method=%q,status_code=\"%d\"}", path, method, status)]++
	t.active--
}

// finished counts a request at its end.
func (t *tally) finished(r *request, p progress) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p.done == nil || p.done.Type == "abort" {
		t.aborted++
		return
	}
	s := &t.streams[0]
	if r.stream {
		s = &t.streams[1]
	}
	s.prompt += int64(len(r.prompt))
	s.generated += int64(p.tokens)
	s.requests++
	s.ttft.add(p.first.Sub(r.received).Seconds())
	s.e2e.add(p.ended.Sub(r.received).Seconds())
	t.queue.add(p.queued.Seconds())
	if p.tokens > 1 {
		mean := p.ended.Sub(p.first).Seconds() / float64(p.tokens-1)
		for range p.tokens - 1 {
			t.itl.add(mean)
		}
	}
	t.cachedHost += int64(p.cachedHost)
	t.cachedDevice += int64(p.cached - p.cachedHost)
}

// page writes the text format of Prometheus.
type page struct {
	b     strings.Builder
	sched string // labels of the scheduler's series
	tok   string // labels of the tokenizer's
}

func (p *page) head(name, kind, help string) {
	fmt.Fprintf(&p.b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

func (p *page) line(name, labels string, v float64) {
	if labels != "" {
		labels = "{" + labels + "}"
	}
	text := strconv.FormatFloat(v, 'g', -1, 64)
	if !strings.ContainsAny(text, ".eIN") {
		text += ".0"
	}
	fmt.Fprintf(&p.b, "%s%s %s\n", name, labels, text)
}

// gauge writes a gauge of the scheduler.
func (p *page) gauge(name, help string, v float64) {
	p.head("sglang:"+name, "gauge", help)
	p.line("sglang:"+name, p.sched, v)
}

func (p *page) histogram(name, help string, labelled map[string]*histogram) {
	p.head("sglang:"+name, "histogram", help)
	for _, l := range slices.Sorted(maps.Keys(labelled)) {
		h := labelled[l]
		p.line("sglang:"+name+"_sum", l, h.sum)
		total := int64(0)
		for i, bound := range h.bounds {
			total += h.counts[i]
			p.line("sglang:"+name+"_bucket", fmt.Sprintf("%s,le=%q", l, pyFloat(bound)), float64(total))
		}
		p.line("sglang:"+name+"_bucket", l+`,le="+Inf"`, float64(h.n))
		p.line("sglang:"+name+"_count", l, float64(h.n))
	}
}

// counts writes a counter for each set of labels.
func (p *page) counts(name, help string, by map[string]int64) {
	p.head(name, "counter", help)
	for _, l := range slices.Sorted(maps.Keys(by)) {
		p.line(name, strings.Trim(l, "{}"), float64(by[l]))
	}
}

// metrics is the page that Prometheus scrapes.
func (w *web) metrics(rw http.ResponseWriter, _ *http.Request) {
	model := fmt.Sprintf("model_name=%q", w.l.set.servedName)
	p := &page{sched: `engine_type="unified",` + model + `,moe_ep_rank="0",pp_rank="0",tp_rank="0"`, tok: `engine_type="unified",` + model}
	w.schedulerMetrics(p)
	w.tokenizerMetrics(p, model)
	writeBody(rw, http.StatusOK, "text/plain; version=0.0.4; charset=utf-8", []byte(p.b.String()))
}

func (w *web) schedulerMetrics(p *page) {
	l, g, c, load := w.l, w.gauges.Load(), &w.sched.counts, w.sched.load.Load()
	p.head("sglang:num_retracted_reqs", "gauge", "The number of retracted requests.")
	p.line("sglang:num_retracted_reqs", strings.Replace(p.sched, `,pp_rank`, fmt.Sprintf(`,pid="%d",pp_rank`, os.Getpid()+1), 1), 0)
	p.gauge("max_total_num_tokens", "Maximum total number of tokens in the KV cache pool.", float64(l.mem.tokens))
	p.gauge("weight_memory_usage_gb", "Memory used by model weights in GB.", float64(l.mem.weights)/gib)
	p.gauge("kv_cache_memory_usage_gb", "Memory used by the KV cache pools in GB.", float64(l.mem.pool)/gib)
	prefill, decode := l.graphBytes()
	p.head("sglang:graph_memory_usage_gb", "gauge", "Memory used by captured device graphs in GB.")
	p.line("sglang:graph_memory_usage_gb", strings.Replace(p.sched, ",pp_rank", `,phase="prefill",pp_rank`, 1), float64(prefill)/gib)
	p.line("sglang:graph_memory_usage_gb", strings.Replace(p.sched, ",pp_rank", `,phase="decode",pp_rank`, 1), float64(decode)/gib)
	p.gauge("page_size", "KV cache page size in tokens.", float64(l.set.pageSize))
	p.gauge("num_pages", "Number of KV cache pages.", float64(l.mem.tokens/l.set.pageSize))
	p.gauge("context_len", "Maximum context length.", float64(l.set.contextLength))
	p.gauge("startup_available_gpu_memory_gb", "Available GPU memory in GB at startup.", float64(l.mem.headroom)/gib)
	p.gauge("num_running_reqs", "The number of running requests.", float64(g.running))
	p.gauge("num_queue_reqs", "The number of requests in the waiting queue.", float64(g.waiting))
	p.gauge("gen_throughput", "The generation throughput (token/s).", g.gen)
	p.gauge("cache_hit_rate", "The prefix cache hit rate.", g.hitRate)
	p.gauge("token_usage", "The token usage.", g.usage)
	p.gauge("full_token_usage", "The token usage for full attention layers.", g.usage)
	p.gauge("num_used_tokens", "The number of used tokens.", float64(g.used))
	p.gauge("kv_available_tokens", "Number of free token slots in the KV cache pool.", float64(g.free))
	p.gauge("kv_evictable_tokens", "Number of evictable (radix-cached) token slots in the KV cache pool.", float64(g.evictable))
	p.gauge("kv_used_tokens", "Number of actively used token slots in the KV cache pool.", float64(g.used))
	p.gauge("new_token_ratio", "The new token ratio.", g.ratio)
	p.gauge("utilization", "The utilization.", 0)
	p.gauge("is_cuda_graph", "Whether the batch is using CUDA graph.", 1)
	if load.hostTotal > 0 {
		p.gauge("hicache_host_used_tokens", "Number of tokens currently used in the host KV cache.", float64(load.hostUsed))
		p.gauge("hicache_host_total_tokens", "Total capacity of the host KV cache in tokens.", float64(load.hostTotal))
	}
	w.workCounters(p, c)
	w.cacheCounters(p, load)
}

// workCounters count work as it happens.
func (w *web) workCounters(p *page, c *counters) {
	p.head("sglang:realtime_tokens_total", "counter", "Total number of tokens processed (updated on each log interval). mode: prefill_compute, prefill_cache, decode.")
	decoded := c.decoded.Load()
	if w.l.rel.decodeOnly {
		decoded -= c.firsts.Load()
	}
	for _, m := range []struct {
		name string
		n    int64
	}{{"prefill_compute", c.prefillComputed.Load()}, {"decode", decoded}, {"prefill_cache", c.prefillCached.Load()}} {
		if m.n > 0 {
			p.line("sglang:realtime_tokens_total", strings.Replace(p.sched, ",model_name", fmt.Sprintf(",mode=%q,model_name", m.name), 1), float64(m.n))
		}
	}
	p.head("sglang:cuda_graph_passes_total", "counter", "Total number of forward passes categorized by CUDA graph.")
	for _, m := range []struct {
		name string
		n    int64
	}{{"prefill_cuda_graph", c.prefillGraphSteps.Load()}, {"decode_cuda_graph", c.decodeSteps.Load()}, {"prefill_none", c.prefillPlainSteps.Load()}} {
		if m.n > 0 {
			p.line("sglang:cuda_graph_passes_total", strings.Replace(p.sched, ",model_name", fmt.Sprintf(",mode=%q,model_name", m.name), 1), float64(m.n))
		}
	}
	if n := c.retracted.Load(); n > 0 {
		p.head("sglang:num_retracted_requests_total", "counter", "Total number of retracted requests.")
		p.line("sglang:num_retracted_requests_total", p.sched, float64(n))
		p.head("sglang:num_retracted_input_tokens_total", "counter", "Total number of retracted input tokens.")
		p.line("sglang:num_retracted_input_tokens_total", p.sched, float64(c.retractedIn.Load()))
		p.head("sglang:num_retracted_output_tokens_total", "counter", "Total number of retracted output tokens.")
		p.line("sglang:num_retracted_output_tokens_total", p.sched, float64(c.retractedOut.Load()))
	}
}

// cacheCounters count evictions and copies from the host's tier; they carry the cache's type alone.
func (w *web) cacheCounters(p *page, load *loadSnapshot) {
	kind := w.l.rel.radixImpl
	if load.hostTotal > 0 {
		kind = w.l.rel.hiradixImpl
	}
	labels := fmt.Sprintf("cache_type=%q", kind)
	if load.evicted > 0 {
		p.head("sglang:evicted_tokens_total", "counter", "The number of tokens evicted from GPU to CPU.")
		p.line("sglang:evicted_tokens_total", labels, float64(load.evicted))
	}
	if load.loadedBack > 0 {
		p.head("sglang:load_back_tokens_total", "counter", "The number of tokens loaded from CPU to GPU.")
		p.line("sglang:load_back_tokens_total", labels, float64(load.loadedBack))
	}
}

// tokenizerMetrics are what the HTTP side counts at a request's end.
func (w *web) tokenizerMetrics(p *page, model string) {
	t := &w.tally
	t.mu.Lock()
	defer t.mu.Unlock()
	p.counts("sglang:http_requests_total", "Total number of HTTP requests by endpoint and method", t.requests)
	p.counts("sglang:http_responses_total", "Total number of HTTP responses by endpoint and status code", t.responses)
	ttft, e2e := map[string]*histogram{}, map[string]*histogram{}
	series := []struct {
		name, help string
		value      func(*byStream) int64
	}{
		{"prompt_tokens_total", "Number of prefill tokens processed.", func(s *byStream) int64 { return s.prompt }},
		{"generation_tokens_total", "Number of generation tokens processed.", func(s *byStream) int64 { return s.generated }},
		{"num_requests_total", "Number of requests processed.", func(s *byStream) int64 { return s.requests }},
	}
	label := func(i int) string {
		return fmt.Sprintf(`engine_type="unified",is_streaming="%t",%s`, i == 1, model)
	}
	for _, s := range series {
		p.head("sglang:"+s.name, "counter", s.help)
		for i := range t.streams {
			if t.streams[i].requests > 0 {
				p.line("sglang:"+s.name, label(i), float64(s.value(&t.streams[i])))
			}
		}
	}
	for i := range t.streams {
		if t.streams[i].requests > 0 {
			ttft[label(i)], e2e[label(i)] = &t.streams[i].ttft, &t.streams[i].e2e
		}
	}
	if t.cachedDevice+t.cachedHost > 0 {
		p.head("sglang:cached_tokens_total", "counter", "Number of cached prompt tokens by source (device/host/storage).")
		for _, c := range []struct {
			name string
			n    int64
		}{{"device", t.cachedDevice}, {"host", t.cachedHost}} {
			if c.n > 0 {
				p.line("sglang:cached_tokens_total", fmt.Sprintf("cache_source=%q,", c.name)+p.tok, float64(c.n))
			}
		}
	}
	if t.aborted > 0 {
		p.head("sglang:num_aborted_requests_total", "counter", "Number of requests aborted.")
		p.line("sglang:num_aborted_requests_total", p.tok, float64(t.aborted))
	}
	p.histogram("time_to_first_token_seconds", "Histogram of time to first token in seconds.", ttft)
	p.histogram("e2e_request_latency_seconds", "Histogram of End-to-end request latency in seconds", e2e)
	p.histogram("inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", map[string]*histogram{p.tok: &t.itl})
	p.histogram("queue_time_seconds", "Histogram of queueing time in seconds.", map[string]*histogram{p.sched: &t.queue})
}
