package engine

import (
	"maps"
	"os"
	"reflect"
	"slices"
	"testing"

	"sweep/sweep"
)

// What real logs state. A fact that is not named here must be absent.
func TestFacts(t *testing.T) {
	all := logs(t)
	for name, want := range map[string]sweep.Values{
		"sglang/good": {"kv_tokens": 801018, "weights_gib": 13.5, "avail_after_weights_gib": 125.62, "graph_gib": 1.61, "headroom_gib": 25.48,
			"max_running_requests": 4096, "context_length": 32768, "chunked_prefill_size": 8192},
		"sglang/i_mla": {"kv_tokens": 7922467, "weights_gib": 1.53, "avail_after_weights_gib": 137.6, "headroom_gib": 68.58,
			"max_running_requests": 4096, "context_length": 32768, "chunked_prefill_size": 8192},
		"sglang/f_big60": {"kv_tokens": 40000, "weights_gib": 13.5, "avail_after_weights_gib": 125.62, "headroom_gib": 120.27, "host_pool_tokens": 457764,
			"host_pool_gb": 60, "max_running_requests": 2048, "context_length": 32768, "chunked_prefill_size": 8192},
		"sglang/tp2_hicache": {"kv_tokens": 1701949, "weights_gib": 6.77, "avail_after_weights_gib": 131.54, "headroom_gib": 26.85, "host_pool_tokens": 122071,
			"host_pool_gb": 8, "max_running_requests": 4096, "context_length": 32768, "chunked_prefill_size": 8192},
		"sglang/tp2_one_rank_oom": {"kv_tokens": 1694044, "weights_gib": 6.77, "avail_after_weights_gib": 130.94, "headroom_gib": 26.92, // of rank 1, which has less
			"max_running_requests": 4096, "context_length": 32768, "chunked_prefill_size": 8192},
		"sglang/b_low":                    {"weights_gib": 13.5, "avail_after_weights_gib": 125.62},
		"sglang/c_993":                    {"kv_tokens": 1021091, "weights_gib": 13.5, "avail_after_weights_gib": 125.62, "headroom_gib": 0.35},
		"sglang/report_C04":               {"weights_gib": 166.67, "avail_after_weights_gib": 21.4}, // a capacity of −561,918 is none
		"sglang/report_C10":               {"kv_tokens": 55296, "weights_gib": 8.42, "avail_after_weights_gib": 13.07, "headroom_gib": 6.6},
		"sglang/report_OK_sglang_2025-01": {"kv_tokens": 444010, "avail_after_weights_gib": 63.72, "headroom_gib": 8.4, "max_running_requests": 2049, "context_length": 131072},
		"sglang/report_OK_sglang_2026-05": {"kv_tokens": 1706880, "weights_gib": 15.28, "avail_after_weights_gib": 260.48, "graph_gib": 2.92, "headroom_gib": 21.24,
			"max_running_requests": 4096, "context_length": 40960, "chunked_prefill_size": 16384},
		"sglang/report_OK_sglang_2026-09": {"kv_tokens": 12288, "graph_gib": 0.61, "headroom_gib": 8},
		"sglang/cpu_tiny_pool": {"kv_tokens": 64, "weights_gib": 0, "avail_after_weights_gib": 20.33, "headroom_gib": 20.3,
			"max_running_requests": 32, "context_length": 2048, "chunked_prefill_size": 4096},
		"llamacpp/good":   {"kv_tokens": 4096, "context_length": 1024, "max_running_requests": 4},
		"llamacpp/np_64":  {"kv_tokens": 16384, "context_length": 256, "max_running_requests": 64},
		"llamacpp/ctx_1M": {"kv_tokens": 1048576, "context_length": 8192, "max_running_requests": 4},
		"llamacpp/ctx_4M": {},
	} {
		file := "testdata/" + name + ".log"
		_, facts, _ := examine(t, all[file], file)
		if !maps.Equal(facts, want) {
			t.Errorf("%s: have %v\nwant %v", name, facts, want)
		}
	}
}

func TestNotes(t *testing.T) {
	all := logs(t)
	for name, want := range map[string][]string{
		"sglang/good":             nil,
		"sglang/c_99":             {"prefill graphs dropped by the server: 0.71 GiB free, 4.00 GiB needed"},
		"sglang/f_ratio":          {"host cache of 20001 tokens is smaller than the device's pool of 40000"},
		"sglang/e_retract":        {"requests were retracted for lack of KV pool"},
		"sglang/cpu_retraction":   {"KV pool of 1024 tokens is smaller than the context of 2048: longer requests are refused", "requests were retracted for lack of KV pool"},
		"sglang/report_C48a_warn": {"the server's own count of its KV pool does not add up (a warning)"},
		"llamacpp/np_64":          {"ctx-size: rounded to 16384 by the server"},
		"llamacpp/report_C35":     {"pipeline parallelism off: its buffers did not fit"},
	} {
		file := "testdata/" + name + ".log"
		if _, _, notes := examine(t, all[file], file); !slices.Equal(notes, want) {
			t.Errorf("%s: have %q, want %q", name, notes, want)
		}
	}
}

