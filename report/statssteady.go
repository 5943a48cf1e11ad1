package report

import (
	"math"

	"gonum.org/v1/gonum/stat"
)

const (
	batches     = 10   // of a run, for the spread of its mean
	leastSeries = 20   // samples without which nothing is said of a run's spread
	mserBatch   = 5    // samples in a batch of MSER-5
	mserLeft    = 5    // batches at the end that MSER-5 may not cut into, or the tail always wins
	driftLimit  = 0.02 // change between the halves of a window that is worth a flag
	enoughTimes = 50   // a window of so many autocorrelation times is long enough
)

// BatchMeans is the mean of a series whose neighbours are correlated, such as a throughput once a second, with its interval:
// ten means of consecutive stretches are nearly independent, and Student's t with 9 degrees of freedom holds for them (Schmeiser,
// "Batch size effects in the analysis of simulation output", Operations Research 30, 1982: beyond 30 batches nothing is gained;
// with ten the coverage of a 300 s window is 94 % at a lag-1 correlation of 0.8, where that of all samples is 50 %).
// It is of one start of one server. ok is false for fewer than 20 samples.
func BatchMeans(series []float64) (e Estimate, ok bool) {
	means := batchMeans(series)
	if means == nil {
		return Estimate{}, false
	}
	mean, sd := stat.MeanStdDev(means, nil)
	half := tQuantile(batches-1) * sd / math.Sqrt(batches)
	return Estimate{mean, Interval{mean - half, mean + half}}, true
}

// batchMeans are ten means of consecutive stretches of equal length; what is left over is dropped at the beginning.
func batchMeans(series []float64) []float64 {
	if len(series) < leastSeries {
		return nil
	}
	size := len(series) / batches
	series = series[len(series)-size*batches:]
	means := make([]float64, batches)
	for i := range means {
		means[i] = stat.Mean(series[i*size:(i+1)*size], nil)
	}
	return means
}

// AutocorrelationTime is after how many samples a series has forgotten itself: the length of the series divided by it is how many
// independent samples it is worth. The sum of autocorrelations ends at the first pair of neighbours that is not positive, and
// pairs may only fall (Geyer, "Practical Markov chain Monte Carlo", Statistical Science 7, 1992).
func AutocorrelationTime(series []float64) float64 {
	n := len(series)
	if n < 4 {
		return 1
	}
	mean := stat.Mean(series, nil)
	at := func(lag int) float64 {
		sum := 0.0
		for i := range n - lag {
			sum += (series[i] - mean) * (series[i+lag] - mean)
		}
		return sum
	}
	zero := at(0)
	if zero == 0 {
		return 1
	}
	total, last := 0.0, math.Inf(1)
	for lag := 0; lag+1 < n/2; lag += 2 {
		pair := min((at(lag)+at(lag+1))/zero, last)
		if pair <= 0 {
			break
		}
		total, last = total+pair, pair
	}
	return max(1, 2*total-1)
}

// MSER5 says how many samples at the beginning of a series a warm-up takes: those without which the standard error of
// the mean is smallest, over batches of five (White, "An effective truncation heuristic for bias reduction in simulation output",
// Simulation 69, 1997; White, Cobb and Spratt, WSC 2000). ok is false when the cut would lie in the second half, so that no steady
// state was reached, or the series has fewer than 50 samples. It is a check, not a rule: Wang and Glynn (WSC 2016) show where it fails.
func MSER5(series []float64) (cut int, ok bool) {
	k := len(series) / mserBatch
	if k < 2*mserLeft {
		return 0, false
	}
	means := make([]float64, k)
	for i := range means {
		means[i] = stat.Mean(series[i*mserBatch:(i+1)*mserBatch], nil)
	}
	best, at := math.Inf(1), 0
	var sum, squares float64
	for d := k - 1; d >= 0; d-- { // from the end, so that the sums grow by one batch at a time
		shifted := means[d] - means[k-1] // keeps digits where values are large and alike
		sum, squares = sum+shifted, squares+shifted*shifted
		if k-d < mserLeft {
			continue
		}
		n := float64(k - d)
		if score := max(0, squares-sum*sum/n) / (n * n); score <= best {
			best, at = score, d
		}
	}
	return at * mserBatch, at <= k/2
}

// Trend is what a run did within its window, in the words of Barrett et al. ("Virtual Machine Warmup Blows Hot and Cold", OOPSLA 2017).
type Trend string

// The trends.
const (
	Flat          Trend = "flat"
	WarmingUp     Trend = "warm-up"         // it became faster
	SlowingDown   Trend = "slowdown"        // it became slower
	NoSteadyState Trend = "no steady state" // neither, and its mean does not settle
	TrendUnknown  Trend = ""                // too short to say
)

// Steadiness is what is known of a run's steady state. It flags; no number is dropped for it.
type Steadiness struct {
	Trend    Trend
	Cut      int     // samples at the beginning that MSER-5 would leave out
	Change   float64 // second half of the window against the first: −0.03 is 3 % slower
	Rising   bool    // the KV pool was still filling
	Samples  int
	Worth    float64  // independent samples that the window is worth
	Mean     Estimate // of the window, by batch means
	HasMean  bool
	TooShort bool // the window is worth fewer than 50 independent samples: run longer
}

// CheckSteady judges a run whose window the load generator's rule has chosen: it opens when the target is in flight and the
// first cohort has ended, so only what that rule cannot see is looked for here. rate is the throughput once a second, usage that of
// the KV pool (it may be empty).
func CheckSteady(rate, usage []float64) Steadiness {
	s := Steadiness{Samples: len(rate)}
	s.Mean, s.HasMean = BatchMeans(rate)
	if !s.HasMean {
		return s
	}
	s.Worth = float64(len(rate)) / AutocorrelationTime(rate)
	s.TooShort = s.Worth < enoughTimes
	var drifts, settles bool
	s.Change, drifts = halves(rate)
	s.Cut, settles = MSER5(rate)
	_, s.Rising = halves(usage)
	s.Rising = s.Rising && rises(usage)
	switch {
	case drifts && s.Change > 0:
		s.Trend = WarmingUp
	case drifts:
		s.Trend = SlowingDown
	case len(rate) >= 2*mserLeft*mserBatch && !settles && s.TooShort && math.Abs(s.Change) > driftLimit:
		// By itself the cut is past the half in one of twenty steady runs; one that forgets itself quickly, or whose halves agree, has settled.
		s.Trend = NoSteadyState
	default:
		s.Trend = Flat
	}
	return s
}

// halves compares the last five of ten batch means with the first five: drifts when they differ by more than 2 % and by more
// than their own spread explains.
func halves(series []float64) (change float64, drifts bool) {
	means := batchMeans(series)
	if means == nil {
		return 0, false
	}
	first, last := means[:batches/2], means[batches/2:]
	before := stat.Mean(first, nil)
	if before <= 0 {
		return 0, false
	}
	diff, se, df := welch(last, first)
	change = diff / before
	return change, math.Abs(change) > driftLimit && twoSided(diff, se, df) <= alpha
}

func rises(series []float64) bool {
	means := batchMeans(series)
	return means != nil && stat.Mean(means[batches/2:], nil) > stat.Mean(means[:batches/2], nil)
}

// Consistent reports whether the runs of a cell did the same; those too short to say agree with all.
func Consistent(runs []Steadiness) bool {
	seen := TrendUnknown
	for _, r := range runs {
		switch {
		case r.Trend == TrendUnknown:
		case seen == TrendUnknown:
			seen = r.Trend
		case seen != r.Trend:
			return false
		}
	}
	return true
}
