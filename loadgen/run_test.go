package loadgen

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
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
		} else if math.Abs(g-w) > 1e-6*math.Max(1, math.Abs(w)) {
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

// In virtual time every number has one right value: 4 slots do a request of 5 tokens each 200 ms. The
// first cohort ends at 0.2 s, when the window opens; in 10.05 s each slot ends 50 requests.
func TestKnownTruth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &mock.Server{Answer: steady(mock.Timing{First: 100 * msec, Gap: 25 * msec})}
		spec := testSpec(server, 4)
		spec.Window = Window{Min: 10050 * msec, Max: 20 * second}
		spec.Counters = new(Counters)
		var lines bytes.Buffer
		spec.Requests = &lines
		res, err := Run(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		server.Close()
		if !res.Complete || res.Window != 10050*msec || res.Verdict != Valid || len(res.Notes) > 0 {
			t.Errorf("complete %v, window %v, verdict %s, notes %q", res.Complete, res.Window, res.Verdict, res.Notes)
		}
		if res.Steady == nil || !*res.Steady {
			t.Error("a constant stream is not steady")
		}
		wantValues(t, res.Values, map[string]float64{
			"mean_ttft_ms": 100, "median_ttft_ms": 100, "p99_ttft_ms": 100, "max_ttft_ms": 100, "std_ttft_ms": 0,
			"mean_itl_ms": 25, "p99_itl_ms": 25, "mean_tpot_ms": 25, "p95_tpot_ms": 25, "std_tpot_ms": 0,
			"mean_e2e_latency_ms": 200, "mean_concurrency": 4, "client_max_silence_s": 0.1,
			"completed": 200, "failed": 0, "rejected": 0, "output_tokens": 1000, "prompt_tokens": 1600,
			"output_throughput": 1000 / 10.05, "request_throughput": 200 / 10.05, "input_throughput": 1600 / 10.05, "total_throughput": 2600 / 10.05,
		})
		wantAbsent(t, res.Values, "request_goodput", "goodput_share", "slo_met", "short_mean_ttft_ms")
		if n := strings.Count(lines.String(), "\n"); n != res.Sent || n != int(spec.Counters.Sent.Load()) {
			t.Errorf("%d lines for %d requests", n, res.Sent)
		}
		if c := spec.Counters; c.Finished.Load() != int64(res.Completed) || c.FinishedTokens.Load() != int64(5*res.Completed) || c.PromptTokens.Load() != int64(8*res.Completed) || c.Tokens.Load() < c.FinishedTokens.Load() {
			t.Errorf("counters: finished %d, tokens %d of %d, prompt %d", c.Finished.Load(), c.FinishedTokens.Load(), c.Tokens.Load(), c.PromptTokens.Load())
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

// A class that stalls takes nothing from another: each of 150 short and 32 long pools stays at its level.
func TestPoolsHoldTheirLevels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &mock.Server{Answer: func(r mock.Request) []mock.Step {
			if len(r.PromptIDs) > 8 {
				return []mock.Step{{Hang: true}}
			}
			return mock.Stream(r, mock.Timing{First: 70 * msec, Gap: 10 * msec})
		}}
		spec := testSpec(server, 150)
		spec.Classes = append(spec.Classes, Class{Name: "long", Concurrency: 32, Input: Range{100, 100}, Output: Range{5, 5}})
		spec.Warmup = Warmup{Time: second}
		spec.Window = Window{Min: 5 * second, Max: 7 * second, Requests: map[string]int{"long": 1}}
		res, err := Run(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		if _, peak := server.InFlight(); peak != 182 {
			t.Errorf("at most %d requests in flight, want 182", peak)
		}
		server.Close()
		if res.Window != 7*second {
			t.Errorf("window of %v, want its max of 7s: the long class never had its request", res.Window)
		}
		wantValues(t, res.Values, map[string]float64{
			"mean_concurrency": 182, "short_mean_concurrency": 150, "long_mean_concurrency": 32, "long_completed": 0, "long_output_tokens": 0,
			"short_mean_ttft_ms": 70, "short_mean_itl_ms": 10, "failed": 0,
		})
		wantAbsent(t, res.Values, "long_mean_ttft_ms", "long_median_itl_ms")
	})
}

// A run that stops by count is over when its last request is: what ended is gathered only while others are in flight.
func TestCountedRunEndsWithItsLastRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &mock.Server{Answer: steady(mock.Timing{First: 100 * msec, Gap: 25 * msec})}
		spec := testSpec(server, 4)
		spec.Warmup = Warmup{}
		spec.Window = Window{Max: time.Minute, Requests: map[string]int{"short": 8}, Exactly: true}
		began := time.Now()
		res, err := Run(t.Context(), spec)
		server.Close()
		if err != nil {
			t.Fatal(err)
		}
		if took := res.Closed.Sub(began); res.Completed != 8 || took != 400*msec {
			t.Errorf("%d requests in %v, want 8 in 400 ms", res.Completed, took)
		}
	})
}

