package search

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"sweep/sweep"
)

func hostCache(settings []sweep.Setting) bool {
	v, ok := sweep.SettingValue(settings, "hicache-size")
	return ok && v != "off"
}

// rule is SGLang's, without what only its own room knows.
func rule() *sweep.MemoryRule {
	return &sweep.MemoryRule{
		Fraction: "mem-fraction-static", Cap: "max-total-tokens", HostCache: hostCache,
		OfHostCache: func(name string) bool { return strings.HasPrefix(name, "hicache-") },
		GraphGate: func(s []sweep.Setting) float64 {
			if v, ok := sweep.SettingValue(s, "disable-cuda-graph"); ok && v == "true" {
				return 0
			}
			return 4
		},
		RequestGiB: func(_ []sweep.Setting, tokens, context float64) float64 {
			return min(max(tokens/context*512, 2048), 4096, tokens/2) * context * 4 / gib
		},
	}
}

// launch is a sighting: settings as in "mem-fraction-static=0.85 hicache-size=48", facts as in "kv_tokens=1".
func launch(t *testing.T, settings, facts string) sweep.Sighting {
	t.Helper()
	s := sweep.Sighting{
		Launch: settings, Engine: "sglang", EngineVersion: "0.5.17", Model: "m", Command: []string{"python3"}, Host: "local", GPU: "H200", GPUCount: 1,
		Facts: sweep.Values{},
	}
	for word := range strings.FieldsSeq(settings) {
		name, value, _ := strings.Cut(word, "=")
		s.Settings = append(s.Settings, sweep.Setting{Name: name, Values: []string{value}})
	}
	for word := range strings.FieldsSeq(facts) {
		var v float64
		name, value, _ := strings.Cut(word, "=")
		if _, err := fmt.Sscan(value, &v); err != nil {
			t.Fatal(err)
		}
		s.Facts[name] = v
	}
	return s
}

// capacity is what SGLang 0.5.17 told on one H200: Llama-3-8B's shape in bf16, 131,072 bytes a token.
var capacity = []struct{ fraction, tokens, headroom, graphs float64 }{
	{0.105, 8528, 124.15, 0}, {0.30, 230882, 96.81, 0}, {0.50, 458937, 68.87, 0}, {0.70, 686991, 41.09, 0}, {0.80, 801018, 27.09, 0},
	{0.85, 858032, 20.21, 0}, {0.90, 915046, 13.21, 0}, {0.97, 994864, 3.46, 0},
	{0.80, 801018, 25.48, 1.61}, {0.85, 858032, 18.61, 1.61}, {0.903, 918467, 11.23, 1.61}, {0.98, 1006269, 1.82, 0.26}, {0.99, 1017670, 0.45, 0.26},
}

func h200(t *testing.T, i int) sweep.Sighting {
	t.Helper()
	c := capacity[i]
	settings := fmt.Sprintf("mem-fraction-static=%v", c.fraction)
	if i < 8 {
		settings += " disable-cuda-graph=true"
	}
	s := launch(t, settings, fmt.Sprintf("kv_tokens=%v headroom_gib=%v avail_after_weights_gib=125.62 weights_gib=13.5 context_length=32768", c.tokens, c.headroom))
	if c.graphs > 0 {
		s.Facts["graph_gib"] = c.graphs
	}
	return s
}

// TestCapacity holds forecasts against a real device: each launch from all others within two tokens, and
// from any two launches within the error that the forecast itself states.
func TestCapacity(t *testing.T) {
	t.Parallel()
	for i, c := range capacity {
		if c.fraction < 0.30 || c.fraction > 0.98 {
			continue
		}
		var others []sweep.Sighting
		for j, o := range capacity {
			if s := h200(t, j); o.fraction != c.fraction && o.fraction >= 0.30 && o.fraction <= 0.98 {
				s.Settings = s.Settings[:1] // graphs do not change the pool
				others = append(others, s)
			}
		}
		asked := h200(t, i)
		asked.Settings = asked.Settings[:1]
		f := Forecast(rule(), others, asked, 0)
		if f == nil || f.KVTokens == nil {
			t.Fatalf("%v: no forecast", c.fraction)
		}
		if off := math.Abs(f.KVTokens.Value - c.tokens); off > 2 {
			t.Errorf("%v: %.1f tokens off", c.fraction, off)
		}
	}
	for i := range capacity {
		for j := range i {
			if capacity[i].fraction == capacity[j].fraction || (i < 8) != (j < 8) {
				continue
			}
			for k, c := range capacity {
				if (k < 8) != (i < 8) {
					continue
				}
				f := Forecast(rule(), []sweep.Sighting{h200(t, i), h200(t, j)}, h200(t, k), 0)
				if e := f.KVTokens; math.Abs(e.Value-c.tokens) > e.Within {
					t.Errorf("from %v and %v: %v has %.0f ± %.0f tokens, not %.0f", capacity[i].fraction, capacity[j].fraction, c.fraction, e.Value, e.Within, c.tokens)
				}
				if e := f.HeadroomGiB; e != nil && math.Abs(e.Value-c.headroom) > e.Within {
					t.Errorf("from %v and %v: %v has %.2f ± %.2f GiB headroom, not %.2f", capacity[i].fraction, capacity[j].fraction, c.fraction, e.Value, e.Within, c.headroom)
				}
			}
		}
	}
}

