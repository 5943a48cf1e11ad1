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

// edgePoint is what the launches of one config said of their memory.
type edgePoint struct {
	config sweep.Config
	x      float64 // value of the axis
	tick   string  // as the grid has it
	kv     float64 // tokens; NaN: not told
	start  float64 // GiB of headroom when ready
	least  float64 // GiB, least under load
	died   string  // how, in few words; "" when it did not
	served bool    // some load was measured on it
	inFit  bool

	kvForecast, roomForecast Estimate // before the launch, with the interval that was expected; NaN: there was none
}

// Edge is how memory goes with the axis that sets it.
type Edge struct {
	Axis     string
	KV       Fit
	Headroom Fit
	HasKV    bool
	HasRoom  bool
	points   []edgePoint
}

// edge finds the axis that sets the size of the KV pool, and fits its lines; ok is false where no axis does. It is looked for once.
func (s *Summary) edge() (e Edge, ok bool) {
	if s.limits == nil {
		e, ok := s.findEdge()
		s.limits = &foundEdge{e, ok}
	}
	return s.limits.Edge, s.limits.ok
}

// foundEdge is an edge, or that there is none.
type foundEdge struct {
	Edge
	ok bool
}

func (s *Summary) findEdge() (e Edge, ok bool) {
	best := -1.0
	byConfig := map[string][]*sweep.Record{}
	for i := range s.Night.Records {
		r := &s.Night.Records[i]
		byConfig[r.Config] = append(byConfig[r.Config], r)
	}
	for _, axis := range s.Night.gridAxes() {
		points := s.edgePoints(axis, byConfig)
		kv := map[float64]float64{}
		lo, hi := math.Inf(1), math.Inf(-1)
		for _, p := range points {
			if !math.IsNaN(p.kv) {
				kv[p.x] = p.kv
				lo, hi = min(lo, p.kv), max(hi, p.kv)
			}
		}
		if len(kv) < 2 || hi <= lo {
			continue
		}
		score := 0.0
		for _, word := range []string{"mem-fraction", "memory-utilization"} {
			if strings.Contains(axis, word) {
				score = 2
			}
		}
		f, _ := fitOf(points, func(p edgePoint) float64 { return p.kv })
		score += 1 - min(1, f.SD/hi)
		if score > best {
			best, e = score, Edge{Axis: axis, points: points}
		}
	}
	if best < 0 {
		return e, false
	}
	e.chooseFit(s)
	e.KV, e.HasKV = fitOf(e.points, func(p edgePoint) float64 { return p.kv })
	e.Headroom, e.HasRoom = fitOf(e.points, func(p edgePoint) float64 { return p.start })
	return e, e.HasKV
}

// chooseFit leaves out of the fit what other settings moved: when the points do not lie on one line, only those stay that share the
// baseline's other settings.
func (e *Edge) chooseFit(s *Summary) {
	f, ok := fitOf(e.points, func(p edgePoint) float64 { return p.kv })
	if !ok || f.N < 3 || f.SD <= 0.02*math.Abs(f.At(f.mean).Value) {
		return
	}
	base := ""
	for _, c := range s.Night.Configs {
		if c.Baseline {
			base = withoutAxis(c, e.Axis)
		}
	}
	kept := 0
	for _, p := range e.points {
		if withoutAxis(p.config, e.Axis) == base {
			kept++
		}
	}
	for i := range e.points {
		e.points[i].inFit = kept < 2 || withoutAxis(e.points[i].config, e.Axis) == base
	}
}

func withoutAxis(c sweep.Config, axis string) string {
	return slices.DeleteFunc(slices.Clone(c.Axes), func(p sweep.Param) bool { return p.Name == axis }).String()
}

func fitOf(points []edgePoint, y func(edgePoint) float64) (Fit, bool) {
	var xs, ys []float64
	for _, p := range points {
		if v := y(p); p.inFit && !math.IsNaN(v) {
			xs, ys = append(xs, p.x), append(ys, v)
		}
	}
	return FitLine(xs, ys)
}

// edgePoints are the configs that have a number on the axis and were started.
func (s *Summary) edgePoints(axis string, byConfig map[string][]*sweep.Record) []edgePoint {
	var points []edgePoint
	for _, c := range s.Night.Configs {
		text, ok := c.Axes.Get(axis)
		x, err := number(text)
		if !ok || err != nil || c.Label != "" {
			continue
		}
		var kv, start []float64
		least, died, served := math.NaN(), "", false
		for _, r := range byConfig[c.Key] {
			if v, ok := r.Values["kv_tokens"]; ok {
				kv = append(kv, v)
			}
			if v, ok := r.Values["headroom_gib"]; ok {
				start = append(start, v)
			}
			if v, ok := r.Values["headroom_min_gib"]; ok && !(v >= least) {
				least = v
			}
			served = served || withheld(*r) == ""
			if died == "" && sawDeath(*r) {
				died = shortEnding(*r)
			}
		}
		p := edgePoint{config: c, x: x, tick: text, kv: math.NaN(), start: math.NaN(), least: least, died: died, served: served, inFit: true}
		if v, ok := medianOf(kv); ok {
			p.kv = v
		}
		if v, ok := medianOf(start); ok {
			p.start = v
		}
		p.kvForecast = forecastOf(byConfig[c.Key], "forecast_kv_tokens", "forecast_kv_tokens_within")
		p.roomForecast = forecastOf(byConfig[c.Key], "forecast_headroom_gib", "forecast_headroom_within_gib")
		if len(kv)+len(start) > 0 || died != "" || p.forecast() {
			points = append(points, p)
		}
	}
	slices.SortStableFunc(points, func(a, b edgePoint) int { return cmp.Compare(a.x, b.x) })
	return points
}

