package report

import (
	"math"
	"slices"

	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"sweep/sweep"
)

const mostPanels = 12

// panelAxis is the axis that splits too many curves into panels that can be read; "" when one panel does,
// or no axis splits them well.
func (s *Summary) panelAxis(list []*curve) string {
	if measuredCurves(list) <= mostCurves {
		return ""
	}
	for _, axis := range s.Night.names().axes {
		panels := s.panels(list, axis)
		lines := 0
		for _, p := range panels {
			lines = max(lines, len(p.list))
		}
		if len(panels) <= mostPanels && lines <= mostCurves && lines > 1 {
			return axis
		}
	}
	return ""
}

// panel holds the curves that share one value of the axis.
type panel struct {
	title string
	list  []*curve
}

func (s *Summary) panels(list []*curve, axis string) []panel {
	var panels []panel
	for _, value := range s.Night.axisValues(axis) {
		p := panel{title: sweep.Printable(axis + " " + value)}
		for _, cv := range list {
			if v, ok := cv.row.Config.Axes.Get(axis); ok && v == value && cv.row.Config.Label == "" {
				p.list = append(p.list, cv)
			}
		}
		if len(p.list) > 0 {
			panels = append(panels, p)
		}
	}
	var others []*curve
	for _, cv := range list {
		if _, ok := cv.row.Config.Axes.Get(axis); !ok || cv.row.Config.Label != "" {
			others = append(others, cv)
		}
	}
	if len(others) > 0 {
		panels = append(panels, panel{title: "other configs", list: others})
	}
	return panels
}

// panelDrawing draws small multiples: one panel for each value of an axis, the same scales in each, one key.
func (s *Summary) panelDrawing(d *drawing, sheet *Sheet, lv levels, list []*curve, axis, sub string) {
	panels := s.panels(list, axis)
	key := s.panelLooks(panels, axis)
	v := panelView{levels: lv, panels: panels}
	for _, cv := range list {
		for _, p := range cv.points {
			v.top = max(v.top, p.hi)
		}
	}
	v.ticks, v.top = niceTicks(v.top, 4)
	v.columns = int(math.Ceil(math.Sqrt(float64(len(panels)))))
	v.lanes = make([]vg.Length, (len(panels)+v.columns-1)/v.columns)
	for i, p := range panels {
		if n := p.failed(); n > 0 {
			v.lanes[i/v.columns] = max(v.lanes[i/v.columns], vg.Length(n)*6+3)
		}
	}
	lanes := vg.Length(0)
	for _, lane := range v.lanes {
		lanes += lane
	}
	if lanes > 0 {
		sub += " Red crosses below zero: failed; grey dashes: no result."
	}
	keyRows := layoutKey(key, pageWidth-2*margin)
	d.height = headHeight(d.Title, sub, pageWidth) + vg.Length(len(keyRows))*13 + vg.Length(len(v.lanes))*124 + lanes + 52
	d.paint = func(c canvas) {
		r := c.frame(d.Title, sub, s.footer())
		r.Max.Y = c.drawKey(keyRows, r) - 6
		v.draw(c, r)
	}
}

// keyEntry explains a look that is the same in all panels.
type keyEntry struct {
	label string
	look  look
	width vg.Length
}

// panelLooks gives curves of the same other settings the same look in each panel, and returns the key.
func (s *Summary) panelLooks(panels []panel, axis string) []keyEntry {
	var key []keyEntry
	colors := hues()
	for _, p := range panels {
		for _, cv := range p.list {
			label := s.Night.curveLabel(cv.row.Config, axis)
			if cv.row.Config.Unacceptable != "" {
				label += " (not acceptable)"
			}
			i := slices.IndexFunc(key, func(k keyEntry) bool { return k.label == label })
			if i < 0 {
				i = len(key)
				l := look{color: colors[i%len(colors)], dashes: dashesOf(i / len(colors) % 4), marker: marker(i / len(colors) % 4)}
				if cv.row.Config.Unacceptable != "" {
					l.color = rule
				}
				key = append(key, keyEntry{label: label, look: l})
			}
			cv.look = key[i].look
		}
	}
	st := style(8.5, ink, false)
	for i := range key {
		key[i].label = shorten(st, key[i].label, pageWidth/3)
		key[i].width = 24 + st.Width(key[i].label) + 14
	}
	return key
}

func layoutKey(key []keyEntry, width vg.Length) [][]keyEntry {
	var rows [][]keyEntry
	left := vg.Length(0)
	for _, k := range key {
		if len(rows) == 0 || left+k.width > width {
			rows = append(rows, nil)
			left = 0
		}
		rows[len(rows)-1] = append(rows[len(rows)-1], k)
		left += k.width
	}
	return rows
}

