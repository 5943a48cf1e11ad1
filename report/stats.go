package report

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// The statistics of a report, in the order in which a number passes through them:
//
//   - statssteady.go: was the run in a steady state, and how far does its mean vary within it?
//   - statsnoise.go: how far do fresh starts of the same config differ? That is the noise that counts.
//   - statscompare.go: do two configs differ by more than that noise, and by enough to care?
//   - statsquantile.go: how sure is a percentile of one run?
//   - statssheet.go: what all that says of a workload: who ties with the best, where a gain comes from.
//
// The unit of repetition is a fresh start of the server: a repeat must be made at the level at which the variation arises
// (Kalibera and Jones, "Rigorous Benchmarking in Reasonable Time", ISMM 2013). Samples within one run are correlated and
// say nothing of the next start.

const (
	// alpha is the share of false alarms that a verdict may have; intervals hold 1 − alpha.
	alpha = 0.05
	// PracticalThreshold is the smallest relative change that is called one. A real difference below it changes no decision.
	PracticalThreshold = 0.01
)

// Interval is where the true value lies with a confidence of 95 %. A bound that does not exist is infinite.
type Interval struct{ Lo, Hi float64 }

// Estimate is a value with its interval.
type Estimate struct {
	Value float64
	Interval
}

// tQuantile is the factor of a two-sided interval by Student's t.
func tQuantile(df float64) float64 {
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: df}.Quantile(1 - alpha/2)
}

// tTwoSided is the chance of a t at least so far from zero.
func tTwoSided(t, df float64) float64 {
	return 2 * distuv.StudentsT{Mu: 0, Sigma: 1, Nu: df}.CDF(-math.Abs(t))
}

// welch compares two means without taking their variances to be equal, the degrees of freedom after Welch and
// Satterthwaite (Welch, "The generalization of Student's problem when several different population variances are involved",
// Biometrika 34, 1947). Both need two samples.
func welch(a, b []float64) (diff, se, df float64) {
	va, vb := stat.Variance(a, nil)/float64(len(a)), stat.Variance(b, nil)/float64(len(b))
	diff, se = stat.Mean(a, nil)-stat.Mean(b, nil), math.Sqrt(va+vb)
	df = float64(len(a) + len(b) - 2)
	if se > 0 {
		df = (va + vb) * (va + vb) / (va*va/float64(len(a)-1) + vb*vb/float64(len(b)-1))
	}
	return diff, se, df
}

// twoSided is the p-value of a difference with its standard error; without any variation only equality is no difference.
func twoSided(diff, se, df float64) float64 {
	switch {
	case se > 0:
		return tTwoSided(diff/se, df)
	case diff == 0:
		return 1
	}
	return 0
}

// Holm adjusts p-values for being many: each result may be held against alpha, and the chance that any of the family is a false
// alarm stays below it (Holm, "A simple sequentially rejective multiple test procedure", Scand. J. Statistics 6, 1979).
func Holm(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case p[a] < p[b]:
			return -1
		case p[a] > p[b]:
			return 1
		}
		return 0
	})
	adjusted := make([]float64, len(p))
	worst := 0.0
	for k, i := range order {
		worst = max(worst, min(1, float64(len(p)-k)*p[i]))
		adjusted[i] = worst
	}
	return adjusted
}
