package report

import (
	"fmt"
	"slices"
	"strings"

	"sweep/sweep"
)

const absent = "–"

// names builds the columns that name a config.
type names struct {
	axes   []string // axes that have more than one value
	labels bool     // some config has a label of its own
}

func (n *Night) names() names {
	if n.index.names == nil {
		ns := n.namesOf(n.Configs)
		n.index.names = &ns
	}
	return *n.index.names
}

// nightIndex keeps what follows from the configs alone and is asked for again and again: each picture names each config.
// [Summarize] begins it anew.
type nightIndex struct {
	names  *names
	axes   []string
	values map[string][]string
	short  map[string]string
	labels map[labelKey]string

	launches map[string][]sweep.Record // by folder
}

// launch are the records of one attempt at a launch.
func (x *nightIndex) launch(n *Night, dir string) []sweep.Record {
	if x.launches == nil {
		x.launches = map[string][]sweep.Record{}
		for _, r := range n.Records {
			x.launches[r.Dir] = append(x.launches[r.Dir], r)
		}
	}
	return x.launches[dir]
}

type labelKey struct{ config, without string }

// namesOf are the columns that some of the night's configs need.
func (n *Night) namesOf(configs []sweep.Config) names {
	var out names
	for _, axis := range n.gridAxes() {
		if len(n.axisValues(axis)) > 1 {
			out.axes = append(out.axes, axis)
		}
	}
	out.labels = slices.ContainsFunc(configs, func(c sweep.Config) bool { return c.Label != "" })
	if len(out.axes) == 0 && !out.labels {
		out.axes = n.gridAxes()
	}
	return out
}

// gridAxes are the axes of the grid's product, without the settings of included configs.
func (n *Night) gridAxes() []string {
	if n.index.axes != nil {
		return n.index.axes
	}
	axes := []string{}
	for _, c := range n.Configs {
		for _, p := range c.Axes {
			if c.Label == "" && !slices.Contains(axes, p.Name) {
				axes = append(axes, p.Name)
			}
		}
	}
	n.index.axes = axes
	return axes
}

// axisValues are an axis's values among the configs of the product, in the order of the night.
func (n *Night) axisValues(axis string) []string {
	if values, ok := n.index.values[axis]; ok {
		return values
	}
	var values []string
	seen := map[string]bool{}
	for _, c := range n.Configs {
		if v, ok := c.Axes.Get(axis); ok && c.Label == "" && !seen[v] {
			seen[v] = true
			values = append(values, v)
		}
	}
	if n.index.values == nil {
		n.index.values = map[string][]string{}
	}
	n.index.values[axis] = values
	return values
}

func (ns names) columns() []textColumn {
	var cols []textColumn
	if ns.labels {
		cols = append(cols, textColumn{head: [2]string{"config"}, key: true})
	}
	for _, axis := range ns.axes {
		cols = append(cols, textColumn{head: splitName(sweep.Printable(axis)), right: true, key: true})
	}
	return cols
}

// splitName breaks a long flag name at a dash, so that a column is not wider than its values need.
func splitName(name string) [2]string {
	if len(name) <= 10 {
		return [2]string{name}
	}
	best := -1
	for i := range name {
		if name[i] == '-' && (best < 0 || max(i, len(name)-i) < max(best, len(name)-best)) {
			best = i
		}
	}
	if best <= 0 {
		return [2]string{name}
	}
	return [2]string{name[:best+1], name[best+1:]}
}

func (ns names) cells(c sweep.Config) []string {
	var cells []string
	if ns.labels {
		label := c.Label
		var extra []string
		for _, p := range c.Axes {
			if c.Label != "" && !slices.Contains(ns.axes, p.Name) {
				extra = append(extra, p.Name+"="+p.Value)
			}
		}
		if len(extra) > 0 {
			label += " (" + strings.Join(extra, ", ") + ")"
		}
		cells = append(cells, sweep.Printable(label))
	}
	for _, axis := range ns.axes {
		v, ok := c.Axes.Get(axis)
		if !ok {
			v = absent
		}
		cells = append(cells, sweep.Printable(v))
	}
	return cells
}

// title names a config in a sentence: its label, or the axes that vary.
func (ns names) title(c sweep.Config) string {
	if c.Label != "" {
		return sweep.Printable(c.Label)
	}
	var parts []string
	for _, axis := range ns.axes {
		if v, ok := c.Axes.Get(axis); ok {
			parts = append(parts, axis+" "+v)
		}
	}
	if len(parts) == 0 {
		return sweep.Printable(c.Key)
	}
	return sweep.Printable(strings.Join(parts, ", "))
}

