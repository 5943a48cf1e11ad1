package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"sweep/sweep"
)

func TestConditions(t *testing.T) {
	for _, tt := range []struct {
		cond, value string
		want        bool
	}{
		{"a=48", "48", true}, {"a=0.80", "0.8", true}, {"a=off,48", "off", true}, {"a=off", "48", false},
		{"a!=off", "off", false}, {"a!=off", "48", true}, {"a<0.9", "0.88", true}, {"a<0.9", "0.9", false},
		{"a<=0.9", "0.90", true}, {"a>64", "65", true}, {"a>=64", "64", true}, {"a>64", "off", false}, {"a = x ", " x", false}, {"a= x", "x", true},
	} {
		c, err := ParseCondition(tt.cond)
		if err != nil {
			t.Errorf("%s: %v", tt.cond, err)
			continue
		}
		if got := c.holds(tt.value); got != tt.want {
			t.Errorf("%q of %q: %v", tt.cond, tt.value, got)
		}
	}
	for _, bad := range []string{"", "a", "=3", "a!3", "a<off", "a>1,2"} {
		if c, err := ParseCondition(bad); err == nil {
			t.Errorf("%q is read as %+v", bad, c)
		}
	}
}

func mustCondition(t *testing.T, s string) Condition {
	t.Helper()
	c, err := ParseCondition(s)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestFiltered(t *testing.T) {
	n, _ := kimi(2).read(t)
	for _, tt := range []struct {
		filter                  []string
		configs, loads, records int
	}{
		{nil, 9, 4, 72},
		{[]string{"hicache-size=48"}, 3, 4, 24},
		{[]string{"hicache_size=48", "workload=synth"}, 3, 2, 12},
		{[]string{"concurrency>100"}, 9, 2, 36},
		{[]string{"outcome=oom.prefill"}, 9, 4, 4},
		{[]string{"output_throughput>1300", "workload=synth"}, 9, 2, 4},
		{[]string{"long_concurrency=32"}, 9, 1, 18},
		{[]string{"repeat=1"}, 9, 4, 36},
	} {
		var conds []Condition
		for _, f := range tt.filter {
			conds = append(conds, mustCondition(t, f))
		}
		if err := n.Check(View{Filter: conds}); err != nil {
			t.Errorf("%v: %v", tt.filter, err)
		}
		out := n.Filtered(conds)
		if len(out.Configs) != tt.configs || len(out.Loads) != tt.loads || len(out.Records) != tt.records {
			t.Errorf("%v: %d configs, %d loads, %d records, want %d, %d, %d", tt.filter, len(out.Configs), len(out.Loads), len(out.Records), tt.configs, tt.loads, tt.records)
		}
		tableText(t, Summarize(out), Options{}) // of any subset
	}
	if len(n.Records) != 72 {
		t.Error("filtering changed the night")
	}
}

func TestCheckView(t *testing.T) {
	n, _ := kimi(1).read(t)
	for _, tt := range []struct {
		v    View
		want string
	}{
		{View{Rows: "mem-fraction-static"}, "needs both"},
		{View{Rows: "mem-fraction-static", Cols: "nope"}, `no parameter "nope"; it has mem-fraction-static, hicache-size`},
		{View{Rows: "mem_fraction_static", Cols: "mem-fraction-static"}, "rows and columns are both"},
		{View{Rows: "mem-fraction-static", Cols: "hicache-size", Metrics: []string{"running", "queued"}}, "one metric"},
		{View{Metrics: []string{"speed"}}, `value "speed"`},
		{View{Filter: []Condition{{Name: "nope", Op: "=", Values: []string{"1"}}}}, "no such parameter"},
		{View{Sort: "-nope"}, "no such parameter"},
		{View{Rows: "workload", Cols: "short_concurrency", Metrics: []string{"short_p99_ttft_ms"}, Sort: "-kv_tokens"}, ""},
	} {
		err := n.Check(tt.v)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%+v: %v, want %q", tt.v, err, tt.want)
		}
	}
}