// forecastOf is what was forecast before a config's launches, the last one's: it rests on the most.
func forecastOf(records []*sweep.Record, name, within string) Estimate {
	e := Estimate{Value: math.NaN()}
	for _, r := range records {
		if v, ok := r.Values[name]; ok {
			e = Estimate{v, Interval{v - r.Values[within], v + r.Values[within]}}
		}
	}
	return e
}

// forecast reports whether something was forecast.
func (p edgePoint) forecast() bool {
	return !math.IsNaN(p.kvForecast.Value) || !math.IsNaN(p.roomForecast.Value)
}

// sawDeath reports a death that was seen, not one that arithmetic foretold.
func sawDeath(r sweep.Record) bool { return died(r.Outcome) && r.Outcome.Family() != "skipped" }

// memoryEdge is the picture of KV tokens and headroom against the axis that sets them.
func (s *Summary) memoryEdge() drawing {
	d := drawing{Picture: Picture{Name: "memory-edge"}, width: pageWidth}
	e, ok := s.edge()
	if !ok {
		d.skip = "no memory edge: no axis with two numbers changed the size of the KV pool"
		return d
	}
	axis := sweep.Printable(e.Axis)
	d.Title = "Memory by " + axis
	if line := e.words(); line != "" {
		d.Title = line
	}
	sub := "Dots: what servers said of themselves. Line and band: straight fit with the 95 % interval of a further launch. Red cross: died under some load."
	if e.KV.N < 3 {
		sub = "Dots: what servers said of themselves. Line: through two launches, without an interval. Red cross: died under some load."
	}
	if slices.ContainsFunc(e.points, func(p edgePoint) bool { return !p.inFit }) {
		sub += " Grey: other settings moved them off the line."
	}
	if slices.ContainsFunc(e.points, edgePoint.forecast) {
		sub += " Diamond and bar: forecast before the launch, and how near it was expected to be."
	}
	panels := 1
	if e.HasRoom {
		panels = 2
	}
	d.height = headHeight(d.Title, sub, pageWidth) + vg.Length(panels)*170 + 30
	d.paint = func(c canvas) {
		r := c.frame(d.Title, sub, s.footer())
		areas := panelGrid(r, panels, 1, 52)
		e.drawKV(c, areas[0])
		if panels > 1 {
			e.drawHeadroom(c, areas[1])
		}
	}
	return d
}

// step is the unit in which an axis is told: a hundredth of a fraction, else one.
func (e Edge) step() (size float64, words string) {
	if hi := e.points[len(e.points)-1].x; hi <= 1.5 {
		return 0.01, "0.01"
	}
	return 1, "1"
}

// words state the lines where at least three launches lie on them.
func (e Edge) words() string {
	if e.KV.N < 3 || e.KV.SD > 0.005*math.Abs(e.KV.At(e.KV.mean).Value) {
		return ""
	}
	size, name := e.step()
	line := fmt.Sprintf("Each %s of %s is %s KV tokens", name, sweep.Printable(e.Axis), commas(e.KV.Slope*size, 0))
	reach := math.Abs(e.Headroom.Slope) * (e.points[len(e.points)-1].x - e.points[0].x)
	if e.HasRoom && e.Headroom.N >= 3 && e.Headroom.Slope < 0 && e.Headroom.SD < 0.03*reach {
		line += fmt.Sprintf(", and %s GiB less headroom", commas(-e.Headroom.Slope*size, 2))
	}
	return line
}

// xScale has ticks at the values that were tried.
func (e Edge) xScale() axisScale {
	lo, hi := e.points[0].x, e.points[len(e.points)-1].x
	pad := max((hi-lo)*0.08, 1e-9)
	a := axisScale{lo: lo - pad, hi: hi + pad, title: sweep.Printable(e.Axis)}
	for i, p := range e.points {
		if i == 0 || p.x != e.points[i-1].x {
			a.ticks = append(a.ticks, tick{p.x, sweep.Printable(p.tick)})
		}
	}
	return a
}

