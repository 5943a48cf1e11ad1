package report

import (
	"fmt"
	"image/color"
	"slices"
	"strings"

	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// curveView is the layout of one panel of curves with labels at their ends.
type curveView struct {
	list       []*curve
	levels     levels
	top        float64
	ticks      []tick
	failed     []*curve
	rows       [][]string // of each failed curve: the lines of its label
	more       int        // failed curves beyond those with a row
	labels     vg.Length  // width of the right margin
	laneHeight vg.Length
}

func (s *Summary) newCurveView(sheet *Sheet, lv levels, list []*curve) *curveView {
	v := &curveView{list: list, levels: lv}
	for _, cv := range list {
		for _, p := range cv.points {
			v.top = max(v.top, p.hi)
		}
	}
	v.ticks, v.top = niceTicks(v.top, 5)
	widest := vg.Length(0)
	for _, cv := range list {
		if !cv.back && len(cv.points) > 0 {
			widest = max(widest, style(8.5, ink, true).Width(cv.label+cv.mark))
		}
		if len(cv.marks) > 0 {
			v.failed = append(v.failed, cv)
			widest = max(widest, style(7.5, ink, true).Width(cv.laneText()))
		}
	}
	v.labels = min(widest+22, 0.42*pageWidth)
	if len(v.failed) > mostCurves+2 {
		slices.SortStableFunc(v.failed, func(a, b *curve) int { return before(!a.back, !b.back) })
		v.more = len(v.failed) - mostCurves
		v.failed = v.failed[:mostCurves]
	}
	for _, cv := range v.failed {
		lines := wrapWidth(style(7.5, ink, true), cv.laneText(), v.labels-18)
		v.rows = append(v.rows, lines)
		v.laneHeight += rowHeight(lines)
	}
	if v.more > 0 {
		v.laneHeight += laneRow
	}
	return v
}

func rowHeight(lines []string) vg.Length { return laneRow + vg.Length(len(lines)-1)*9 }

func (cv *curve) laneText() string { return cv.label + ": " + cv.words }

// fit is the curve's label with its mark; where that is too wide it keeps the values, which tell configs
// apart, and lets the names of the axes go.
func (cv *curve) fit(st text.Style, width vg.Length) string {
	full := cv.label + cv.mark
	if st.Width(full) <= width || len(cv.values) == 0 {
		return shorten(st, full, width)
	}
	room := width - st.Width(strings.Repeat(" · ", len(cv.values)-1)+cv.mark)
	parts := slices.Clone(cv.values)
	for i := range parts {
		parts[i] = shorten(st, parts[i], room/vg.Length(len(parts)))
	}
	return strings.Join(parts, " · ") + cv.mark
}

// draw lays out axes, curves, lane and labels in r.
func (v *curveView) draw(c canvas, r vg.Rectangle) {
	tickStyle := style(8.5, muted, false)
	left := max(tickStyle.Width("failed"), style(7, muted, false).Width("no result"))
	for _, t := range v.ticks {
		left = max(left, tickStyle.Width(t.label))
	}
	area := vg.Rectangle{
		Min: vg.Point{X: r.Min.X + left + 6, Y: r.Min.Y + 34 + v.laneHeight},
		Max: vg.Point{X: r.Max.X - v.labels, Y: r.Max.Y},
	}
	if v.laneHeight > 0 {
		area.Min.Y += 2
	}
	x := func(t float64) vg.Length { return area.Min.X + 10 + vg.Length(t)*(area.Max.X-area.Min.X-20) }
	y := func(value float64) vg.Length {
		return area.Min.Y + vg.Length(value/v.top)*(area.Max.Y-area.Min.Y)
	}
	v.drawAxes(c, area, x, y)
	v.drawLane(c, area, x, r.Max.X)
	drawCurves(c, v.list, x, y, 1.6, 2.6)
	v.drawLabels(c, area, x, y)
}

func (v *curveView) drawAxes(c canvas, area vg.Rectangle, x func(float64) vg.Length, y func(float64) vg.Length) {
	st := style(8.5, muted, false)
	st.XAlign = text.XRight
	for _, t := range v.ticks {
		c.line(faint, 0.6, nil, area.Min.X, y(t.value), area.Max.X, y(t.value))
		c.text(st, area.Min.X-6, y(t.value), t.label)
	}
	bottom := area.Min.Y - v.laneHeight
	if v.laneHeight > 0 {
		bottom -= 2
	}
	c.line(rule, 0.6, nil, area.Min.X, area.Min.Y, area.Max.X, area.Min.Y)
	for _, t := range v.levels.ticks {
		c.line(rule, 0.6, nil, x(t.value), bottom, x(t.value), bottom-3)
	}
	c.drawTicks(style(8.5, muted, false), v.levels.ticks, x, bottom-5)
	title := style(9, ink, false)
	title.XAlign, title.YAlign = text.XCenter, text.YTop
	c.text(title, (area.Min.X+area.Max.X)/2, bottom-19, shorten(title, v.levels.title, area.Max.X-area.Min.X))
	if len(v.ticks) == 0 {
		none := style(10, muted, false)
		none.XAlign = text.XCenter
		c.text(none, (area.Min.X+area.Max.X)/2, (area.Min.Y+area.Max.Y)/2, "no throughput was measured")
	}
}

// drawLane draws the failures below zero: a lane is more honest than a cross at a height that nobody measured.
func (v *curveView) drawLane(c canvas, area vg.Rectangle, x func(float64) vg.Length, right vg.Length) {
	if v.laneHeight == 0 {
		return
	}
	lane := vg.Rectangle{Min: vg.Point{X: area.Min.X, Y: area.Min.Y - v.laneHeight - 2}, Max: vg.Point{X: area.Max.X, Y: area.Min.Y - 0.6}}
	c.fill(lane, badBg)
	c.line(rule, 0.6, nil, lane.Min.X, lane.Min.Y, lane.Max.X, lane.Min.Y)
	word := "no result"
	for _, cv := range v.failed {
		if slices.ContainsFunc(cv.marks, func(m laneMark) bool { return m.failed }) {
			word = "failed"
		}
	}
	st := style(8.5, muted, false)
	st.XAlign = text.XRight
	if word != "failed" {
		st = style(7, muted, false)
		st.XAlign = text.XRight
	}
	c.text(st, area.Min.X-6, (lane.Min.Y+lane.Max.Y)/2, word)
	top := lane.Max.Y - 1
	for i, cv := range v.failed {
		height := rowHeight(v.rows[i])
		middle := top - height/2
		for _, m := range cv.marks {
			c.drawLaneMark(m, x(m.x), middle, 3)
		}
		label := style(7.5, labelColor(cv), true)
		for n, line := range v.rows[i] {
			c.text(label, area.Max.X+18, middle+vg.Length(len(v.rows[i])-1)*4.5-vg.Length(n)*9, line)
		}
		top -= height
	}
	if v.more > 0 {
		st := style(7.5, muted, false)
		c.text(st, area.Max.X+18, top-laneRow/2, shorten(st, fmt.Sprintf("and %s more: see the table", plural(v.more, "config")), right-area.Max.X-18))
	}
}

func (c canvas) drawLaneMark(m laneMark, x, y, r vg.Length) {
	if !m.failed {
		c.line(muted, 1.4, nil, x-r, y, x+r, y)
		return
	}
	c.cross(bad, x, y, r, 1.6)
}

// labelColor is a curve's colour, dark enough to be read as text.
func labelColor(cv *curve) color.NRGBA {
	if cv.back || cv.row.Config.Unacceptable != "" {
		return muted
	}
	return readable(cv.look.color)
}

// drawCurves draws lines, bars and points, the grey ones first. A line joins only neighbouring loads that
// were both measured: what failed between them leaves a gap.
func drawCurves(c canvas, list []*curve, x, y func(float64) vg.Length, width float64, radius vg.Length) {
	ordered := slices.Clone(list)
	slices.SortStableFunc(ordered, func(a, b *curve) int { return before(a.back, b.back) })
	for _, cv := range ordered {
		line := draw.LineStyle{Color: cv.look.color, Width: vg.Points(width), Dashes: cv.look.dashes}
		if cv.back {
			line.Width = vg.Points(0.8)
		}
		var piece []vg.Point
		flush := func() {
			if len(piece) > 1 {
				c.StrokeLines(line, piece)
			}
			piece = nil
		}
		at := 0
		for _, q := range cv.row.Squares {
			if !q.Measured() {
				flush()
				continue
			}
			p := cv.points[at]
			at++
			piece = append(piece, vg.Point{X: x(p.x), Y: y(p.y)})
		}
		flush()
	}
	for _, cv := range ordered {
		if cv.back {
			continue
		}
		for _, p := range cv.points {
			if p.many {
				tint := over(cv.look.color, 0.8)
				c.line(tint, 0.9, nil, x(p.x), y(p.lo), x(p.x), y(p.hi))
				c.line(tint, 0.9, nil, x(p.x)-2, y(p.lo), x(p.x)+2, y(p.lo))
				c.line(tint, 0.9, nil, x(p.x)-2, y(p.hi), x(p.x)+2, y(p.hi))
			}
		}
		for _, p := range cv.points {
			c.drawMarker(cv.look, x(p.x), y(p.y), radius)
		}
	}
}

// drawLabels names each curve at the height of its last point.
func (v *curveView) drawLabels(c canvas, area vg.Rectangle, x, y func(float64) vg.Length) {
	var named []*curve
	var heights []vg.Length
	for _, cv := range v.list {
		if !cv.back && len(cv.points) > 0 {
			named = append(named, cv)
			heights = append(heights, y(cv.points[len(cv.points)-1].y))
		}
	}
	places := spread(heights, 11.5, area.Min.Y+5, area.Max.Y-2)
	for i, cv := range named {
		st := style(8.5, labelColor(cv), true)
		tint := over(labelColor(cv), 0.6)
		last := cv.points[len(cv.points)-1]
		if x(last.x)+6 < area.Max.X-4 {
			c.line(tint, 0.6, []vg.Length{1, 2}, x(last.x)+5, heights[i], area.Max.X+2, heights[i])
		}
		c.line(tint, 0.6, nil, area.Max.X+2, heights[i], area.Max.X+15, places[i])
		c.text(st, area.Max.X+18, places[i], cv.fit(st, v.labels-18))
	}
}
