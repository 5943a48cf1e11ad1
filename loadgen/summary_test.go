package loadgen

import (
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sweep/loadgen/mock"
)

// summarize computes the values of a window from samples.
func summarize(w window, classes []Class, samples []*sample) map[string]float64 {
	s := newSummary(classes)
	for _, x := range samples {
		s.window[x.class].add(x, classes[x.class].SLO, w, x.windowTokens, x.windowChunks)
	}
	return s.values(w.length())
}

// goodSample is a request that counts: sent at a time, first token after, then n−1 tokens a gap apart.
func goodSample(class int, sent, ttft, gap time.Duration, n int) *sample {
	s := &sample{class: class, stream: measured, verdict: verdict{outcome: OK}, sent: sent, first: sent + ttft, shown: -1, tail: -1, completion: n, prompt: 10, chunks: n}
	s.last = s.first + time.Duration(n-1)*gap
	s.end = s.last
	for range n - 1 {
		s.gaps = append(s.gaps, newGap(gap, 1))
	}
	s.windowTokens = n
	return s
}

func TestEnough(t *testing.T) {
	for q, want := range map[float64]int{0.5: 6, 0.9: 30, 0.95: 60, 0.97: 100, 0.99: 100, 0.999: 1000, 1: 1} {
		if got := enough(q); got != want {
			t.Errorf("p%g needs %d samples, want %d", q*100, got, want)
		}
	}
}

func TestPercentilesNeedSamples(t *testing.T) {
	w := window{0, time.Hour}
	classes := []Class{{Name: "a"}}
	var samples []*sample
	for i := range 99 {
		samples = append(samples, goodSample(0, second, time.Duration(i+1)*msec, msec, 1))
		v := summarize(w, classes, samples)
		for name, least := range map[string]int{"p90_ttft_ms": 30, "p95_ttft_ms": 60, "p99_ttft_ms": 100, "std_ttft_ms": 2, "mean_ttft_ms": 1} {
			if _, ok := v[name]; ok != (len(samples) >= least) {
				t.Errorf("%s with %d samples: there %v", name, len(samples), ok)
			}
		}
		wantAbsent(t, v, "mean_itl_ms", "mean_tpot_ms") // single tokens have none
	}
	samples = append(samples, goodSample(0, second, 100*msec, msec, 1))
	wantValues(t, summarize(w, classes, samples), map[string]float64{
		"p90_ttft_ms": 90, "p95_ttft_ms": 95, "p99_ttft_ms": 99, "max_ttft_ms": 100, "median_ttft_ms": 50.5, "mean_ttft_ms": 50.5,
		"std_ttft_ms": 28.86607004772212, "completed": 100,
	})
}

// Tokens of one event share its gap evenly, and each is a sample.
func TestGapsWeighTokens(t *testing.T) {
	g := []gap{newGap(30*msec, 3), newGap(40*msec, 1), newGap(12*msec, 6)}
	v := map[string]float64{}
	var d dist
	for _, x := range g {
		d.add(x.perToken(), x.tokens())
	}
	d.put(v, "", "itl")
	slices.Sort(g)
	wantValues(t, v, map[string]float64{"mean_itl_ms": 8.2, "median_itl_ms": 2, "max_itl_ms": 40})
	if got := gapQuantile(g, 0.9); got != 10*msec {
		t.Errorf("p90 of ten tokens is %v, want the ninth: 10ms", got)
	}
	x := newGap(90*time.Minute, 5000)
	if x.perToken() != 90*time.Minute/5000 || x.tokens() != 5000 {
		t.Errorf("%v for %d tokens", x.perToken(), x.tokens())
	}
}

// The order of samples changes nothing; twice the window halves the rates; failures are in no latency.
func TestSummaryProperties(t *testing.T) {
	classes := []Class{{Name: "a", SLO: []Objective{{"ttft", 0.9, 50 * msec}, {"itl", 0.5, 20 * msec}}}, {Name: "b"}}
	var samples []*sample
	for i := range 120 {
		s := goodSample(i%2, time.Duration(i+1)*10*msec, time.Duration(20+i)*msec, time.Duration(1+i%7)*msec, 2+i%9)
		s.sloGaps = []time.Duration{gapQuantile(s.gaps, 0.5)}
		samples = append(samples, s)
	}
	fail := goodSample(0, second, 9*second, msec, 3)
	fail.verdict = verdict{Failed, KindCut, ""}
	cut := goodSample(1, second, msec, msec, 7)
	cut.verdict = verdict{outcome: Cancelled}
	early := goodSample(1, second, 20*second, msec, 3)
	early.stream = warmUp
	samples = append(samples, fail, cut, early)
	w := window{500 * msec, time.Minute}
	want := summarize(w, classes, samples)
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(samples), func(i, j int) { samples[i], samples[j] = samples[j], samples[i] })
	wantValues(t, summarize(w, classes, samples), want)

	double := summarize(window{500 * msec, time.Minute + w.length()}, classes, samples)
	for _, name := range []string{"output_throughput", "request_throughput", "total_throughput", "a_output_throughput", "request_goodput", "mean_concurrency"} {
		wantValues(t, double, map[string]float64{name: want[name] / 2})
	}
	if want["max_ttft_ms"] > 200 {
		t.Errorf("max TTFT %v holds a failed or warm-up request", want["max_ttft_ms"])
	}
	wantValues(t, want, map[string]float64{"failed": 1, "a_failed": 1, "b_failed": 0})
	sum := 0.0
	for _, s := range samples {
		if s.outcome != Failed {
			sum += float64(s.windowTokens)
		}
	}
	wantValues(t, want, map[string]float64{"output_tokens": sum})
}