// The window stays open until each class has had its requests, and the start burst is not in the latency.
func TestWindowWaitsForRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &mock.Server{Answer: func(r mock.Request) []mock.Step {
			first := 40 * msec
			if r.Number < 3 {
				first = 5 * second // the burst: three prompts at once on a cold server
			}
			return mock.Stream(r, mock.Timing{First: first, Gap: 15 * msec})
		}}
		spec := testSpec(server, 3)
		spec.Window = Window{Min: 50 * msec, Max: 60 * second, Requests: map[string]int{"short": 40}}
		var opened []bool
		spec.OnWindow = func(open bool) { opened = append(opened, open) }
		var lines bytes.Buffer
		spec.Requests = &lines
		res, err := Run(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		server.Close()
		if fmt.Sprint(opened) != "[true false]" {
			t.Errorf("OnWindow saw %v", opened)
		}
		// Three requests each 100 ms: the 40th counting one ends after 1.4 s, or 1.5 s when the first three were
		// taken from the warm-up in the moment of the opening.
		if res.Window != 1400*msec && res.Window != 1500*msec {
			t.Errorf("window of %v", res.Window)
		}
		wantValues(t, res.Values, map[string]float64{"max_ttft_ms": 40, "mean_e2e_latency_ms": 100})
		phases := map[string]int{}
		for d := json.NewDecoder(&lines); d.More(); {
			var l Request
			if err := d.Decode(&l); err != nil {
				t.Fatal(err)
			}
			phases[l.Phase+" "+string(l.Outcome)]++
		}
		if phases["window ok"] < 40 || phases["warmup ok"] < 3 || phases["cut cancelled"] > 3 || len(res.Failures) > 0 {
			t.Errorf("phases %v, failures %v", phases, res.Failures)
		}
	})
}

// A server that counts only at the end gives the same throughput as one that counts as it goes.
func TestTokensByTotals(t *testing.T) {
	for _, c := range []struct {
		name   string
		timing mock.Timing
		itl    float64
	}{
		{"continuous", mock.Timing{First: 100 * msec, Gap: 20 * msec, Chunk: 2}, 10},
		{"total", mock.Timing{First: 100 * msec, Gap: 20 * msec, Chunk: 2, Usage: mock.Total}, 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &mock.Server{Answer: steady(c.timing)}
				spec := testSpec(server, 1)
				spec.Classes[0].Output = Range{12, 12} // 6 events: 100 ms, then 5 gaps of 20 ms
				spec.Window = Window{Min: 9950 * msec, Max: 20 * second}
				res, err := Run(t.Context(), spec)
				if err != nil {
					t.Fatal(err)
				}
				server.Close()
				// 49 whole requests, and of the 50th the events at 100, 120 and 140 ms.
				wantValues(t, res.Values, map[string]float64{"output_tokens": 49*12 + 6, "mean_itl_ms": c.itl, "max_itl_ms": c.itl, "mean_tpot_ms": 100. / 11, "completed": 49})
			})
		})
	}
}

func TestStall(t *testing.T) {
	for _, c := range []struct {
		name string
		step mock.Step
	}{
		{"silent", mock.Step{Hang: true}},
		{"comments only", mock.Step{Bytes: []byte(mock.Head)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &mock.Server{Answer: func(r mock.Request) []mock.Step {
					if r.Number < 6 {
						return mock.Stream(r, mock.Timing{First: 100 * msec, Gap: 100 * msec})
					}
					steps := []mock.Step{c.step}
					for range 200 { // a dying server may go on with its pings
						steps = append(steps, mock.Step{Wait: second, Bytes: []byte("3\r\n:\n\n\r\n")})
					}
					return steps
				}}
				spec := testSpec(server, 2)
				spec.Stall = 20 * second
				spec.Window = Window{Min: 60 * second, Max: 90 * second}
				start := time.Now()
				res, err := Run(t.Context(), spec)
				d := time.Since(start)
				server.Close()
				if !errors.Is(err, ErrStalled) {
					t.Fatalf("error %v, want ErrStalled", err)
				}
				if d < 21*second || d > 22*second { // six requests end at 1.5 s
					t.Errorf("ended after %v", d)
				}
				if res.Complete || res.Failures[KindStalled] != 2 || res.Values["completed"] == 0 || res.Closed.IsZero() {
					t.Errorf("result %+v", res)
				}
			})
		})
	}
}

