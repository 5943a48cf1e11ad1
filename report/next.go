package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"sweep/sweep"
)

// Step is one thing to try next.
type Step struct {
	Text    string
	Command string // to paste; "" where there is none
}

// Next says what to try next, the most useful first. Each step follows from what the night holds.
func (s *Summary) Next() []Step {
	var steps []Step
	dir := s.Night.Dir
	if s.Recorded < s.Asked && s.Night.Planned {
		// What lies beyond the plan is for when the plan is done.
		return append([]Step{{
			fmt.Sprintf("The night is not finished: %d of %s have a result. Where it does not run any more, go on with it.", s.Recorded, plural(s.Asked, "cell")),
			sweep.ShellLine([]string{"sweep", "resume", dir}),
		}}, s.doubtSteps()...)
	}
	if slices.ContainsFunc(s.Sheets, func(sheet *Sheet) bool { return sheet.Best != nil && sheet.Again == nil }) {
		steps = append(steps, Step{
			"Measure the candidate again, beside those that come next: fresh starts, fresh prompts, a soak and a burst of the longest prompts. Until then it may only have been lucky.",
			sweep.ShellLine([]string{"sweep", "confirm", dir, "--top", "3", "--repeats", "5"}),
		})
	}
	if s.Night.Repeats == 1 && s.Recorded > 0 {
		steps = append(steps, Step{"One repeat says nothing of noise: with \"repeats: 3\" in the grid small differences can be told from luck.", ""})
	}
	steps = append(steps, s.edgeSteps()...)
	for _, sheet := range s.Sheets {
		steps = append(steps, s.loadSteps(sheet)...)
	}
	return append(steps, s.doubtSteps()...)
}

// edgeSteps look beyond the values that were tried.
func (s *Summary) edgeSteps() []Step {
	var steps []Step
	e, ok := s.edge()
	if ok {
		if step := s.betweenStep(e); step.Text != "" {
			steps = append(steps, step)
		}
	}
	for _, axis := range s.Night.gridAxes() {
		if ok && axis == e.Axis {
			continue
		}
		if text := s.endStep(axis); text != "" {
			steps = append(steps, Step{text, ""})
		}
	}
	return steps
}

// betweenStep looks between the largest value that lived and the smallest that died, or above the largest tried.
func (s *Summary) betweenStep(e Edge) Step {
	lived, dead := math.Inf(-1), math.Inf(1)
	ticks := map[float64]string{} // as the grid writes them
	for _, p := range e.points {
		ticks[p.x] = sweep.Printable(p.tick)
		if p.died == "" && p.served && !deadAt(e.points, p.x) {
			lived = max(lived, p.x)
		}
	}
	for _, p := range e.points {
		if p.died != "" && p.x > lived {
			dead = min(dead, p.x)
		}
	}
	if math.IsInf(lived, -1) {
		return Step{fmt.Sprintf("Every value of %s died under some load: try smaller ones.", sweep.Printable(e.Axis)), ""}
	}
	unit, _ := e.step()
	next := lived + unit
	between := ""
	if !math.IsInf(dead, 1) {
		if dead-lived <= unit*1.01 {
			return Step{}
		}
		next = math.Round((lived+dead)/2/unit) * unit
		if next <= lived {
			next = lived + unit
		}
		between = fmt.Sprintf(", between %s, which served every load, and %s, which died", ticks[lived], ticks[dead])
	} else if unit < 1 && next >= 1 {
		return Step{}
	}
	kv := e.KV.At(next)
	text := fmt.Sprintf("Try %s %s%s: by a straight line through the launches it has %s KV tokens", sweep.Printable(e.Axis), trim(next), between, commas(kv.Value, 0))
	if e.HasRoom {
		room := e.Headroom.At(next)
		text += fmt.Sprintf(" and %s GiB of headroom", commas(room.Value, 2))
		if !math.IsInf(room.Lo, 0) && room.Hi-room.Lo > 0.2 {
			text += fmt.Sprintf(" (%s to %s)", commas(room.Lo, 2), commas(room.Hi, 2))
		}
		if room.Value < 1 {
			text += "; below 1 GiB a large prefill is a danger"
		}
	}
	return Step{text + ".", ""}
}

// deadAt reports whether some config with that value died.
func deadAt(points []edgePoint, x float64) bool {
	return slices.ContainsFunc(points, func(p edgePoint) bool { return p.x == x && p.died != "" })
}

func trim(v float64) string { return strconv.FormatFloat(round(v, 4), 'f', -1, 64) }

