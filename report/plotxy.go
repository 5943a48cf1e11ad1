package report

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// axisScale maps values to 0 … 1.
type axisScale struct {
	lo, hi float64
	log    bool
	ticks  []tick
	title  string
}

// linear is a scale from zero to a little above top.
func linear(top float64, n int, title string) axisScale {
	ticks, end := niceTicks(top, n)
	return axisScale{hi: end, ticks: ticks, title: title}
}

// countScale is a linear scale of whole things: half a request is no tick.
func countScale(top float64, n int) axisScale {
	part := func(t tick) bool { return t.value != math.Trunc(t.value) }
	a := linear(max(top, 1), n, "")
	for _, other := range []int{n - 1, n + 1, n - 2, n + 2} { // another number of ticks may have whole steps
		if !slices.ContainsFunc(a.ticks, part) {
			break
		}
		a = linear(max(top, 1), max(other, 1), "")
	}
	a.ticks = slices.DeleteFunc(a.ticks, part)
	for i, t := range a.ticks {
		a.ticks[i].label = commas(t.value, 0)
	}
	return a
}

// logarithmic is a scale over all decades between two values, with ticks at 1, 2 and 5, and more where it holds less than a decade.
func logarithmic(lo, hi float64, label func(float64) string, title string) axisScale {
	a := axisScale{lo: lo / 1.15, hi: hi * 1.15, log: true, title: title}
	steps := []float64{1, 2, 5}
	switch {
	case hi/lo > 300:
		steps = steps[:1]
	case hi/lo < 8:
		steps = []float64{1, 1.5, 2, 3, 4, 6, 8}
	}
	for d := math.Floor(math.Log10(a.lo)); d <= math.Ceil(math.Log10(a.hi)); d++ {
		for _, m := range steps {
			if v := m * math.Pow(10, d); v >= a.lo && v <= a.hi {
				a.ticks = append(a.ticks, tick{v, label(v)})
			}
		}
	}
	return a
}

func (a axisScale) at(v float64) float64 {
	if a.log {
		return math.Log(v/a.lo) / math.Log(a.hi/a.lo)
	}
	return (v - a.lo) / (a.hi - a.lo)
}

// widest is the width of the widest label.
func (a axisScale) widest(st text.Style) vg.Length {
	w := vg.Length(0)
	for _, t := range a.ticks {
		w = max(w, st.Width(t.label))
	}
	return w
}

// xyPanel is one pair of axes.
type xyPanel struct {
	area  vg.Rectangle
	x, y  axisScale
	title string // above it
}

func (p xyPanel) at(x, y float64) vg.Point { return vg.Point{X: p.atX(x), Y: p.atY(y)} }

func (p xyPanel) atX(v float64) vg.Length {
	return p.area.Min.X + vg.Length(p.x.at(v))*(p.area.Max.X-p.area.Min.X)
}

func (p xyPanel) atY(v float64) vg.Length {
	return p.area.Min.Y + vg.Length(p.y.at(v))*(p.area.Max.Y-p.area.Min.Y)
}

// holds reports whether a point lies on the panel.
func (p xyPanel) holds(x, y float64) bool {
	const slack = 1e-9
	in := func(v float64) bool { return v >= -slack && v <= 1+slack }
	return in(p.x.at(x)) && in(p.y.at(y))
}

// drawAxes draws grid, ticks and titles. A panel takes 16 above its area for its title, 30 below for the x axis.
func (c canvas) drawAxes(p xyPanel) {
	st := style(8, muted, false)
	st.XAlign = text.XRight
	end := p.area.Min.Y - 10
	for _, t := range p.y.ticks {
		y := p.atY(t.value)
		c.line(faint, 0.6, nil, p.area.Min.X, y, p.area.Max.X, y)
		if y-end < 9.5 {
			continue // it would touch the label below
		}
		c.text(st, p.area.Min.X-5, y, t.label)
		end = y
	}
	c.line(rule, 0.6, nil, p.area.Min.X, p.area.Min.Y, p.area.Max.X, p.area.Min.Y)
	for _, t := range p.x.ticks {
		c.line(rule, 0.6, nil, p.atX(t.value), p.area.Min.Y, p.atX(t.value), p.area.Min.Y-3)
	}
	inside := c
	inside.Min.X = p.area.Min.X - 12
	inside.drawTicks(style(8, muted, false), p.x.ticks, p.atX, p.area.Min.Y-5)
	title := style(8.5, ink, false)
	title.XAlign = text.XCenter
	c.text(title, (p.area.Min.X+p.area.Max.X)/2, p.area.Min.Y-22, shorten(title, p.x.title, p.area.Max.X-p.area.Min.X))
	name := style(8.5, ink, true)
	c.text(name, p.area.Min.X, p.area.Max.Y+9, shorten(name, p.title, p.area.Max.X-p.area.Min.X))
}

