package report

import (
	"fmt"
	"slices"
	"strings"

	"sweep/sweep"
)

// block is one part of a report in words: a renderer gives it its form.
type block struct {
	heading string
	text    string
	table   *textTable
	notes   []string // numbered from 1
	code    string
	picture string // file name; text is what it shows
}

// document is the whole report in words, the tables with one row for each config first.
func (s *Summary) document(pictures []Picture) []block {
	blocks := []block{{heading: sweep.Printable(s.Night.Name)}}
	blocks = append(blocks, paragraphs(s.about())...)
	for _, sheet := range s.Sheets {
		blocks = append(blocks, s.sheetBlocks(sheet)...)
		for _, p := range pictures {
			if p.Workload == sheet.Workload {
				blocks = append(blocks, block{picture: p.Name + ".png", text: p.Title})
			}
		}
	}
	if line := s.driftLine(); line != "" {
		blocks = append(blocks, block{text: line})
	}
	for _, sheet := range s.Sheets {
		blocks = append(blocks, s.detailBlocks(sheet)...)
	}
	blocks = append(blocks, s.commandBlocks()...)
	for _, p := range s.Night.Problems {
		blocks = append(blocks, block{text: "Not read: " + p})
	}
	return blocks
}

func paragraphs(lines []string) []block {
	var blocks []block
	for _, l := range lines {
		blocks = append(blocks, block{text: l})
	}
	return blocks
}

// about says what was measured on what, and how far the night is.
func (s *Summary) about() []string {
	lines := []string{}
	if facts := s.facts(); facts != "" {
		lines = append(lines, facts)
	}
	switch {
	case s.Recorded == 0:
		lines = append(lines, "No cell has been recorded yet.")
	case s.Recorded < s.Asked:
		lines = append(lines, fmt.Sprintf("%d of %s recorded: this night is not finished.", s.Recorded, plural(s.Asked, "cell")))
	}
	return lines
}

// facts names what served: engine, model, devices, and notes that hold for the whole night.
func (s *Summary) facts() string {
	var engines, models, gpus []string
	add := func(list *[]string, text string) {
		if text = sweep.Printable(strings.TrimSpace(text)); text != "" && !slices.Contains(*list, text) {
			*list = append(*list, text)
		}
	}
	for _, r := range s.Night.Records {
		if r.EngineVersion != "" {
			add(&engines, r.Engine+" "+r.EngineVersion)
		}
		add(&models, r.Model)
		if r.GPU != "" {
			add(&gpus, fmt.Sprintf("%d × %s", r.GPUCount, r.GPU))
		}
	}
	if len(engines) == 0 {
		for _, r := range s.Night.Records {
			add(&engines, r.Engine)
		}
	}
	parts := slices.Concat(engines, models, gpus)
	for _, n := range s.Notes {
		parts = append(parts, sweep.Printable(n))
	}
	return strings.Join(parts, " · ")
}

func (s *Summary) sheetBlocks(sheet *Sheet) []block {
	blocks := []block{{heading: "Workload " + sweep.Printable(sheet.Workload)}}
	blocks = append(blocks, paragraphs(s.headline(sheet))...)
	notes := &footnotes{}
	var ranked, apart []*Row
	for _, row := range sheet.Rows {
		if row.Config.Unacceptable == "" {
			ranked = append(ranked, row)
		} else {
			apart = append(apart, row)
		}
	}
	if len(ranked) > 0 {
		blocks = append(blocks, block{table: s.summaryTable(sheet, ranked, notes)})
	}
	if len(apart) > 0 {
		blocks = append(blocks, block{text: "Not acceptable: measured because the grid asked for it, never named best."},
			block{table: s.summaryTable(sheet, apart, notes)})
	}
	return append(blocks, block{notes: notes.texts})
}

