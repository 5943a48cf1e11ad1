package simulate

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// unixSeconds is a time as Python's time.time() gives it.
func unixSeconds(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }

func round(f float64, digits int) json.RawMessage {
	return json.RawMessage(fmt.Sprintf("%.*f", digits, f))
}

func rawFloat(f float64) json.RawMessage { return json.RawMessage(pyFloat(f)) }

func (w *web) arg(name string) json.RawMessage {
	if raw, ok := w.l.args.get(name); ok {
		return raw
	}
	return json.RawMessage("null")
}

// modelInfo says what is served.
func (w *web) modelInfo(rw http.ResponseWriter, _ *http.Request) {
	l := w.l
	var o object
	o.set("model_path", w.arg("model_path"))
	if l.rel.zeroCached { // 0.5.23
		o.set("served_model_name", w.arg("served_model_name"))
	}
	o.set("tokenizer_path", w.arg("tokenizer_path"))
	o.set("is_generation", true)
	o.set("preferred_sampling_params", nil)
	o.set("weight_version", "default")
	if l.rel.zeroCached {
		o.set("load_format", w.arg("load_format"))
		o.set("reasoning_parser", w.arg("reasoning_parser"))
		o.set("tool_call_parser", w.arg("tool_call_parser"))
		o.set("disaggregation_mode", "null")
	}
	o.set("has_image_understanding", false)
	o.set("has_audio_understanding", false)
	o.set("model_type", l.p.ModelType)
	o.set("architectures", []string{l.p.Architecture})
	writeJSON(rw, http.StatusOK, o)
}

// models is the list of the OpenAI API: one model under its served name.
func (w *web) models(rw http.ResponseWriter, _ *http.Request) {
	var m object
	m.set("id", w.l.set.servedName)
	m.set("object", "model")
	m.set("created", time.Now().Unix())
	m.set("owned_by", "sglang")
	m.set("root", w.l.set.servedName)
	m.set("parent", nil)
	m.set("max_model_len", w.l.set.contextLength)
	var o object
	o.set("object", "list")
	o.set("data", []object{m})
	writeJSON(rw, http.StatusOK, o)
}

// serverInfo is all server args and the state of the scheduler. It hangs when the scheduler does.
func (w *web) serverInfo(rw http.ResponseWriter, r *http.Request) {
	if !w.sched.do(r.Context(), func() {}) {
		<-r.Context().Done()
		return
	}
	l := w.l
	startup := l.startupTime()
	state := l.args.clone()
	state.set("last_gen_throughput", w.sched.load.Load().gen)
	state.set("memory_usage", l.memoryUsage())
	state.set("startup_time", startup)
	state.set("effective_max_running_requests_per_dp", w.sched.maxRunning)
	o := l.args.clone()
	o.set("status", "ready")
	o.set("max_total_num_tokens", l.mem.tokens)
	o.set("max_req_input_len", w.maxInput())
	full := append(object(nil), startup...)
	full.set("tokenizer_e2e", round(l.timings.tokenizer, 6))
	o.set("startup_time", full)
	o.set("internal_states", []object{state})
	o.set("version", l.rel.version)
	o.set("kv_events", nil)
	writeJSON(rw, http.StatusOK, o)
}

func (l *launch) startupTime() object {
	var graph, o object
	graph.set("prefill", round(l.timings.prefill, 6))
	graph.set("decode", round(l.timings.decode, 6))
	for _, name := range []string{"target_verify", "draft_prefill", "draft_decode", "draft_extend"} {
		graph.set(name, json.RawMessage("0.0"))
	}
	o.set("load_weight", round(l.timings.weights, 6))
	o.set("kv_cache_allocation", round(l.timings.kv, 6))
	o.set("scheduler_e2e", round(l.timings.scheduler, 6))
	o.set("cuda_graph", graph)
	return o
}

// graphBytes are what prefill and decode graphs hold.
func (l *launch) graphBytes() (prefill, decode int64) {
	if l.mem.prefillGraph {
		prefill = l.mem.prefillGraphBytes()
	}
	if l.mem.maxDecodeBS > 0 {
		decode = l.mem.decodeGraphBytes()
	}
	return prefill, decode
}

func (l *launch) memoryUsage() object {
	prefill, decode := l.graphBytes()
	var graph, o object
	graph.set("prefill", round(float64(prefill)/gib, 3))
	graph.set("decode", round(float64(decode)/gib, 3))
	for _, name := range []string{"target_verify", "draft_prefill", "draft_decode", "draft_extend"} {
		graph.set(name, json.RawMessage("0.0"))
	}
	o.set("weight", round(float64(l.mem.weights)/gib, 3))
	o.set("kvcache", round(float64(l.mem.pool)/gib, 3))
	o.set("startup_available", round(float64(l.mem.headroom)/gib, 3))
	o.set("token_capacity", l.mem.tokens)
	o.set("token_capacity_swa", nil)
	o.set("graph", graph)
	return o
}

// maxInput is the longest prompt that may be sent.
func (w *web) maxInput() int { return w.maxLength() - 5 }