// TestOneLaunch: where a token's size is known, one launch says as much.
func TestOneLaunch(t *testing.T) {
	t.Parallel()
	for k, c := range capacity[:8] {
		f := Forecast(rule(), []sweep.Sighting{h200(t, 4)}, h200(t, k), 131072)
		if e := f.KVTokens; math.Abs(e.Value-c.tokens) > min(e.Within, 0.002*801018) {
			t.Errorf("%v: %.0f ± %.0f tokens, not %.0f", c.fraction, e.Value, e.Within, c.tokens)
		}
		if e := f.HeadroomGiB; math.Abs(e.Value-c.headroom) > min(e.Within, 0.3) {
			t.Errorf("%v: %.2f ± %.2f GiB, not %.2f", c.fraction, e.Value, e.Within, c.headroom)
		}
		if f.PoolGiB < 0.99*c.tokens*131072/gib {
			t.Errorf("%v: a pool of %.2f GiB", c.fraction, f.PoolGiB)
		}
	}
	other := h200(t, 4)
	other.Facts["kv_tokens"] /= 2 // the pool holds something else as well
	for name, f := range map[string]*sweep.Forecast{
		"no size of a token":   Forecast(rule(), []sweep.Sighting{h200(t, 4)}, h200(t, 5), 0),
		"another kind of pool": Forecast(rule(), []sweep.Sighting{other}, h200(t, 5), 131072),
	} {
		if f != nil {
			t.Errorf("%s: a forecast of %v", name, f)
		}
	}
	if f := Forecast(rule(), []sweep.Sighting{h200(t, 4)}, h200(t, 4), 0); f == nil || f.KVTokens.Value != 801018 || f.HeadroomGiB.Value != 27.09 {
		t.Errorf("the same launch again: %v", f)
	}
}

// TestGate: below 4 GiB the server drops its prefill graphs. Headroom then is not on the line of launches
// that have them.
func TestGate(t *testing.T) {
	t.Parallel()
	with := []sweep.Sighting{h200(t, 8), h200(t, 9)}
	f := Forecast(rule(), with, h200(t, 12), 0)
	if f.HeadroomGiB != nil || len(f.Notes) != 2 || !strings.Contains(f.Notes[0], "less than the 4 GiB that prefill graphs need") || !strings.Contains(f.Notes[1], "headroom is between") {
		t.Errorf("0.99 from 0.80 and 0.85: headroom %v, notes %q", f.HeadroomGiB, f.Notes)
	}
	f = Forecast(rule(), append(with, h200(t, 11)), h200(t, 12), 0)
	if e := f.HeadroomGiB; e == nil || math.Abs(e.Value-0.45) > 0.1 || len(f.Notes) != 1 {
		t.Errorf("with 0.98 as well: %v", f)
	}
	if x := f.Highest; x < 0.985 || x > 1 {
		t.Errorf("headroom ends at %v", x)
	}
	if x := f.Lowest; math.Abs(x-0.0975) > 0.0005 { // as SGLang itself says of the same machine and model
		t.Errorf("the pool begins at %v", x)
	}
}

