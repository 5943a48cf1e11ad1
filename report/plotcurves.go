package report

import (
	"fmt"
	"slices"
	"strings"

	"gonum.org/v1/plot/vg"

	"sweep/sweep"
)

const (
	pageWidth  = 7.5 * vg.Inch // the text width of a document
	pageHeight = 4.6 * vg.Inch
	mostCurves = 8 // with labels of their own; beyond that nobody can follow one
	laneRow    = vg.Length(11)
)

// curve is one config of a sheet as it is drawn.
type curve struct {
	row    *Row
	label  string
	mark   string // after the label: " (best)"
	values []string
	look   look
	points []curvePoint
	marks  []laneMark // failures, in the lane below zero
	words  string     // what failed
	back   bool       // in grey behind the others, without a label
}

type curvePoint struct {
	x, y   float64
	lo, hi float64 // of several repeats; equal to y for one
	many   bool
}

type laneMark struct {
	x      float64
	failed bool // else there is no number for a reason that is not the config's
}

// curves is the picture of output throughput against the level of the load.
func (s *Summary) curves(sheet *Sheet) drawing {
	lv := place(sheet.Loads)
	list := s.curveList(sheet, lv)
	d := drawing{Picture: Picture{Name: "throughput", Title: s.curvesTitle(sheet)}, width: pageWidth, height: pageHeight}
	sub := s.curvesSubtitle(sheet, list)
	if axis := s.panelAxis(list); axis != "" {
		s.panelDrawing(&d, sheet, lv, list, axis, sub)
		return d
	}
	if measuredCurves(list) > mostCurves {
		fade(list, sheet)
		sub += fmt.Sprintf(" Named: the %d fastest and the baseline; grey: the others.", mostCurves-1)
	}
	view := s.newCurveView(sheet, lv, list)
	d.height = max(pageHeight, headHeight(d.Title, sub, pageWidth)+view.laneHeight+200)
	d.paint = func(c canvas) {
		view.draw(c, c.frame(d.Title, sub, s.footer()))
	}
	return d
}

// measuredCurves counts those that have a line or a point, and need a label beside it.
func measuredCurves(list []*curve) int {
	n := 0
	for _, cv := range list {
		if len(cv.points) > 0 {
			n++
		}
	}
	return n
}

func (s *Summary) curveList(sheet *Sheet, lv levels) []*curve {
	looks := s.Night.looks()
	var list []*curve
	for _, row := range sheet.Rows {
		cv := &curve{row: row, label: s.Night.curveLabel(row.Config, ""), look: looks[row.Config.Key]}
		cv.values = s.Night.axisLabels(row.Config)
		switch {
		case row == sheet.Best && row == sheet.Baseline:
			cv.mark = " (" + sheet.bestWord() + ", base)"
		case row == sheet.Best:
			cv.mark = " (" + sheet.bestWord() + ")"
		case row == sheet.Baseline:
			cv.mark = " (base)"
		case row.Config.Unacceptable != "":
			cv.mark = " (not acceptable: " + shorten(style(8.5, ink, true), sweep.Printable(row.Config.Unacceptable), 80) + ")"
		case row.failsElsewhere():
			cv.mark = " (fails elsewhere)"
		}
		for _, q := range row.Squares {
			x := lv.at[q.Load.String()]
			values := q.Values(throughput())
			if y, ok := q.Median(throughput()); ok {
				lo, hi := span(values)
				cv.points = append(cv.points, curvePoint{x, y, lo, hi, len(values) > 1})
			}
			if failed := q.Failed(); len(failed) > 0 {
				cv.marks = append(cv.marks, laneMark{x, slices.ContainsFunc(failed, func(r sweep.Record) bool { return !unanswered(r) })})
			}
		}
		cv.words = laneWords(row)
		list = append(list, cv)
	}
	return list
}

// failsElsewhere: no load of this sheet killed the config, and one of another workload did.
func (r *Row) failsElsewhere() bool {
	return r.Unfit != "" && r.Config.Unacceptable == "" && !slices.ContainsFunc(r.Squares, func(q *Square) bool { return q.death() != "" })
}

// laneWords says in few words how a config failed, or why it has no number: a failure before what it
// implies, and before what is not the config's fault.
func laneWords(row *Row) string {
	order := []func(r sweep.Record) bool{
		func(r sweep.Record) bool { return died(r.Outcome) },
		func(r sweep.Record) bool { return r.Outcome != sweep.SkippedImplied },
		func(sweep.Record) bool { return true },
	}
	for _, wanted := range order {
		for _, q := range row.Squares {
			failed := q.Failed()
			for _, r := range failed {
				if !wanted(r) {
					continue
				}
				words := shortEnding(r)
				if n := countEnding(failed, words); n < q.Repeats {
					words += fmt.Sprintf(" (%d/%d)", n, q.Repeats)
				}
				return words
			}
		}
	}
	return ""
}

