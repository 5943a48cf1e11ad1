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
func (s *Summary) document(pictures []Picture, v View) []block {
	blocks := []block{{heading: sweep.Printable(s.Night.Name)}}
	blocks = append(blocks, paragraphs(s.about())...)
	if len(v.Filter) > 0 {
		blocks = append(blocks, block{text: "Only what passes: " + sweep.Printable(joinConditions(v.Filter)) + "."})
	}
	if v.Rows != "" {
		return append(blocks, s.crosstabBlocks(v)...)
	}
	s.sortRows(v.Sort)
	for _, sheet := range s.Sheets {
		blocks = append(blocks, s.sheetBlocks(sheet, v)...)
		for _, p := range pictures {
			if p.Workload == sheet.Workload {
				blocks = append(blocks, block{picture: p.Name + ".png", text: p.Title})
			}
		}
	}
	for _, p := range pictures {
		if p.Workload == "" {
			blocks = append(blocks, block{picture: p.Name + ".png", text: p.Title})
		}
	}
	if line := s.driftLine(); line != "" {
		blocks = append(blocks, block{text: line})
	}
	for _, sheet := range s.Sheets {
		blocks = append(blocks, s.detailBlocks(sheet, v)...)
	}
	blocks = append(blocks, s.commandBlocks()...)
	for _, p := range s.Night.Problems {
		blocks = append(blocks, block{text: "Not read: " + p})
	}
	return blocks
}

func joinConditions(list []Condition) string {
	parts := make([]string, len(list))
	for i, c := range list {
		parts[i] = c.String()
	}
	return strings.Join(parts, " and ")
}