func TestPhasesOfAStart(t *testing.T) {
	all := logs(t)
	start := []sweep.Phase{sweep.PhaseDist, sweep.PhaseWeights, sweep.PhaseKV, sweep.PhaseGraph, sweep.PhaseHostCache, sweep.PhaseWarmup, sweep.PhaseReady}
	for name, want := range map[string][]sweep.Phase{
		"sglang/good":    start,
		"sglang/f_big60": start,
		"sglang/tp2_hicache": { // each of two ranks has its own
			sweep.PhaseDist, sweep.PhaseDist, sweep.PhaseWeights, sweep.PhaseWeights, sweep.PhaseKV, sweep.PhaseKV, sweep.PhaseGraph, sweep.PhaseGraph,
			sweep.PhaseHostCache, sweep.PhaseHostCache, sweep.PhaseWarmup, sweep.PhaseWarmup, sweep.PhaseWarmup, sweep.PhaseReady,
		},
		"sglang/cpu_retraction":  start,
		"sglang/cpu_port_in_use": start[:6], // "fired up and ready" there speaks of another server
		"sglang/h_term_loading":  start[:2],
		"llamacpp/good":          {sweep.PhaseWeights, sweep.PhaseWarmup, sweep.PhaseReady},
		"llamacpp/ctx_4M":        {sweep.PhaseWeights, sweep.PhaseKV},
		"llamacpp/port_in_use":   nil,
	} {
		file := "testdata/" + name + ".log"
		a, _, _ := examine(t, all[file], file)
		var got []sweep.Phase
		for _, p := range a.Phases {
			got = append(got, p.Phase)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: have %v, want %v", name, got, want)
		}
	}
}

func TestProgress(t *testing.T) {
	for line, want := range map[string]sweep.LogEvent{
		"Loading safetensors checkpoint shards:  97% Completed | 62/64 [00:34<00:01,  1.80it/s]\r":                   {Text: "weights 62/64 · 1.8/s", Phase: sweep.PhaseWeights, Value: 62.0 / 64},
		"Loading safetensors checkpoint shards:  67% Completed | 2/3 [00:04<00:02,  2.00s/it]\r":                     {Text: "weights 2/3 · 0.5/s", Phase: sweep.PhaseWeights, Value: 2.0 / 3},
		"Capturing batches (bs=24 avail_mem=6.50 GB):   0%|          | 0/7 [00:00<?, ?it/s]\r":                       {Text: "graph 0/7", Phase: sweep.PhaseGraph},
		"Capturing num tokens (num_tokens=16 avail_mem=24.63 GB):  95%|█████████▍| 55/58 [00:08<00:00, 11.37it/s]\r": {Text: "graph 55/58 · 11.4/s", Phase: sweep.PhaseGraph, Value: 55.0 / 58},
		"DeepGEMM warmup:  26%|██▌       | 4259/16384 [00:06<00:18, 640.11it/s]\r":                                   {Text: "DeepGEMM kernels 4259/16384 · 640.1/s", Phase: sweep.PhaseLaunch, Value: 4259.0 / 16384},
		"  4%|▍         | 1/23 [00:05<01:58,  5.37s/it]\r":                                                           {Text: "launch 1/23 · 0.2/s", Phase: sweep.PhaseLaunch, Value: 1.0 / 23},
		"[2026-11-29 13:17:15 TP3] Allocating kv hierarchical KV host pool: 122071 tokens, 16.00 GB host memory.\n":  {Text: "allocating and pinning the host cache", Phase: sweep.PhaseHostCache},
	} {
		eng, _ := Lookup("sglang")
		var got []sweep.LogEvent
		for _, e := range readAll(eng, []byte(line)) {
			if e.Kind == sweep.LogProgress {
				got = append(got, e)
			}
		}
		if len(got) != 1 || got[0].Text != want.Text || got[0].Phase != want.Phase || got[0].Value != want.Value {
			t.Errorf("%q: have %+v, want %+v", line, got, want)
		}
	}
}

// A bar ends in no line feed, so that another process's line may stand behind it.
func TestLineBehindABar(t *testing.T) {
	eng, _ := Lookup("sglang")
	events := readAll(eng, []byte("Loading safetensors checkpoint shards: 100% Completed | 64/64 [00:34<00:00,  1.80it/s][2026-11-29 13:32:58 TP0] Load weight end. elapsed=0.19 s, type=X, avail mem=125.62 GB, mem usage=13.50 GB.\n"))
	var kinds []sweep.LogKind
	for _, e := range events {
		kinds = append(kinds, e.Kind)
	}
	if want := []sweep.LogKind{sweep.LogPhase, sweep.LogProgress, sweep.LogPhase, sweep.LogFact, sweep.LogFact}; !slices.Equal(kinds, want) {
		t.Errorf("kinds %v, want %v: %+v", kinds, want, events)
	}
}