func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &mock.Server{Answer: steady(mock.Timing{First: 100 * msec, Gap: 100 * msec})}
		cause := errors.New("the server is gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(3333*msec, func() { cancel(cause) })
		start := time.Now()
		res, err := Run(ctx, testSpec(server, 5))
		if !errors.Is(err, cause) || res.Complete || time.Since(start) != 3333*msec || res.Failed > 0 {
			t.Errorf("error %v after %v, result %+v", err, time.Since(start), res)
		}
		server.Close()
	})
}

// A server that is gone neither makes the slots spin nor lasts for the whole window.
func TestNobodyListens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spec := testSpec(&mock.Server{}, 50)
		dials := 0
		var mu sync.Mutex
		spec.Dial = func(context.Context, string, string) (net.Conn, error) {
			mu.Lock()
			defer mu.Unlock()
			dials++
			return nil, &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
		}
		start := time.Now()
		res, err := Run(t.Context(), spec)
		if !errors.Is(err, ErrFailing) || !strings.Contains(err.Error(), "refused") {
			t.Fatalf("error %v, want ErrFailing with the reason", err)
		}
		if d := time.Since(start); d > 2*second || dials > 250 {
			t.Errorf("%d dials in %v", dials, d)
		}
		if res.Complete || res.Failures[KindRefused] != res.Failed || !res.Opened.IsZero() || len(res.Values) > 0 || !strings.Contains(res.FirstFailure, "connection refused") {
			t.Errorf("result %+v", res)
		}
	})
}

// Refusals by rule are counted apart and do not count as failures; the rest of the load goes on.
func TestQueueFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var server *mock.Server
		server = &mock.Server{Answer: func(r mock.Request) []mock.Step {
			if now, _ := server.InFlight(); now > 2 {
				return mock.Answer(503, `{"object":"error","message":"The request queue is full.","type":"503","param":null,"code":503}`)
			}
			return mock.Stream(r, mock.Timing{First: 100 * msec, Gap: 100 * msec})
		}}
		spec := testSpec(server, 4)
		spec.Warmup = Warmup{Time: second}
		res, err := Run(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		server.Close()
		if res.Rejected == 0 || res.Failed != 0 || res.Failures[KindQueueFull] != res.Rejected || res.Values["completed"] < 20 || !strings.Contains(res.FirstFailure, "queue is full") {
			t.Errorf("result %+v", res)
		}
		wantValues(t, res.Values, map[string]float64{"failed": 0, "max_ttft_ms": 100})
	})
}

// A server that closes a kept connection without a word costs no request.
func TestStaleConnections(t *testing.T) {
	server := &mock.Server{Answer: func(r mock.Request) []mock.Step {
		steps := mock.Stream(r, mock.Timing{First: msec, Gap: msec})
		if r.OnConn == 1 {
			steps[len(steps)-1].Close = true
		}
		return steps
	}}
	url, err := server.Listen()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	spec := testSpec(server, 4)
	spec.URL, spec.Dial = url, nil
	spec.Window = Window{Min: 100 * msec, Max: 10 * second, Requests: map[string]int{"short": 100}}
	res, err := Run(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if res.Failed > 0 || res.Completed < 100 {
		t.Errorf("failed %d of %d: %s", res.Failed, res.Sent, res.FirstFailure)
	}
	if n := server.Conns(); n < res.Completed/2 {
		t.Errorf("%d connections for %d requests of which each second ends one", n, res.Completed)
	}
}

// A server that dies over a request fails it once; the request is not sent again.
func TestDeadServerIsNoStaleConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &mock.Server{Answer: func(r mock.Request) []mock.Step {
			if r.OnConn == 1 {
				return []mock.Step{{Wait: second, Close: true}}
			}
			return mock.Stream(r, mock.Timing{First: msec, Gap: msec})
		}}
		spec := testSpec(server, 1)
		res, err := Run(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		server.Close()
		if res.Failures[KindEmpty] == 0 || res.Sent != server.Requests() {
			t.Errorf("%v; %d sent, %d came", res.Failures, res.Sent, server.Requests())
		}
	})
}

