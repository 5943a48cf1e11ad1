package report

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// guardFactor is by how much a cell's own spread may exceed that of all before it is judged by itself.
const guardFactor = 3

// Noise is how far fresh starts of the same config differ, on the scale of natural logarithms, where a
// spread is relative: 0.01 is a coefficient of variation of 1 %.
type Noise struct {
	SD    float64
	DF    int // degrees of freedom: repeats beyond the first, over all cells
	Cells int // with at least two repeats
	Apart int // cells with a spread of their own, more than three times that of all

	t float64 // tQuantile of DF, which each cell's interval needs; 0: not worked out
}

// quantile is the factor of an interval by so many degrees of freedom.
func (n Noise) quantile(df int) float64 {
	if df == n.DF && n.t > 0 {
		return n.t
	}
	return tQuantile(float64(df))
}

// fewOthers is how many degrees of freedom the other cells need before a cell can be called different from them.
const fewOthers = 8

// PoolNoise takes one spread from all cells: with three repeats a cell's own says little, but 40 cells have 80 degrees of freedom.
// This is the residual variance of a one-way analysis of variance of the logarithms (Box, Hunter and Hunter, "Statistics for
// Experimenters", ch. 4). It holds where cells vary alike; one that varies more than three times as much as all others together is left
// out and judged by itself, the worst first. Each sample holds one cell's repeats.
func PoolNoise(samples [][]float64) Noise {
	var n Noise
	var cells []spreadOf
	sum := 0.0
	for _, s := range samples {
		if sd, ok := logSD(s); ok {
			cells = append(cells, spreadOf{sd * sd, len(s) - 1})
			sum += sd * sd * float64(len(s)-1)
			n.DF += len(s) - 1
		}
	}
	slices.SortFunc(cells, func(a, b spreadOf) int { return cmp.Compare(b.variance, a.variance) })
	for len(cells) > 1 {
		worst := cells[0]
		others := n.DF - worst.df
		rest := max(0, sum-worst.variance*float64(worst.df))
		if others < fewOthers || worst.variance <= guardFactor*guardFactor*rest/float64(others) {
			break
		}
		cells, sum = cells[1:], rest
		n.DF, n.Apart = others, n.Apart+1
	}
	n.Cells = len(cells)
	if n.DF > 0 {
		n.SD, n.t = math.Sqrt(sum/float64(n.DF)), tQuantile(float64(n.DF))
	}
	return n
}

// spreadOf is the variance of one cell's repeats.
type spreadOf struct {
	variance float64
	df       int
}

// logs are the natural logarithms; ok is false when some value has none.
func logs(values []float64) (l []float64, ok bool) {
	l = make([]float64, len(values))
	for i, v := range values {
		if v <= 0 {
			return nil, false
		}
		l[i] = math.Log(v)
	}
	return l, true
}

func logSD(values []float64) (sd float64, ok bool) {
	l, ok := logs(values)
	if !ok || len(l) < 2 {
		return 0, false
	}
	return stat.StdDev(l, nil), true
}

// own reports that a sample varies too much for the pooled spread.
func (n Noise) own(values []float64) bool {
	sd, ok := logSD(values)
	return ok && (n.DF == 0 || sd > guardFactor*n.SD)
}

// Of is a cell's value with its interval: the geometric mean of its repeats, by the pooled spread, or by its own where that is more
// than three times as large. ok is false for a single repeat: there is no noise estimate.
func (n Noise) Of(values []float64) (e Estimate, ok bool) {
	l, ok := logs(values)
	if !ok || len(l) < 2 {
		return Estimate{}, false
	}
	mean := stat.Mean(l, nil)
	sd, df := n.SD, n.DF
	if n.own(values) {
		sd, df = stat.StdDev(l, nil), len(l)-1
	}
	half := n.quantile(df) * sd / math.Sqrt(float64(len(l)))
	return Estimate{math.Exp(mean), Interval{math.Exp(mean - half), math.Exp(mean + half)}}, true
}

// Floor is the least significant difference of two cells with so many repeats each: what differs by less is
// noise here (Fisher's LSD). It is 0 when the night has no noise estimate.
func (n Noise) Floor(repeats int) float64 {
	if n.DF == 0 || repeats < 2 {
		return 0
	}
	return math.Expm1(n.quantile(n.DF) * n.SD * math.Sqrt(2/float64(repeats)))
}