func paragraphs(lines []string) []block {
	var blocks []block
	for _, l := range lines {
		if l != "" {
			blocks = append(blocks, block{text: l})
		}
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

// facts names what served: engine, model, devices, and notes that hold for the whole night. Each picture has them below it.
func (s *Summary) facts() string {
	if s.served == "" {
		s.served = s.findFacts()
	}
	return s.served
}

func (s *Summary) findFacts() string {
	var models, gpus []string
	add := func(list *[]string, text string) {
		if text = sweep.Printable(strings.TrimSpace(text)); text != "" && !slices.Contains(*list, text) {
			*list = append(*list, text)
		}
	}
	for _, r := range s.Night.Records {
		add(&models, r.Model)
		if r.GPU != "" {
			add(&gpus, fmt.Sprintf("%d × %s", r.GPUCount, r.GPU))
		}
	}
	parts := slices.Concat(s.Night.engines(), models, gpus)
	for _, n := range s.Notes {
		parts = append(parts, sweep.Printable(n))
	}
	return strings.Join(parts, " · ")
}

// sheetBlocks are what is told of a workload. What a reader who asked for nothing special sees is made once: page and Markdown tell the same.
func (s *Summary) sheetBlocks(sheet *Sheet, v View) []block {
	if v.Rows != "" || len(v.Metrics) > 0 {
		return s.newSheetBlocks(sheet, v)
	}
	if s.told == nil {
		s.told = map[*Sheet][]block{}
	}
	if s.told[sheet] == nil {
		s.told[sheet] = s.newSheetBlocks(sheet, v)
	}
	return s.told[sheet]
}

func (s *Summary) newSheetBlocks(sheet *Sheet, v View) []block {
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
		blocks = append(blocks, block{table: s.summaryTable(sheet, ranked, notes, v)})
	}
	if len(apart) > 0 {
		blocks = append(blocks, block{text: "Not acceptable: measured because the grid asked for it, never named best."},
			block{table: s.summaryTable(sheet, apart, notes, v)})
	}
	blocks = append(blocks, block{notes: notes.texts()})
	if len(v.Metrics) > 0 {
		return blocks
	}
	if t := s.resourceTable(sheet); t != nil {
		blocks = append(blocks, block{text: s.resourceTitle(sheet)}, block{table: t})
	}
	if t := s.effectTable(sheet); t != nil {
		blocks = append(blocks, block{text: "What each value brings at equal load, on average over the pairs of configs that differ in nothing else and over the loads named:"}, block{table: t})
	}
	if t := s.tailTable(sheet); t != nil {
		blocks = append(blocks, block{text: "How sure the tails are, over the requests of all repeats (95 % interval, taking requests as independent):"}, block{table: t})
	}
	return blocks
}

func (s *Summary) summaryTable(sheet *Sheet, rows []*Row, notes *footnotes, v View) *textTable {
	squares := make([]*Square, 0, len(rows))
	var configs []sweep.Config
	for _, r := range rows {
		squares = append(squares, r.shown())
		configs = append(configs, r.Config)
	}
	ns := s.Night.namesOf(configs)
	values := sheet.summaryColumns(squares, v)
	t := &textTable{columns: append([]textColumn{{}}, ns.columns()...)}
	t.columns = append(t.columns, textColumn{head: levelHead(sheet.Loads), right: true})
	for _, v := range values {
		t.columns = append(t.columns, v.col)
	}
	t.columns = append(t.columns, textColumn{head: [2]string{"outcome"}, wrap: true})
	for i, row := range rows {
		mark, tn := "", plain
		switch {
		case row == sheet.Best && row == sheet.Baseline:
			mark, tn = sheet.bestWord()+", base", strong
		case row == sheet.Best:
			mark, tn = sheet.bestWord(), strong
		case row == sheet.Baseline:
			mark, tn = "base", rowTone(row)
		default:
			tn = rowTone(row)
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

// rowTone is how a config fared that is not the best: it died, or nothing of it could be measured, or it was left out.
func rowTone(row *Row) tone {
	tn := soft
	for _, q := range row.Squares {
		for _, r := range q.Records {
			switch {
			case sawDeath(r):
				return alarm
			case recordTone(r) == alarm:
				tn = alarm
			}
		}
	}
	if row.Best != nil {
		return plain
	}
	return tn
}

// recordTone tells failures from what was only left out.
func recordTone(r sweep.Record) tone {
	switch {
	case withheld(r) == "":
		return plain
	case r.Outcome.Family() == "skipped" || r.Outcome == sweep.Aborted:
		return soft
	}
	return alarm
}

// squareTone is that of a cell's worst repeat that counts: what was measured is plain beside repeats that only were not run.
func squareTone(q *Square) tone {
	tn := soft
	for _, r := range q.Records {
		if sawDeath(r) || recordTone(r) == alarm && !q.Measured() {
			tn = alarm
		}
	}
	if tn == soft && q.Measured() {
		return plain
	}
	return tn
}

// resourceTable has a row for each config that was started: what it takes at the load at which it is shown. It is nil where nothing of
// that is known.
func (s *Summary) resourceTable(sheet *Sheet) *textTable {
	var rows []*Row
	var squares []*Square
	var configs []sweep.Config
	for _, row := range sheet.Rows {
		if q := row.shown(); slices.ContainsFunc(q.Records, func(r sweep.Record) bool { return len(r.Values) > 0 }) {
			rows, squares, configs = append(rows, row), append(squares, q), append(configs, row.Config)
		}
	}
	ns := s.Night.namesOf(configs)
	values := sheet.resourceColumns(squares)
	if len(values) == 0 {
		return nil
	}
	t := &textTable{columns: ns.columns()}
	t.columns = append(t.columns, textColumn{head: levelHead(sheet.Loads), right: true})
	for _, v := range values {
		t.columns = append(t.columns, v.col)
	}
	for i, row := range rows {
		level := absent
		if row.Best != nil {
			level = loadLabel(row.Best.Load, sheet.Loads)
		}
		cells := append(ns.cells(row.Config), level)
		known := false
		for _, v := range values {
			cell := v.cell(squares[i])
			cells, known = append(cells, cell), known || cell != absent
		}
		if !known {
			continue // it was never started
		}
		tn := plain
		if row == sheet.Best {
			tn = strong
		}
		t.add(tn, cells)
	}
	return t
}

// resourceTitle says at which load the rows of that table stand: a config that died is shown at a lower one than the others.
func (s *Summary) resourceTitle(sheet *Sheet) string {
	var at []string
	for _, row := range sheet.Rows {
		if row.Best != nil {
			at = add(at, levelWords(row.Best.Load, sheet.Loads))
		}
	}
	switch len(at) {
	case 0:
		return "What each took when it was ready:"
	case 1:
		return "What each takes, at " + at[0] + ":"
	}
	return "What each takes, each at its own best load, not the same for all:"
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

func (s *Summary) detailBlocks(sheet *Sheet, v View) []block {
	ns := s.Night.names()
	notes := &footnotes{}
	var squares []*Square
	for _, row := range sheet.Rows {
		squares = append(squares, row.Squares...)
	}
	values := sheet.detailColumns(squares, v)
	t := &textTable{columns: ns.columns()}
	t.columns = append(t.columns, textColumn{head: levelHead(sheet.Loads), right: true})
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
			tn := squareTone(q)
			if row == sheet.Best && q == row.Best {
				tn = strong
			}
			t.add(tn, append(cells, s.squareOutcome(q, notes)))
		}
	}
	return []block{{heading: "Each load of " + sweep.Printable(sheet.Workload)}, {table: t}, {notes: notes.texts()}}
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
