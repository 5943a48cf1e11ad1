package report

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat"
)

func seeded(n uint64) *rand.Rand { return rand.New(rand.NewPCG(n, 42)) }

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.IsNaN(got) || math.Abs(got-want) > tolerance {
		t.Errorf("%s is %.4f, want %.4f ± %.4f", what, got, want, tolerance)
	}
}

// ar1 is a series of mean 100 whose samples differ by sd from it and remember their neighbour by rho.
func ar1(rng *rand.Rand, n int, rho, sd float64) []float64 {
	out := make([]float64, n)
	x := rng.NormFloat64()
	for i := range out {
		x = rho*x + math.Sqrt(1-rho*rho)*rng.NormFloat64()
		out[i] = 100 + sd*x
	}
	return out
}

// repeats are fresh starts of a config: log-normal around its mean.
func repeats(rng *rand.Rand, n int, mean, cv float64) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = mean * math.Exp(cv*rng.NormFloat64())
	}
	return out
}

func TestHolm(t *testing.T) {
	// The example of Holm's procedure: four tests, the smallest times 4, the next times 3, never below the one before.
	got := Holm([]float64{0.01, 0.04, 0.03, 0.005})
	for i, want := range []float64{0.03, 0.06, 0.06, 0.02} {
		near(t, "adjusted p", got[i], want, 1e-12)
	}
	if len(Holm(nil)) != 0 {
		t.Error("an empty family has p-values")
	}
}

func TestWelchByHand(t *testing.T) {
	// Worked out apart from this code, p by numerical integration of the density.
	a := []float64{27.5, 21.0, 19.0, 23.6, 17.0, 17.9, 16.9, 20.1, 21.9, 22.6, 23.1, 19.6, 19.0, 21.7, 21.4}
	b := []float64{27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0, 24.8, 20.2, 21.9, 22.1, 22.9, 30.5, 24.4}
	diff, se, df := welch(a, b)
	near(t, "t", diff/se, -2.85295, 1e-4)
	near(t, "degrees of freedom", df, 27.8873, 1e-3)
	near(t, "p", twoSided(diff, se, df), 0.0080719, 1e-6)
}

// Coverage of the interval by ten batch means, against what is known for such series; that of all samples
// would be 0.50 at a lag-1 correlation of 0.8.
func TestBatchMeansCoverage(t *testing.T) {
	const trials = 1500
	for _, tt := range []struct {
		rho  float64
		n    int
		want float64
	}{{0.5, 300, 0.95}, {0.8, 120, 0.89}, {0.8, 300, 0.94}, {0.95, 900, 0.93}} {
		rng := seeded(uint64(tt.n) + uint64(100*tt.rho))
		hit := 0
		for range trials {
			if e, ok := BatchMeans(ar1(rng, tt.n, tt.rho, 5)); ok && e.Lo <= 100 && 100 <= e.Hi {
				hit++
			}
		}
		near(t, "coverage", float64(hit)/trials, tt.want, 0.025)
	}
	if _, ok := BatchMeans(make([]float64, leastSeries-1)); ok {
		t.Error("an interval from too few samples")
	}
}

func TestAutocorrelationTime(t *testing.T) {
	for _, rho := range []float64{0, 0.5, 0.8} {
		rng := seeded(uint64(10 * rho))
		var all []float64
		for range 200 {
			all = append(all, AutocorrelationTime(ar1(rng, 2000, rho, 1)))
		}
		want := (1 + rho) / (1 - rho) // of an AR(1) series
		near(t, "autocorrelation time", stat.Mean(all, nil), want, 0.12*want)
	}
	if got := AutocorrelationTime(make([]float64, 50)); got != 1 {
		t.Errorf("a constant series has autocorrelation time %g", got)
	}
}