// headline says in a sentence or two what the sheet shows, and how sure that is.
func (s *Summary) headline(sheet *Sheet) []string {
	if sheet.Best == nil {
		return []string{s.noBest(sheet)}
	}
	q := sheet.Best.Best
	values := q.Values(throughput())
	v, _ := medianOf(values)
	decimals := throughput().decimals([]float64{v})
	word := "Best measured"
	if len(values) > 1 {
		word = "Best"
	}
	line := fmt.Sprintf("%s: %s tok/s with %s in flight: %s", word, commas(v, decimals), poolLabel(q.Load), s.Night.names().title(sheet.Best.Config))
	if change, ok := sheet.Change(q); ok {
		line += fmt.Sprintf(" (%s against the baseline at the same load)", percent(change))
	} else if sheet.Best == sheet.Baseline {
		line += " (the baseline)"
	}
	line += "."
	switch {
	case len(values) == 1 && s.Night.Repeats > 1:
		return []string{line + " 1 repeat so far: no noise estimate."}
	case len(values) == 1:
		return []string{line + " 1 repeat: no noise estimate."}
	}
	lo, hi := span(values)
	line += fmt.Sprintf(" Median of %d repeats, %s–%s.", len(values), commas(lo, decimals), commas(hi, decimals))
	if rivals := sheet.Rivals(); len(rivals) > 0 {
		var list []string
		for _, r := range rivals {
			list = append(list, s.Night.names().title(r.Config))
		}
		line += " Not told apart from it, because the ranges of their repeats meet: " + strings.Join(list, "; ") + "."
	}
	return []string{line}
}

func (s *Summary) noBest(sheet *Sheet) string {
	measured, met, judged := 0, 0, 0
	for _, row := range sheet.Rows {
		if row.Best == nil {
			continue
		}
		measured++
		ok, known := row.Best.MeetsSLO()
		if ok {
			met++
		}
		if known {
			judged++
		}
	}
	switch {
	case measured == 0:
		return "No config can be named best: nothing has been measured."
	case sheet.SLO && judged == 0:
		return "No config can be named best: no load had enough requests to judge the service levels."
	case sheet.SLO && met == 0:
		return "No config can be named best: no load met the service levels."
	}
	return "No config can be named best: each one that was measured died under some load, missed a service level, or is not acceptable or not trusted."
}

func (s *Summary) summaryTable(sheet *Sheet, rows []*Row, notes *footnotes) *textTable {
	squares := make([]*Square, 0, len(rows))
	var configs []sweep.Config
	for _, r := range rows {
		squares = append(squares, r.shown())
		configs = append(configs, r.Config)
	}
	ns := s.Night.namesOf(configs)
	values := sheet.summaryColumns(squares)
	t := &textTable{columns: append([]textColumn{{}}, ns.columns()...)}
	t.columns = append(t.columns, textColumn{head: [2]string{"in", "flight"}, right: true})
	for _, v := range values {
		t.columns = append(t.columns, v.col)
	}
	t.columns = append(t.columns, textColumn{head: [2]string{"outcome"}, wrap: true})
	for i, row := range rows {
		mark, tn := "", plain
		switch {
		case row == sheet.Best && row == sheet.Baseline:
			mark, tn = "best, base", strong
		case row == sheet.Best:
			mark, tn = "best", strong
		case row == sheet.Baseline:
			mark = "base"
		case row.Best == nil && len(squares[i].Records) > 0:
			tn = alarm
		case row.Best == nil:
			tn = soft
		}
		cells := append([]string{mark}, ns.cells(row.Config)...)
		level := absent
		if row.Best != nil {
			level = loadLabel(row.Best.Load, sheet.Loads)
		}
		cells = append(cells, level)
		for _, v := range values {
			cells = append(cells, v.cell(squares[i]))
		}
		t.add(tn, append(cells, s.rowOutcome(sheet, row, notes)))
	}
	return t
}

