package simulate

import (
	"fmt"
	"math"
	"testing"

	"sweep/sweep"
	"sweep/sweep/engine"
	"sweep/sweep/search"
)

// starting is what a launch of a profile says of itself when it is ready; ok is false when it would not be.
func starting(p *Profile, fraction float64, decodeBS int) (facts sweep.Values, ok bool) {
	m := newMemory(p, p.TPSize, 1, 0)
	if !m.loadWeights() || m.sizeKV(fraction, 1, 0) != nil || m.allocateKV() > 0 || !m.eagerBuffers() {
		return nil, false
	}
	graphs := m.free
	if m.gate() {
		m.prefillGraph = m.take(m.prefillGraphBytes())
	}
	m.maxDecodeBS = decodeBS
	if !m.take(m.decodeGraphBytes()) {
		return nil, false
	}
	m.ready()
	hundredths := func(bytes int64) float64 { return math.Round(float64(bytes)/gib*100) / 100 } // as logs have it
	return sweep.Values{
		"kv_tokens": float64(m.tokens), "headroom_gib": hundredths(m.headroom), "graph_gib": hundredths(graphs - m.free), "context_length": float64(p.ContextLength),
	}, true
}

// TestForecast: after two launches of a simulated machine a third is known before it runs.
func TestForecast(t *testing.T) {
	e, _ := engine.Lookup("sglang")
	launch := func(p *Profile, fraction float64) sweep.Sighting {
		return sweep.Sighting{Launch: fmt.Sprint(fraction), Engine: "sglang", Settings: []sweep.Setting{{Name: "mem-fraction-static", Values: []string{fmt.Sprint(fraction)}}}}
	}
	for _, test := range []struct {
		p        *Profile
		seen     []float64
		fraction float64
		decodeBS int
	}{
		{kimi(), []float64{0.85, 0.88}, 0.93, 512},
		{kimi(), []float64{0.85, 0.88}, 0.80, 512},
		{kimi(), []float64{0.92, 0.80}, 0.87, 512},
		{llama(), []float64{0.76, 0.80}, 0.78, 24},
		{llama(), []float64{0.86, 0.90}, 0.95, 24}, // without prefill graphs, all three
	} {
		var seen []sweep.Sighting
		for _, x := range test.seen {
			s := launch(test.p, x)
			s.Facts, _ = starting(test.p, x, test.decodeBS)
			seen = append(seen, s)
		}
		truth, ok := starting(test.p, test.fraction, test.decodeBS)
		if !ok {
			t.Fatalf("%s does not start at %v", test.p.Name, test.fraction)
		}
		f := search.Forecast(e.Memory, seen, launch(test.p, test.fraction), 0)
		if f == nil || f.KVTokens == nil || f.HeadroomGiB == nil {
			t.Fatalf("%s at %v: forecast %v", test.p.Name, test.fraction, f)
		}
		if got, want := f.KVTokens.Value, truth["kv_tokens"]; math.Abs(got-want) > 0.001*want || math.Abs(got-want) > f.KVTokens.Within {
			t.Errorf("%s at %v: %.0f ± %.0f tokens, not %.0f", test.p.Name, test.fraction, got, f.KVTokens.Within, want)
		}
		if got, want := f.HeadroomGiB.Value, truth["headroom_gib"]; math.Abs(got-want) > 0.3 || math.Abs(got-want) > f.HeadroomGiB.Within {
			t.Errorf("%s at %v: %.2f ± %.2f GiB of headroom, not %.2f", test.p.Name, test.fraction, got, f.HeadroomGiB.Within, want)
		}
		pool := truth["kv_tokens"] * float64(test.p.CellBytes) / gib
		if math.Abs(f.PoolGiB-pool) > 0.02*pool {
			t.Errorf("%s at %v: a pool of %.2f GiB, not %.2f", test.p.Name, test.fraction, f.PoolGiB, pool)
		}
	}
	// Where the weights leave no room, and where graphs no longer fit, a forecast says so before a launch does.
	k := kimi()
	var seen []sweep.Sighting
	for _, x := range []float64{0.85, 0.88} {
		s := launch(k, x)
		s.Facts, _ = starting(k, x, 512)
		seen = append(seen, s)
	}
	for _, x := range []float64{0.74, 0.76, 0.78, 0.93, 0.95} {
		_, starts := starting(k, x, 512)
		f := search.Forecast(e.Memory, seen, launch(k, x), 0)
		if starts != (f.Hopeless(0) == "") {
			t.Errorf("%v: it starts %v, forecast %v", x, starts, f)
		}
	}
}
