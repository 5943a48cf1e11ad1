package report

import (
	"math"
	"sort"

	"gonum.org/v1/gonum/stat/distuv"
)

// QuantileRanks are the ranks, from 1, of the ordered values between which a quantile lies with 95 % confidence, whatever the
// distribution; 0 where there is no such rank: the sample is too small for that bound. The number of values below the quantile is
// binomial (David and Nagaraja, "Order Statistics", 3rd ed., §7.1). An upper bound of p99 needs 368 values, one of p99.9
// 3,688. Requests of one run are correlated, so the interval is an optimistic one: the spread between repeats is the better guide.
func QuantileRanks(n int, q float64) (lo, hi int) {
	if n < 1 || q <= 0 || q >= 1 {
		return 0, 0
	}
	below := distuv.Binomial{N: float64(n), P: q}
	// lo: the largest rank with P(B ≤ lo−1) ≤ alpha/2.
	lo = sort.Search(n, func(k int) bool { return below.CDF(float64(k)) > alpha/2 })
	// hi: the smallest rank with P(B ≥ hi) ≤ alpha/2.
	hi = 1 + sort.Search(n, func(k int) bool { return 1-below.CDF(float64(k)) <= alpha/2 })
	if hi > n {
		hi = 0
	}
	return lo, hi
}

// QuantileInterval is a quantile of sorted values by nearest rank with its interval; a bound that does not exist is infinite.
// ok is false when there are no values.
func QuantileInterval(sorted []float64, q float64) (e Estimate, ok bool) {
	n := len(sorted)
	if n == 0 {
		return Estimate{}, false
	}
	at := max(1, int(math.Ceil(q*float64(n)-1e-9)))
	e = Estimate{sorted[at-1], Interval{math.Inf(-1), math.Inf(1)}}
	lo, hi := QuantileRanks(n, q)
	if lo > 0 {
		e.Lo = sorted[lo-1]
	}
	if hi > 0 {
		e.Hi = sorted[hi-1]
	}
	return e, true
}