// shown is the square whose values stand for the row: its best, else the first that has a record, whose
// facts of the launch are known although nothing was measured.
func (r *Row) shown() *Square {
	if r.Best != nil {
		return r.Best
	}
	for _, q := range r.Squares {
		if len(q.Records) > 0 {
			return q
		}
	}
	return r.Squares[0]
}

func (s *Summary) detailBlocks(sheet *Sheet) []block {
	ns := s.Night.names()
	notes := &footnotes{}
	var squares []*Square
	for _, row := range sheet.Rows {
		squares = append(squares, row.Squares...)
	}
	values := sheet.detailColumns(squares)
	t := &textTable{columns: ns.columns()}
	t.columns = append(t.columns, textColumn{head: [2]string{"in", "flight"}, right: true})
	for _, v := range values {
		t.columns = append(t.columns, v.col)
	}
	t.columns = append(t.columns, textColumn{head: [2]string{"outcome"}, wrap: true})
	for _, row := range sheet.Rows {
		for _, q := range row.Squares {
			cells := append(ns.cells(row.Config), loadLabel(q.Load, sheet.Loads))
			for _, v := range values {
				cells = append(cells, v.cell(q))
			}
			tn := plain
			switch {
			case row == sheet.Best && q == row.Best:
				tn = strong
			case len(q.Records) == 0:
				tn = soft
			case !q.Measured():
				tn = alarm
			}
			t.add(tn, append(cells, s.squareOutcome(q, notes)))
		}
	}
	return []block{{heading: "Each load of " + sweep.Printable(sheet.Workload)}, {table: t}, {notes: notes.texts}}
}

// squareOutcome is how one cell ended over its repeats.
func (s *Summary) squareOutcome(q *Square, notes *footnotes) string {
	if len(q.Records) == 0 {
		return "not run yet"
	}
	parts := s.quality(q, notes)
	failed := q.Failed()
	seen := map[string]bool{}
	for _, r := range failed {
		words := shortEnding(r)
		if seen[words] {
			continue
		}
		seen[words] = true
		text := words
		if n := countEnding(failed, words); q.Repeats > 1 && n < q.Repeats {
			text += fmt.Sprintf(" (%d/%d)", n, q.Repeats)
		}
		parts = append(parts, text+" "+notes.mark(reason(r)))
	}
	if missing := q.Repeats - len(q.Records); missing > 0 {
		parts = append(parts, plural(missing, "repeat")+" not run yet")
	}
	if len(parts) == 0 {
		return "ok"
	}
	return strings.Join(parts, "; ")
}

// driftLine says how far the baseline moved between the beginning and the end of each repeat.
func (s *Summary) driftLine() string {
	byRepeat := map[int][]float64{}
	var repeats []int
	var lost []string
	for _, d := range s.Drift {
		if !d.Known {
			if d.Outcome != sweep.OK {
				lost = append(lost, fmt.Sprintf("repeat %d at %s: %s", d.Repeat, poolLabel(d.Load), shortOutcome(d.Outcome)))
			}
			continue
		}
		if !slices.Contains(repeats, d.Repeat) {
			repeats = append(repeats, d.Repeat)
		}
		byRepeat[d.Repeat] = append(byRepeat[d.Repeat], d.Change)
	}
	slices.Sort(repeats)
	var parts []string
	for _, r := range repeats {
		lo, hi := span(byRepeat[r])
		text := percent(lo)
		if percent(lo) != percent(hi) {
			text = "by " + text + " to " + percent(hi) + ", depending on the load,"
		}
		parts = append(parts, text)
	}
	var line string
	switch {
	case len(parts) == 1:
		line = "The baseline drifted " + parts[0] + " over the repeat."
	case len(parts) > 1:
		line = "The baseline drifted over the repeats, in order: " + strings.Join(parts, "; ") + "."
	}
	if len(lost) > 0 {
		line = strings.TrimSpace(line + " Drift not known: " + strings.Join(lost, "; ") + ".")
	}
	return line
}