// grid divides a rectangle into panels, row after row, each with room for its labels at the left and around it.
func panelGrid(r vg.Rectangle, rows, columns int, left vg.Length) []vg.Rectangle {
	const gap, above, below = vg.Length(16), vg.Length(16), vg.Length(32)
	width := (r.Max.X - r.Min.X - gap*vg.Length(columns-1)) / vg.Length(columns)
	height := (r.Max.Y - r.Min.Y) / vg.Length(rows)
	var areas []vg.Rectangle
	for i := range rows * columns {
		x := r.Min.X + vg.Length(i%columns)*(width+gap)
		top := r.Max.Y - vg.Length(i/columns)*height
		areas = append(areas, vg.Rectangle{Min: vg.Point{X: x + left, Y: top - height + below}, Max: vg.Point{X: x + width - 9, Y: top - above}})
	}
	return areas
}

// milliseconds writes a time for an axis.
func milliseconds(v float64) string {
	switch {
	case v >= 1000:
		return fmt.Sprintf("%g s", math.Round(v/100)/10)
	case v >= 10:
		return fmt.Sprintf("%.0f ms", v)
	}
	return fmt.Sprintf("%.3g ms", v)
}

// times is a scale for times in ms: from zero, or logarithmic where they differ by more than thirty times.
func times(values []float64, title string) axisScale {
	lo, hi := span(values)
	if lo > 0 && hi/lo > 30 {
		return logarithmic(lo, hi, milliseconds, title+" (log scale)")
	}
	a := linear(hi, 4, title)
	for i := range a.ticks {
		if a.ticks[i].value > 0 {
			a.ticks[i].label = milliseconds(a.ticks[i].value)
		}
	}
	return a
}

// drawSeries draws lines through points, grey ones first; a gap where NaN stands.
func (c canvas) drawSeries(p xyPanel, lines []xyLine, width float64, radius vg.Length) {
	lines = slices.Clone(lines)
	slices.SortStableFunc(lines, func(a, b xyLine) int { return before(a.back, b.back) })
	for _, l := range lines {
		st := draw.LineStyle{Color: l.look.color, Width: vg.Points(width), Dashes: l.look.dashes}
		if l.back {
			st.Width = vg.Points(0.8)
		}
		var piece []vg.Point
		for i := 0; i <= len(l.points); i++ {
			if i < len(l.points) && !math.IsNaN(l.points[i][1]) && p.holds(l.points[i][0], l.points[i][1]) {
				piece = append(piece, p.at(l.points[i][0], l.points[i][1]))
				continue
			}
			if len(piece) > 1 {
				c.StrokeLines(st, piece)
			}
			piece = nil
		}
	}
	for _, l := range lines {
		for _, q := range l.points {
			if !l.back && radius > 0 && !math.IsNaN(q[1]) && p.holds(q[0], q[1]) {
				at := p.at(q[0], q[1])
				c.drawMarker(l.look, at.X, at.Y, radius)
			}
		}
	}
}

// xyLine is one line of a panel.
type xyLine struct {
	look   look
	points [][2]float64
	back   bool
}

// keyOf explains the looks of curves that have no label beside them.
func keyOf(list []*curve) []keyEntry {
	st := style(8.5, ink, false)
	var key []keyEntry
	others := false
	for _, cv := range list {
		if cv.back {
			others = true
			continue
		}
		label := shorten(st, cv.label+cv.mark, pageWidth/2)
		key = append(key, keyEntry{label: label, look: cv.look, width: 24 + st.Width(label) + 14})
	}
	if others {
		label := "other configs"
		key = append(key, keyEntry{label: label, look: look{color: over(rule, 0.55)}, width: 24 + st.Width(label) + 14})
	}
	return key
}

// shownCurves are the curves of a sheet that have something to show; beyond eight the slower ones go to the back.
func (s *Summary) shownCurves(sheet *Sheet, has func(*Row) bool) []*curve {
	var list []*curve
	for _, cv := range s.curveList(sheet, place(sheet.Loads)) {
		if has(cv.row) {
			list = append(list, cv)
		}
	}
	if len(list) > mostCurves {
		fade(list, sheet)
	}
	return list
}