type fullDisk struct{ left int }

func (d *fullDisk) Write(p []byte) (int, error) {
	if d.left -= len(p); d.left < 0 {
		return 0, syscall.ENOSPC
	}
	return len(p), nil
}

func TestRequestFileCannotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &mock.Server{Answer: steady(mock.Timing{First: 100 * msec, Gap: 25 * msec})}
		spec := testSpec(server, 4)
		spec.Requests = &fullDisk{left: 10000}
		res, err := Run(t.Context(), spec)
		if !errors.Is(err, syscall.ENOSPC) || res.Complete || res.Sent > 100 {
			t.Errorf("error %v, complete %v, sent %d", err, res.Complete, res.Sent)
		}
		server.Close()
	})
}

// The warm-up goes on while the throughput still rises.
func TestWarmUpUntilStable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		server := &mock.Server{Answer: func(r mock.Request) []mock.Step {
			slow := max(0, 30*second-time.Since(start)) / 30 // kernels are compiled for half a minute
			return mock.Stream(r, mock.Timing{First: 100*msec + slow, Gap: 25 * msec})
		}}
		spec := testSpec(server, 3)
		spec.Warmup = Warmup{Cohort: true, Stable: true, StableMax: 2 * time.Minute}
		var opened time.Duration
		spec.OnWindow = func(open bool) {
			if open {
				opened = time.Since(start)
			}
		}
		if _, err := Run(t.Context(), spec); err != nil {
			t.Fatal(err)
		}
		server.Close()
		if opened < 30*second || opened > time.Minute+second {
			t.Errorf("the window opened after %v", opened)
		}
	})
}

func TestProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			name   string
			answer func(mock.Request) []mock.Step
			want   string
		}{
			{"good", steady(mock.Timing{First: 100 * msec, Gap: 50 * msec}), "true  prompt 32 output 3 cached -1 ttft 100ms e2e 200ms 200"},
			{"short", steady(mock.Timing{First: 100 * msec, Gap: 50 * msec, Tokens: 2, Finish: "stop"}), "false early_stop: 2 tokens, 3 were asked: the model stopped prompt 32 output 2 cached -1 ttft 100ms e2e 150ms 200"},
			{"refused", func(mock.Request) []mock.Step { return mock.Answer(401, `{"error":"Unauthorized"}`) }, "false http_401: HTTP 401: Unauthorized prompt -1 output 0 cached -1 ttft 0s e2e 0s 401"},
			{"silent", func(mock.Request) []mock.Step { return []mock.Step{{Close: true}} }, "false empty_reply: before any byte of an answer: EOF prompt -1 output 0 cached -1 ttft 0s e2e 0s 0"},
		} {
			server := &mock.Server{Answer: c.answer}
			spec := testSpec(server, 1)
			a, err := Probe(t.Context(), spec, Ask{Input: 32, Output: 3})
			server.Close()
			got := fmt.Sprintf("%v %s prompt %d output %d cached %d ttft %v e2e %v %d", a.OK, a.Reason, a.PromptTokens, a.OutputTokens, a.CachedTokens, a.TTFT, a.E2E, a.HTTPStatusCode)
			if err != nil || got != c.want {
				t.Errorf("%s: %v\ngot  %s\nwant %s", c.name, err, got, c.want)
			}
		}
		server := &mock.Server{Answer: func(mock.Request) []mock.Step { return []mock.Step{{Hang: true}} }}
		ctx, cancel := context.WithTimeout(t.Context(), 5*second)
		defer cancel()
		if _, err := Probe(ctx, testSpec(server, 1), Ask{Input: 4, Output: 1}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want the end of its context", err)
		}
		server.Close()
	})
}

func TestSpecProblems(t *testing.T) {
	_, err := Run(t.Context(), Spec{URL: "127.0.0.1:1", Route: "v1", Classes: []Class{{Name: "a"}, {Name: "a", Concurrency: 1, Input: Range{1, 1}, Output: Range{1, 1}, SLO: []Objective{{"ttfb", 0.9, second}}}}, Window: Window{Min: 2, Max: 1, Requests: map[string]int{"b": 1}}})
	for _, part := range []string{`route "v1"`, `class "a" is there twice`, "concurrency 0", "input 0..0", "output 0..0", `objective on "ttfb"`, `class "b"`, "max 1ns"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error lacks %q: %v", part, err)
		}
	}
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