func TestCrosstab(t *testing.T) {
	_, s := kimi(3).read(t)
	v := View{Rows: "mem-fraction-static", Cols: "hicache-size"}
	text := tableText(t, s, Options{View: v})
	golden(t, "kimi-pivot.txt", []byte(text))
	for _, want := range []string{"skipped: 8 × 300 GB > 449 GB", "not in the grid", "@64 · OOM prefill @182"} {
		if !strings.Contains(text, want) {
			t.Errorf("the pivot does not say %q:\n%s", want, text)
		}
	}
	synth := s.Crosstabs(v)[1]
	best := s.Sheets[1].Best
	if got := synth.Cells[1][1]; got.Square != best.Best {
		t.Errorf("0.88 × 48 stands for %v", got.Square)
	}
	var b bytes.Buffer
	if err := WriteCrosstabCSV(&b, s, v); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&b).ReadAll()
	if err != nil || len(rows) != 1+2*9 {
		t.Errorf("%d lines of CSV, %v", len(rows), err)
	}
	b.Reset()
	if err := WriteCrosstabJSON(&b, s, View{Rows: "workload", Cols: "concurrency", Metrics: []string{"p99_ttft_ms"}}); err != nil {
		t.Fatal(err)
	}
	var list []map[string]any
	if err := json.Unmarshal(b.Bytes(), &list); err != nil || len(list) != 6 {
		t.Errorf("%d objects, %v", len(list), err)
	}
}

func TestMetricColumnsAndSort(t *testing.T) {
	_, s := kimi(2).read(t)
	text := tableText(t, s, Options{View: View{Metrics: []string{"kv_tokens", "p99_ttft_ms"}, Sort: "-kv_tokens"}})
	if !strings.Contains(text, "kv_tokens") || strings.Contains(text, "What each takes") || strings.Contains(text, "vs base") {
		t.Errorf("columns are not those asked for:\n%s", text)
	}
	last := math.Inf(1)
	for _, row := range s.Sheets[0].Rows {
		v, _ := row.shown().Median(metric("kv_tokens"))
		if v > last {
			t.Errorf("rows are not in falling order of kv_tokens")
		}
		last = v
	}
}

func TestDerivedMetrics(t *testing.T) {
	n, _ := kimi(1).read(t)
	n.SetPrice(36)
	r := n.Records[0]
	r.Values = sweep.Values{"output_throughput": 1000, "input_throughput": 4000, "median_tpot_ms": 50, "price_per_hour": 36}
	for name, want := range map[string]float64{
		"output_throughput_per_gpu": 125, "input_throughput_per_gpu": 500, "output_throughput_per_user": 20, "usd_per_million_output_tokens": 10,
	} {
		if v, ok := metric(name).Of(r); !ok || math.Abs(v-want) > 1e-9 {
			t.Errorf("%s is %g, %v, want %g", name, v, ok, want)
		}
	}
	delete(r.Values, "price_per_hour")
	if _, ok := metric("usd_per_million_output_tokens").Of(r); ok {
		t.Error("a price without a price")
	}
}

// A config that died at a higher load may win only where the grid says so.
func TestAcceptEdge(t *testing.T) {
	edit := func(r *sweep.Record) {
		if v, _ := r.Axes.Get("setting"); v == "c" && r.Load.Concurrency() == 16 {
			r.Ending = sweep.Ending{Outcome: sweep.OOMPrefill, Phase: sweep.PhaseLoad}
			r.Values = sweep.Values{}
		}
		if r.Load.Concurrency() == 16 && r.Outcome == sweep.OK { // so that c at 8 is the fastest
			r.Values["output_throughput"] /= 4
		}
	}
	n, s := race(edit).read(t)
	if got := s.Sheets[0].Best.Config.Key; got != "setting=b" {
		t.Errorf("best is %s", got)
	}
	n.AcceptEdge = true
	s = Summarize(n)
	if got := s.Sheets[0].Best; got.Config.Key != "setting=c" || got.Best.Load.Concurrency() != 8 || got.Unfit != "" {
		t.Errorf("with accept_edge best is %s at %d", got.Config.Key, got.Best.Load.Concurrency())
	}
	n, _ = race(func(r *sweep.Record) {
		edit(r)
		if v, _ := r.Axes.Get("setting"); v == "c" && r.Load.Workload == "other" { // its lowest level there
			r.Ending = sweep.Ending{Outcome: sweep.OOMPrefill, Phase: sweep.PhaseLoad}
		}
	}).read(t)
	n.AcceptEdge = true
	if got := Summarize(n).Sheets[0].Best.Config.Key; got != "setting=b" {
		t.Errorf("a config that cannot serve the other workload at all is best: %s", got)
	}
}