func TestMSER5(t *testing.T) {
	rng := seeded(7)
	var flat, jump []float64
	rejected := 0
	for range 400 {
		cut, ok := MSER5(ar1(rng, 300, 0.5, 3))
		flat = append(flat, float64(cut))
		if !ok {
			rejected++
		}
		s := ar1(rng, 300, 0.5, 3)
		for i := range 74 {
			s[i] *= 0.6
		}
		cut, _ = MSER5(s)
		jump = append(jump, float64(cut))
	}
	m, _ := medianOf(flat)
	near(t, "cut of a steady series", m, 0, 5)
	m, _ = medianOf(jump)
	near(t, "cut of a series that jumps at 74 s", m, 75, 5)
	if share := float64(rejected) / 400; share > 0.10 {
		t.Errorf("%.0f %% of steady series rejected", 100*share)
	}
	if _, ok := MSER5(make([]float64, 49)); ok {
		t.Error("a cut of fewer than 50 samples")
	}
}

func TestCheckSteady(t *testing.T) {
	rng := seeded(8)
	count := map[string]map[Trend]int{}
	const trials = 400
	for range trials {
		for name, shape := range map[string]func(x float64) float64{
			"flat": func(float64) float64 { return 1 },
			"up":   func(x float64) float64 { return 0.92 + 0.16*x },
			"down": func(x float64) float64 { return 1.08 - 0.16*x },
		} {
			s := ar1(rng, 300, 0.5, 3)
			for i := range s {
				s[i] *= shape(float64(i) / 300)
			}
			if count[name] == nil {
				count[name] = map[Trend]int{}
			}
			count[name][CheckSteady(s, nil).Trend]++
		}
	}
	for name, want := range map[string]struct {
		trend Trend
		least float64
	}{"flat": {Flat, 0.88}, "up": {WarmingUp, 0.95}, "down": {SlowingDown, 0.95}} {
		if share := float64(count[name][want.trend]) / trials; share < want.least {
			t.Errorf("%s: judged %q in %.0f %%, want at least %.0f %%: %v", name, want.trend, 100*share, 100*want.least, count[name])
		}
	}
	if s := CheckSteady(make([]float64, 5), nil); s.Trend != TrendUnknown || s.HasMean {
		t.Errorf("five samples are judged: %+v", s)
	}
	if s := CheckSteady(ar1(rng, 120, 0.8, 3), nil); !s.TooShort {
		t.Errorf("120 s at a correlation of 0.8 are worth %.0f samples and not called short", s.Worth)
	}
	usage := make([]float64, 120)
	for i := range usage {
		usage[i] = 0.4 + 0.003*float64(i)
	}
	if s := CheckSteady(ar1(rng, 120, 0.2, 2), usage); !s.Rising {
		t.Error("a pool that still fills is not seen")
	}
	if Consistent([]Steadiness{{Trend: Flat}, {}, {Trend: SlowingDown}}) || !Consistent([]Steadiness{{Trend: Flat}, {}, {Trend: Flat}}) {
		t.Error("runs that disagree are consistent, or those that agree are not")
	}
}

// grid is the noise model of a night: so many cells of three repeats, whose spread is cv (a range for cells that differ).
func gridOfNoise(rng *rand.Rand, cells, n int, lo, hi float64) (samples [][]float64, cvs []float64) {
	for i := range cells {
		cv := lo + (hi-lo)*rng.Float64()
		samples = append(samples, repeats(rng, n, 1000+20*float64(i), cv))
		cvs = append(cvs, cv)
	}
	return samples, cvs
}

