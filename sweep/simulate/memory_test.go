package simulate

import (
	"errors"
	"math"
	"slices"
	"testing"
)

// started is the account of a rank that has started, as bootWeights to bootGraphs do it.
func started(t *testing.T, p *Profile, fraction float64, others int64) *memory {
	t.Helper()
	m := newMemory(p, p.TPSize, 1, others)
	if !m.loadWeights() {
		t.Fatal("weights do not fit")
	}
	if err := m.sizeKV(fraction, 1, 0); err != nil {
		t.Fatal(err)
	}
	if m.allocateKV() != 0 || !m.eagerBuffers() {
		t.Fatalf("%v: the pool does not fit", fraction)
	}
	if m.gate() {
		m.prefillGraph = m.take(m.prefillGraphBytes())
	}
	m.maxDecodeBS = defaultDecodeBS(p.GPUTotalMiB, p.TPSize)
	if !m.take(m.decodeGraphBytes()) {
		t.Fatalf("%v: graphs do not fit", fraction)
	}
	m.ready()
	return m
}

// Each number was read off the real machine: tokens exactly, headroom to a few hundredths of a GiB.
func TestKimiMemory(t *testing.T) {
	for _, c := range []struct {
		fraction float64
		tokens   int
		headroom float64 // GiB
	}{{0.85, 116_171, 8.3}, {0.88, 159_277, 5.47}, {0.93, 231_120, 0.82}} {
		m := started(t, kimi(), c.fraction, 0)
		if m.tokens != c.tokens {
			t.Errorf("%v: %d tokens, want %d", c.fraction, m.tokens, c.tokens)
		}
		if got := float64(m.headroom) / gib; math.Abs(got-c.headroom) > 0.15 {
			t.Errorf("%v: headroom %.2f GiB, want %.2f", c.fraction, got, c.headroom)
		}
	}
}

// The same by hand: tokens are linear in the fraction, (free after weights − free before × (1 − fraction)) ÷ bytes of a token.
func TestTokensAreLinear(t *testing.T) {
	p := kimi()
	const pre, weights, cell = 1_436_860 * 70_272, 77_661_768_384, 70_272
	for _, f := range []float64{0.80, 0.86, 0.91} {
		want := (pre - weights - pre*(1-f)) / cell
		m := newMemory(p, 8, 1, 0)
		m.loadWeights()
		if err := m.sizeKV(f, 1, 0); err != nil {
			t.Fatal(err)
		}
		if math.Abs(float64(m.tokens)-want) > 1 {
			t.Errorf("%v: %d tokens, by hand %.1f", f, m.tokens, want)
		}
	}
	m := newMemory(p, 8, 1, 5*gib) // somebody else's 5 GiB lower the base, and so the pool
	m.loadWeights()
	if err := m.sizeKV(0.88, 1, 0); err != nil {
		t.Fatal(err)
	}
	if want := 159_277.3 - 0.88*5*gib/cell; math.Abs(float64(m.tokens)-want) > 1 {
		t.Errorf("beside 5 GiB of others: %d tokens, by hand %.1f", m.tokens, want)
	}
	if err := m.sizeKV(0.88, 64, 0); err != nil || m.tokens%64 != 0 {
		t.Errorf("%d tokens are no whole pages of 64 (%v)", m.tokens, err)
	}
	if err := m.sizeKV(0.88, 1, 20_000); err != nil || m.tokens != 20_000 {
		t.Errorf("%d tokens, want the 20,000 of --max-total-tokens (%v)", m.tokens, err)
	}
}

