package report

import (
	"fmt"
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot/vg"

	"sweep/sweep"
)

// strip is one quantity over time.
type strip struct {
	title  string
	values []float64
	color  color.NRGBA
	y      axisScale
}

// timeline is the picture of one run: that of the best config, or of the baseline where there is no best.
func (s *Summary) timeline(sheet *Sheet) drawing {
	name := sweep.Printable(sheet.Workload)
	d := drawing{Picture: Picture{Name: "timeline", Title: name + ": one run over time"}, width: pageWidth}
	row := sheet.Best
	if row == nil {
		row = sheet.Baseline
	}
	if row == nil || row.Best == nil {
		d.skip = "no run of " + name + " over time: nothing was measured"
		return d
	}
	for _, r := range row.Best.Records {
		if withheld(r) != "" {
			continue
		}
		tl, err := s.Night.Timeline(r)
		if err != nil || tl == nil || len(tl.T) < 4 {
			continue
		}
		s.timelineOf(&d, sheet, row, r, tl)
		return d
	}
	d.skip = "no run of " + name + " over time: its metrics were not kept"
	return d
}

func (s *Summary) timelineOf(d *drawing, sheet *Sheet, row *Row, r sweep.Record, tl *Timeline) {
	if what := runFinding(tl); what != "" {
		d.Title = sweep.Printable(sheet.Workload) + ": " + what
	}
	sub := fmt.Sprintf("%s · %s · repeat %d", s.Night.curveLabel(row.Config, ""), inFlight(r.Load), r.Repeat)
	if !math.IsNaN(tl.Open) {
		sub += ". The window lies between the dotted lines; warm-up and drain (grey) are left out of the numbers."
	}
	strips := runStrips(tl)
	d.height = headHeight(d.Title, sub, pageWidth) + vg.Length(len(strips))*88 + 44
	d.paint = func(c canvas) {
		c.drawStrips(c.frame(d.Title, sub, s.footer()), tl, strips)
	}
}

// runFinding says what happened in a run that a reader should see.
func runFinding(tl *Timeline) string {
	in := 0
	for _, t := range tl.Retracts {
		if t >= tl.Open && t <= tl.Close {
			in++
		}
	}
	switch st := tl.Steadiness(); {
	case in > 0:
		return fmt.Sprintf("requests were pushed out of the batch %s in the window", map[bool]string{true: "once", false: fmt.Sprintf("%d times", in)}[in == 1])
	case st.Trend == WarmingUp || st.Trend == SlowingDown || st.Trend == NoSteadyState:
		return "one run, " + string(st.Trend) + " within the window"
	}
	return ""
}

func runStrips(tl *Timeline) []strip {
	h := hues()
	all := []strip{
		{title: "KV pool in use", values: tl.Usage, color: h[0]},
		{title: "Running requests", values: tl.Running, color: h[2]},
		{title: "Queued requests", values: tl.Queued, color: h[5]},
		{title: "Output tokens/s that reached the client", values: tl.Rate, color: h[3]},
	}
	var out []strip
	for _, st := range all {
		top, some := 0.0, false
		for _, v := range st.values {
			if !math.IsNaN(v) {
				top, some = max(top, v), true
			}
		}
		if !some {
			continue
		}
		switch {
		case st.title == "KV pool in use":
			st.y = axisScale{hi: max(1, top), ticks: []tick{{0, "0 %"}, {0.5, "50 %"}, {1, "100 %"}}}
		default:
			st.y = countScale(top, 3)
		}
		out = append(out, st)
	}
	return out
}

func (c canvas) drawStrips(r vg.Rectangle, tl *Timeline, strips []strip) {
	left := vg.Length(0)
	for _, st := range strips {
		left = max(left, st.y.widest(style(8, muted, false)))
	}
	end := slices.Max(tl.T)
	x := linear(end, 7, "Seconds since the first request")
	x.hi = max(end, 1e-3)
	x.ticks = slices.DeleteFunc(x.ticks, func(t tick) bool { return t.value > x.hi })
	step := (r.Max.Y - r.Min.Y - 18) / vg.Length(len(strips))
	for i, st := range strips {
		top := r.Max.Y - vg.Length(i)*step
		p := xyPanel{x: x, y: st.y, title: ""}
		p.area = vg.Rectangle{Min: vg.Point{X: r.Min.X + left + 8, Y: top - step + 12}, Max: vg.Point{X: r.Max.X - 8, Y: top - 14}}
		c.drawStrip(p, st, tl, i == len(strips)-1)
	}
}