func TestBatchLines(t *testing.T) {
	for line, want := range map[string]struct {
		kind, rank string
		values     sweep.Values
	}{
		"[2026-08-20 10:00:00 TP0] Decode batch, #running-req: 64, #token: 210344, token usage: 0.41, cuda graph: True, gen throughput (token/s): 3120.45, #queue-req: 3": {
			"decode", "TP0", sweep.Values{"running": 64, "token": 210344, "token_usage": 0.41, "cuda_graph": 1, "gen_throughput": 3120.45, "queued": 3}},
		"[2026-12-26 23:20:39 DP1 TP1 EP1] Prefill batch, #new-seq: 1, #new-token: 6, #cached-token: 0, full token usage: 0.02, mamba usage: 0.40, #running-req: 0, #queue-req: 0, ": {
			"prefill", "DP1 TP1 EP1", sweep.Values{"new_seq": 1, "new_token": 6, "cached_token": 0, "full_token_usage": 0.02, "mamba_usage": 0.4, "token_usage": 0.4, "running": 0, "queued": 0}},
		"\x00\x00\x00[16:08:39 TP0] Decode batch [40]. #running-req: 1, token usage: 0.00, gen throughput (token/s): 0.53, #queue-req: 0": {
			"decode", "TP0", sweep.Values{"running": 1, "token_usage": 0, "gen_throughput": 0.53, "queued": 0}},
		"[2025-06-18 18:31:03] Prefill batch. #new-seq: 15, token usage: 0.91, #queue-req: 112, cache hit rate: 71.08%": {
			"prefill", "", sweep.Values{"new_seq": 15, "token_usage": 0.91, "queued": 112, "cache_hit_rate": 71.08}}, // no running-req: absent, not 0
	} {
		eng, _ := Lookup("sglang")
		events := readAll(eng, []byte(line))
		if len(events) != 1 || events[0].Kind != sweep.LogBatch || events[0].Text != want.kind || events[0].Rank != want.rank || !reflect.DeepEqual(events[0].Values, want.values) {
			t.Errorf("%s\nhave %+v\nwant %+v", line, events, want)
		}
	}
}

// Words of failure in other people's text, in advice and in warnings are no signs.
func TestNoSigns(t *testing.T) {
	for name, lines := range map[string][]string{
		"sglang": {
			"[2026-11-29 13:32:46] server_args=ServerArgs(model_path='x', note='torch.OutOfMemoryError: CUDA out of memory')",
			"[2026-11-29 13:32:46] Receive: obj=GenerateReqInput(text='torch.OutOfMemoryError: CUDA out of memory. [Errno 98]')",
			"2. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)", "Possible solutions:",
			"[2026-11-29 13:16:43] KV cache pool is full. Retract requests. #retracted_reqs: 1, #new_tokens_gained: 652, #new_token_ratio: 0.8703 -> 0.9599",
			"[2025-03-08 10:00:00 TP13] Decode out of memory happened. #retracted_reqs: 1, #new_token_ratio: 0.1602 -> 0.2010",
			"[2026-11-29 13:00:00] reducing max_m to 512 to avoid out of memory", "FlashInfer extend autotune skipped: not enough free memory",
			"[rank0]:[W1129 13:15:22.159830846 ProcessGroupNCCL.cpp:1575] Warning: WARNING: destroy_process_group() was not called before program exit",
			"node-a:100:1012 [1] NCCL INFO ncclCommInitRank comm 0x55c8b0 rank 1 nranks 16 - Init COMPLETE",
			"[2026-11-29 13:32:58] Ignore import error when loading sglang.srt.models.inkling: No module named 'helion'",
			"[2026-11-29 13:00:00 TP0] Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=True)",
			"                    [--watchdog-timeout WATCHDOG_TIMEOUT] [--enable-nccl-nvls]",
			"UserWarning: token_to_kv_pool_allocator memory leak detected! available_size=961580",
			"[2026-11-29 13:00:00] Pyspy failed to dump PID 171. Error: /bin/dash: 1: py-spy: not found",
		},
		"llama.cpp": {
			"0.00.235.628 W common_fit_params: failed to fit params to free device memory: was unable to fit model into system memory by reducing context, abort",
			"0.14.040.898 W slot   operator(): id  2 | task 100 | need to evaluate at least 1 token for each active slot (n_past = 4, task.n_tokens() = 4)",
			"3.02.792.976 free(): invalid size",
		},
	} {
		eng, _ := Lookup(name)
		for _, line := range lines {
			for _, e := range readAll(eng, []byte(line+"\n")) {
				if e.Kind == sweep.LogSign {
					t.Errorf("%s: %q gives the sign %+v", name, line, e.Sign)
				}
			}
		}
	}
}

func TestFilesStayReadable(t *testing.T) {
	for file := range logs(t) {
		if info, err := os.Stat(file); err != nil || info.Size() > 120<<10 {
			t.Errorf("%s: too large for a fixture (%v)", file, err)
		}
	}
}
