package main

import (
	"bytes"
	"encoding/csv"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sweep/bench/peers/rawreader"
	"sweep/loadgen/truth"
)

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

// served is the log of a request that came at a time and got tokens at these; ms.
func served(complete int64, at ...int64) truth.Request {
	const ms = 1_000_000
	r := truth.Request{Stream: true, Status: 200, Accept: complete, Complete: complete * ms, Sent: len(at)}
	for _, t := range at {
		r.End = (complete + t) * ms
		r.Events = append(r.Events, truth.Event{Kind: truth.Content, Tokens: 1, Start: r.End, Last: r.End})
	}
	r.Events = append(r.Events, truth.Event{Kind: truth.Done, Start: r.End, Last: r.End})
	return r
}

func TestReadTruth(t *testing.T) {
	t.Parallel()
	warmup, cut := served(1000, 500, 501, 502), served(2000, 10)
	all := []truth.Request{served(3000, 20, 30, 60), warmup, cut, served(2900, 10, 20, 30)}
	got := readTruth(benchCase{Streams: 2, Requests: 2, Tokens: 3}, truth.Summary{}, all)
	want := values{"ttft_mean": 15, "itl_p50": 10, "tpot_mean": 15, "e2e_mean": 45}
	for name, v := range want {
		if !near(got.Values[name], v) {
			t.Errorf("%s is %v, want %v", name, got.Values[name], v)
		}
	}
	if got.Requests != 2 || got.Tokens != 6 || got.First != 2900e6 || got.LastEnd != 3060e6 || !near(got.Delivered, 90.0/(2*160)) || got.Connections != 2 {
		t.Errorf("%+v", got)
	}
	if none := readTruth(benchCase{Tokens: 9, Requests: 1}, truth.Summary{}, all); none.Requests != 0 || len(none.Values) != 0 {
		t.Errorf("%+v", none)
	}
	if e := errorsOf(values{"a": 5, "b": 1}, values{"a": 3, "c": 1}); len(e) != 1 || e["a"] != 2 {
		t.Errorf("%v", e)
	}
}