func (c canvas) drawStrip(p xyPanel, st strip, tl *Timeline, last bool) {
	if !math.IsNaN(tl.Open) {
		grey := rgb(0xf1f3f4)
		open, closed := min(max(p.atX(tl.Open), p.area.Min.X), p.area.Max.X), max(min(p.atX(tl.Close), p.area.Max.X), p.area.Min.X)
		c.fill(vg.Rectangle{Min: p.area.Min, Max: vg.Point{X: open, Y: p.area.Max.Y}}, grey)
		c.fill(vg.Rectangle{Min: vg.Point{X: closed, Y: p.area.Min.Y}, Max: p.area.Max}, grey)
		defer func() { // above the filled curve
			for _, x := range []vg.Length{open, closed} {
				c.line(rule, 0.8, []vg.Length{1, 2}, x, p.area.Min.Y, x, p.area.Max.Y)
			}
		}()
	}
	if last {
		p.title = ""
		c.drawAxes(p)
	} else {
		bare := p
		bare.x = axisScale{hi: 1}
		c.drawAxes(bare)
	}
	line := xyLine{look: look{color: st.color}}
	for i, t := range tl.T {
		line.points = append(line.points, [2]float64{t, st.values[i]})
	}
	c.fillBelow(p, line, over(st.color, 0.15))
	c.drawSeries(p, []xyLine{line}, 1.2, 0)
	name := style(8.5, ink, true)
	c.text(name, p.area.Min.X, p.area.Max.Y+8, st.title)
	for _, t := range tl.Retracts {
		if p.holds(t, 0) {
			c.line(bad, 1, []vg.Length{2, 2}, p.atX(t), p.area.Min.Y, p.atX(t), p.area.Max.Y)
		}
	}
	at := p.area.Min.X + name.Width(st.title) + 14
	switch {
	case st.title == "KV pool in use" && len(tl.Retracts) > 0:
		c.text(style(8, bad, true), at, p.area.Max.Y+8, "red: requests pushed out (retraction)")
	case last && !math.IsNaN(tl.Open):
		if e, ok := BatchMeans(tl.window(tl.Rate)); ok {
			c.line(ink, 1.2, nil, max(p.atX(tl.Open), p.area.Min.X), p.atY(e.Value), min(p.atX(tl.Close), p.area.Max.X), p.atY(e.Value))
			decimals := throughput().decimals([]float64{e.Value})
			note := fmt.Sprintf("window mean %s ± %s (95 %%, batch means, within this run)", commas(e.Value, decimals), commas(e.Hi-e.Value, decimals))
			st := style(8, ink, false)
			c.text(st, at, p.area.Max.Y+8, shorten(st, note, p.area.Max.X-at))
		}
	}
}

// fillBelow fills the area under a line.
func (c canvas) fillBelow(p xyPanel, l xyLine, col color.Color) {
	var path vg.Path
	var from, to vg.Length
	begun := false
	flush := func() {
		if begun {
			path.Line(vg.Point{X: to, Y: p.area.Min.Y})
			path.Line(vg.Point{X: from, Y: p.area.Min.Y})
			path.Close()
			c.SetColor(col)
			c.Fill(path)
		}
		path, begun = nil, false
	}
	for _, q := range l.points {
		if math.IsNaN(q[1]) || !p.holds(q[0], q[1]) {
			flush()
			continue
		}
		at := p.at(q[0], q[1])
		if !begun {
			path.Move(at)
			from, begun = at.X, true
		} else {
			path.Line(at)
		}
		to = at.X
	}
	flush()
}
