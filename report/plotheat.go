package report

import (
	"cmp"
	"fmt"
	"image/color"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"sweep/sweep"
)

// heat is one square of the map: the best of the configs that have its two values.
type heat struct {
	row   *Row
	value float64
	has   bool
	small string // below the value: where it was reached
	more  string // instead of small where there is room; "" when there is no more to say
	words string // of a failure, or "not run"
	grey  bool   // words tell of something that is no failure of the config
	why   string // of a failure, where a few words more are known
	best  bool
}

// heatView is the layout of a map.
type heatView struct {
	xAxis, yAxis  string // yAxis is "" for a single row
	xs, ys        []string
	cells         [][]heat // by y, then x
	lo, hi        float64
	width, height vg.Length // of one square
	left          vg.Length
	pictureW      vg.Length
}

// heatMap is the picture of the best throughput over the first two axes.
func (s *Summary) heatMap(sheet *Sheet) drawing {
	d := drawing{Picture: Picture{Name: "heatmap", Title: s.heatTitle(sheet)}}
	axes := s.Night.names().axes
	if len(s.Night.gridAxes()) == 0 {
		d.skip = "no map of " + sweep.Printable(sheet.Workload) + ": the grid has no server axis"
		return d
	}
	if len(axes) == 0 {
		axes = s.Night.gridAxes()
	}
	v := s.newHeatView(sheet, axes)
	sub := "Highest output tokens/s over all loads; small: " + levelName(sheet.Loads) + " that reached it"
	if sheet.SLO {
		sub = "Highest output tokens/s over the loads that meet the service levels; small: " + levelName(sheet.Loads) + " that reached it"
	}
	if len(axes) > 2 {
		sub += "; the best over " + sweep.Printable(strings.Join(axes[2:], ", "))
	}
	var off []string
	for _, row := range sheet.Rows {
		if row.Config.Label != "" {
			off = append(off, sweep.Printable(row.Config.Label))
		}
	}
	if len(off) > 0 {
		sub += ". Not on this map: " + strings.Join(off, ", ")
	}
	v.measure()
	d.width = v.pictureW
	d.height = headHeight(d.Title, sub, d.width) + vg.Length(len(v.ys))*v.height + 62
	d.paint = func(c canvas) { v.draw(c, c.frame(d.Title, sub, s.footer())) }
	return d
}

func (s *Summary) heatTitle(sheet *Sheet) string {
	name := sweep.Printable(sheet.Workload) + ": "
	if sheet.Best == nil {
		return name + "best throughput of each config; none can be named best"
	}
	v, _ := sheet.Best.Best.Median(throughput())
	return fmt.Sprintf("%s%s %s tok/s at %s", name, sheet.bestWord(), commas(v, throughput().decimals([]float64{v})), s.Night.names().title(sheet.Best.Config))
}

func (s *Summary) newHeatView(sheet *Sheet, axes []string) *heatView {
	v := &heatView{lo: math.Inf(1), hi: math.Inf(-1)}
	switch first := sorted(s.Night.axisValues(axes[0])); {
	case len(axes) > 1:
		v.yAxis, v.ys = axes[0], first
		v.xAxis, v.xs = axes[1], sorted(s.Night.axisValues(axes[1]))
		if len(v.xs) > 10 && len(v.ys) < len(v.xs) { // a page is higher than wide
			v.xAxis, v.yAxis, v.xs, v.ys = v.yAxis, v.xAxis, v.ys, v.xs
		}
	case len(first) > 8:
		v.yAxis, v.ys, v.xs = axes[0], first, []string{""}
	default:
		v.xAxis, v.xs, v.ys = axes[0], first, []string{""}
	}
	others := axes[min(2, len(axes)):]
	for _, y := range v.ys {
		var line []heat
		for _, x := range v.xs {
			h := s.heatCell(sheet, func(c sweep.Config) bool {
				return c.Label == "" && has(c, v.xAxis, x) && has(c, v.yAxis, y)
			}, others)
			if h.has && h.words == "" {
				v.lo, v.hi = min(v.lo, h.value), max(v.hi, h.value)
			}
			line = append(line, h)
		}
		v.cells = append(v.cells, line)
	}
	return v
}

func has(c sweep.Config, axis, value string) bool {
	v, ok := c.Axes.Get(axis)
	return axis == "" || ok && v == value
}

// sorted orders an axis's values: words such as "off" first as they come, then numbers.
func sorted(values []string) []string {
	out := slices.Clone(values)
	if slices.ContainsFunc(out, func(v string) bool { _, err := number(v); return err == nil }) {
		slices.SortStableFunc(out, func(a, b string) int {
			x, err1 := number(a)
			y, err2 := number(b)
			if err1 != nil || err2 != nil {
				return before(err1 != nil, err2 != nil)
			}
			return cmp.Compare(x, y)
		})
	}
	return out
}