func (e Edge) drawKV(c canvas, area vg.Rectangle) {
	top := 0.0
	for _, p := range e.points {
		for _, v := range []float64{p.kv, p.kvForecast.Value} {
			if !math.IsNaN(v) {
				top = max(top, v)
			}
		}
	}
	p := xyPanel{area: area, x: e.xScale(), y: linear(max(top, e.KV.At(e.points[len(e.points)-1].x).Value), 4, ""), title: "KV tokens"}
	c.drawAxes(p)
	c.drawFit(p, e.KV)
	for _, q := range e.points {
		c.drawForecast(p, q.x, q.kvForecast)
	}
	for _, q := range e.points { // several configs may share a value: what was measured lies on top
		c.drawEdgePoint(p, q, q.kv, hues()[0], disc)
	}
}

func (e Edge) drawHeadroom(c canvas, area vg.Rectangle) {
	top := 0.0
	for _, q := range e.points {
		for _, v := range []float64{q.start, q.least, q.roomForecast.Value} {
			if !math.IsNaN(v) {
				top = max(top, v)
			}
		}
	}
	p := xyPanel{area: area, x: e.xScale(), y: linear(max(top, 1), 4, ""), title: "Headroom, GiB"}
	danger := min(1, p.y.hi)
	c.fill(vg.Rectangle{Min: area.Min, Max: vg.Point{X: area.Max.X, Y: p.atY(danger)}}, badBg)
	c.drawAxes(p)
	c.drawFit(p, e.Headroom)
	least := false
	for _, q := range e.points {
		c.drawForecast(p, q.x, q.roomForecast)
	}
	for _, q := range e.points {
		if !math.IsNaN(q.least) {
			least = true
			c.drawEdgePoint(p, q, q.least, hues()[5], ring)
		}
		c.drawEdgePoint(p, q, q.start, hues()[0], disc)
	}
	st := style(8, muted, false)
	st.XAlign = text.XRight
	words := "filled: when ready; red ground: below 1 GiB"
	if least {
		words = "filled: when ready; open: least under load; red ground: below 1 GiB"
	}
	c.text(st, area.Max.X, area.Max.Y+9, words)
}

// drawFit draws a line with its band, as far as both lie on the panel.
func (c canvas) drawFit(p xyPanel, f Fit) {
	const steps = 60
	clamp := func(y float64) float64 { return min(max(y, p.y.lo), p.y.hi) }
	var line, upper, lower []vg.Point
	for i := range steps + 1 {
		x := p.x.lo + (p.x.hi-p.x.lo)*float64(i)/steps
		e := f.At(x)
		if e.Value >= p.y.lo && e.Value <= p.y.hi {
			line = append(line, p.at(x, e.Value))
		}
		if f.N >= 3 {
			upper, lower = append(upper, p.at(x, clamp(e.Hi))), append(lower, p.at(x, clamp(e.Lo)))
		}
	}
	if len(upper) > 0 {
		slices.Reverse(lower)
		var path vg.Path
		path.Move(upper[0])
		for _, q := range slices.Concat(upper[1:], lower) {
			path.Line(q)
		}
		path.Close()
		c.SetColor(over(hues()[4], 0.3))
		c.Fill(path)
	}
	if len(line) > 1 {
		c.StrokeLines(draw.LineStyle{Color: hues()[0], Width: 1, Dashes: []vg.Length{4, 2.5}}, line)
	}
}

// drawForecast marks what was forecast: a diamond, and a bar as long as the interval that was expected.
func (c canvas) drawForecast(p xyPanel, x float64, e Estimate) {
	if math.IsNaN(e.Value) || !p.holds(x, max(e.Value, p.y.lo)) {
		return // below the panel: so much is missing
	}
	clamp := func(y float64) vg.Length { return p.atY(min(max(y, p.y.lo), p.y.hi)) }
	at, lo, hi := p.atX(x), clamp(e.Lo), clamp(e.Hi)
	col := hues()[3]
	c.line(col, 1.2, nil, at, lo, at, hi)
	for _, end := range []vg.Length{lo, hi} {
		c.line(col, 1.2, nil, at-4, end, at+4, end)
	}
	const r = vg.Length(5.5)
	y := clamp(e.Value)
	var path vg.Path
	path.Move(vg.Point{X: at, Y: y + r})
	path.Line(vg.Point{X: at + r, Y: y})
	path.Line(vg.Point{X: at, Y: y - r})
	path.Line(vg.Point{X: at - r, Y: y})
	path.Close()
	c.SetColor(white)
	c.Fill(path)
	c.SetLineStyle(draw.LineStyle{Color: col, Width: vg.Points(1.2)})
	c.Stroke(path)
}

func (c canvas) drawEdgePoint(p xyPanel, q edgePoint, y float64, col color.NRGBA, m marker) {
	if math.IsNaN(y) || !p.holds(q.x, y) {
		return
	}
	l := look{color: col, marker: m}
	if !q.inFit {
		l.color = rule
	}
	at := p.at(q.x, y)
	c.drawMarker(l, at.X, at.Y, 2.8)
	if q.died != "" {
		c.cross(bad, at.X, at.Y, 4.2, 1.4)
	}
}