func TestGoodput(t *testing.T) {
	w := window{0, 10 * second}
	slo := []Objective{{"ttft", 0.9, 50 * msec}, {"tpot", 0.5, 10 * msec}, {"e2e", 1, 400 * msec}}
	classes := []Class{{Name: "a", SLO: slo}, {Name: "b"}}
	var samples []*sample
	for i := range 30 {
		ttft := 40 * msec
		if i < 3 {
			ttft = 60 * msec
		}
		samples = append(samples, goodSample(0, second, ttft, 5*msec, 10), goodSample(1, second, 9*second/2, msec, 1))
	}
	v := summarize(w, classes, samples)
	wantValues(t, v, map[string]float64{"slo_met": 1, "a_slo_met": 1, "goodput_share": 0.9, "a_goodput_share": 0.9, "request_goodput": 2.7})
	wantAbsent(t, v, "b_slo_met", "b_goodput_share")

	fail := goodSample(0, second, msec, msec, 3)
	fail.verdict = verdict{Failed, KindCut, ""}
	samples = append(samples, fail)
	wantValues(t, summarize(w, classes, samples), map[string]float64{"goodput_share": 27. / 31, "slo_met": 1})

	samples = append(samples, goodSample(0, second, 70*msec, 5*msec, 10))
	wantValues(t, summarize(w, classes, samples), map[string]float64{"slo_met": 0})

	few := summarize(w, classes, slices.DeleteFunc(samples, func(s *sample) bool { return s.sent == second && s.ttft() == 40*msec }))
	wantAbsent(t, few, "slo_met", "a_slo_met")
}

// Tokens of a cut stream whose server tells only totals are counted by the tokens per event of the others.
func TestCutStreamsWithoutCounts(t *testing.T) {
	a := goodSample(0, second, msec, msec, 8)
	a.chunks = 4 // two tokens an event
	cut := &sample{stream: measured, verdict: verdict{outcome: Cancelled}, sent: second, first: 2 * second, end: 3 * second, completion: unknown, windowChunks: 5}
	v := summarize(window{0, 10 * second}, []Class{{Name: "a"}}, []*sample{a, cut})
	wantValues(t, v, map[string]float64{"output_tokens": 18})
}

func TestSteady(t *testing.T) {
	for _, c := range []struct {
		name   string
		rates  [2]int64 // tokens a second in each half
		length time.Duration
		life   time.Duration
		want   string
	}{
		{"equal", [2]int64{100, 100}, 20 * second, second, "true"},
		{"4 % apart", [2]int64{100, 96}, 20 * second, second, "true"},
		{"6 % apart", [2]int64{94, 100}, 20 * second, second, "false"},
		{"nothing", [2]int64{0, 0}, 20 * second, second, "false"},
		{"short window", [2]int64{100, 100}, 9 * second, second, "unknown"},
		{"long requests", [2]int64{100, 100}, 20 * second, 6 * second, "unknown"},
		{"no request", [2]int64{100, 100}, 20 * second, 0, "unknown"},
	} {
		w := &watch{marks: []mark{{0, 0}}}
		var tokens int64
		for at := second; at <= c.length+5*second; at += second {
			half := 0
			if at > 5*second+c.length/2 {
				half = 1
			}
			tokens += c.rates[half]
			w.marks = append(w.marks, mark{at, tokens})
		}
		got := "unknown"
		if s := w.steady(window{5 * second, 5*second + c.length}, c.life); s != nil {
			got = map[bool]string{true: "true", false: "false"}[*s]
		}
		if got != c.want {
			t.Errorf("%s: steady %s, want %s", c.name, got, c.want)
		}
	}
}

func TestClientVerdict(t *testing.T) {
	for _, c := range []struct {
		usual, worst time.Duration // of 200 wake-ups, five are the worst
		gapMS        float64
		want         string
	}{
		{100 * time.Microsecond, 2 * msec, 20, Valid},
		{100 * time.Microsecond, 30 * msec, 20, Suspect},
		{100 * time.Microsecond, 8 * msec, 1, Valid},
		{15 * msec, 30 * msec, 20, ClientBound},
		{4 * msec, 9 * msec, 1, Valid},
	} {
		var late hist
		for i := range 200 {
			d := c.usual
			if i%40 == 0 {
				d = c.worst
			}
			late.add(d)
		}
		e := Evidence{}
		var shot histShot
		late.shot(&shot)
		e["timer_late_p50_ms"], e["timer_late_p99_ms"] = ms(shot.quantile(0.5)), ms(shot.quantile(0.99))
		if got, _ := e.verdict(c.gapMS, false, false); got != c.want {
			t.Errorf("usually %v late, at worst %v, gaps of %v ms: %s, want %s", c.usual, c.worst, c.gapMS, got, c.want)
		}
	}
}