// heatCell picks the config that stands for a square: one that may be named best before one that may
// not, and the faster one of equals.
func (s *Summary) heatCell(sheet *Sheet, match func(sweep.Config) bool, others []string) heat {
	var best *Row
	better := func(a, b *Row) bool {
		if d := before(a.Unfit == "", b.Unfit == ""); d != 0 {
			return d < 0
		}
		if (a.Best == nil) != (b.Best == nil) {
			return a.Best != nil
		}
		if a.Best == nil {
			return false
		}
		x, _ := a.Best.Median(throughput())
		y, _ := b.Best.Median(throughput())
		return x > y
	}
	for _, row := range sheet.Rows {
		if match(row.Config) && (best == nil || better(row, best)) {
			best = row
		}
	}
	if best == nil {
		return heat{words: "not run", grey: true}
	}
	h := heat{row: best, best: best == sheet.Best}
	dead := slices.ContainsFunc(best.Squares, func(q *Square) bool { return q.death() != "" })
	if best.Best != nil {
		h.value, h.has = best.Best.Median(throughput())
		h.small = "@ " + loadLabel(best.Best.Load, sheet.Loads)
		for _, axis := range others {
			if v, ok := best.Config.Axes.Get(axis); ok {
				h.small += " · " + sweep.Printable(s.Night.shortAxis(axis)+" "+v)
			}
		}
		if met, known := best.Best.MeetsSLO(); known && !met {
			h.small = "misses the SLO"
		}
	}
	if dead || !h.has {
		h.words, h.grey = laneWords(best), !dead
		if h.words == "" {
			h.words = "not run"
		}
		if word, why, ok := strings.Cut(h.words, ": "); ok {
			h.words, h.why = word, why
		}
	}
	switch {
	case best.Config.Unacceptable != "":
		h.small = "not acceptable"
	case h.has && best.failsElsewhere():
		h.more = h.small + " · fails elsewhere"
	}
	return h
}

// measure makes the squares as large as their texts need, so that nothing is cut or meets a neighbour.
func (v *heatView) measure() {
	labels := style(9, muted, false)
	for _, y := range v.ys {
		v.left = max(v.left, labels.Width(shorten(labels, y, 130)))
	}
	v.left += 8
	if v.yAxis != "" {
		v.left += 16
	}
	need := vg.Length(34)
	for i, line := range v.cells {
		for j := range line {
			h := &v.cells[i][j]
			if h.has {
				need = max(need, style(8, ink, true).Width(v.number(h.value))+8)
			}
			for word := range strings.FieldsSeq(h.words) {
				need = max(need, style(7, ink, true).Width(word)+12)
			}
		}
	}
	for _, x := range v.xs {
		need = max(need, labels.Width(shorten(labels, x, 130))+8)
	}
	v.width = max(need, (pageWidth-2*margin-v.left)/vg.Length(len(v.xs)))
	v.pictureW = v.left + v.width*vg.Length(len(v.xs)) + 2*margin
	v.height = max(38, min(60, 230/vg.Length(len(v.ys))))
	if len(v.ys) > 12 {
		v.height = 20 // one line of text
	}
}

func (v *heatView) number(value float64) string {
	return commas(value, throughput().decimals([]float64{v.hi, value}))
}

func (v *heatView) draw(c canvas, r vg.Rectangle) {
	right := vg.Length(0)
	area := vg.Rectangle{Min: vg.Point{X: r.Min.X + v.left, Y: r.Min.Y + 34}, Max: vg.Point{X: r.Max.X - right, Y: r.Max.Y}}
	st := style(9, muted, false)
	st.XAlign = text.XRight
	height := (area.Max.Y - area.Min.Y) / vg.Length(len(v.ys))
	var frame vg.Rectangle
	for i, name := range v.ys {
		bottom := area.Min.Y + vg.Length(i)*height
		if name != "" {
			c.text(st, area.Min.X-6, bottom+height/2, sweep.Printable(shorten(st, name, 130)))
		}
		for j := range v.xs {
			left := area.Min.X + vg.Length(j)*v.width
			cell := vg.Rectangle{Min: vg.Point{X: left + 1, Y: bottom + 1}, Max: vg.Point{X: left + v.width - 1, Y: bottom + height - 1}}
			v.drawCell(c, v.cells[i][j], cell)
			if v.cells[i][j].best {
				frame = cell
			}
		}
	}
	if frame.Max.X > 0 { // last, so that no neighbour covers it
		c.outline(frame, draw.LineStyle{Color: frameC, Width: 2.2})
	}
	st.XAlign = text.XCenter
	for j, name := range v.xs {
		c.text(st, area.Min.X+(vg.Length(j)+0.5)*v.width, area.Min.Y-8, sweep.Printable(shorten(st, name, 130)))
	}
	title := style(9, ink, false)
	title.XAlign = text.XCenter
	c.text(title, (area.Min.X+area.Max.X)/2, area.Min.Y-24, shorten(title, sweep.Printable(v.xAxis), area.Max.X-area.Min.X))
	if v.yAxis != "" {
		title.Rotation = math.Pi / 2
		title.YAlign = text.YTop
		c.text(title, r.Min.X, (area.Min.Y+area.Max.Y)/2, shorten(title, sweep.Printable(v.yAxis), area.Max.Y-area.Min.Y))
	}
}

