package report

import (
	"fmt"
	"math"
	"slices"
	"time"

	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"

	"sweep/sweep"
)

// latencyView is one panel: a percentile of one class against the throughput.
type latencyView struct {
	class, kind string
	metric      Metric
	percentile  string
	slo         float64 // ms; 0: none
	sloWords    string
}

// latency is the picture of what throughput costs in latency: for each class TTFT and TPOT against output tokens a second.
func (s *Summary) latency(sheet *Sheet) drawing {
	d := drawing{Picture: Picture{Name: "latency", Title: sweep.Printable(sheet.Workload) + ": what throughput costs in latency"}}
	views := s.latencyViews(sheet)
	list := s.shownCurves(sheet, func(r *Row) bool {
		return slices.ContainsFunc(views, func(v latencyView) bool { return len(medians(v.metric, r.Squares)) > 0 })
	})
	if len(views) == 0 || len(list) == 0 {
		d.skip = "no latencies of " + sweep.Printable(sheet.Workload) + ": too few requests for a percentile"
		return d
	}
	sub := "Each line is a config, from its lowest load to its highest; right and down is better"
	if s.Night.Repeats > 1 {
		sub += fmt.Sprintf(" (median of %d repeats)", s.Night.Repeats)
	}
	sub += ". "
	if _, closed := kinds(sheet.Loads); closed {
		sub += "With a fixed number in flight a latency is one at that level."
	} else {
		sub += "Requests were sent by a plan, whatever became of those before."
	}
	key := layoutKey(keyOf(list), pageWidth-2*margin)
	columns := min(2, len(views))
	rows := (len(views) + columns - 1) / columns
	d.width = pageWidth
	d.height = headHeight(d.Title, sub, pageWidth) + vg.Length(len(key))*13 + vg.Length(rows)*170 + 34
	d.paint = func(c canvas) {
		r := c.frame(d.Title, sub, s.footer())
		r.Max.Y = c.drawKey(key, r) - 4
		for i, area := range panelGrid(r, rows, columns, 42) {
			if i < len(views) {
				s.drawLatency(c, area, list, views[i])
			}
		}
	}
	return d
}

// latencyViews are the panels: TTFT and TPOT of each class that has them, by p95 or the percentile that most cells have.
func (s *Summary) latencyViews(sheet *Sheet) []latencyView {
	var squares []*Square
	for _, row := range sheet.Rows {
		squares = append(squares, row.Squares...)
	}
	var views []latencyView
	for _, class := range sheet.classNames() {
		for _, kind := range []string{"ttft", "tpot"} {
			v := latencyView{class: class, kind: kind}
			most := 0
			for _, p := range []string{"p95", "p99", "p90", "median"} {
				m := metric(p + "_" + kind + "_ms").ForClass(class)
				m.Better = Lower
				if n := len(medians(m, squares)); n > most {
					v.metric, v.percentile, most = m, p, n
				}
			}
			if most == 0 {
				continue
			}
			v.slo, v.sloWords = s.Night.objective(sheet.Workload, class, kind)
			views = append(views, v)
		}
	}
	return views
}

// objective is the tightest service level of a class for a kind of latency, in ms.
func (n *Night) objective(workload, class, kind string) (ms float64, words string) {
	for _, w := range n.Workloads {
		if w.Name != workload {
			continue
		}
		objectives := slices.Clone(w.SLO)
		for _, c := range w.Classes {
			if c.Name == class || len(w.Classes) == 1 {
				objectives = append(objectives, c.SLO...)
			}
		}
		for _, o := range objectives {
			if limit := float64(o.Limit) / float64(time.Millisecond); o.Metric == kind && (ms == 0 || limit < ms) {
				ms, words = limit, fmt.Sprintf("SLO p%g < %s", o.Quantile*100, milliseconds(limit))
			}
		}
	}
	return ms, words
}

func (s *Summary) drawLatency(c canvas, area vg.Rectangle, list []*curve, v latencyView) {
	var lines []xyLine
	var all []float64
	right := 0.0
	for _, cv := range list {
		l := xyLine{look: cv.look, back: cv.back}
		for _, q := range cv.row.Squares {
			x, ok1 := q.Median(throughput())
			y, ok2 := q.Median(v.metric)
			if !ok1 || !ok2 {
				y = math.NaN()
			} else {
				all = append(all, y)
				right = max(right, x)
			}
			l.points = append(l.points, [2]float64{x, y})
		}
		lines = append(lines, l)
	}
	p := xyPanel{area: area, title: upper(v.kind) + " " + v.percentile}
	if v.class != "" {
		p.title = sweep.Printable(v.class) + ": " + p.title
	}
	if len(all) == 0 {
		return
	}
	drawn := v.slo > 0 && v.slo <= 2*slices.Max(all) && v.slo >= slices.Min(all)/2
	if drawn {
		all = append(all, v.slo)
	} else if v.slo > 0 {
		p.title += " (" + v.sloWords + ", off this scale)"
	}
	p.x, p.y = linear(right, 5, "Output tokens/s"), times(all, "")
	if p.y.log {
		p.title += ", log scale"
	}
	c.drawAxes(p)
	if drawn {
		y := p.atY(v.slo)
		c.line(ink, 1, []vg.Length{5, 3}, area.Min.X, y, area.Max.X, y)
		st := style(8, ink, false)
		c.text(st, area.Min.X+4, min(y+6, area.Max.Y-5), v.sloWords)
	}
	c.drawSeries(p, lines, 1.4, 2.3)
}

