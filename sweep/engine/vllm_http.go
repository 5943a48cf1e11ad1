package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"sweep/sweep"
)

// vllmFlush empties the prefix cache and believes only the server's own word for it. Versions before 2026 answer
// 200 with no body when they have done it. While a request still holds blocks the server says so, and is asked again.
func vllmFlush(ctx context.Context, get sweep.Getter) error {
	ctx, cancel := context.WithTimeout(ctx, 2*flushWait)
	defer cancel()
	for began := time.Now(); ; {
		status, reply, err := get(ctx, http.MethodPost, "/reset_prefix_cache", nil)
		if err != nil {
			return fmt.Errorf("flush: %w", err)
		}
		var said struct {
			Success *bool `json:"success"`
		}
		known := json.Unmarshal(reply, &said) == nil && said.Success != nil
		switch {
		case status == http.StatusNotFound:
			return errors.New("flush: this vLLM has no route for it: VLLM_SERVER_DEV_MODE=1 gives it one")
		case status != http.StatusOK:
			return fmt.Errorf("flush: the server answered %d: %s", status, cut(string(reply), 200))
		case !known || *said.Success:
			return nil
		case time.Since(began) >= flushWait:
			return errors.New("flush: the server still holds blocks of requests")
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("flush: %w", ctx.Err())
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// vllmInspect asks a ready server for its version, its KV pool and its context. The pool is in a label of a
// metric: vLLM has no route for it.
func vllmInspect(ctx context.Context, get sweep.Getter) (sweep.Inspection, error) {
	in := sweep.Inspection{Facts: sweep.Values{}, Effective: map[string]string{}}
	var version struct {
		Version string `json:"version"`
	}
	if err := getJSON(ctx, get, "/version", &version); err != nil {
		return in, err
	}
	in.Version = version.Version
	var models struct {
		Data []struct {
			Context float64 `json:"max_model_len"`
		} `json:"data"`
	}
	if err := getJSON(ctx, get, "/v1/models", &models); err != nil {
		return in, err
	}
	if len(models.Data) > 0 && models.Data[0].Context > 0 {
		in.Facts["context_length"] = models.Data[0].Context
		in.Effective["max-model-len"] = strconv.FormatFloat(models.Data[0].Context, 'f', -1, 64)
	}
	page, err := getOK(ctx, get, "/metrics")
	if err != nil {
		return in, err
	}
	total, replicas := 0.0, 0
	samples(page, func(s sample) {
		if string(s.name) == "vllm:cache_config_info" {
			total += vllmPool(s, in)
			replicas++
		}
	})
	if tokens, ok := in.Facts["kv_tokens"]; ok && replicas > 1 {
		in.Facts["kv_tokens_per_rank"], in.Facts["kv_tokens_total"] = tokens, total
	}
	return in, nil
}

// vllmPool reads the cache's configuration, which replicas give one each; the least of them counts. It returns
// the tokens of this one.
func vllmPool(s sample, in sweep.Inspection) float64 {
	number := func(label string) float64 {
		v, _ := strconv.ParseFloat(s.label(label), 64)
		return v
	}
	least := func(name string, v float64) {
		if old, ok := in.Facts[name]; v > 0 && (!ok || v < old) {
			in.Facts[name] = v
		}
	}
	blocks := number("num_gpu_blocks")
	least("kv_blocks", blocks)
	tokens := number("kv_cache_size_tokens") // from 2026; before, it is only the product
	if tokens == 0 {
		tokens = blocks * number("block_size")
	}
	least("kv_tokens", tokens)
	for label, flag := range map[string]string{"gpu_memory_utilization": "gpu-memory-utilization", "cache_dtype": "kv-cache-dtype", "block_size": "block-size", "enable_prefix_caching": "enable-prefix-caching", "num_gpu_blocks_override": "num-gpu-blocks-override"} {
		switch text := s.label(label); text {
		case "", "None":
		case "True", "False":
			in.Effective[flag] = strconv.FormatBool(text == "True")
		default:
			in.Effective[flag] = text
		}
	}
	return tokens
}

// vllmCounters are the metrics that we read. Replicas, labelled engine, are added up. vLLM counts a generated token as it
// comes, the first ones of requests among them, which come out of the prefill; SignalDecodeTokens is without those.
var vllmCounters = []struct {
	metric, label, value string
	signal               string
}{
	{"vllm:num_requests_running", "", "", sweep.SignalRunning},
	{"vllm:num_requests_waiting", "", "", sweep.SignalQueued},
	{"vllm:generation_tokens_total", "", "", sweep.SignalDecodeTokens},
	{"vllm:time_to_first_token_seconds_count", "", "", firstTokens},
	{"vllm:request_generation_tokens_sum", "", "", sweep.SignalFinishedTokens},
	{"vllm:request_success_total", "", "", sweep.SignalFinished},
	{"vllm:request_prompt_tokens_sum", "", "", sweep.SignalPromptTokens},
	{"vllm:num_preemptions_total", "", "", sweep.SignalRetractions},
	{"vllm:prompt_tokens_cached_by_source_total", "source", "device", sweep.SignalCachedDevice},
	{"vllm:prompt_tokens_cached_by_source_total", "source", "host", sweep.SignalCachedHost},
	{"vllm:prefix_cache_hits_total", "", "", olderDevice},
	{"vllm:external_prefix_cache_hits_total", "", "", olderHost},
}

// Series that are only parts of a signal.
const (
	firstTokens = "first_tokens_total"
	olderDevice = "older_cached_device"
	olderHost   = "older_cached_host"
)

func vllmSample(ctx context.Context, get sweep.Getter) (sweep.Values, error) {
	page, err := getOK(ctx, get, "/metrics")
	if err != nil {
		return nil, err
	}
	values := sweep.Values{}
	tallies := make([]tally, len(vllmCounters))
	samples(page, func(s sample) {
		name := string(s.name)
		switch name {
		case "vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc": // the latter until 2025
			values[sweep.SignalTokenUsage] = max(values[sweep.SignalTokenUsage], s.value)
			return
		case "vllm:num_preemptions": // a gauge's name in a few versions of 2024
			name = "vllm:num_preemptions_total"
		}
		for i, c := range vllmCounters {
			if c.metric == name && (c.label == "" || s.label(c.label) == c.value) {
				tallies[i].add(s)
			}
		}
	})
	for i, c := range vllmCounters {
		if sum, ok := tallies[i].sum(); ok {
			values[c.signal] = sum
		}
	}
	for _, part := range []struct{ older, signal string }{{olderDevice, sweep.SignalCachedDevice}, {olderHost, sweep.SignalCachedHost}} {
		if v, ok := values[part.older]; ok {
			if _, newer := values[part.signal]; !newer {
				values[part.signal] = v
			}
			delete(values, part.older)
		}
	}
	first, known := values[firstTokens]
	delete(values, firstTokens)
	if all, ok := values[sweep.SignalDecodeTokens]; ok && known {
		values[sweep.SignalDecodeTokens] = all - first
	} else {
		delete(values, sweep.SignalDecodeTokens)
	}
	return values, nil
}

// vllmVocabulary finds the served model's tokenizer on this machine. The server names it as the root of its model.
func vllmVocabulary(ctx context.Context, get sweep.Getter, model string) ([]int, error) {
	var models struct {
		Data []struct {
			Root string `json:"root"`
		} `json:"data"`
	}
	if err := getJSON(ctx, get, "/v1/models", &models); err != nil {
		return nil, fmt.Errorf("vocabulary: %w", err)
	}
	if len(models.Data) > 0 && models.Data[0].Root != "" {
		model = models.Data[0].Root
	}
	folder := modelFolder(model)
	if folder == "" {
		return nil, nil
	}
	return textTokens(folder)
}