func (v *heatView) drawCell(c canvas, h heat, r vg.Rectangle) {
	mid := vg.Point{X: (r.Min.X + r.Max.X) / 2, Y: (r.Min.Y + r.Max.Y) / 2}
	room := r.Max.X - r.Min.X - 6
	put := func(s string, size, smallest float64, col color.Color, bold bool, dy vg.Length) {
		st := style(size, col, bold)
		for size > smallest && st.Width(s) > room {
			size -= 0.5
			st = style(size, col, bold)
		}
		if st.Width(s) > room {
			return // the table has it; a cut number would be a wrong one
		}
		st.XAlign = text.XCenter
		c.text(st, mid.X, mid.Y+dy, s)
	}
	switch {
	case h.words == "not run" || h.grey:
		c.outline(vg.Rectangle{Min: r.Min.Add(vg.Point{X: 0.5, Y: 0.5}), Max: r.Max.Sub(vg.Point{X: 0.5, Y: 0.5})}, draw.LineStyle{Color: faint, Width: 0.8})
		words := h.words
		if h.why != "" {
			words += ": " + h.why
		}
		put(words, 8, 6, muted, false, 0)
	case h.words != "":
		v.drawFailure(c, h, r, put)
	default:
		// The ramp begins at least a quarter below the best, so that noise does not look like a gain.
		lo := min(v.lo, 0.75*v.hi)
		t := 1.0
		if v.hi > lo {
			t = (h.value - lo) / (v.hi - lo)
		}
		fill := ramp(blues(), t)
		if h.row.Config.Unacceptable != "" {
			fill = faint
		}
		c.fill(r, fill)
		if r.Max.Y-r.Min.Y < 26 {
			put(v.number(h.value)+"  "+h.small, 9, 7, inkOn(fill), false, 0)
			return
		}
		put(v.number(h.value), 10.5, 7, inkOn(fill), true, 5)
		if h.more != "" && style(7.5, ink, false).Width(h.more) <= room {
			h.small = h.more
		}
		put(h.small, 7.5, 6, inkOn(fill), false, -7)
	}
}

// drawFailure hatches a square. What the config reached before it failed stands small below the words.
func (v *heatView) drawFailure(c canvas, h heat, r vg.Rectangle, put func(s string, size, smallest float64, col color.Color, bold bool, dy vg.Length)) {
	c.fill(r, cellBg)
	c.hatch(r, 6, draw.LineStyle{Color: over(bad, 0.35), Width: 0.8})
	room := r.Max.X - r.Min.X - 8
	size := 9.0
	st := style(size, bad, true)
	lines := wrapWidth(st, h.words, room)
	for size > 7 && (len(lines) > 2 || slices.ContainsFunc(lines, func(l string) bool { return st.Width(l) > room })) {
		size -= 0.5
		st = style(size, bad, true)
		lines = wrapWidth(st, h.words, room)
	}
	small := h.why
	if h.has {
		small = v.number(h.value) + " " + h.small
	}
	step := vg.Length(size + 1.5)
	fits := int((r.Max.Y - r.Min.Y - 4) / step)
	if len(lines) >= fits {
		small = ""
	}
	if len(lines) > fits {
		lines = lines[:max(1, fits)]
	}
	wide := vg.Length(0)
	for _, l := range lines {
		wide = max(wide, st.Width(l))
	}
	block := vg.Length(len(lines)) * step
	if small != "" && style(6, muted, false).Width(small) <= r.Max.X-r.Min.X-6 {
		block += 9
		wide = max(wide, min(style(7, muted, false).Width(small), r.Max.X-r.Min.X-8))
	} else {
		small = ""
	}
	mid := vg.Point{X: (r.Min.X + r.Max.X) / 2, Y: (r.Min.Y + r.Max.Y) / 2}
	c.fill(vg.Rectangle{Min: vg.Point{X: mid.X - wide/2 - 4, Y: mid.Y - block/2 - 1.5}, Max: vg.Point{X: mid.X + wide/2 + 4, Y: mid.Y + block/2 + 1.5}}, cellBg)
	y := block/2 - step/2
	for _, l := range lines {
		put(l, size, size, bad, true, y)
		y -= step
	}
	if small != "" {
		put(small, 7, 6, muted, false, -block/2+4.5)
	}
}
