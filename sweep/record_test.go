package sweep

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"testing"
)

// TestWhatIsNoNumberIsAbsent holds that NaN and infinities, which servers print, keep no record and no
// result from being written.
func TestWhatIsNoNumberIsAbsent(t *testing.T) {
	t.Parallel()
	values := Values{"running": math.NaN(), "queued": math.Inf(1), "token_usage": math.Inf(-1), "kv_tokens": 7}
	want := Values{"kv_tokens": 7}
	line, err := json.Marshal(Record{Values: values})
	if err != nil {
		t.Fatal(err)
	}
	var r Record
	if err := json.Unmarshal(line, &r); err != nil || !maps.Equal(r.Values, want) {
		t.Errorf("record: %v, %v; want %v", r.Values, err, want)
	}
	if line, err = json.Marshal(LoadResult{Values: values}); err != nil {
		t.Fatal(err)
	}
	var l LoadResult
	if err := json.Unmarshal(line, &l); err != nil || !maps.Equal(l.Values, want) {
		t.Errorf("result: %v, %v; want %v", l.Values, err, want)
	}
	if len(values) != 4 {
		t.Errorf("the caller's values were changed: %v", values)
	}
	if line, err = json.Marshal(LoadResult{}); err != nil || bytes.Contains(line, []byte("values")) {
		t.Errorf("no values: %s, %v", line, err)
	}
}

// TestRecordKeepsValues holds that each value of a record comes back from its line, beside keys that
// only look like values.
func TestRecordKeepsValues(t *testing.T) {
	t.Parallel()
	want := Record{
		Axes:    Params{{"mem-fraction-static", "0.80"}, {"max-running-requests", "64"}},
		Load:    Load{Workload: "w", Pools: []Pool{{Class: "short", Concurrency: 3}, {Class: "long", Concurrency: 1}}},
		Verdict: "suspect", VerdictWhy: []string{"slots stood free"}, Client: "epoll", Stamps: "kernel",
		Values: Values{"client_events": 12, "full_s": 61.5, "mean_concurrency": 3.5, "kv_tokens": 159277, "output_throughput": 1300.25, "short_p99_ttft_ms": 12},
	}
	line, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got Record
	if err := json.Unmarshal(line, &got); err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(got.Values, want.Values) {
		t.Errorf("values %v, want %v", got.Values, want.Values)
	}
	if got.Verdict != want.Verdict || !slices.Equal(got.VerdictWhy, want.VerdictWhy) || got.Client != want.Client || got.Stamps != want.Stamps {
		t.Errorf("verdict %q %q, by %q and %q", got.Verdict, got.VerdictWhy, got.Client, got.Stamps)
	}
	if got.Axes.String() != want.Axes.String() || got.Load.String() != want.Load.String() {
		t.Errorf("axes %s, load %s", got.Axes, got.Load)
	}
}

// What JSON cannot say, and what says nothing, is absent.
func TestValuesAreNumbers(t *testing.T) {
	t.Parallel()
	line, err := json.Marshal(LoadResult{Values: Values{"running": 3, "queued": math.Inf(1), "token_usage": math.NaN()}})
	if err != nil {
		t.Fatal(err)
	}
	var got LoadResult
	if err := json.Unmarshal(line, &got); err != nil || !maps.Equal(got.Values, Values{"running": 3}) {
		t.Errorf("%v, %v", got.Values, err)
	}
	var r Record
	if err := json.Unmarshal([]byte(`{"kv_tokens":7,"pools":null,"window_s":null}`), &r); err != nil || !maps.Equal(r.Values, Values{"kv_tokens": 7}) {
		t.Errorf("%v, %v", r.Values, err)
	}
}

// A parameter and a fact of the same name both stand in a line, and come back as what they were.
func TestRecordKeepsFactsBesideParameters(t *testing.T) {
	t.Parallel()
	want := Record{
		Axes: Params{{"max-running-requests", "512"}}, Load: Load{Workload: "w", Pools: []Pool{{Class: "c", Concurrency: 1}}},
		Values: Values{"max_running_requests": 480, "context_length": 8192},
	}
	line, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{`"max_running_requests":"512"`, `"max_running_requests_in_effect":480`, `"context_length":8192`} {
		if !bytes.Contains(line, []byte(key)) {
			t.Errorf("no %s in %s", key, line)
		}
	}
	var got Record
	if err := json.Unmarshal(line, &got); err != nil || !maps.Equal(got.Values, want.Values) || got.Axes.String() != want.Axes.String() {
		t.Errorf("%v %v, %v; want %v %v", got.Axes, got.Values, err, want.Axes, want.Values)
	}
}