// fade keeps labels for the fastest curves and the baseline, and moves the others to the back.
func fade(list []*curve, sheet *Sheet) {
	top := func(cv *curve) float64 {
		y := -1.0
		for _, p := range cv.points {
			y = max(y, p.y)
		}
		return y
	}
	order := slices.Clone(list)
	slices.SortStableFunc(order, func(a, b *curve) int {
		if d := before(a.row == sheet.Best, b.row == sheet.Best) + before(a.row == sheet.Baseline, b.row == sheet.Baseline); d != 0 {
			return d
		}
		switch {
		case top(a) > top(b):
			return -1
		case top(a) < top(b):
			return 1
		}
		return 0
	})
	colors := hues()
	for i, cv := range order {
		if i >= mostCurves {
			cv.back = true
			cv.look = look{color: over(rule, 0.55), marker: disc}
			continue
		}
		cv.look = look{color: colors[i%len(colors)], dashes: dashesOf(i / len(colors)), marker: marker(i / len(colors))}
	}
}

// finding is what the repeats prove of the best; "" where they prove nothing.
func (s *Summary) finding(sheet *Sheet) string {
	label := s.Night.curveLabel(sheet.Best.Config, "")
	v := sheet.AgainstBase(sheet.Best.Best)
	switch {
	case v.Known && v.Sure && v.Change > 0 && len(sheet.Ties) == 0:
		return fmt.Sprintf("%s brings %s over the baseline", label, percent(v.Change))
	case v.Known && v.Sure && v.Change > 0:
		return fmt.Sprintf("%s brings %s over the baseline, and %s with it", label, percent(v.Change), pluralVerb(len(sheet.Ties), "config", "ties", "tie"))
	case sheet.Best != sheet.Baseline || len(sheet.Ties) > 0:
		return ""
	}
	others := 0
	for _, row := range sheet.Rows {
		if sheet.FromBest(row).Sure {
			others++
		}
	}
	if others == 0 {
		return ""
	}
	return fmt.Sprintf("the baseline is ahead of %s", plural(others, "other config"))
}

// curvesTitle states what the repeats prove, else what is drawn.
func (s *Summary) curvesTitle(sheet *Sheet) string {
	failed, measured := sheet.failedWords(), 0
	for _, row := range sheet.Rows {
		if row.Best != nil {
			measured++
		}
	}
	name := sweep.Printable(sheet.Workload) + ": "
	switch {
	case sheet.Best != nil:
		title := "output throughput by " + levelName(sheet.Loads)
		if finding := s.finding(sheet); finding != "" {
			title = finding
		}
		if failed != "" {
			title += "; " + failed
		}
		return name + title
	case measured == 0 && failed != "":
		return name + "no config could be measured"
	case measured == 0:
		return name + "nothing measured yet"
	case failed != "":
		return name + failed + "; none of the others can be named best"
	}
	return name + "output throughput by " + levelName(sheet.Loads)
}

// failedWords counts the configs that failed and those that were not tried: "2 of 9 configs failed, 1 skipped".
func (sheet *Sheet) failedWords() string {
	failed, skipped := 0, 0
	for _, row := range sheet.Rows {
		var how []sweep.Outcome
		for _, q := range row.Squares {
			for _, r := range q.Records {
				if died(r.Outcome) {
					how = append(how, r.Outcome)
				}
			}
		}
		switch {
		case slices.ContainsFunc(how, func(o sweep.Outcome) bool { return o.Family() != "skipped" }):
			failed++
		case len(how) > 0:
			skipped++
		}
	}
	of := "of " + plural(len(sheet.Rows), "config")
	switch {
	case failed > 0 && skipped > 0:
		return fmt.Sprintf("%d %s failed, %d skipped", failed, of, skipped)
	case failed > 0:
		return fmt.Sprintf("%d %s failed", failed, of)
	case skipped > 0:
		return fmt.Sprintf("%d %s skipped", skipped, of)
	}
	return ""
}

func (s *Summary) curvesSubtitle(sheet *Sheet, list []*curve) string {
	sub := "Output tokens/s by " + levelName(sheet.Loads) + ", one line for each config"
	many := slices.ContainsFunc(list, func(cv *curve) bool {
		return slices.ContainsFunc(cv.points, func(p curvePoint) bool { return p.many })
	})
	if many {
		sub += fmt.Sprintf(" (median of %d repeats; bars: lowest and highest).", s.Night.Repeats)
	} else {
		sub += " (1 repeat: no noise estimate)."
	}
	waiting := 0
	for _, cv := range list {
		if len(cv.points) == 0 && len(cv.marks) == 0 {
			waiting++
		}
	}
	if waiting > 0 {
		sub += fmt.Sprintf(" Not run yet: %s.", plural(waiting, "config"))
	}
	if sheet.SLO {
		sub += " The best meets the service levels."
	}
	return sub
}

// footer names what was measured, small, at the foot of each picture.
func (s *Summary) footer() string {
	parts := []string{sweep.Printable(s.Night.Name)}
	if f := s.facts(); f != "" {
		parts = append(parts, f)
	}
	return strings.Join(parts, " · ")
}