func TestRawFiles(t *testing.T) {
	spec := nightSpec{name: "raw", repeats: 2, axes: []sweep.Axis{axis("a", "1", "2")}, loads: []sweep.Load{load("w", "x", 8)}, edit: func(r *sweep.Record) bool {
		r.Values["window_s"] = 100
		return true
	}}
	dir := spec.write(t)
	rng := seeded(3)
	for _, r := range spec.records() {
		run := syntheticRun{open: 15, length: 100, rate: func(i int) float64 {
			v := 1000 + 20*rng.NormFloat64()
			if r.Config == "a=2" && r.Repeat == 2 {
				v *= 1 + 0.002*float64(i)
			}
			return v
		}}
		run.write(t, dir, r)
	}
	n, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(n.Runs) != 4 {
		t.Fatalf("%d runs are judged", len(n.Runs))
	}
	for id, run := range n.Runs {
		want := Flat
		if id == (RunID{"a=2/w,x=8", 2}) {
			want = WarmingUp
		}
		if run.Trend != want || run.Samples < 98 || run.Samples > 101 {
			t.Errorf("%v: %q from %d samples, want %q", id, run.Trend, run.Samples, want)
		}
	}
	r := n.Records[0]
	if r.Values["power_w"] != 600 {
		t.Errorf("power %g W, want 600", r.Values["power_w"])
	}
	tl, err := n.Timeline(r)
	if err != nil || tl == nil {
		t.Fatal(tl, err)
	}
	near(t, "window opens", tl.Open, 15, 1e-3)
	near(t, "window closes", tl.Close, 115, 1e-3)
	if len(tl.T) != 120 || len(tl.Retracts) != 2 || tl.T[0] != 0 || !math.IsNaN(tl.Rate[0]) {
		t.Errorf("%d scrapes, retractions at %v", len(tl.T), tl.Retracts)
	}
	s := Summarize(n)
	l, err := n.Latencies(s.Sheets[0].Rows[0].Best)
	if err != nil || l["x"] == nil {
		t.Fatal(l, err)
	}
	if got := len(l["x"].TTFT); got != 2*359 { // 400 without 40 of the warm-up and one that failed, in two repeats
		t.Errorf("%d latencies", got)
	}
	text := tableText(t, s, Options{})
	for _, want := range []string{"How sure the tails are", "718", "repeats disagree", "power"} {
		if !strings.Contains(text, want) {
			t.Errorf("the report does not say %q:\n%s", want, text)
		}
	}
	tampered := r
	tampered.Dir = "../../etc"
	if n.path(tampered, "x") != "" {
		t.Error("a record leads out of the night")
	}
}

func FuzzScanFlat(f *testing.F) {
	for _, s := range []string{`{}`, `{"a":1}`, `{"a":"x","b":[1,{"c":"}"}],"d":{"e":null}}`, ` { "a" : -1.5e3 , "b":"\"" } `, `{"a":1`, `[1]`, `{"a":}`, `{"a" 1}`, `{"a":1,}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		keys := map[string]string{}
		ok := scanFlat(line, func(k, v []byte) { keys[string(k)] = string(v) })
		var want map[string]json.RawMessage
		if json.Unmarshal(line, &want) != nil || want == nil {
			return // what is no object may be read as far as it goes, and must not panic
		}
		if !ok {
			t.Fatalf("%q is an object and was not read", line)
		}
		for k, v := range want {
			if strings.ContainsAny(k, "\\\"\ufffd") || bytes.Contains(line, []byte("\\u")) {
				continue // keys are not unescaped
			}
			if got, there := keys[k]; there && got != string(v) {
				t.Fatalf("%q: %q is %q, want %q", line, k, got, v)
			}
		}
	})
}
