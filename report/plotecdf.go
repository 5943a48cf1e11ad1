package report

import (
	"fmt"
	"math"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"sweep/sweep"
)

// mostBoxes bounds the configs of a picture of requests.
const mostBoxes = 6

// mostSteps bounds the points of one curve of shares.
const mostSteps = 600

// classLatency is one row of panels: the requests of one class, for each config.
type classLatency struct {
	class  string
	curves []*curve
	values [][]float64 // ascending, of each curve
}

// distribution is the picture of the requests of one kind of latency: shares and boxes by class.
func (s *Summary) distribution(sheet *Sheet, kind string) drawing {
	name := sweep.Printable(sheet.Workload)
	what := map[string]string{"ttft": "time to first token", "tpot": "time per output token"}[kind]
	d := drawing{Picture: Picture{Name: kind, Title: name + ": " + what + " of single requests"}, width: pageWidth}
	classes, err := s.classLatencies(sheet, kind)
	switch {
	case err != nil:
		d.skip = "no " + what + " of " + name + ": " + err.Error()
		return d
	case len(classes) == 0:
		d.skip = "no " + what + " of " + name + ": no requests were kept"
		return d
	}
	sub := "At the best load of each config, all repeats together. Left: share of requests answered within t. Right: box p25 to p75 with the median, whiskers p1 and p99. Log scales."
	d.height = headHeight(d.Title, sub, pageWidth) + 34
	for _, cl := range classes {
		d.height += 54 + 24*vg.Length(max(4, len(cl.curves)))
	}
	d.classes = classes
	d.paint = func(c canvas) {
		r := c.frame(d.Title, sub, s.footer())
		for _, cl := range classes {
			row := r
			row.Min.Y = r.Max.Y - 54 - 24*vg.Length(max(4, len(cl.curves)))
			areas := panelGrid(row, 1, 2, 34)
			areas[1].Min.X -= 30
			c.drawShares(areas[0], cl)
			c.drawBoxes(areas[1], cl)
			r.Max.Y = row.Min.Y
		}
	}
	return d
}

func (s *Summary) classLatencies(sheet *Sheet, kind string) ([]classLatency, error) {
	rows := sheet.leading(mostBoxes)
	curves := map[*Row]*curve{}
	for _, cv := range s.curveList(sheet, place(sheet.Loads)) {
		curves[cv.row] = cv
	}
	byClass := map[string]*classLatency{}
	var names []string
	for _, row := range rows {
		latencies, err := s.Night.Latencies(row.Best)
		if err != nil {
			return nil, err
		}
		for _, p := range row.Best.Load.Pools {
			l := latencies[p.Class]
			if l == nil {
				continue
			}
			values := l.TTFT
			if kind == "tpot" {
				values = l.TPOT
			}
			if len(values) < 4 || values[0] <= 0 {
				continue // no box of so few
			}
			if byClass[p.Class] == nil {
				byClass[p.Class] = &classLatency{class: p.Class}
				names = append(names, p.Class)
			}
			cl := byClass[p.Class]
			cv := *curves[row]
			cv.label += " @" + loadLabel(row.Best.Load, sheet.Loads)
			cl.curves, cl.values = append(cl.curves, &cv), append(cl.values, values)
		}
	}
	var out []classLatency
	for _, name := range names {
		out = append(out, *byClass[name])
	}
	return out, nil
}

// scale holds the requests of all configs, the outermost hundredth apart.
func (cl classLatency) scale() axisScale {
	lo, hi := math.Inf(1), 0.0
	for _, v := range cl.values {
		lo, hi = min(lo, rank(v, 0.01)), max(hi, rank(v, 0.99))
	}
	if hi < lo*2 {
		lo, hi = lo/1.4, hi*1.4
	}
	return logarithmic(lo, hi, milliseconds, "")
}

// rank is a quantile of ascending values by nearest rank.
func rank(sorted []float64, q float64) float64 {
	return sorted[min(len(sorted)-1, max(0, int(math.Ceil(q*float64(len(sorted))))-1))]
}

func (c canvas) drawShares(area vg.Rectangle, cl classLatency) {
	p := xyPanel{area: area, title: sweep.Printable(cl.class) + fmt.Sprintf(" (%s requests)", countRange(cl.values)), x: cl.scale()}
	p.y = axisScale{hi: 1, ticks: []tick{{0, "0 %"}, {0.25, "25 %"}, {0.5, "50 %"}, {0.75, "75 %"}, {0.95, "95 %"}}}
	c.drawAxes(p)
	for i, v := range cl.values {
		var line []vg.Point
		last := 0.0
		step := max(1, len(v)/mostSteps)
		for k := 0; k < len(v); k += step {
			x := min(max(v[k], p.x.lo), p.x.hi)
			y := float64(k+1) / float64(len(v))
			line = append(line, p.at(x, last), p.at(x, y))
			last = y
		}
		c.StrokeLines(draw.LineStyle{Color: cl.curves[i].look.color, Width: 1.3, Dashes: cl.curves[i].look.dashes}, line)
	}
}

func countRange(values [][]float64) string {
	lo, hi := len(values[0]), len(values[0])
	for _, v := range values {
		lo, hi = min(lo, len(v)), max(hi, len(v))
	}
	if lo == hi {
		return commas(float64(lo), 0)
	}
	return commas(float64(lo), 0) + "–" + commas(float64(hi), 0)
}

// drawBoxes draws one box for each config, its name above it.
func (c canvas) drawBoxes(area vg.Rectangle, cl classLatency) {
	p := xyPanel{area: area, x: cl.scale()}
	p.y = axisScale{hi: 1}
	c.drawAxes(p)
	for _, t := range p.x.ticks {
		c.line(faint, 0.6, nil, p.atX(t.value), area.Min.Y, p.atX(t.value), area.Max.Y)
	}
	height := (area.Max.Y - area.Min.Y) / vg.Length(len(cl.values))
	for i, v := range cl.values {
		cv := cl.curves[i]
		top := area.Max.Y - vg.Length(i)*height
		st := style(8, labelColor(cv), true)
		c.text(st, area.Min.X+2, top-height/2+7, cv.fit(st, area.Max.X-area.Min.X-4))
		y := top - height/2 - 5
		at := func(q float64) vg.Length { return p.atX(min(max(rank(v, q), p.x.lo), p.x.hi)) }
		col := cv.look.color
		c.line(col, 1, cv.look.dashes, at(0.01), y, at(0.99), y)
		for _, q := range []float64{0.01, 0.99} {
			c.line(col, 1, nil, at(q), y-3, at(q), y+3)
		}
		box := vg.Rectangle{Min: vg.Point{X: at(0.25), Y: y - 4}, Max: vg.Point{X: at(0.75), Y: y + 4}}
		c.fill(box, over(col, 0.25))
		c.outline(box, draw.LineStyle{Color: col, Width: 1})
		c.line(col, 2.2, nil, at(0.5), y-4, at(0.5), y+4)
	}
}
