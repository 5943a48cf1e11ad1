package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"sweep/sweep"
)

// flushWait is how long the server itself waits until it is idle (from 0.5.10), and how long we go on
// asking one that cannot wait. Copies to the host cache may still be under way when a load has ended.
const flushWait = 30 * time.Second

// sglangFlush empties the prefix cache and believes only the server's own word for it.
func sglangFlush(ctx context.Context, get sweep.Getter) error {
	ctx, cancel := context.WithTimeout(ctx, 2*flushWait)
	defer cancel()
	path := fmt.Sprintf("/flush_cache?timeout=%d", int(flushWait.Seconds()))
	for began := time.Now(); ; {
		status, reply, err := get(ctx, http.MethodPost, path, nil)
		if err != nil {
			return fmt.Errorf("flush: %w", err)
		}
		if status == http.StatusOK && bytes.Contains(reply, []byte("Cache flushed")) {
			return nil
		}
		busy := status == http.StatusBadRequest || status == http.StatusOK
		if !busy || bytes.Contains(reply, []byte("Timed out")) || time.Since(began) >= flushWait {
			return fmt.Errorf("flush: the server answered %d: %s", status, cut(string(reply), 200))
		}
		select { // an older server refuses at once while it is busy, and has no way to wait for
		case <-ctx.Done():
			return fmt.Errorf("flush: %w", ctx.Err())
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// serverInfo is what we read of /server_info. It also holds keys, which are never kept.
type serverInfo struct {
	Version  string   `json:"version"`
	KVTokens *float64 `json:"max_total_num_tokens"`
	HiCache  *bool    `json:"enable_hierarchical_cache"`
	States   []struct {
		Memory struct {
			Weight    *float64        `json:"weight"`
			Available *float64        `json:"startup_available"`
			Tokens    *float64        `json:"token_capacity"`
			Graph     json.RawMessage `json:"graph"` // by phase; a number until 0.5.9
		} `json:"memory_usage"`
		MaxRunning *float64 `json:"effective_max_running_requests_per_dp"`
	} `json:"internal_states"`
}

// sglangInspect asks a ready server for its version, memory and resolved flags, and a simulated one
// how much faster than the real time it runs.
func sglangInspect(ctx context.Context, get sweep.Getter) (sweep.Inspection, error) {
	in := sweep.Inspection{Facts: sweep.Values{}, Effective: map[string]string{}}
	reply, err := getOK(ctx, get, "/server_info")
	if notFound(err) {
		reply, err = getOK(ctx, get, "/get_server_info")
	}
	if err != nil {
		return in, err
	}
	var info serverInfo
	if err := json.Unmarshal(reply, &info); err != nil {
		return in, fmt.Errorf("/server_info: %w", err)
	}
	in.Version = info.Version
	in.FirstTokensCounted = countsFirstTokens(ctx, get, info.Version)
	info.facts(in.Facts)
	effective(reply, in.Effective)
	if info.HiCache != nil {
		hicacheInEffect(*info.HiCache, in.Effective)
		if *info.HiCache {
			in.Notes = append(in.Notes, "hierarchical cache is on")
		}
	}
	note, err := simulated(ctx, get)
	if err != nil {
		return in, err
	}
	if note != "" {
		in.Notes = append(in.Notes, note)
	}
	return in, nil
}

// countsFirstTokens says whether realtime_tokens_total{mode="decode"} includes each request's first token. It does in
// 0.5.17 and not in 0.5.23; in between a server that has only answered whole requests so far shows it: what it decoded
// is then not less than what it generated.
func countsFirstTokens(ctx context.Context, get sweep.Getter, version string) bool {
	var major, minor, patch int
	if n, _ := fmt.Sscanf(version, "%d.%d.%d", &major, &minor, &patch); n == 3 && major == 0 && (minor < 5 || minor == 5 && patch <= 17) {
		return true
	}
	page, err := getOK(ctx, get, "/metrics")
	if err != nil {
		return false
	}
	values := sweep.Values{}
	sglangMetrics(page, values)
	generated := values[sweep.SignalFinishedTokens]
	return generated > 0 && values[sweep.SignalDecodeTokens] >= generated
}

// hicacheInEffect puts what hicache-size amounts to in the place of its bare value: the size means nothing while the
// hierarchical cache is off, and the cache is on without a size when something else brought it.
func hicacheInEffect(on bool, effective map[string]string) {
	switch size := effective["hicache-size"]; {
	case !on:
		effective["hicache-size"] = "off"
	case size == "" || size == "0":
		effective["hicache-size"] = "on"
	}
}

// facts keeps the least of the replicas where they differ. Replicas have a KV pool each, so that there is a total too.
func (info serverInfo) facts(facts sweep.Values) {
	least := func(name string, v *float64) {
		if v != nil {
			if old, ok := facts[name]; !ok || *v < old {
				facts[name] = *v
			}
		}
	}
	least("kv_tokens", info.KVTokens)
	total, replicas := 0.0, 0
	for _, s := range info.States {
		least("kv_tokens", s.Memory.Tokens)
		if s.Memory.Tokens != nil {
			total += *s.Memory.Tokens
			replicas++
		}
		least("headroom_gib", s.Memory.Available)
		least("max_running_requests", s.MaxRunning)
		if s.Memory.Weight != nil {
			facts["weights_gib"] = max(facts["weights_gib"], *s.Memory.Weight)
		}
		var phases map[string]float64
		if json.Unmarshal(s.Memory.Graph, &phases) == nil && phases != nil {
			sum := 0.0
			for _, v := range phases {
				sum += v
			}
			facts["graph_gib"] = max(facts["graph_gib"], math.Round(sum*1e6)/1e6)
		}
	}
	if replicas > 1 && replicas == len(info.States) {
		facts["kv_tokens_per_rank"], facts["kv_tokens_total"] = facts["kv_tokens"], total
	}
}

// effective takes the resolved flags from the top level of /server_info. Keys are left out.
func effective(reply []byte, into map[string]string) {
	var all map[string]json.RawMessage
	if json.Unmarshal(reply, &all) != nil {
		return
	}
	for name, raw := range all {
		if strings.Contains(name, "key") || strings.Contains(name, "token") && !strings.Contains(name, "tokens") || strings.Contains(name, "password") {
			continue
		}
		var v any
		if json.Unmarshal(raw, &v) != nil {
			continue
		}
		flag := strings.ReplaceAll(name, "_", "-")
		switch v := v.(type) {
		case string:
			into[flag] = v
		case bool:
			into[flag] = strconv.FormatBool(v)
		case float64:
			into[flag] = strconv.FormatFloat(v, 'g', -1, 64)
		}
	}
}

// simulated is the note of a simulated server; a real one does not know the route.
func simulated(ctx context.Context, get sweep.Getter) (string, error) {
	var sim struct {
		Speedup float64 `json:"speedup"`
	}
	err := getJSON(ctx, get, "/simulator", &sim)
	if status := (*statusError)(nil); errors.As(err, &status) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("simulated ×%g", sim.Speedup), nil
}

func notFound(err error) bool {
	var status *statusError
	return errors.As(err, &status) && status.status == http.StatusNotFound
}

// sglangSample reads /v1/loads and /metrics. Either may be missing (the first before 0.5.8, the second
// without enable-metrics); it fails only when both are. It never asks /health, which costs a forward pass.
func sglangSample(ctx context.Context, get sweep.Getter) (sweep.Values, error) {
	values := sweep.Values{}
	page, metricsErr := getOK(ctx, get, "/metrics")
	if metricsErr == nil {
		sglangMetrics(page, values)
	}
	var loads struct {
		Loads []map[string]any `json:"loads"`
	}
	loadsErr := getJSON(ctx, get, "/v1/loads", &loads)
	if loadsErr == nil && len(loads.Loads) > 0 {
		sglangLoads(loads.Loads, values)
	}
	if metricsErr != nil && loadsErr != nil {
		return nil, errors.Join(metricsErr, loadsErr)
	}
	return values, nil
}

// sglangLoads adds up the data-parallel replicas; of their usages the highest counts.
func sglangLoads(loads []map[string]any, values sweep.Values) {
	for _, f := range []struct {
		field, name string
		highest     bool
	}{
		{"num_running_reqs", sweep.SignalRunning, false},
		{"num_waiting_reqs", sweep.SignalQueued, false},
		{"token_usage", sweep.SignalTokenUsage, true},
		{"gen_throughput", sweep.SignalGenThroughput, false},
	} {
		total, found := 0.0, false
		for _, l := range loads {
			v, ok := l[f.field].(float64)
			if !ok {
				continue
			}
			if f.highest && found {
				total = max(total, v)
			} else {
				total += v
			}
			found = true
		}
		if found {
			values[f.name] = total
		}
	}
}

// Labels in which ranks of one replica differ while they report the same numbers.
var sglangRankLabels = []string{"tp_rank", "pp_rank", "moe_ep_rank", "pid"}

// sglangCounters are the metrics that we read. A counter with labels appears only when it first counts
// something, so that a missing one is zero if the server is new enough to have it.
var sglangCounters = []struct {
	metric, label, value string
	signal               string
	zero                 bool // missing is zero when realtime_tokens_total (0.5.7) is there
}{
	{"sglang:num_running_reqs", "", "", sweep.SignalRunning, false},
	{"sglang:num_queue_reqs", "", "", sweep.SignalQueued, false},
	{"sglang:gen_throughput", "", "", sweep.SignalGenThroughput, false},
	{"sglang:realtime_tokens_total", "mode", "decode", sweep.SignalDecodeTokens, true},
	{"sglang:generation_tokens_total", "", "", sweep.SignalFinishedTokens, false},
	{"sglang:num_requests_total", "", "", sweep.SignalFinished, false},
	{"sglang:prompt_tokens_total", "", "", sweep.SignalPromptTokens, false},
	{"sglang:num_retracted_requests_total", "", "", sweep.SignalRetractions, true},
	{"sglang:cached_tokens_total", "cache_source", "device", sweep.SignalCachedDevice, true},
	{"sglang:cached_tokens_total", "cache_source", "host", sweep.SignalCachedHost, true},
	{"sglang:cached_tokens_total", "cache_source", "storage_*", sweep.SignalCachedStorage, false}, // one for each kind of storage
	{"sglang:load_back_tokens_total", "", "", sweep.SignalLoadBack, true},
}

// sglangMetrics reads a page of /metrics. Series that differ in anything but the rank are added up; the
// highest usage counts.
func sglangMetrics(page []byte, values sweep.Values) {
	tallies := make([]tally, len(sglangCounters))
	for i := range tallies {
		tallies[i].alike = sglangRankLabels
	}
	realtime, unlabelled := false, false
	samples(page, func(s sample) {
		name := string(s.name)
		switch name {
		case "sglang:token_usage", "sglang:full_token_usage", "sglang:swa_token_usage", "sglang:mamba_usage":
			values[sweep.SignalTokenUsage] = max(values[sweep.SignalTokenUsage], s.value)
			return
		case "sglang:realtime_tokens_total":
			realtime = true
		case "sglang:cached_tokens_total":
			unlabelled = unlabelled || s.label("cache_source") == ""
		}
		for i, c := range sglangCounters {
			if c.metric == name && (c.label == "" || labelled(s.label(c.label), c.value)) {
				tallies[i].add(s)
			}
		}
	})
	for i, c := range sglangCounters {
		if sum, ok := tallies[i].sum(); ok {
			values[c.signal] = sum
		} else if c.zero && realtime && !(unlabelled && c.metric == "sglang:cached_tokens_total") {
			values[c.signal] = 0
		}
	}
}

// labelled reports whether a label has the wanted value, or one that begins like it where that ends in a star.
func labelled(value, want string) bool {
	if start, ok := strings.CutSuffix(want, "*"); ok {
		return strings.HasPrefix(value, start)
	}
	return value == want
}

// sglangVocabulary finds the served model's tokenizer on this machine.
func sglangVocabulary(ctx context.Context, get sweep.Getter, model string) ([]int, error) {
	var info struct {
		Tokenizer string `json:"tokenizer_path"`
	}
	err := getJSON(ctx, get, "/model_info", &info)
	if notFound(err) {
		err = getJSON(ctx, get, "/get_model_info", &info)
	}
	if err != nil {
		return nil, fmt.Errorf("vocabulary: %w", err)
	}
	if info.Tokenizer == "" {
		info.Tokenizer = model
	}
	folder := modelFolder(info.Tokenizer)
	if folder == "" {
		return nil, nil
	}
	return textTokens(folder)
}
