package report

import (
	"cmp"
	"fmt"
	"image/color"
	"slices"

	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"sweep/sweep"
)

// paretoPoint is one cell: what each user sees, and what the machine gives.
type paretoPoint struct {
	row      *Row
	square   *Square
	x, y     float64
	frontier bool
	ban      ban    // why it may not be recommended; "" where it may
	why      string // in words, with which death or doubt that was
}

// Frontier marks the cells that no other beats in both: those that were attained, among those that may be recommended.
func frontier(points []paretoPoint) {
	order := make([]int, len(points))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(-cmp.Compare(points[a].x, points[b].x), -cmp.Compare(points[a].y, points[b].y))
	})
	top := 0.0
	for _, i := range order { // by falling x: on the frontier is what is higher than all to its right
		if p := &points[i]; p.ban == "" && p.y > top {
			p.frontier, top = true, p.y
		}
	}
}

// paretoPoints are a sheet's cells.
func (s *Summary) paretoPoints(sheet *Sheet) (points []paretoPoint, perGPU bool) {
	user, machine := metric("output_throughput_per_user"), metric("output_throughput_per_gpu")
	perGPU = true
	for _, row := range sheet.Rows {
		for _, q := range row.Squares {
			if _, ok := q.Median(machine); !ok && q.Measured() {
				perGPU = false
			}
		}
	}
	if !perGPU {
		machine = throughput()
	}
	for _, row := range sheet.Rows {
		for _, q := range row.Squares {
			x, ok1 := q.Median(user)
			y, ok2 := q.Median(machine)
			if ok1 && ok2 {
				p := paretoPoint{row: row, square: q, x: x, y: y}
				p.ban, p.why = row.banned(q)
				points = append(points, p)
			}
		}
	}
	frontier(points)
	return points, perGPU
}

// pareto is the picture of what each user's speed costs.
func (s *Summary) pareto(sheet *Sheet) drawing {
	name := sweep.Printable(sheet.Workload)
	d := drawing{Picture: Picture{Name: "pareto", Title: name + ": what each user's speed costs in throughput"}, width: pageWidth}
	points, perGPU := s.paretoPoints(sheet)
	if len(points) < 2 {
		d.skip = "no frontier of " + name + ": it needs two measured cells with a time per output token"
		return d
	}
	sub := "Each dot is one cell (config at one load). The line joins what was attained: any point on or below it could be had. Labels: config @ " + levelName(sheet.Loads) + "."
	yTitle := "Output tokens/s per GPU"
	if !perGPU {
		yTitle = "Output tokens/s, whole server"
	}
	d.height = headHeight(d.Title, sub, pageWidth) + 270
	d.paint = func(c canvas) {
		r := c.frame(d.Title, sub, s.footer())
		key := style(8.5, ink, false)
		s.drawPareto(c, r, sheet, points, yTitle, key)
	}
	return d
}

func (s *Summary) drawPareto(c canvas, r vg.Rectangle, sheet *Sheet, points []paretoPoint, yTitle string, key text.Style) {
	right, top := 0.0, 0.0
	for _, p := range points {
		right, top = max(right, p.x), max(top, p.y)
	}
	blue := hues()[0]
	type kind struct {
		label string
		look  look
		size  vg.Length
	}
	onIt, beaten := kind{"on the frontier", look{color: blue}, 3}, kind{"beaten by another cell", look{color: rule}, 2.1}
	marks := map[ban]kind{}
	for i, b := range bansInOrder() {
		marks[b] = kind{string(b), banLooks()[i], 2.4}
	}
	kindOf := func(p paretoPoint) kind {
		switch {
		case p.frontier:
			return onIt
		case p.ban != "":
			return marks[p.ban]
		}
		return beaten
	}
	kinds := []kind{onIt}
	for _, b := range append([]ban{""}, bansInOrder()...) {
		if slices.ContainsFunc(points, func(p paretoPoint) bool { return p.ban == b && !p.frontier }) {
			kinds = append(kinds, kindOf(paretoPoint{ban: b}))
		}
	}
	x, line := r.Min.X, r.Max.Y-6
	for _, k := range kinds {
		w := 14 + key.Width(k.label)
		if x > r.Min.X && x+w > r.Max.X {
			x, line = r.Min.X, line-12
		}
		c.drawMarker(k.look, x+6, line, k.size)
		c.text(key, x+14, line, k.label)
		x += w + 16
	}
	p := xyPanel{x: linear(right, 8, "Output tokens/s per user (faster for each user →)"), y: linear(top, 5, ""), title: yTitle}
	left := p.y.widest(style(8, muted, false)) + 8
	p.area = vg.Rectangle{Min: vg.Point{X: r.Min.X + left, Y: r.Min.Y + 32}, Max: vg.Point{X: r.Max.X - 6, Y: line - 26}}
	c.drawAxes(p)
	for _, t := range p.x.ticks {
		c.line(faint, 0.6, nil, p.atX(t.value), p.area.Min.Y, p.atX(t.value), p.area.Max.Y)
	}
	var on []paretoPoint
	for _, q := range points {
		if q.frontier {
			on = append(on, q)
			continue
		}
		at, k := p.at(q.x, q.y), kindOf(q)
		c.drawMarker(k.look, at.X, at.Y, k.size)
	}
	slices.SortFunc(on, func(a, b paretoPoint) int { return cmp.Compare(b.x, a.x) })
	c.drawStaircase(p, on, blue)
	for _, q := range on {
		at := p.at(q.x, q.y)
		c.drawMarker(onIt.look, at.X, at.Y, onIt.size)
	}
	s.labelFrontier(c, p, sheet, on, points)
}