// knee is the picture of where requests begin to wait: running and queued against what is in flight.
func (s *Summary) knee(sheet *Sheet) drawing {
	d := drawing{Picture: Picture{Name: "knee", Title: sweep.Printable(sheet.Workload) + ": how many requests run, how many wait"}}
	has := func(r *Row) bool { return len(medians(metric("running"), r.Squares)) > 0 }
	list := s.shownCurves(sheet, has)
	if len(list) == 0 {
		d.skip = "no running and queued requests of " + sweep.Printable(sheet.Workload) + ": the server told none"
		return d
	}
	if len(sheet.Loads) < 2 {
		d.skip = "no knee of " + sweep.Printable(sheet.Workload) + ": it has one load"
		return d
	}
	if title := s.kneeTitle(sheet); title != "" {
		d.Title = title
	}
	sub := "Mean over the window by " + levelName(sheet.Loads) + ". "
	if _, closed := kinds(sheet.Loads); closed {
		sub += "Where the left curve leaves the dotted line, the server runs no more and the rest waits: past the knee."
	} else {
		sub += "Where requests wait and more and more of them are open, the plan is more than the server serves: past the knee."
	}
	key := layoutKey(keyOf(list), pageWidth-2*margin)
	d.width = pageWidth
	d.height = headHeight(d.Title, sub, pageWidth) + vg.Length(len(key))*13 + 190 + 34
	d.paint = func(c canvas) {
		r := c.frame(d.Title, sub, s.footer())
		r.Max.Y = c.drawKey(key, r) - 4
		areas := panelGrid(r, 1, 2, 34)
		s.drawKnee(c, areas[0], sheet, list, "running", "Running")
		s.drawKnee(c, areas[1], sheet, list, "queued", "Queued")
	}
	return d
}

// kneeTitle says at which level requests begin to wait, where all repeats of the baseline or the best agree.
func (s *Summary) kneeTitle(sheet *Sheet) string {
	row := sheet.Best
	if row == nil {
		return ""
	}
	for _, q := range row.Squares {
		queued := q.Values(metric("queued"))
		if len(queued) < 2 {
			return ""
		}
		if slices.Min(queued) >= 1 && slices.Min(queued) >= 0.05*q.Load.Level() {
			return fmt.Sprintf("%s: with %s requests wait from %s", sweep.Printable(sheet.Workload), s.Night.curveLabel(row.Config, ""), levelWords(q.Load, sheet.Loads))
		}
	}
	return ""
}

func (s *Summary) drawKnee(c canvas, area vg.Rectangle, sheet *Sheet, list []*curve, name, title string) {
	var lines []xyLine
	top, right := 1.0, 0.0
	for _, l := range sheet.Loads {
		right = max(right, l.Level())
	}
	for _, cv := range list {
		l := xyLine{look: cv.look, back: cv.back}
		for _, q := range cv.row.Squares {
			y, ok := q.Median(metric(name))
			if !ok {
				y = math.NaN()
			} else {
				top = max(top, y)
			}
			l.points = append(l.points, [2]float64{q.Load.Level(), y})
		}
		lines = append(lines, l)
	}
	p := xyPanel{area: area, title: title + ", requests", y: countScale(top, 4)}
	p.x = axisScale{hi: right * 1.04, title: levelTitle(sheet.Loads)}
	seen := map[float64]bool{}
	for _, l := range sheet.Loads {
		if n := l.Level(); !seen[n] {
			seen[n] = true
			p.x.ticks = append(p.x.ticks, tick{n, l.LevelText()})
		}
	}
	c.drawAxes(p)
	if name == "running" && !sheet.Loads[0].Open() {
		end := min(p.x.hi, p.y.hi)
		from, to := p.at(0, 0), p.at(end, end)
		c.line(muted, 0.8, []vg.Length{1.5, 2}, from.X, from.Y, to.X, to.Y)
	}
	if len(p.y.ticks) == 0 {
		none := style(8, muted, false)
		none.XAlign = text.XCenter
		c.text(none, (area.Min.X+area.Max.X)/2, (area.Min.Y+area.Max.Y)/2, "none")
	}
	c.drawSeries(p, lines, 1.4, 2.3)
}