// rowOutcome is how a config fared in a sheet, in the words of its failures.
func (s *Summary) rowOutcome(sheet *Sheet, row *Row, notes *footnotes) string {
	var parts []string
	if row.Best != nil {
		parts = append(parts, s.quality(row.Best, notes)...)
	}
	failures := s.failures(sheet, row.Squares, notes)
	parts = append(parts, failures...)
	waiting := 0
	for _, q := range row.Squares {
		if len(q.Records) == 0 {
			waiting++
		}
	}
	switch {
	case waiting == len(row.Squares):
		parts = append(parts, "not run yet")
	case waiting > 0:
		parts = append(parts, plural(waiting, "load")+" not run yet")
	}
	if len(parts) == 0 && row.Unfit != "" && row.Config.Unacceptable == "" {
		parts = append(parts, "ok here; "+row.Unfit) // under another workload
	}
	if why := row.Config.Unacceptable; why != "" {
		parts = append(parts, "not acceptable: "+sweep.Printable(why))
	}
	if len(parts) == 0 {
		return "ok"
	}
	return strings.Join(parts, "; ")
}

// failures names each kind of failure once, with the lowest load at which it came and, where only some
// repeats failed, how many: "OOM prefill @182 (1/3) [2]".
func (s *Summary) failures(sheet *Sheet, squares []*Square, notes *footnotes) []string {
	type failure struct {
		words string
		mark  string
	}
	var out []string
	seen := map[string]bool{}
	implied := false
	for _, q := range squares {
		failed := q.Failed()
		for i, r := range failed {
			if r.Outcome == sweep.SkippedImplied {
				implied = true
				continue
			}
			words := shortEnding(r)
			if seen[words] || i > 0 && shortEnding(failed[0]) == words {
				continue
			}
			seen[words] = true
			f := failure{words: words, mark: notes.mark(reason(r))}
			if underLoad(r) && len(sheet.Loads) > 0 {
				f.words += " @" + loadLabel(q.Load, sheet.Loads)
			}
			if same := countEnding(failed, words); same < q.Repeats {
				f.words += fmt.Sprintf(" (%d/%d)", same, q.Repeats)
			}
			out = append(out, f.words+" "+f.mark)
		}
	}
	if len(out) == 0 && implied {
		out = append(out, "skipped: implied")
	}
	return out
}

func countEnding(records []sweep.Record, words string) int {
	n := 0
	for _, r := range records {
		if shortEnding(r) == words {
			n++
		}
	}
	return n
}

// quality lists what a reader must know of a measured number.
func (s *Summary) quality(q *Square, notes *footnotes) []string {
	var parts []string
	say := func(word string) {
		if !slices.Contains(parts, word) {
			parts = append(parts, word)
		}
	}
	for _, r := range q.Records {
		if withheld(r) != "" {
			continue
		}
		if note := doubtful(r); note != "" {
			word, _, _ := strings.Cut(note, ":")
			say(strings.ReplaceAll(word, "_", " ") + " " + notes.mark(sweep.Printable(note)))
		}
		if note := inert(r); note != "" {
			say("inert " + notes.mark(sweep.Printable(note)))
		}
		if r.Verdict == "suspect" {
			say("suspect " + notes.alike(sweep.Printable("suspect: "+strings.Join(s.doubts(r), "; "))))
		}
	}
	if words := s.trendWords(q); words != "" {
		say(words)
	}
	return parts
}

// trendWords says what a cell's runs did within their windows, where that is not just flat: the load generator's own check of the halves, and
// the tests that a longer look allows.
func (s *Summary) trendWords(q *Square) string {
	var runs []Steadiness
	halves := true
	for _, r := range q.Records {
		if withheld(r) == "" {
			runs = append(runs, s.Night.Runs[RunID{r.Cell, r.Repeat}])
			halves = halves && (r.Steady == nil || *r.Steady)
		}
	}
	if !Consistent(runs) {
		return "repeats disagree on being steady"
	}
	for _, run := range runs {
		switch run.Trend {
		case WarmingUp, SlowingDown:
			return fmt.Sprintf("not steady: %s, %s from half to half", run.Trend, percent(run.Change))
		case NoSteadyState:
			return string(NoSteadyState)
		}
	}
	if !halves {
		return "not steady"
	}
	return ""
}

// ownNotes are the notes of a record that not every record of the night carries.
func (s *Summary) ownNotes(r sweep.Record) []string {
	return slices.DeleteFunc(slices.Clone(r.Notes), func(n string) bool { return slices.Contains(s.Notes, n) })
}

// doubts are why a number is suspect. Records of an earlier version had that among their notes: there it is what speaks of one load, not
// what each load of the same launch carries, nor what is told elsewhere (a cache that was never used).
func (s *Summary) doubts(r sweep.Record) []string {
	if len(r.VerdictWhy) > 0 {
		return r.VerdictWhy
	}
	own := slices.DeleteFunc(s.ownNotes(r), func(n string) bool { return n == inert(r) || n == doubtful(r) })
	if r.Dir == "" {
		return own
	}
	others := 0
	shared := map[string]int{}
	for _, o := range s.Night.index.launch(s.Night, r.Dir) {
		if o.Load.String() == r.Load.String() {
			continue
		}
		others++
		for _, n := range o.Notes {
			shared[n]++
		}
	}
	alone := slices.DeleteFunc(slices.Clone(own), func(n string) bool { return others > 0 && shared[n] == others })
	if len(alone) == 0 { // what each load was suspected of
		return own
	}
	return alone
}