// banLooks are the marks of what is no offer, in the order of the kinds: those of a death are red.
func banLooks() []look {
	return []look{{color: bad, marker: ring}, {color: bad, marker: square}, {color: rule, marker: square}, {color: rule, marker: triangle}, {color: rule, marker: ring}}
}

// drawStaircase joins attained points by right angles: between two points only the lower right of them is sure.
func (c canvas) drawStaircase(p xyPanel, on []paretoPoint, col color.Color) {
	var line []vg.Point
	for i, q := range on {
		if i > 0 {
			line = append(line, p.at(q.x, on[i-1].y))
		}
		line = append(line, p.at(q.x, q.y))
	}
	if len(line) > 1 {
		c.StrokeLines(draw.LineStyle{Color: col, Width: 1.4}, line)
	}
}

// labelFrontier writes as many labels as fit without touching each other or a dot, those of the best config first.
func (s *Summary) labelFrontier(c canvas, p xyPanel, sheet *Sheet, on, all []paretoPoint) {
	sorted := slices.Clone(on)
	slices.SortStableFunc(sorted, func(a, b paretoPoint) int {
		return before(sheet.Best != nil && a.square == sheet.Best.Best, sheet.Best != nil && b.square == sheet.Best.Best)
	})
	var taken, dots []vg.Rectangle
	lines := staircaseBoxes(p, on)
	for _, q := range all {
		at := p.at(q.x, q.y)
		dots = append(dots, vg.Rectangle{Min: vg.Point{X: at.X - 2.5, Y: at.Y - 2.5}, Max: vg.Point{X: at.X + 2.5, Y: at.Y + 2.5}})
	}
	st := style(8, ink, false)
	for i, q := range sorted {
		label := fmt.Sprintf("%s @%s", s.Night.curveLabel(q.row.Config, ""), loadLabel(q.square.Load, sheet.Loads))
		label = shorten(st, label, 200)
		w := st.Width(label)
		at := p.at(q.x, q.y)
		places := []vg.Point{
			{X: at.X + 6, Y: at.Y + 6}, {X: at.X + 6, Y: at.Y - 6}, {X: at.X - 6 - w, Y: at.Y - 7}, {X: at.X - 6 - w, Y: at.Y + 7},
			{X: at.X - w/2, Y: at.Y + 13}, {X: at.X - w + 6, Y: at.Y + 13}, {X: at.X - w/2, Y: at.Y - 14}, {X: at.X - w + 6, Y: at.Y - 20},
		}
		// Beside line and dots where there is room, else across the line; the first is the best: it has its label although that covers a dot.
		for k, place := range slices.Concat(places, places, places) {
			box := vg.Rectangle{Min: vg.Point{X: place.X - 1, Y: place.Y - 5.5}, Max: vg.Point{X: place.X + w + 1, Y: place.Y + 5.5}}
			pass := k / len(places)
			if box.Min.X < p.area.Min.X+1 || box.Max.X > p.area.Max.X+4 || box.Min.Y < p.area.Min.Y+1 || box.Max.Y > p.area.Max.Y+3 || meets(box, taken) ||
				(pass < 2 || i > 0) && meets(box, dots) || pass < 1 && meets(box, lines) {
				continue
			}
			taken = append(taken, box)
			c.text(st, place.X, place.Y, label)
			break
		}
	}
}

// staircaseBoxes are the places that the line of the frontier takes.
func staircaseBoxes(p xyPanel, on []paretoPoint) []vg.Rectangle {
	var boxes []vg.Rectangle
	for i := 1; i < len(on); i++ {
		right, left := p.at(on[i-1].x, on[i-1].y), p.at(on[i].x, on[i].y)
		boxes = append(boxes,
			vg.Rectangle{Min: vg.Point{X: left.X, Y: right.Y - 1}, Max: vg.Point{X: right.X, Y: right.Y + 1}},
			vg.Rectangle{Min: vg.Point{X: left.X - 1, Y: right.Y}, Max: vg.Point{X: left.X + 1, Y: left.Y}})
	}
	return boxes
}

func meets(box vg.Rectangle, taken []vg.Rectangle) bool {
	return slices.ContainsFunc(taken, func(t vg.Rectangle) bool {
		return box.Min.X < t.Max.X && t.Min.X < box.Max.X && box.Min.Y < t.Max.Y && t.Min.Y < box.Max.Y
	})
}