func (c canvas) drawKey(rows [][]keyEntry, r vg.Rectangle) vg.Length {
	y := r.Max.Y
	st := style(8.5, ink, false)
	for _, row := range rows {
		x := r.Min.X
		for _, k := range row {
			c.StrokeLines(draw.LineStyle{Color: k.look.color, Width: 1.6, Dashes: k.look.dashes}, []vg.Point{{X: x, Y: y - 6}, {X: x + 18, Y: y - 6}})
			c.drawMarker(k.look, x+9, y-6, 2.4)
			c.text(st, x+23, y-6, k.label)
			x += k.width
		}
		y -= 13
	}
	return y
}

// panelView is the layout that all panels share.
type panelView struct {
	levels  levels
	panels  []panel
	top     float64
	ticks   []tick
	lanes   []vg.Length // by row of panels: height of the lane of failures
	columns int
}

func (v panelView) draw(c canvas, r vg.Rectangle) {
	st := style(8, muted, false)
	left := vg.Length(0)
	for _, t := range v.ticks {
		left = max(left, st.Width(t.label))
	}
	const gap, below = vg.Length(14), vg.Length(30)
	left += 5
	width := (r.Max.X - r.Min.X - left - gap*vg.Length(v.columns-1)) / vg.Length(v.columns)
	height := r.Max.Y - r.Min.Y - below // of one panel without its lane
	for _, lane := range v.lanes {
		height -= lane
	}
	height /= vg.Length(len(v.lanes))
	top := r.Max.Y
	for i, p := range v.panels {
		row, column := i/v.columns, i%v.columns
		if i > 0 && column == 0 {
			top -= height + v.lanes[row-1]
		}
		area := vg.Rectangle{}
		area.Min.X = r.Min.X + left + vg.Length(column)*(width+gap)
		area.Max.X = area.Min.X + width
		area.Max.Y = top - 16
		area.Min.Y = top - height + 6
		v.drawPanel(c, p, area, v.lanes[row], column == 0, i+v.columns >= len(v.panels))
	}
	title := style(9, ink, false)
	title.XAlign = text.XCenter
	c.text(title, (r.Min.X+left+r.Max.X)/2, r.Min.Y+8, shorten(title, v.levels.title, r.Max.X-r.Min.X-left))
}

// failed counts the curves that have something in the lane.
func (p panel) failed() int {
	n := 0
	for _, cv := range p.list {
		if len(cv.marks) > 0 {
			n++
		}
	}
	return n
}

// drawPanel draws one panel above a lane of that height; first: it has the ticks of y; last: those of x.
func (v panelView) drawPanel(c canvas, p panel, area vg.Rectangle, lane vg.Length, first, last bool) {
	x := func(t float64) vg.Length { return area.Min.X + 9 + vg.Length(t)*(area.Max.X-area.Min.X-18) }
	y := func(value float64) vg.Length { return area.Min.Y + vg.Length(value/v.top)*(area.Max.Y-area.Min.Y) }
	name := style(8.5, ink, true)
	c.text(name, area.Min.X, area.Max.Y+9, shorten(name, p.title, area.Max.X-area.Min.X))
	ticks := style(8, muted, false)
	ticks.XAlign = text.XRight
	for _, t := range v.ticks {
		c.line(faint, 0.6, nil, area.Min.X, y(t.value), area.Max.X, y(t.value))
		if first {
			c.text(ticks, area.Min.X-5, y(t.value), t.label)
		}
	}
	bottom := area.Min.Y
	if p.failed() > 0 || last {
		bottom -= lane
	}
	if p.failed() > 0 {
		c.fill(vg.Rectangle{Min: vg.Point{X: area.Min.X, Y: bottom}, Max: vg.Point{X: area.Max.X, Y: area.Min.Y - 0.6}}, badBg)
	}
	c.line(rule, 0.6, nil, area.Min.X, area.Min.Y, area.Max.X, area.Min.Y)
	for _, t := range v.levels.ticks {
		c.line(rule, 0.6, nil, x(t.value), bottom, x(t.value), bottom-2.5)
	}
	if last {
		inside := c
		inside.Min.X = area.Min.X - 6
		inside.drawTicks(style(8, muted, false), v.levels.ticks, x, bottom-5)
	}
	middle := area.Min.Y - 4.5
	for _, cv := range p.list {
		if len(cv.marks) == 0 {
			continue
		}
		c.drawMarker(cv.look, area.Min.X+1.5, middle, 1.4)
		for _, m := range cv.marks {
			c.drawLaneMark(m, x(m.x), middle, 2.1)
		}
		middle -= 6
	}
	drawCurves(c, p.list, x, y, 1.3, 2)
	if !slices.ContainsFunc(p.list, func(cv *curve) bool { return len(cv.points) > 0 }) {
		none := style(8, muted, false)
		none.XAlign = text.XCenter
		c.text(none, (area.Min.X+area.Max.X)/2, (area.Min.Y+area.Max.Y)/2+6, shorten(none, nothing(p), area.Max.X-area.Min.X))
	}
}

func nothing(p panel) string {
	if p.failed() == 0 {
		return "not run yet"
	}
	return "no throughput was measured"
}