// Over 2,000 pairs drawn from the noise model: how often equal configs are told apart, and how often +5 % is found, at a coefficient
// of variation of 1 % and three repeats.
func TestFalseAlarmsAndPower(t *testing.T) {
	for _, tt := range []struct {
		name        string
		cells, n    int
		lo, hi      float64
		alarms      float64 // at most
		small, five float64 // at least: power for +2.5 % and +5 %
	}{
		{"40 cells", 40, 3, 0.01, 0.01, 0.06, 0.80, 0.99},
		{"40 cells that vary by 0.4 to 2 %", 40, 3, 0.004, 0.02, 0.075, 0.60, 0.95},
		{"six cells", 6, 3, 0.01, 0.01, 0.06, 0.65, 0.90},
		{"two cells only", 2, 3, 0.01, 0.01, 0.06, 0.50, 0.90},
		{"40 cells, five repeats", 40, 5, 0.01, 0.01, 0.06, 0.93, 0.99},
		{"six repeats: ranks", 12, 6, 0.01, 0.01, 0.06, 0.85, 0.99},
	} {
		const pairs = 2000
		rng := seeded(uint64(tt.cells*10 + tt.n))
		alarms, small, five, inside := 0, 0, 0, 0
		sure := func(c Comparison) bool { return c.Significant(c.P) }
		for range pairs {
			samples, cvs := gridOfNoise(rng, tt.cells-2, tt.n, tt.lo, tt.hi)
			cv := tt.lo
			if len(cvs) > 0 {
				cv = cvs[0]
			}
			a, b := repeats(rng, tt.n, 1000, cv), repeats(rng, tt.n, 1000, cv)
			noise := PoolNoise(append(samples, a, b))
			c := noise.Compare(a, b)
			if sure(c) {
				alarms++
			}
			if c.Lo <= 0 && 0 <= c.Hi {
				inside++
			}
			scaled := func(by float64) []float64 {
				out := slices.Clone(a)
				for i := range out {
					out[i] *= by
				}
				return out
			}
			if sure(noise.Compare(scaled(1.025), b)) {
				small++
			}
			if sure(noise.Compare(scaled(1.05), b)) {
				five++
			}
		}
		t.Logf("%s: false alarms %.1f %%, +2.5 %% found %.1f %%, +5 %% found %.1f %%, interval holds 0 in %.1f %%", tt.name,
			100*float64(alarms)/pairs, 100*float64(small)/pairs, 100*float64(five)/pairs, 100*float64(inside)/pairs)
		if share := float64(alarms) / pairs; share > tt.alarms {
			t.Errorf("%s: %.1f %% false alarms", tt.name, 100*share)
		}
		if share := float64(small) / pairs; share < tt.small {
			t.Errorf("%s: +2.5 %% found in %.1f %%", tt.name, 100*share)
		}
		if share := float64(five) / pairs; share < tt.five {
			t.Errorf("%s: +5 %% found in %.1f %%", tt.name, 100*share)
		}
		if share := float64(inside) / pairs; share < 1-tt.alarms-0.02 {
			t.Errorf("%s: the interval holds the truth in %.1f %%", tt.name, 100*share)
		}
	}
}

// With Holm over ten configs that are all equal, a night with any false alarm is rare.
func TestFamilyOfComparisons(t *testing.T) {
	const nights = 1000
	rng := seeded(11)
	wrong := 0
	for range nights {
		samples, _ := gridOfNoise(rng, 0, 3, 0.01, 0.01)
		for range 11 {
			samples = append(samples, repeats(rng, 3, 1000, 0.01))
		}
		noise := PoolNoise(samples)
		var family []Comparison
		for _, s := range samples[1:] {
			family = append(family, noise.Compare(s, samples[0]))
		}
		if slices.ContainsFunc(verdicts(family), func(v Verdict) bool { return v.Sure }) {
			wrong++
		}
	}
	if share := float64(wrong) / nights; share > 0.06 {
		t.Errorf("%.1f %% of nights of equal configs have a verdict", 100*share)
	}
}