func TestReadResults(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(text string) job {
		j := job{Dir: dir, URL: "http://h:1", Case: benchCase{Streams: 3, Requests: 6, Tokens: 9}}
		if err := os.WriteFile(j.out(), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return j
	}
	for _, c := range []struct {
		name string
		tool tool
		text string
		want reported
	}{
		{"lines of SGLang, with Infinity", sglangTool("s", "1", "py", "m", "tok", true), `{"mean_ttft_ms": 1}` + "\n" + `{"request_rate": Infinity, "mean_ttft_ms": 2, "median_itl_ms": 3, "p99_e2e_latency_ms": 4, "completed": 6, "duration": 7.5}` + "\n",
			reported{values{"ttft_mean": 2, "itl_p50": 3, "e2e_p99": 4}, 6, 0, 7.5}},
		{"vLLM", vllmTool("v", "1", "c", "tok", true), `{"request_rate":"inf","p90_tpot_ms":2,"mean_e2el_ms":4,"completed":5,"failed":1,"duration":1}`,
			reported{values{"tpot_p90": 2, "e2e_mean": 4}, 5, 1, 1}},
		{"ours, below values", ourTool("x", "user", "1"), `{"values":{"mean_e2e_latency_ms":4,"completed":6},"duration_s":2}`,
			reported{values{"e2e_mean": 4}, 6, 0, 2}},
		{"the bare reader", rawTool("self", "kernel"), `{"requests":6,"duration_s":3,"user":{"ttft":{"n":1,"mean":9}},"kernel":{"ttft":{"n":1,"mean":8,"p50":7,"p90":7,"p99":7}}}`,
			reported{values{"ttft_mean": 8, "ttft_p50": 7, "ttft_p90": 7, "ttft_p99": 7}, 6, 0, 3}},
	} {
		got, err := c.tool.read(file(c.text))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if len(got.Values) != len(c.want.Values) || got.Completed != c.want.Completed || got.Failed != c.want.Failed || got.DurationS != c.want.DurationS {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
		for name, v := range c.want.Values {
			if got.Values[name] != v {
				t.Errorf("%s: %s is %v, want %v", c.name, name, got.Values[name], v)
			}
		}
	}
	if _, err := readFlat(filepath.Join(dir, "none"), ""); err == nil {
		t.Error("no error for a missing result")
	}
	j := job{Dir: "/d", URL: "http://h:1", Case: benchCase{Streams: 3, Requests: 6, Tokens: 9}}
	line := strings.Join(ourTool("sweep load --url {url} {streams} {requests} {tokens} {stamps} {out}", "kernel", "").argv(j), " ")
	if want := "sweep load --url http://h:1 3 6 9 kernel /d/out.json"; line != want {
		t.Errorf("%q, want %q", line, want)
	}
}

// run is a result with one error and one CPU time.
func fake(tools []tool, name string, c benchCase, ttft, cpu float64) result {
	for i := range tools {
		if tools[i].Name == name {
			return result{Case: c, Tool: &tools[i], Completed: c.Requests, Errors: values{"ttft_mean": ttft}, CPULoadS: cpu * float64(c.events()) / 1e6}
		}
	}
	panic("no tool " + name)
}

func TestJudge(t *testing.T) {
	t.Parallel()
	tools := []tool{rawTool("", "kernel"), ourTool("", "kernel", ""), sglangTool("a", "", "", "", "", true), vllmTool("b", "", "", "", true)}
	c := paced(100, false)
	var list []goal
	for _, g := range goals() {
		if g.Case == c.Name && (g.Measure == "TTFT mean error" || g.Measure == "CPU per event") {
			list = append(list, g)
		}
	}
	if len(list) != 2 {
		t.Fatalf("%d goals", len(list))
	}
	all := []result{
		fake(tools, "R kernel", c, 0.1, 10), fake(tools, "R kernel", c, -0.3, 12), fake(tools, "R kernel", c, 0.2, 11), // medians 0.2 and 11
		fake(tools, "a", c, 2, 30), fake(tools, "b", c, 3, 20), // best: a for TTFT, b for CPU
		fake(tools, "sweep kernel", c, -0.34, 14),
	}
	failed := fake(tools, "sweep kernel", c, 9, 9)
	failed.Failed = 1
	all = append(all, failed) // is left out
	check := func(what string, v verdict, pass, complete bool, peer string) {
		t.Helper()
		if v.Pass != pass || v.Complete != complete || v.Peer != peer {
			t.Errorf("%s: %+v", what, v)
		}
	}
	got := judge(all, tools, list)
	if len(got) != 2 || got[0].R.Median != 0.2 || got[0].Ours.N != 1 {
		t.Fatalf("%+v", got)
	}
	check("0.34 ≤ 0.2 + 0.15 and ≤ 2/4", got[0], true, true, "a")
	check("14 ≤ 1.3 × 11 and ≤ 0.95 × 20", got[1], true, true, "b")
	all[5] = fake(tools, "sweep kernel", c, 0.36, 14.4)
	got = judge(all, tools, list)
	check("0.36 > 0.35", got[0], false, true, "a")
	check("14.4 > 14.3", got[1], false, true, "b")
	got = judge(all[:3], tools, list)
	check("without ours and peers", got[0], false, false, "")
	var out strings.Builder
	writeGoals(&out, got)
	for _, want := range []string{"≤ R + 0.15 = 0.35", "≤ P/4 (not measured)", "no figure"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}

// Each kind of bound does what it says at its edge.
func TestBounds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		b    bound
		more bool
		ours float64
		text string
		pass bool
	}{
		{bound{Add: 40}, false, 40, "≤ = 40", true},
		{bound{Add: 40}, false, 40.1, "≤ = 40", false},
		{fromR(1, -1), true, 9, "≥ R − 1 = 9", true},
		{fromR(1, -1), true, 8.9, "≥ R − 1 = 9", false},
		{bound{Factor: 1, Of: peer, Strict: true}, true, 20, "> P = 20", false},
		{bound{Factor: 1, Of: peer, Strict: true}, true, 20.1, "> P = 20", true},
		{fromP(2), true, 40, "≥ 2 P = 40", true},
		{fromR(2, 1), false, 21, "≤ 2 R + 1 = 21", true},
		{fromP(1.0 / 10), false, 2, "≤ P/10 = 2", true},
	} {
		v := verdict{Goal: goal{More: c.more}, Ours: spread{N: 1, Median: c.ours}, R: spread{N: 1, Median: 10}, P: spread{N: 1, Median: 20}}
		v.hold([]bound{c.b})
		if v.Pass != c.pass || !v.Complete || v.Limits[0] != c.text {
			t.Errorf("%+v with %v: %+v", c.b, c.ours, v)
		}
	}
}

func TestCases(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, c := range append(casesOf(false, []int{100, 300, 1000, 2000}, []int{300, 1000}), casesOf(true, nil, nil)...) {
		if _, err := truth.ParseQuery(truth.DefaultPlan(), c.Query); err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
		names[c.Name] = true
	}
	for _, g := range goals() {
		if !names[g.Case] {
			t.Errorf("the case %s of a goal is never run", g.Case)
		}
	}
}

func TestCSV(t *testing.T) {
	t.Parallel()
	tools := []tool{rawTool("", "kernel")}
	r := fake(tools, "R kernel", paced(100, false), 0.5, 10)
	r.Errors.put("itl", rawreader.Distribute([]float64{1}))
	var out bytes.Buffer
	if err := writeCSV(&out, []result{r}); err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(&out).ReadAll()
	if err != nil || len(lines) != 2 {
		t.Fatalf("%d lines, %v", len(lines), err)
	}
	cell := map[string]string{}
	for i, name := range lines[0] {
		cell[name] = lines[1][i]
	}
	if cell["cpu_us_per_event"] != "10.000" || cell["ttft_mean_error_ms"] != "0.5000" || cell["itl_p99_error_ms"] != "1.0000" || cell["ttft_mean_true_ms"] != "" {
		t.Errorf("%v", cell)
	}
}
