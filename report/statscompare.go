package report

import (
	"math"
	"slices"

	"github.com/aclements/go-moremath/stats"
	"gonum.org/v1/gonum/stat"
)

// manyRepeats is from how many repeats of both configs on a rank test can tell them apart. With three, the smallest p
// that it can give is 0.10.
const manyRepeats = 6

// Comparison is how one config's repeats compare with another's.
type Comparison struct {
	Known    bool    // both have at least two repeats
	Change   float64 // ratio − 1: 0.05 is 5 % more
	Interval         // of Change
	P        float64 // for Holm; never shown bare
	Method   string  // for the notes: "pooled t", "Welch's t" or "Mann–Whitney"
}

// Significant reports a difference that is more than noise and large enough to care. With several comparisons at once p is the
// one that [Holm] gives.
func (c Comparison) Significant(p float64) bool {
	return c.Known && p <= alpha && math.Abs(c.Change) >= PracticalThreshold
}

// Compare compares a with b; the sign is a's.
//
// Up to five repeats: Student's t on the logarithms with the spread pooled over all cells; a cell that varies more than three times
// as much is compared by Welch's t instead. The change is the ratio of geometric means.
//
// From six repeats of both on: the exact test of Mann and Whitney ("On a test of whether one of two random variables is stochastically
// larger", Ann. Math. Statist. 18, 1947), as benchstat does, with the estimate and interval of Hodges and Lehmann ("Estimates of location
// based on rank tests", Ann. Math. Statist. 34, 1963).
func (n Noise) Compare(a, b []float64) Comparison {
	la, oka := logs(a)
	lb, okb := logs(b)
	if !oka || !okb || min(len(a), len(b)) < 2 {
		return Comparison{}
	}
	if min(len(a), len(b)) >= manyRepeats {
		return rankCompare(la, lb)
	}
	diff := stat.Mean(la, nil) - stat.Mean(lb, nil)
	se, df, factor, method := n.SD*math.Sqrt(1/float64(len(a))+1/float64(len(b))), float64(n.DF), n.quantile(n.DF), "pooled t"
	if n.own(a) || n.own(b) {
		_, se, df = welch(la, lb)
		factor, method = tQuantile(df), "Welch's t"
	}
	half := factor * se
	return Comparison{
		Known: true, Change: math.Expm1(diff), Interval: Interval{math.Expm1(diff - half), math.Expm1(diff + half)},
		P: twoSided(diff, se, df), Method: method,
	}
}

func rankCompare(la, lb []float64) Comparison {
	c := Comparison{Known: true, P: 1, Method: "Mann–Whitney"}
	if r, err := stats.MannWhitneyUTest(la, lb, stats.LocationDiffers); err == nil { // else all are equal
		c.P = r.P
	}
	var diffs []float64
	for _, x := range la {
		for _, y := range lb {
			diffs = append(diffs, x-y)
		}
	}
	slices.Sort(diffs)
	shift, _ := medianOf(diffs)
	c.Change = math.Expm1(shift)
	// The k-th smallest difference is the lower bound, with k the largest for which U < k has at most half of alpha.
	u := stats.UDist{N1: len(la), N2: len(lb)}
	k := 0
	for k < len(diffs)/2 && u.CDF(float64(k)) <= alpha/2 {
		k++
	}
	c.Interval = Interval{math.Inf(-1), math.Inf(1)}
	if k > 0 {
		c.Interval = Interval{math.Expm1(diffs[k-1]), math.Expm1(diffs[len(diffs)-k])}
	}
	return c
}