// A client whose core others want all the time is suspect even while it gets that core soon; one that fills its core by
// itself is judged by its own work.
func TestCrowdedCore(t *testing.T) {
	for _, c := range []struct {
		idle, delay float64
		want        string
	}{{0.5, 0.02, Valid}, {0.01, 0.02, Suspect}, {0.01, 0.002, Valid}, {0.01, 0.2, Suspect}} {
		e := Evidence{"core_idle_share": c.idle, "run_delay_share": c.delay}
		if got, why := e.verdict(20, true, false); got != c.want || got == Suspect && len(why) != 1 {
			t.Errorf("%+v: %s %q", c, got, why)
		}
	}
	status := filepath.Join(t.TempDir(), "status")
	if err := os.WriteFile(status, []byte("Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t0-1,5\nMems_allowed:\t1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := coresOf(status); !maps.Equal(got, map[int]bool{0: true, 1: true, 5: true}) {
		t.Errorf("cores %v", got)
	}
	if idle, steal, total := ticksOf(strings.Fields("10 1 5 100 20 0 3 7 99 9")); idle != 120 || steal != 7 || total != 146 {
		t.Errorf("idle %v, steal %v, total %v", idle, steal, total)
	}
}

// Beyond what is kept exactly, percentiles are within the width of a bucket; mean, deviation and maximum stay exact.
func TestDistributionsSpill(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	exact := &dist{}
	parts := [2]*dist{{rough: true}, {rough: true}}
	for range keepExact {
		x, weight := time.Duration(rng.ExpFloat64()*float64(20*msec)), 1+rng.IntN(3)
		exact.add(x, weight)
		parts[rng.IntN(2)].add(x, weight)
	}
	rough := parts[0]
	rough.join(parts[1])
	if exact.buckets != nil || rough.buckets == nil || rough.n != exact.n {
		t.Fatalf("%d and %d samples", exact.n, rough.n)
	}
	a, b := map[string]float64{}, map[string]float64{}
	exact.put(a, "", "x")
	rough.put(b, "", "x")
	for name, want := range a {
		if off := math.Abs(b[name]/want - 1); off > 0.00025 {
			t.Errorf("%s: %v, exactly %v", name, b[name], want)
		}
	}
	wantValues(t, b, map[string]float64{"mean_x_ms": a["mean_x_ms"], "std_x_ms": a["std_x_ms"], "max_x_ms": a["max_x_ms"]})
	x := 20 * msec
	if p, q := float64(exact.below(x))/float64(exact.n), float64(rough.below(x))/float64(rough.n); math.Abs(p-q) > 0.001 || math.Abs(p-0.632) > 0.01 {
		t.Errorf("%v and %v are below 20 ms", p, q)
	}
	for v := range time.Duration(1 << 16) {
		for _, x := range []time.Duration{v, v << 20} {
			if got := bucketValue(bucketOf(x)); got < x-x/4096 || got > x+x/4096 {
				t.Fatalf("bucket of %d is about %d", x, got)
			}
		}
	}
	if a, b := bucketOf(1<<62), len(rough.buckets); a >= b {
		t.Errorf("bucket %d of %d", a, b)
	}
}

// A window that asks for precision stays open while the throughput varies.
func TestPrecision(t *testing.T) {
	for _, c := range []struct {
		spread int64
		ok     bool
	}{{0, true}, {3, true}, {60, false}} {
		rng := rand.New(rand.NewPCG(5, 6))
		w := &watch{marks: []mark{{0, 0}}}
		tokens := int64(0)
		for i := range 30 {
			tokens += 100 + rng.Int64N(2*c.spread+1) - c.spread
			w.marks = append(w.marks, mark{time.Duration(i+1) * second, tokens})
		}
		half, mean, ok := w.interval(window{0, 30 * second}, second)
		if !ok || half <= 0.02*mean != c.ok || math.Abs(mean-float64(tokens)/30) > 1e-9 {
			t.Errorf("spread %d: %v ± %v", c.spread, mean, half)
		}
	}
	for free, want := range map[float64]float64{9: 2.262, 19: 2.093, 60: 2.000} {
		if got := studentT(free); math.Abs(got-want) > 0.002 {
			t.Errorf("t of %v: %v, want %v", free, got, want)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		server := &mock.Server{Answer: func(r mock.Request) []mock.Step {
			first := 100 * msec
			if r.Number < 4 {
				first += 7 * msec // so that no token comes in the moment of a mark
			}
			return mock.Stream(r, mock.Timing{First: first, Gap: 25 * msec})
		}}
		spec := testSpec(server, 4)
		spec.Window = Window{Min: second, Max: 100 * second, Precision: 0.01}
		res, err := Run(t.Context(), spec)
		server.Close()
		if half, ok := res.Definitions["output_throughput_half_width"]; err != nil || res.Window < 10*second || res.Window > 20*second || !ok || half > 1 {
			t.Errorf("window of %v, %v, half width %v", res.Window, err, half)
		}
	})
}