func TestCompare(t *testing.T) {
	quiet := [][]float64{{100, 101, 99}, {200, 202, 198}, {50, 50.5, 49.5}, {400, 404, 396}}
	noise := PoolNoise(quiet)
	near(t, "pooled spread", noise.SD, 0.01, 0.0001)
	if noise.DF != 8 || noise.Cells != 4 {
		t.Errorf("noise %+v, want 8 degrees of freedom of 4 cells", noise)
	}
	for _, tt := range []struct {
		name   string
		a, b   []float64
		method string
		sure   bool
	}{
		{"5 % ahead", []float64{105, 106, 104}, quiet[0], "pooled t", true},
		{"equal", []float64{100.5, 99.6, 100.2}, quiet[0], "pooled t", false},
		{"far less than one percent, however sure", []float64{100.5, 100.5, 100.5, 100.5, 100.5, 100.5}, []float64{100, 100, 100, 100, 100, 100}, "Mann–Whitney", false},
		{"a cell that varies wildly", []float64{80, 140, 105}, quiet[0], "Welch's t", false},
		{"ranks", []float64{103, 104, 105, 103.5, 104.5, 105.5}, []float64{100, 101, 99, 100.5, 99.5, 101.5}, "Mann–Whitney", true},
		{"one repeat", []float64{120}, quiet[0], "", false},
		{"zero", []float64{0, 1, 2}, quiet[0], "", false},
	} {
		c := noise.Compare(tt.a, tt.b)
		if c.Method != tt.method || c.Significant(c.P) != tt.sure || c.Known != (tt.method != "") {
			t.Errorf("%s: %+v, sure %v; want %s, %v", tt.name, c, c.Significant(c.P), tt.method, tt.sure)
		}
		if c.Known && !(c.Lo <= c.Change && c.Change <= c.Hi) {
			t.Errorf("%s: %+v: the change lies outside its interval", tt.name, c)
		}
	}
	if n := PoolNoise([][]float64{{1}, {2}, nil}); n.DF != 0 || n.Floor(3) != 0 {
		t.Errorf("single repeats give a noise: %+v", n)
	}
	with := PoolNoise(append(quiet, []float64{50, 100, 200}))
	if with.Apart != 1 || math.Abs(with.SD-noise.SD) > 1e-12 {
		t.Errorf("a cell that varies wildly is in the pool: %+v", with)
	}
}

func TestNoiseOfCoverage(t *testing.T) {
	rng := seeded(12)
	hit := 0
	const trials = 2000
	for range trials {
		samples, _ := gridOfNoise(rng, 12, 3, 0.01, 0.01)
		own := repeats(rng, 3, 500, 0.01)
		if e, ok := PoolNoise(append(samples, own)).Of(own); ok && e.Lo <= 500 && 500 <= e.Hi {
			hit++
		}
	}
	near(t, "coverage of a cell's interval", float64(hit)/trials, 0.95, 0.015)
}

func TestQuantileRanks(t *testing.T) {
	for _, tt := range []struct {
		n      int
		q      float64
		lo, hi int
	}{
		{100, 0.99, 97, 0}, {300, 0.99, 293, 0}, {500, 0.99, 490, 500}, {1000, 0.99, 983, 997}, {5000, 0.99, 4936, 4964},
		{367, 0.99, 0, 0}, {368, 0.99, 0, 368}, {3687, 0.999, 0, 0}, {3688, 0.999, 0, 3688},
		{6, 0.5, 1, 6}, {5, 0.5, 0, 0}, {1, 0.5, 0, 0}, {0, 0.5, 0, 0},
	} {
		lo, hi := QuantileRanks(tt.n, tt.q)
		if tt.lo == 0 && tt.n > 300 { // only the upper bound is asked for
			lo = 0
		}
		if lo != tt.lo || hi != tt.hi {
			t.Errorf("p%g of %d: ranks %d to %d, want %d to %d", 100*tt.q, tt.n, lo, hi, tt.lo, tt.hi)
		}
	}
}

func TestQuantileCoverage(t *testing.T) {
	rng := seeded(13)
	const trials = 2000
	truth := math.Exp(1.6448536269514722) // p95 of a standard log-normal
	hit := 0
	for range trials {
		v := make([]float64, 400)
		for i := range v {
			v[i] = math.Exp(rng.NormFloat64())
		}
		slices.Sort(v)
		if e, ok := QuantileInterval(v, 0.95); ok && e.Lo <= truth && truth <= e.Hi {
			hit++
		}
	}
	if share := float64(hit) / trials; share < 0.945 || share > 0.985 { // ranks are whole, so it is at least 95 %
		t.Errorf("the interval of p95 holds it in %.1f %%", 100*share)
	}
	if e, ok := QuantileInterval([]float64{1, 2, 3}, 0.99); !ok || e.Value != 3 || !math.IsInf(e.Hi, 1) {
		t.Errorf("p99 of three values: %+v, %v", e, ok)
	}
}