// Each way for a fraction to be too high or too low ends in the phase where it ends in reality.
func TestWhereFractionsFail(t *testing.T) {
	p := kimi()
	end := func(f float64) string {
		m := newMemory(p, 8, 1, 0)
		m.loadWeights()
		if err := m.sizeKV(f, 1, 0); err != nil {
			return "low"
		}
		if m.allocateKV() > 0 {
			return "kv"
		}
		if !m.eagerBuffers() {
			return "buffers"
		}
		if m.gate() && !m.take(m.prefillGraphBytes()) {
			return "prefill graph"
		}
		m.maxDecodeBS = 512
		if !m.take(m.decodeGraphBytes()) {
			return "graph"
		}
		return "ready"
	}
	for f, want := range map[float64]string{0.5: "low", 0.76: "low", 0.78: "ready", 0.93: "ready", 0.945: "graph", 0.97: "graph", 0.9995: "buffers", 1.02: "kv"} {
		if got := end(f); got != want {
			t.Errorf("fraction %v ends at %q, want %q", f, got, want)
		}
	}
	m := newMemory(p, 8, 1, 0)
	m.loadWeights()
	var low *tooLowError
	if err := m.sizeKV(0.5, 1, 0); !errors.As(err, &low) || low.above != 0.77 {
		t.Errorf("too low: %v; want \"above 0.77\": 1 − 21.708/94.037 = 0.7692, up to the next thousandth", err)
	}
}

// At 0.93 a full chunk of short prompts fits into the headroom and one with a long prompt's context does not.
func TestPrefillActivation(t *testing.T) {
	for _, c := range []struct {
		fraction float64
		context  int
		ok       bool
	}{{0.93, 9_500, true}, {0.93, 16_384, false}, {0.88, 16_384, true}, {0.88, 40_000, true}} {
		m := started(t, kimi(), c.fraction, 0)
		need := m.prefillActivation(8192, c.context)
		if by := int64(16<<10)*8192 + int64(52<<10)*int64(c.context); need != by {
			t.Errorf("activation %d, by hand %d", need, by)
		}
		if m.activate(need) != c.ok {
			t.Errorf("%v, context %d: %.2f GiB of %.2f, want fits %t", c.fraction, c.context, float64(need)/gib, float64(m.headroom)/gib, c.ok)
		}
	}
}

// What SGLang 0.5.17 chose by itself on an H200 of 143,771 MiB.
func TestDefaultsAsRecorded(t *testing.T) {
	const h200 = 143_771
	if got := defaultFraction(h200, 1, 8192, 256, false); got != 0.903 {
		t.Errorf("default fraction %v, want 0.903", got)
	}
	if got := chunkSize(h200); got != 8192 {
		t.Errorf("chunk %d, want 8192", got)
	}
	if got := prefillBuckets(8192); len(got) != 58 || got[0] != 4 || got[57] != 8192 {
		t.Errorf("prefill graphs for %v", got)
	}
	want := []int{1, 2, 4, 8, 12, 16, 24, 32}
	if got := decodeBuckets(32); !slices.Equal(got, want) {
		t.Errorf("decode graphs for %v, want %v", got, want)
	}
	if got := decodeBuckets(256); len(got) != 36 || got[35] != 256 {
		t.Errorf("decode graphs for %v, want the 36 to 256", got)
	}
}

// 48 GB are 683,061 tokens of 70,272 B, a token rounded up; eight ranks of 300 GB each pass their own check.
func TestHostPool(t *testing.T) {
	m := started(t, kimi(), 0.88, 0)
	if tokens, _ := m.hostPoolTokens(48, 0, 1); tokens != 48*gb/70_272+1 {
		t.Errorf("%d tokens in 48 GB", tokens)
	}
	p := kimi()
	if err := checkHost(300*gb, p.HostTotalBytes-p.HostIdleBytes); err != nil {
		t.Errorf("one rank's 300 GB of 395: %v", err)
	}
	want := "Not enough host memory available. Requesting 400.00 GB but only have 394.96 GB free. Please reduce the size of the hierarchical cache."
	if err := checkHost(400*gb, p.HostTotalBytes-p.HostIdleBytes); err == nil || err.Error() != want {
		t.Errorf("have %v\nwant %s", err, want)
	}
}
