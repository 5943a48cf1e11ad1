package report

import (
	"math"

	"gonum.org/v1/gonum/stat"
)

// Fit is a straight line through measured points, by least squares.
type Fit struct {
	N           int
	Offset      float64
	Slope       float64
	SD          float64 // of the points around the line
	mean, sumXX float64
}

// FitLine fits a line; ok is false for fewer than two different x.
func FitLine(x, y []float64) (f Fit, ok bool) {
	if len(x) < 2 {
		return f, false
	}
	f.N = len(x)
	f.mean = stat.Mean(x, nil)
	for _, v := range x {
		f.sumXX += (v - f.mean) * (v - f.mean)
	}
	if f.sumXX == 0 {
		return f, false
	}
	f.Offset, f.Slope = stat.LinearRegression(x, y, nil, false)
	sum := 0.0
	for i := range x {
		d := y[i] - f.Offset - f.Slope*x[i]
		sum += d * d
	}
	if f.N > 2 {
		f.SD = math.Sqrt(sum / float64(f.N-2))
	}
	return f, true
}

// At is the forecast at x with the interval in which a new point lies with 95 % confidence (Draper and Smith, "Applied Regression
// Analysis", §1.4). Two points have no interval: it is infinite.
func (f Fit) At(x float64) Estimate {
	y := f.Offset + f.Slope*x
	if f.N < 3 {
		return Estimate{y, Interval{math.Inf(-1), math.Inf(1)}}
	}
	half := tQuantile(float64(f.N-2)) * f.SD * math.Sqrt(1+1/float64(f.N)+(x-f.mean)*(x-f.mean)/f.sumXX)
	return Estimate{y, Interval{y - half, y + half}}
}