// TestStory: what a hand-made night on eight cards could have said before its third launch.
func TestStory(t *testing.T) {
	t.Parallel()
	seen := []sweep.Sighting{
		launch(t, "tp-size=8 mem-fraction-static=0.85 hicache-size=off", "kv_tokens=116171 headroom_gib=8.3 graph_gib=5.6"),
		launch(t, "tp-size=8 mem-fraction-static=0.88 hicache-size=48", "kv_tokens=159277 headroom_gib=5.47 graph_gib=5.6"),
	}
	f := Forecast(rule(), seen, launch(t, "tp-size=8 mem-fraction-static=0.93 hicache-size=48", ""), 0)
	if e := f.KVTokens; e == nil || math.Abs(e.Value-231120) > 231 {
		t.Errorf("tokens %v", e)
	}
	if e := f.HeadroomGiB; e == nil || math.Abs(e.Value-0.82) > 0.3 || math.Abs(e.Value-0.82) > e.Within {
		t.Errorf("headroom %v", e)
	}
	if want := []string{"headroom is from launches with and without a host cache together"}; fmt.Sprint(f.Notes) != fmt.Sprint(want) {
		t.Errorf("notes %q", f.Notes)
	}
	if got, want := f.String(), "231,120 ± 9 KV tokens, 0.75 ± 0.56 GiB headroom, from "+seen[0].Launch+" and "+seen[1].Launch; !strings.HasPrefix(got, want) {
		t.Errorf("it says %q", got)
	}
	if f.Hopeless(0) != "" || f.Hopeless(1) == "" {
		t.Errorf("hopeless: %q, %q", f.Hopeless(0), f.Hopeless(1))
	}
	truth := f.Values(sweep.Values{"kv_tokens": 231120, "headroom_gib": 0.82})
	want := sweep.Values{"forecast_kv_tokens": 231120, "forecast_kv_tokens_within": 9, "forecast_kv_tokens_error": 0,
		"forecast_headroom_gib": 0.753, "forecast_headroom_within_gib": 0.563, "forecast_headroom_error_gib": 0.067}
	for name, v := range want {
		if got, ok := truth[name]; !ok || math.Abs(got-v) > 0.7 {
			t.Errorf("%s is %v, want %v", name, got, v)
		}
	}
	if len(truth) != len(want) {
		t.Errorf("values %v", truth)
	}
	low := Forecast(rule(), seen, launch(t, "tp-size=8 mem-fraction-static=0.76 hicache-size=off", ""), 0)
	if low.KVTokens.Value >= 0 || low.Hopeless(0) != "the weights would leave no room for a KV pool" {
		t.Errorf("0.76: %v, %q", low, low.Hopeless(0))
	}
}

// TestHostCache: launches with and without a host cache may lie on two lines of the same slope.
func TestHostCache(t *testing.T) {
	t.Parallel()
	at := func(x, headroom float64, cache string) sweep.Sighting {
		return launch(t, fmt.Sprintf("disable-cuda-graph=true mem-fraction-static=%v hicache-size=%s", x, cache),
			fmt.Sprintf("kv_tokens=%v headroom_gib=%v", 1000*x, headroom))
	}
	off := []sweep.Sighting{at(0.80, 20, "off"), at(0.85, 15, "off")}
	for _, test := range []struct {
		name   string
		seen   []sweep.Sighting
		want   float64
		within float64
		note   string
	}{
		{"none with it", off, 10, 0.6, "no launch with a host cache was seen: headroom may differ"},
		{"one with it", append(off, at(0.85, 14, "16")), 9, 0.4, ""},
		{"two with it", append(off, at(0.80, 18, "16"), at(0.85, 13.5, "32")), 9, 0.4, ""},
	} {
		f := Forecast(rule(), test.seen, at(0.90, 0, "64"), 0)
		if e := f.HeadroomGiB; e == nil || math.Abs(e.Value-test.want) > 1e-6 || e.Within > test.within {
			t.Errorf("%s: %v", test.name, e)
		}
		if strings.Join(f.Notes, ";") != test.note {
			t.Errorf("%s: notes %q", test.name, f.Notes)
		}
	}
}

