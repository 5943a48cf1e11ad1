package search

import (
	"math"
	"slices"
)

// point is one launch on a line.
type point struct{ x, y float64 }

// line is y = at + slope × (x − center).
type line struct {
	points     []point
	center, at float64
	slope      float64
	slopeError float64
	error      float64 // of one point: the largest residual, or what the numbers resolve if that is more
	residual   float64 // the largest
	spread     float64 // sum of (x − center)²; 0 where the slope was known before
}

// centered is a line without a slope through the middle of points.
func centered(points []point, resolution float64) line {
	l := line{points: points, error: resolution}
	for _, p := range points {
		l.center += p.x / float64(len(points))
		l.at += p.y / float64(len(points))
	}
	return l
}

// fit draws the line through points with at least two different x, by least squares; ok is false
// otherwise. resolution is how far a true value may be from the one that is told.
func fit(points []point, resolution float64) (l line, ok bool) {
	if distinct(points) < 2 {
		return line{}, false
	}
	l = centered(points, resolution)
	var product, reach float64
	for _, p := range points {
		l.spread += (p.x - l.center) * (p.x - l.center)
		product += (p.x - l.center) * (p.y - l.at)
		reach += math.Abs(p.x - l.center)
	}
	l.slope = product / l.spread
	for _, p := range points {
		l.residual = max(l.residual, math.Abs(p.y-l.y(p.x)))
	}
	l.error = max(l.error, l.residual)
	l.slopeError = l.error * reach / l.spread
	return l, true
}

// through is a line of known slope through points.
func through(points []point, slope, slopeError, resolution float64) line {
	l := centered(points, resolution)
	l.slope, l.slopeError = slope, slopeError
	for _, p := range points {
		l.residual = max(l.residual, math.Abs(p.y-l.y(p.x)))
	}
	l.error = max(l.error, l.residual)
	return l
}

func (l line) y(x float64) float64 { return l.at + l.slope*(x-l.center) }

// within bounds the error at x: what every point may be off, with the weight that it has there. Far from
// the points it grows.
func (l line) within(x float64) float64 {
	if l.spread == 0 {
		return l.error + l.slopeError*math.Abs(x-l.center)
	}
	var weights float64
	for _, p := range l.points {
		weights += math.Abs(1/float64(len(l.points)) + (x-l.center)*(p.x-l.center)/l.spread)
	}
	return weights * l.error
}

// meets is the x at which the line is at y.
func (l line) meets(y float64) (x float64, ok bool) {
	if l.slope == 0 {
		return 0, false
	}
	return l.center + (y-l.at)/l.slope, true
}

func distinct(points []point) int {
	xs := make([]float64, len(points))
	for i, p := range points {
		xs[i] = p.x
	}
	slices.Sort(xs)
	return len(slices.Compact(xs))
}