// endStep says that the best stands at the end of a numeric axis.
func (s *Summary) endStep(axis string) string {
	values := sorted(s.Night.axisValues(axis))
	var numbers []float64
	for _, v := range values {
		if x, err := number(v); err == nil {
			numbers = append(numbers, x)
		}
	}
	if len(numbers) < 2 {
		return ""
	}
	for _, sheet := range s.Sheets {
		if sheet.Best == nil {
			continue
		}
		v, _ := sheet.Best.Config.Axes.Get(axis)
		x, err := number(v)
		if err != nil {
			continue
		}
		for _, e := range sheet.Effects {
			if e.Axis == axis && e.Value == v && e.Sure && x == slices.Max(numbers) {
				return fmt.Sprintf("%s brings %s over %s, and %s is the largest value that was tried: try a larger one.", sweep.Printable(axis+" "+v), percent(e.Change), sweep.Printable(e.Against), sweep.Printable(v))
			}
		}
	}
	return ""
}

// loadSteps look at the load of a sheet's best.
func (s *Summary) loadSteps(sheet *Sheet) []Step {
	if sheet.Best == nil {
		return nil
	}
	var steps []Step
	q := sheet.Best.Best
	i := slices.Index(sheet.Best.Squares, q)
	name := sweep.Printable(sheet.Workload)
	queued, ok := q.Median(metric("queued"))
	waits := ok && !q.Load.Open() && queued >= 0.05*float64(q.Load.Concurrency()) && queued >= 1
	if waits {
		text := fmt.Sprintf("In %s the best stands past the knee: of %d in flight %s wait on average.", name, q.Load.Concurrency(), commas(queued, 0))
		if i > 0 {
			if v := sheet.Noise.Compare(sheet.Best.Squares[i-1].whole(), q.whole()); v.Known && !v.Significant(v.P) {
				text += fmt.Sprintf(" At %s it gives as much, within the noise, and each request waits less.", loadLabel(sheet.Best.Squares[i-1].Load, sheet.Loads))
			}
		}
		steps = append(steps, Step{text, ""})
	}
	if i == len(sheet.Best.Squares)-1 && i > 0 && !waits {
		before, ok1 := sheet.Best.Squares[i-1].Median(throughput())
		at, ok2 := q.Median(throughput())
		if ok1 && ok2 && at > 1.05*before {
			steps = append(steps, Step{fmt.Sprintf("In %s the throughput still rose at the highest load that was tried (%s from the one before): try more than %s.", name, percent(at/before-1), levelWords(q.Load, sheet.Loads)), ""})
		}
	}
	if len(sheet.Ties) > 0 {
		var names []string
		for _, r := range sheet.Ties[:min(3, len(sheet.Ties))] {
			names = append(names, s.Night.curveLabel(r.Config, ""))
		}
		steps = append(steps, Step{fmt.Sprintf("In %s %s with the best (%s): more repeats tell them apart, or take the one with the most headroom.", name, pluralVerb(len(sheet.Ties), "config", "ties", "tie"), strings.Join(names, "; ")), ""})
	}
	return steps
}

// doubtSteps are about numbers that were withheld or doubted.
func (s *Summary) doubtSteps() []Step {
	bound, short, runs := 0, 0, 0
	for _, r := range s.Night.Records {
		if r.Outcome == sweep.ClientBound || r.Verdict == "client_bound" {
			bound++
		}
		if run, ok := s.Night.Runs[RunID{r.Cell, r.Repeat}]; ok && run.HasMean {
			runs++
			if run.TooShort {
				short++
			}
		}
	}
	var steps []Step
	if bound > 0 {
		steps = append(steps, Step{fmt.Sprintf("%s withheld because the client was the limit: give it a quieter machine, or a lower load.", pluralVerb(bound, "number", "is", "are")), ""})
	}
	for _, sheet := range s.Sheets {
		if names := s.unusedCaches(sheet); len(names) > 0 {
			steps = append(steps, Step{fmt.Sprintf("In %s a host cache was used at no load that was measured (%s): the prompts of this workload do not come again after the device has forgotten them. Leave it out, or measure with prompts that do.", sweep.Printable(sheet.Workload), firstFew(names)), ""})
		}
	}
	if runs > 0 && short*2 > runs {
		steps = append(steps, Step{fmt.Sprintf("%d of %s have windows worth fewer than 50 independent samples: longer windows make each number surer.", short, plural(runs, "run")), ""})
	}
	return steps
}

// unusedCaches names the configs with a cache in host memory that served nothing under a workload. One that was used at a higher load is
// none of them: a low load may just fit the device.
func (s *Summary) unusedCaches(sheet *Sheet) []string {
	var names []string
	for _, row := range sheet.Rows {
		measured, unused := 0, 0
		for _, q := range row.Squares {
			for _, r := range q.Records {
				if withheld(r) != "" {
					continue
				}
				measured++
				if inert(r) != "" {
					unused++
				}
			}
		}
		if unused > 0 && unused == measured {
			names = append(names, s.Night.curveLabel(row.Config, ""))
		}
	}
	return names
}

// firstFew lists names, the first three where there are many: "a; b; c and 2 more".
func firstFew(names []string) string {
	const few = 3
	if len(names) <= few+1 {
		return strings.Join(names, "; ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:few], "; "), len(names)-few)
}