// TestCap: a pool bounded by a setting does not grow with the fraction.
func TestCap(t *testing.T) {
	t.Parallel()
	at := func(x, tokens, headroom float64) sweep.Sighting {
		return launch(t, fmt.Sprintf("max-total-tokens=40000 disable-cuda-graph=true mem-fraction-static=%v", x), fmt.Sprintf("kv_tokens=%v headroom_gib=%v", tokens, headroom))
	}
	f := Forecast(rule(), []sweep.Sighting{at(0.5, 40000, 100), at(0.6, 40000, 100)}, at(0.9, 0, 0), 0)
	if f.KVTokens.Value != 40000 || f.HeadroomGiB == nil || f.HeadroomGiB.Value != 100 {
		t.Errorf("above the cap: %v", f)
	}
	f = Forecast(rule(), []sweep.Sighting{at(0.1, 10000, 110), at(0.2, 30000, 103), at(0.6, 40000, 100)}, at(0.15, 0, 0), 0)
	if math.Abs(f.KVTokens.Value-20000) > 1e-6 || math.Abs(f.HeadroomGiB.Value-106.5) > 1e-6 {
		t.Errorf("below the cap: %v", f)
	}
	f = Forecast(rule(), []sweep.Sighting{at(0.1, 10000, 110), at(0.2, 30000, 103)}, at(0.5, 0, 0), 0)
	if f.KVTokens.Value != 40000 || f.HeadroomGiB != nil {
		t.Errorf("from below to above it: %v", f)
	}
}

// TestFamily: nothing but the fraction and the host's cache may differ.
func TestFamily(t *testing.T) {
	t.Parallel()
	a, b := launch(t, "mem-fraction-static=0.80 tp-size=2", "kv_tokens=800"), launch(t, "tp-size=2 mem-fraction-static=0.90", "kv_tokens=900")
	asked := launch(t, "mem-fraction-static=0.85 tp-size=2 hicache-size=5 enable-x=off", "")
	change := func(edit func(*sweep.Sighting)) []sweep.Sighting {
		c := b
		edit(&c)
		return []sweep.Sighting{a, c}
	}
	if f := Forecast(rule(), []sweep.Sighting{a, b}, asked, 0); f == nil || math.Abs(f.KVTokens.Value-850) > 1e-6 || f.Version != "0.5.17" {
		t.Fatalf("of one family: %v", f)
	}
	for name, seen := range map[string][]sweep.Sighting{
		"engine":   change(func(s *sweep.Sighting) { s.Engine = "vllm" }),
		"version":  change(func(s *sweep.Sighting) { s.EngineVersion, s.At = "0.5.23", time.Unix(1, 0) }),
		"model":    change(func(s *sweep.Sighting) { s.Model = "n" }),
		"command":  change(func(s *sweep.Sighting) { s.Command = []string{"./wrapper"} }),
		"env":      change(func(s *sweep.Sighting) { s.Env = sweep.Params{{Name: "A", Value: "1"}} }),
		"host":     change(func(s *sweep.Sighting) { s.Host = "gpu2" }),
		"device":   change(func(s *sweep.Sighting) { s.GPU = "B200" }),
		"devices":  change(func(s *sweep.Sighting) { s.GPUCount = 2 }),
		"chosen":   change(func(s *sweep.Sighting) { s.GPUs = []string{"1"} }),
		"simulate": change(func(s *sweep.Sighting) { s.Simulate = "p" }),
		"setting":  change(func(s *sweep.Sighting) { s.Settings = launch(t, "tp-size=4 mem-fraction-static=0.90", "").Settings }),
		"missing":  change(func(s *sweep.Sighting) { s.Settings = launch(t, "mem-fraction-static=0.90", "").Settings }),
		"nothing":  nil,
	} {
		if f := Forecast(rule(), seen, asked, 0); f != nil {
			t.Errorf("%s: %v", name, f)
		}
	}
	if f := Forecast(nil, []sweep.Sighting{a, b}, asked, 0); f != nil {
		t.Error("an engine without a rule has a forecast")
	}
	if f := Forecast(rule(), []sweep.Sighting{a, b}, launch(t, "tp-size=2", ""), 0); f != nil {
		t.Error("a launch without a fraction has a forecast")
	}
}

func TestBasis(t *testing.T) {
	t.Parallel()
	before := []sweep.Sighting{
		launch(t, "mem-fraction-static=0.85", ""), launch(t, "mem-fraction-static=0.85 hicache-size=48", ""), launch(t, "mem-fraction-static=0.9 x=1", ""),
		launch(t, "mem-fraction-static=0.88", ""),
	}
	asked := launch(t, "mem-fraction-static=0.93", "")
	if got := Basis(rule(), before, asked, 2); fmt.Sprint(got) != "[0 3]" {
		t.Errorf("basis %v", got)
	}
	if got := Basis(rule(), before[:3], asked, 2); got != nil {
		t.Errorf("one fraction is a basis: %v", got)
	}
	if got := Basis(rule(), before[:3], asked, 1); fmt.Sprint(got) != "[0]" {
		t.Errorf("with the size of a token known: %v", got)
	}
}
