package loadgen

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sweep/loadgen/mock"
)

const second, msec = time.Second, time.Millisecond

// testSpec is a run of one class against a mock, in memory.
func testSpec(s *mock.Server, concurrency int) Spec {
	return Spec{
		URL: "http://mock:1", Route: "/v1/completions", Model: "m", Dial: s.Dial,
		Vocabulary: []int{11, 12, 13, 14, 15, 16, 17}, Seed: 1, Salt: "a",
		Classes: []Class{{Name: "short", Concurrency: concurrency, Input: Range{8, 8}, Output: Range{5, 5}}},
		Warmup:  Warmup{Cohort: true},
		Window:  Window{Min: 10 * second, Max: 20 * second},
	}
}

func steady(t mock.Timing) func(mock.Request) []mock.Step {
	return func(r mock.Request) []mock.Step { return mock.Stream(r, t) }
}

func wantValues(t *testing.T, got map[string]float64, want map[string]float64) {
	t.Helper()
	for name, w := range want {
		g, ok := got[name]
		if !ok {
			t.Errorf("%s is absent, want %v", name, w)
		} else if math.Abs(g-w) > 1e-9*math.Max(1, math.Abs(w)) {
			t.Errorf("%s = %v, want %v", name, g, w)
		}
	}
}

func wantAbsent(t *testing.T, got map[string]float64, names ...string) {
	t.Helper()
	for _, name := range names {
		if v, ok := got[name]; ok {
			t.Errorf("%s = %v, want it absent", name, v)
		}
	}
}

// In virtual time every number has one right value: TTFT 100 ms, 5 tokens 25 ms apart, and 200 ms until the
// next request (of which the last 0 ms are the end mark).
func TestKnownTruth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &mock.Server{Answer: steady(mock.Timing{First: 100 * msec, Gap: 25 * msec})}
		spec := testSpec(server, 4)
		var lines bytes.Buffer
		spec.Requests = &lines
		res, err := Run(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		server.Close()
		if !res.Complete || res.Window != 10*second {
			t.Errorf("complete %v after %v, want true after 10s", res.Complete, res.Window)
		}
		// The first cohort ends at 0.2 s, when the window opens. Each slot then does a request each
		// 0.2 s; the one ending at the very moment of the close is not inside.
		wantValues(t, res.Values, map[string]float64{
			"mean_ttft_ms": 100, "median_ttft_ms": 100, "p99_ttft_ms": 100, "max_ttft_ms": 100, "std_ttft_ms": 0,
			"mean_itl_ms": 25, "p99_itl_ms": 25, "mean_tpot_ms": 25, "p95_tpot_ms": 25,
			"mean_e2e_latency_ms": 200, "mean_concurrency": 4,
			"failed": 0, "rejected": 0,
		})
		if v := res.Values["output_throughput"]; v < 99 || v > 100 {
			t.Errorf("output_throughput = %v, want 100 save for the moment of the close", v)
		}
		if n := strings.Count(lines.String(), "\n"); n != res.Sent {
			t.Errorf("%d lines for %d requests", n, res.Sent)
		}
		var first Request
		if err := json.NewDecoder(&lines).Decode(&first); err != nil {
			t.Fatal(err)
		}
		if first.Phase != "warmup" || *first.TTFTMS != 100 || *first.E2EMS != 200 || *first.TPOTMS != 25 || *first.OutputTokens != 5 || *first.PromptTokens != 8 || first.Outcome != OK {
			t.Errorf("first line %+v", first)
		}
	})
}

func TestConnectionsAreKept(t *testing.T) {
	server := &mock.Server{Answer: steady(mock.Timing{First: msec, Gap: msec})}
	url, err := server.Listen()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	spec := testSpec(server, 3)
	spec.URL, spec.Dial = url, nil
	spec.Window = Window{Min: 100 * msec, Max: 5 * second, Requests: map[string]int{"short": 20}}
	res, err := Run(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if res.Completed < 20 || res.Failed > 0 {
		t.Errorf("completed %d, failed %d: %s", res.Completed, res.Failed, res.FirstFailure)
	}
	if n := server.Conns(); n != 3 {
		t.Errorf("%d connections for 3 slots", n)
	}
}

var _ = errors.Is
var _ = fmt.Sprint
var _ sync.Mutex
var _ context.Context