// maxLength is the longest sequence: what context and pool allow.
func (w *web) maxLength() int { return min(w.l.set.contextLength, w.l.mem.tokens) - 1 }

// loads is the state of the scheduler as of its last step: it stands still when the scheduler does.
func (w *web) loads(rw http.ResponseWriter, r *http.Request) {
	l, s := w.l, w.sched.load.Load()
	prefill, decode := l.graphBytes()
	usage := float64(s.used) / float64(s.total)
	g := w.gauges.Load()
	var memory, disagg, queues, load object
	memory.set("weight_gb", round(float64(l.mem.weights)/gib, 3))
	memory.set("kv_cache_gb", round(float64(l.mem.pool)/gib, 3))
	memory.set("graph_gb", round(float64(prefill+decode)/gib, 3))
	memory.set("token_capacity", l.mem.tokens)
	disagg.set("mode", "null")
	for _, name := range []string{"prefill_bootstrap_queue_reqs", "prefill_inflight_queue_reqs", "decode_prealloc_queue_reqs", "decode_transfer_queue_reqs", "decode_retracted_queue_reqs"} {
		disagg.set(name, 0)
	}
	disagg.set("kv_transfer_speed_gb_s", rawFloat(0))
	disagg.set("kv_transfer_latency_ms", rawFloat(0))
	queues.set("waiting", s.waiting)
	for _, name := range []string{"grammar", "paused", "retracted", "prealloc_ready"} {
		queues.set(name, 0)
	}
	load.set("timestamp", unixSeconds(s.at))
	load.set("dp_rank", 0)
	load.set("num_running_reqs", s.running)
	load.set("num_waiting_reqs", s.waiting)
	load.set("num_waiting_uncached_tokens", s.waitingTokens)
	load.set("num_used_tokens", s.used)
	load.set("num_total_tokens", s.used+s.waitingTokens)
	load.set("num_active_tokens", s.used)
	load.set("max_total_num_tokens", s.total)
	load.set("max_running_requests", w.sched.maxRunning)
	load.set("token_usage", round(usage, 4))
	load.set("gen_throughput", round(s.gen, 2))
	load.set("cache_hit_rate", round(g.hitRate, 4))
	load.set("utilization", rawFloat(0))
	load.set("total_prefill_uncached_tokens", w.sched.counts.prefillComputed.Load())
	load.set("total_prefill_busy_us", w.sched.counts.busyMicros.Load())
	if r.URL.Query().Get("format") == "prometheus" {
		writeBody(rw, http.StatusOK, "text/plain; version=0.0.4; charset=utf-8", promLoads(load, memory, queues))
		return
	}
	load.set("memory", memory)
	load.set("disaggregation", disagg)
	load.set("queues", queues)
	var o object
	o.set("timestamp", time.Now().UTC().Format("2006-01-02T15:04:05.000000+00:00"))
	o.set("version", l.rel.version)
	o.set("accelerator", l.p.GPUName)
	o.set("num_accelerators", l.set.tp)
	o.set("loads", []object{load})
	writeJSON(rw, http.StatusOK, o)
}

func promLoads(load, memory, queues object) []byte {
	var b strings.Builder
	write := func(prefix string, o object) {
		for _, f := range o {
			if f.name == "dp_rank" {
				continue
			}
			fmt.Fprintf(&b, "# TYPE sglang_%s%s gauge\nsglang_%s%s{dp_rank=\"0\"} %s\n", prefix, f.name, prefix, f.name, f.value)
		}
	}
	write("", load)
	write("memory_", memory)
	write("queues_", queues)
	return []byte(b.String())
}

// getLoad is the old form of loads.
func (w *web) getLoad(rw http.ResponseWriter, _ *http.Request) {
	s := w.sched.load.Load()
	var o object
	o.set("dp_rank", 0)
	o.set("num_reqs", s.running+s.waiting)
	o.set("num_waiting_reqs", s.waiting)
	o.set("num_tokens", s.used+s.waitingTokens)
	o.set("num_pending_tokens", s.waitingTokens)
	o.set("ts_tic", s.at.Sub(w.l.began).Seconds())
	writeJSON(rw, http.StatusOK, []object{o})
}

// Report is what GET /simulator answers: how well the simulation kept to its own time.
type Report struct {
	Profile   string  `json:"profile"`
	Speedup   float64 `json:"speedup"`
	Steps     int64   `json:"steps"`
	LateSteps int64   `json:"late_steps"` // that ended later than planned by more than their own length
	LostS     float64 `json:"lost_s"`     // real time by which the plan slipped for good, since it could not be made up for
	MaxLateMS float64 `json:"max_late_ms"`
}

func (w *web) simulator(rw http.ResponseWriter, _ *http.Request) {
	late := &w.sched.late
	writeJSON(rw, http.StatusOK, Report{
		Profile: w.l.p.Name, Speedup: w.l.speed, Steps: late.steps.Load(), LateSteps: late.late.Load(),
		LostS: float64(late.lostMicros.Load()) / 1e6, MaxLateMS: float64(late.maxMicro.Load()) / 1e3,
	})
}
