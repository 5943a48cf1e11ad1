package export

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"sweep/loadgen"
	"sweep/loadgen/mock"
)

const ms = time.Millisecond

// chat answers with a role 50 ms in, three tokens at 100, 120 and 140 ms, and a late end mark at 170 ms.
func chat(mock.Request) []mock.Step {
	event := func(wait time.Duration, data string) mock.Step {
		return mock.Step{Wait: wait, Bytes: []byte(mock.Frame(data))}
	}
	delta := func(text, usage string) string {
		return fmt.Sprintf(`{"object":"chat.completion.chunk","choices":[{"index":0,"delta":{%s},"finish_reason":null}],"usage":%s}`, text, usage)
	}
	count := func(n int) string { return fmt.Sprintf(`{"prompt_tokens":8,"completion_tokens":%d}`, n) }
	first := event(50*ms, delta(`"role":"assistant","content":""`, "null"))
	first.Bytes = append([]byte(mock.Head), first.Bytes...)
	return []mock.Step{
		first,
		event(50*ms, delta(`"content":"a"`, count(1))), event(20*ms, delta(`"content":"b"`, count(2))), event(20*ms, delta(`"content":"c"`, count(3))),
		{Wait: 30 * ms, Bytes: []byte(mock.Frame(`{"choices":[],"usage":`+count(3)+`}`) + mock.Frame("[DONE]") + mock.Last)},
	}
}

// record runs two slots of two requests each, in virtual time.
func record(t *testing.T, route string, answer func(mock.Request) []mock.Step) (Run, loadgen.Result, []byte) {
	t.Helper()
	server := &mock.Server{Answer: answer}
	var b bytes.Buffer
	spec := loadgen.Spec{
		URL: "http://mock:1", Route: route, Model: "m", Dial: server.Dial, Seed: 1, Salt: "a", Record: &b,
		Header:  map[string]string{"Authorization": "Bearer sk-canary"},
		Classes: []loadgen.Class{{Name: "a", Concurrency: 2, Input: loadgen.Range{Min: 8, Max: 8}, Output: loadgen.Range{Min: 3, Max: 3}}},
		Window:  loadgen.Window{Max: time.Hour, Exactly: true, Requests: map[string]int{"a": 4}},
	}
	res, err := loadgen.Run(t.Context(), spec)
	server.Close()
	if err != nil || res.Failed > 0 {
		t.Fatal(err, res.FirstFailure)
	}
	return Run{Spec: spec, At: time.Now(), Version: "test"}, res, b.Bytes()
}

func holds(t *testing.T, data []byte, want map[string]float64) {
	t.Helper()
	var got map[string]any
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	for name, w := range want {
		if g, ok := got[name].(float64); !ok || math.Abs(g-w) > 1e-6*max(1, w) {
			t.Errorf("%s = %v, want %v", name, got[name], w)
		}
	}
	if bytes.Contains(data, []byte("canary")) {
		t.Error("a header's value is in the file")
	}
}

// The same requests by the definitions of either tool: a role that comes early, an end mark that comes late.
func TestDefinitionsOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run, res, rec := record(t, "/v1/chat/completions", chat)
		var theirs bytes.Buffer
		if err := BenchServing(&theirs, run, res, bytes.NewReader(rec)); err != nil {
			t.Fatal(err)
		}
		holds(t, theirs.Bytes(), map[string]float64{
			"completed": 4, "duration": 0.34, "total_input_tokens": 32, "total_output_tokens": 12, "output_throughput": 12 / 0.34, "max_concurrency": 2,
			"mean_ttft_ms": 100, "std_ttft_ms": 0, "p99_ttft_ms": 100, "mean_e2e_latency_ms": 170, "mean_tpot_ms": 35, "mean_itl_ms": 20, "concurrency": 2,
			"max_concurrent_requests": 4, "max_output_tokens_per_s": 12, "sweep_mean_ttft_ms": 100, "sweep_mean_tpot_ms": 20,
		})
		theirs.Reset()
		if err := VLLM(&theirs, run, res, bytes.NewReader(rec)); err != nil {
			t.Fatal(err)
		}
		holds(t, theirs.Bytes(), map[string]float64{
			"completed": 4, "failed": 0, "num_prompts": 4, "duration": 0.34, "mean_ttft_ms": 50, "mean_e2el_ms": 140, "mean_tpot_ms": 45,
			"mean_itl_ms": 30, "p99_itl_ms": 50, "median_itl_ms": 20, "max_concurrent_requests": 2, "burstiness": 1,
		})
		theirs.Reset()
		if err := JSON(&theirs, run, res); err != nil {
			t.Fatal(err)
		}
		holds(t, theirs.Bytes(), map[string]float64{"schema": 1, "duration_s": 0.34, "span_s": 0.34, "whole_completed": 4})
	})
}

// On SGLang's own route a time between events is shared by the tokens of the event, as that tool does.
func TestTokensOfAnEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run, res, rec := record(t, "/generate", func(mock.Request) []mock.Step {
			event := func(wait time.Duration, text, finish string, n int) mock.Step {
				return mock.Step{Wait: wait, Bytes: []byte(mock.Frame(fmt.Sprintf(`{"text":%q,"meta_info":{"prompt_tokens":8,"completion_tokens":%d,"cached_tokens":0,"finish_reason":%s}}`, text, n, finish)))}
			}
			first := event(40*ms, "a", "null", 1)
			first.Bytes = append([]byte(mock.Head), first.Bytes...)
			return []mock.Step{first, event(30*ms, "a b c", `{"type":"length","length":3}`, 3), {Bytes: []byte(mock.Frame("[DONE]") + mock.Last)}}
		})
		var theirs bytes.Buffer
		if err := BenchServing(&theirs, run, res, bytes.NewReader(rec)); err != nil {
			t.Fatal(err)
		}
		holds(t, theirs.Bytes(), map[string]float64{"mean_itl_ms": 15, "p99_itl_ms": 15, "mean_ttft_ms": 40, "mean_e2e_latency_ms": 70, "mean_tpot_ms": 15})
	})
}

// Percentiles are numpy's.
func TestPercentile(t *testing.T) {
	list := []float64{1, 2, 4, 8}
	for p, want := range map[float64]float64{0: 1, 50: 3, 90: 6.8, 99: 7.88, 100: 8} {
		if got := percentile(list, p); math.Abs(got-want) > 1e-12 {
			t.Errorf("p%g = %v, want %v", p, got, want)
		}
	}
	if got := deviation(list); math.Abs(got-2.680951323690902) > 1e-12 {
		t.Errorf("std %v", got)
	}
}
